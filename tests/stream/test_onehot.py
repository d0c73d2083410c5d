# SPDX-License-Identifier: Apache-2.0
import random

import pytest
from amaranth import *
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from amaranth.sim import Simulator

from fpga.area import measure
from hw import emit
from hw.stream import index_of, selected

PAIR = data.StructLayout({"a": 5, "b": 3})


class Choice(wiring.Component):
    def __init__(self, count):
        super().__init__({"onehot": In(count), "values": In(PAIR).array(count), "o": Out(PAIR)})

    def elaborate(self, platform):
        m = Module()
        m.d.comb += self.o.eq(selected(PAIR, self.onehot, self.values))
        return m


def _simulate(dut, testbench):
    simulator = Simulator(dut)
    simulator.add_testbench(testbench)
    simulator.run()


@pytest.mark.parametrize("count", [1, 2, 3, 4, 7, 16, 19, 40])
def test_each_value(count, seed):
    rng, dut = random.Random(seed), Choice(count)

    async def testbench(ctx):
        values = [{"a": rng.randrange(32), "b": rng.randrange(8)} for _ in range(count)]
        for signal, value in zip(dut.values, values, strict=True):
            ctx.set(signal, value)
        for number, value in enumerate(values):
            ctx.set(dut.onehot, 1 << number)
            assert ctx.get(dut.o) == PAIR.const(value)
        ctx.set(dut.onehot, 0)
        assert ctx.get(dut.o.as_value()) == 0

    _simulate(dut, testbench)


def test_values_of_other_widths():
    """A narrower value is extended by zeros, a wider one cut; numbers are values, too."""
    onehot, result = Signal(3), Signal(4)
    m = Module()
    m.d.comb += result.eq(selected(4, onehot, [1, C(0b110011, 6), 9]))

    async def testbench(ctx):
        for bits, value in ((1, 1), (2, 0b0011), (4, 9), (0, 0)):
            ctx.set(onehot, bits)
            assert ctx.get(result) == value

    _simulate(m, testbench)


@pytest.mark.parametrize("values", [[], [1, 2]])
def test_as_many_bits_as_values(values):
    bits = Signal(3 if values else 0)
    with pytest.raises(ValueError, match=rf"^selected\(\) needs a bit for each .* not {len(bits)} for {len(values)}$"):
        selected(4, bits, values)


@pytest.mark.parametrize("count, width", [(1, 0), (1, 1), (2, 1), (5, 3), (32, 5)])
def test_index(count, width):
    onehot, result = Signal(count), Signal(width)
    m = Module()
    m.d.comb += result.eq(index_of(onehot, width))

    async def testbench(ctx):
        for index in range(count):
            ctx.set(onehot, 1 << index)
            assert ctx.get(result) == index
        ctx.set(onehot, 0)
        assert ctx.get(result) == 0

    _simulate(m, testbench)


@pytest.mark.synth
def test_levels():
    for count, levels in ((3, 1), (18, 2)):
        text = emit.verilog(Choice(count), name="choice", assertions=False)
        assert measure(text, top="choice")[1].levels == levels
