# SPDX-License-Identifier: Apache-2.0
"""Quicker netlists are those of Amaranth."""

from contextlib import nullcontext

import amaranth
import pytest
from amaranth import *
from amaranth.back import rtlil
from amaranth.hdl import _nir
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out

from hw import emit, quick_netlist


class Parts(wiring.Component):
    """Memories of several contents, and values of constants, single bits, runs of bits, and nets resolved late."""

    i: In(12)
    signed: In(signed(5))
    o: Out(40)
    rows: Out(24)

    def elaborate(self, platform):
        m = Module()
        for number, (shape, init) in enumerate(((8, [1, 0x80, 255]), (signed(4), [-1, 3, -8]), (8, []), (1, [0, 1]))):
            m.submodules[f"memory_{number}"] = kept = memory.Memory(shape=shape, depth=4, init=init)
            write, read = kept.write_port(), kept.read_port()
            m.d.comb += [write.addr.eq(self.i), write.data.eq(self.i[3:]), write.en.eq(self.i[11]),
                         read.addr.eq(self.i[1:]), self.rows.word_select(number, 6).eq(read.data)]
        late, chosen = Signal(12), Signal(4)
        m.d.comb += late.eq(Cat(self.i[6:], 0, 1, self.i[2:5], C(5, 3)))
        with m.Switch(self.i[:3]):
            with m.Case(1, 2):
                m.d.sync += chosen.eq(self.i[4:])
            with m.Case("1--"):
                m.d.sync += chosen.eq(self.i[::-1])
        m.d.comb += [self.o.eq(Cat(chosen, C(0b1001, 4), late[3], late[3:9], self.signed.replicate(2), late[:0],
                                   self.signed + chosen))]
        return m


class Cycle(wiring.Component):
    i: In(1)
    o: Out(1)

    def elaborate(self, platform):
        m = Module()
        m.d.comb += self.o.eq(self.i ^ self.o)
        return m


def test_text_is_the_same(monkeypatch):
    quick = emit.verilog(Parts(), name="parts", waves=True)
    monkeypatch.setattr(emit, "quick_netlist", nullcontext)
    assert emit.verilog(Parts(), name="parts", waves=True) == quick


@pytest.mark.long
def test_engine_is_the_same(monkeypatch):
    from hw.dma_engine import DmaEngine
    from hw.dma_engine.config import PRESETS

    quick = emit.verilog(DmaEngine(PRESETS["tiny"]), name="engine")
    monkeypatch.setattr(emit, "quick_netlist", nullcontext)
    assert emit.verilog(DmaEngine(PRESETS["tiny"]), name="engine") == quick


def test_combinational_cycles_are_found():
    with pytest.raises(_nir.CombinationalCycle):
        emit.verilog(Cycle(), name="cycle")


def test_amaranth_is_as_before():
    """Afterwards, and with another version, all functions are Amaranth's."""
    def functions():
        return (_nir.Value.__new__, _nir.Net.from_cell.__func__, _nir.Netlist.resolve_value,
                rtlil.ModuleEmitter.sigspec, rtlil.ModuleEmitter.emit_memory)

    before = functions()
    with quick_netlist.quick_netlist(rtlil.ModuleEmitter):
        assert all(one is not other for one, other in zip(functions(), before, strict=True))
    assert functions() == before
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(amaranth, "__version__", "0.5.11")
        with quick_netlist.quick_netlist(rtlil.ModuleEmitter):
            assert functions() == before
