# SPDX-License-Identifier: Apache-2.0
"""Transistors and bits of memory of designs whose cells can be counted by hand."""

import pytest
from amaranth import *
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out

from fpga.gates import measure_gates
from hw import emit

pytestmark = pytest.mark.synth

FLIP_FLOP, INVERTER = 16, 2
"""Transistors, as Yosys has them."""


class _Inverted(wiring.Component):
    """An inverter and a flip-flop for each bit; through ``stored``, a memory of 16 rows between."""

    def __init__(self, *, stored):
        self.stored = stored
        super().__init__({"i": In(8), "row": In(4), "o": Out(8)})

    def elaborate(self, platform):
        m = Module()
        word = ~self.i
        if self.stored:
            m.submodules.rows = rows = memory.Memory(shape=8, depth=16, init=[])
            write, read = rows.write_port(), rows.read_port(domain="comb")
            m.d.comb += [write.en.eq(1), write.addr.eq(self.row), write.data.eq(word), read.addr.eq(self.row)]
            word = ~read.data
        m.d.sync += self.o.eq(word)
        return m


@pytest.mark.parametrize(("stored", "inverters", "bits"), [(False, 8, 0), (True, 16, 128)])
def test_gates(stored, inverters, bits):
    """Reset takes a gate for each flip-flop, and Yosys merges it with an inverter where it can."""
    gates = measure_gates(emit.verilog(_Inverted(stored=stored), name="inverted", assertions=False), top="inverted")
    assert gates.memory_bits == bits
    least = 8 * FLIP_FLOP + inverters * INVERTER
    assert least <= gates.transistors <= least + 8 * 6, gates
