# SPDX-License-Identifier: Apache-2.0
"""Text without wires that nothing reads, and with loops for the initial contents of memories."""

import re

import cocotb
import pytest
from amaranth import *
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out
from cocotb.triggers import Timer

from hw import emit
from hw.compact_text import with_initial_loops, without_unread_wires

PAIR = data.StructLayout({"low": 4, "rows": data.ArrayLayout(2, 2)})
ROWS = [5, 5, 5, 5, 1, 2, 3, 9, 9, 9, 9, 9, 0, 0, 0, 0]


class Rows(wiring.Component):
    """Reads a row of a memory, and stores a structure of which one field is read."""

    i: In(PAIR)
    addr: In(4)
    o: Out(8)
    low: Out(4)

    def elaborate(self, platform):
        m = Module()
        m.submodules.kept = kept = memory.Memory(shape=8, depth=16, init=ROWS)
        port, stored = kept.read_port(domain="comb"), Signal(PAIR)
        m.d.sync += stored.eq(self.i)
        m.d.comb += [port.addr.eq(self.addr), self.o.eq(port.data), self.low.eq(stored.low)]
        return m


def test_fields_are_for_waveforms():
    short, long = (emit.verilog(Rows(), name="rows", waves=waves) for waves in (False, True))
    fields = [r"stored\.low", r"stored\.rows", r"i\.low", r"i\.rows[0]"]
    assert all(f"\\{field.replace(chr(92), '')} " in long for field in fields)
    assert not re.search(r"stored\.|i\.low", short)
    # All else is the same.
    declared = re.compile(r"^ *(?:input|output|reg) [^;]*;$", flags=re.MULTILINE)
    assert declared.findall(short) == declared.findall(long)


@pytest.mark.parametrize("line", [
    "  attribute \\keep 1\n  wire width 4 input 1 \\a.b\n",       # a port
    "  wire width 4 \\a.b\n\n  cell $not $1\n    connect \\A \\a.b\n    connect \\Y \\o\n  end\n\n",
    "  wire width 4 \\a.b\n\nconnect \\o \\a.b\n\n",
])
def test_wires_that_are_read_stay(line):
    text = f"module \\top\n  wire width 4 output 0 \\o\n\n{line}connect \\a.b 4'0000\n\nend\n"
    assert without_unread_wires(text) == text


def test_unread_wires_go_with_their_attributes():
    text = ("module \\top\n  wire width 4 output 0 \\o\n\n  attribute \\enum_value_0 \"A\"\n"
            "  wire width 1 signed \\o.x\n\nconnect \\o 4'0000\n\nconnect \\o.x \\o [0]\n\nend\n")
    assert without_unread_wires(text) == (
        "module \\top\n  wire width 4 output 0 \\o\n\nconnect \\o 4'0000\n\n\nend\n")


def test_runs_become_loops():
    text = emit.verilog(Rows(), name="rows")
    assert "for (row = 0; row < 4; row = row + 1) kept[row] = 8'h05;" in text
    assert "    kept[4] = 8'h01;\n" in text
    assert "for (row = 7; row < 12; row = row + 1) kept[row] = 8'h09;" in text
    assert text.count("integer row;") == 1


def test_rows_out_of_order_and_short_runs_stay():
    rows = "".join(f"    mem[{row}] = 4'h0;\n" for row in (0, 1, 2, 4, 5, 6, 3))
    text = f"  initial begin\n{rows}  end\n"
    assert with_initial_loops(text) == text


@pytest.mark.rtl
def test_contents(simulate):
    simulate(Rows())


@cocotb.test()
async def contents(dut):
    for addr, value in enumerate(ROWS):
        dut.addr.value = addr
        await Timer(1, "ns")
        assert int(dut.o.value) == value
