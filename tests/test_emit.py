# SPDX-License-Identifier: Apache-2.0
"""Verilog and pin list of small components."""

import cocotb
import pytest
from amaranth import *
from amaranth.hdl import Assert, Format
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out
from cocotb.triggers import Timer

from hw import emit


class Pass(wiring.Component):
    """A stream, a word of no bits, and a child of the same kind of name."""

    def __init__(self):
        super().__init__({
            "i": In(stream.Signature(data.StructLayout({"last": 1, "data": 8}))),
            "o": Out(stream.Signature(9)),
            "nothing": In(0),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.child = child = Child()
        m.d.comb += [child.i.eq(self.i.payload), self.i.ready.eq(self.o.ready)]
        m.d.sync += [self.o.payload.eq(child.o), self.o.valid.eq(self.i.valid)]
        return m


class Child(wiring.Component):
    i: In(9)
    o: Out(9)

    def elaborate(self, platform):
        m = Module()
        m.d.comb += self.o.eq(~self.i)
        m.d.sync += Assert(self.i != 5, Format("saw {}", self.i))
        return m


class Wires(wiring.Component):
    i: In(4)
    o: Out(4)

    def elaborate(self, platform):
        m = Module()
        m.d.comb += self.o.eq(~self.i)
        return m


class PartlyConstant(wiring.Component):
    """Some bits of the output are constant, the others depend on a choice."""

    choice: In(1)
    i: In(4)
    o: Out(data.StructLayout({"low": 2, "some": 4, "high": 4}))

    def elaborate(self, platform):
        m = Module()
        m.d.comb += [self.o.low.eq(1), self.o.high.eq(9)]
        with m.If(self.choice):
            m.d.comb += self.o.some.eq(self.i)
        return m


@pytest.mark.rtl
def test_simulators_evaluate_constant_bits(simulate):
    simulate(PartlyConstant())


@cocotb.test()
async def constant_bits(dut):
    dut.i.value = 0xA
    for choice, some in ((0, 0), (1, 0xA), (0, 0)):
        dut.choice.value = choice
        await Timer(1, "ns")
        assert int(dut.o.value) == 9 << 6 | some << 2 | 1


def test_same_design_same_text():
    text = emit.verilog(Pass(), name="top")
    assert text == emit.verilog(Pass(), name="top")
    assert "\nmodule top(" in text and "\nmodule \\top.child (" in text


def test_assertions_can_be_left_out():
    text = emit.verilog(Pass(), name="top")
    assert "assert (" in text and "saw %0d" in text
    text = emit.verilog(Pass(), name="top", assertions=False)
    assert "assert" not in text and "$write" not in text
    assert "module \\top.child (" in text


def test_without_reset():
    """Flip-flops have initial values then, and nothing else changes them but the clock."""
    component = Pass()
    text = emit.verilog(component, name="top", reset=False)
    assert {pin["name"] for pin in emit.pins(component, text=text)["pins"]} == {
        "clk", "i__payload", "i__valid", "i__ready", "o__payload", "o__valid", "o__ready"}
    assert "rst" in emit.verilog(Pass(), name="top") and "rst" not in text
    assert text == emit.verilog(Pass(), name="top", reset=False)


def test_pins():
    assert emit.pins(Pass()) == {"pins": [
        {"name": "clk", "direction": "input", "width": 1},
        {"name": "rst", "direction": "input", "width": 1},
        {"name": "i__payload", "direction": "input", "width": 9},
        {"name": "i__valid", "direction": "input", "width": 1},
        {"name": "i__ready", "direction": "output", "width": 1},
        {"name": "o__payload", "direction": "output", "width": 9},
        {"name": "o__valid", "direction": "output", "width": 1},
        {"name": "o__ready", "direction": "input", "width": 1},
    ]}


def test_pins_of_wires_have_no_clock():
    assert [pin["name"] for pin in emit.pins(Wires())["pins"]] == ["i", "o"]


def test_other_domains_are_pins():
    component = Pass()
    text = emit.verilog(DomainRenamer("mem")(component), name="top")
    assert [pin["name"] for pin in emit.pins(component, text=text)["pins"][:2]] == ["mem_clk", "mem_rst"]


@pytest.mark.parametrize("name", ["", "8bit", "a b", "top.sub", None])
def test_name_must_be_an_identifier(name):
    with pytest.raises(ValueError, match=f"^Module name must be a Verilog identifier, not {name!r}$"):
        emit.verilog(None, name=name)


class Keep(wiring.Component):
    """A memory of 64-bit words that begin with ``first``."""

    i: In(16)
    o: Out(64)

    def __init__(self, depth, first=0):
        self.depth, self.first = depth, first
        super().__init__()

    def elaborate(self, platform):
        m = Module()
        m.submodules.kept = kept = memory.Memory(shape=64, depth=self.depth, init=[self.first])
        read, write = kept.read_port(), kept.write_port()
        m.d.comb += [read.addr.eq(self.i), read.en.eq(1), self.o.eq(read.data), write.addr.eq(self.i), write.en.eq(1)]
        return m


def test_large_memories_have_no_initial_zeros():
    words = emit.LARGE_BITS // 64
    assert "initial begin" in emit.verilog(Keep(16), name="top")
    text = emit.verilog(Keep(words), name="top")
    assert f"[{words - 1}:0]" in text and "initial begin" not in text


def test_other_contents_of_large_memories_stay():
    assert "initial begin" in emit.verilog(Keep(emit.LARGE_BITS // 64, first=5), name="top")
