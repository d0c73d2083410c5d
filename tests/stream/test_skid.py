# SPDX-License-Identifier: Apache-2.0
import random

import pytest
from amaranth.lib import data
from amaranth.sim import Simulator

from hw.stream import Skid
from tests.stream.bench import exercise


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("output_register", [True, False])
@pytest.mark.parametrize("stalls", [(0.0, 0.0), (0.5, 0.0), (0.0, 0.5), (0.4, 0.6), (0.0, 0.9)])
def test_order(stalls, output_register, seed):
    items = [random.Random(seed).randrange(256) for _ in range(150)]
    dut = Skid(8, output_register=output_register)
    sent, got = exercise(dut, [(dut.i, items)], [dut.o], expect=len(items), stalls=stalls, seed=seed)
    assert [payload for _, payload in sent] == items
    assert [payload for _, payload in got] == items


@pytest.mark.parametrize("output_register", [True, False])
def test_latency_and_throughput(output_register):
    dut = Skid(data.StructLayout({"a": 3, "b": 5}), output_register=output_register)
    items = [{"a": n & 7, "b": n & 31} for n in range(60)]
    sent, got = exercise(dut, [(dut.i, items)], [dut.o], expect=len(items))
    assert [cycle for cycle, _ in sent] == list(range(60))
    assert [cycle for cycle, _ in got] == [cycle + output_register for cycle in range(60)]


@pytest.mark.parametrize("output_register", [True, False])
def test_outputs_are_registered(output_register):
    """There is no combinational path between the two ends; without an output register, none from output to input."""
    dut = Skid(8, output_register=output_register)
    outputs = (dut.i.ready, dut.o.valid, dut.o.payload) if output_register else (dut.i.ready,)

    async def testbench(ctx):
        for valid, ready in [(0, 0), (1, 0), (1, 1), (0, 1)] * 3:
            before = [ctx.get(port) for port in outputs]
            ctx.set(dut.i.valid, valid)
            ctx.set(dut.i.payload, 0x55 ^ before[-1])
            ctx.set(dut.o.ready, ready)
            assert [ctx.get(port) for port in outputs] == before
            await ctx.tick()

    sim = Simulator(dut)
    sim.add_clock(1e-6)
    sim.add_testbench(testbench)
    sim.run()
