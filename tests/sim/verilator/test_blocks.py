# SPDX-License-Identifier: Apache-2.0
"""A module of which all instances share one copy of its C++."""

import re
import subprocess

import pytest
from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw import emit
from sim.verilator.blocks import separated
from sim.verilator.program import build_program

MAIN = """
#include <cstdio>
#include "Vtop.h"
int main() {
    VerilatedContext context;
    Vtop top(&context), other(&context);
    for (unsigned cycle = 0; cycle < 50; ++cycle) {
        for (Vtop* one : {&top, &other}) {
            one->rst = cycle < 2;
            one->i = cycle * (one == &top ? 37 : 91) & 255;
            for (int clk : {0, 1}) { one->clk = clk; one->eval(); }
            printf("%u ", one->o);
        }
    }
    top.final();
    other.final();
}
"""


class Inner(wiring.Component):
    """``o`` is the square of ``i``, a combinational path."""

    def __init__(self):
        super().__init__({"i": In(8), "o": Out(8)})

    def elaborate(self, platform):
        m = Module()
        m.d.comb += self.o.eq(self.i * self.i + 1)
        return m


class Part(wiring.Component):
    """``o`` is registered; ``now`` depends on ``i`` at once."""

    def __init__(self):
        super().__init__({"i": In(8), "o": Out(8), "now": Out(8)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.inner = inner = Inner()
        m.d.comb += [inner.i.eq(self.i ^ self.o), self.now.eq(inner.o)]
        m.d.sync += self.o.eq(self.o * 3 + inner.o)
        return m


class Chain(wiring.Component):
    """Three equal parts, one after the other, and another instance of what they contain."""

    def __init__(self):
        super().__init__({"i": In(8), "o": Out(16)})

    def elaborate(self, platform):
        m = Module()
        value = self.i
        for number in range(3):
            m.submodules[f"part_{number}"] = part = Part()
            m.d.comb += part.i.eq(value)
            value = part.now ^ part.o
        m.submodules.alone = alone = Inner()
        m.d.comb += [alone.i.eq(value), self.o.eq(Cat(value, alone.o))]
        return m


def _modules(text):
    return re.findall(r"^module (\S+?) ?\(", text, flags=re.MULTILINE)


def test_both_texts_have_all_that_they_need():
    text = emit.verilog(Chain(), name="chain")
    rest, block = separated(text, top="chain", block="part_0", name="part")
    assert rest.count("\n  part ") == 3
    inner = "\\chain.part_0.inner"
    assert _modules(rest) == ["chain", inner] and _modules(block) == [inner, "part"]


def test_a_block_that_is_none():
    text = emit.verilog(Chain(), name="chain")
    with pytest.raises(ValueError, match=r"^The design chain has no module part_9\.$"):
        separated(text, top="chain", block="part_9", name="part")


def test_a_block_cannot_be_checked(tmp_path):
    with pytest.raises(ValueError, match=r"^The block part_0 cannot be in a program that is checked or counts"):
        build_program(Chain(), name="chain", main=tmp_path / "main.cpp", checked=True, block="part_0")


@pytest.mark.rtl
def test_equal_results(tmp_path):
    """With and without a block; two models in one program."""
    main = tmp_path / "main.cpp"
    main.write_text(MAIN)
    text = emit.verilog(Chain(), name="chain", assertions=False)
    made = [build_program(text, name="chain", main=main, block=block) for block in (None, "part_0")]
    one, other = (subprocess.run([program.path], capture_output=True, check=True, text=True).stdout for program in made)
    assert one == other and len(set(one.split())) > 30
    assert (made[1].folder / "dmace_block").is_dir()
