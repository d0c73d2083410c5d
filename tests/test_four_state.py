# SPDX-License-Identifier: Apache-2.0
"""Engines without initial values: X in Icarus Verilog until a reset or a write.

Icarus is this machine's, or the package of Debian's, which is downloaded once; without either, its tests are skipped.
"""

import re

import pytest

from hw.ace.engine import AceEngine
from hw.dma_engine.config import TINY
from hw.dma_engine.engine import DmaEngine
from hw.errors import UserError
from sim.ace.fuzz import FUZZED
from sim.four_state import ROUND, UNEVEN, collectives, copies, find_icarus, simulate, with_random_values
from sim.verilator.design import Design, verilog_of
from sim.verilator.initial_values import without_initial_values

pytestmark = pytest.mark.long

DMA, ACE = "dma_engine", "ace_engine"
SESSION = "session__number"
"""A register that is kept over reset. A link works with any value; X would stay X."""
SRAM = [f"bank_{number}" for number in range(4)]


@pytest.fixture(scope="module")
def icarus():
    try:
        return find_icarus()
    except UserError as reason:
        pytest.skip(f"Icarus Verilog is missing (apt install iverilog): {reason}")


@pytest.fixture(scope="module")
def text():
    return verilog_of(Design(DmaEngine, TINY), name=DMA, assertions=False)


@pytest.fixture(scope="module")
def accelerator():
    return verilog_of(Design(AceEngine, FUZZED), name=ACE, assertions=False)


def _of_collectives(icarus, text, folder, calls=ROUND, *, seed=1, random=(SESSION,)):
    """Findings of two accelerators, each with two links to the other."""
    text = with_random_values(without_initial_values(text), random)
    return simulate(icarus, text, collectives(FUZZED, calls, seed=seed), folder, top=ACE)


def test_no_x_of_rtl(icarus, text, tmp_path):
    assert simulate(icarus, without_initial_values(text), [copies(TINY)], tmp_path, top=DMA) == []


def test_no_x_of_collectives(icarus, accelerator, tmp_path, seed):
    assert _of_collectives(icarus, accelerator, tmp_path, seed=seed) == []


def test_no_x_of_uneven_collectives(icarus, accelerator, tmp_path, seed):
    """Links carry the padding of the last columns, which is of the SRAM's earlier contents."""
    assert _of_collectives(icarus, accelerator, tmp_path, UNEVEN, seed=seed, random=(SESSION, *SRAM)) == []


def _without_reset(text, module, register):
    """The Verilog without the reset of one register."""
    start = text.index(f"module {module}(") if f"module {module}(" in text else text.index(f"module {module} (")
    end = text.index("endmodule", start)
    body = text[start:end]
    following = re.search(rf"^    {re.escape(register)} ?<= (\S+) ?;$", body, flags=re.MULTILINE)[1]
    changed, count = re.subn(rf"    if \(rst\) begin\n      {re.escape(following)} ? = \d+'\w+;\n    end\n", "", body)
    assert count == 1
    return text[:start] + changed + text[end:]


@pytest.mark.parametrize("module, register, shown", [
    (r"\dma_engine.sweep", "done", "m_axi__rready"),
    (r"\dma_engine.mover.read.credit", "available", "events__read__valid"),
])
def test_a_missing_reset_is_found(icarus, text, tmp_path, module, register, shown):
    wrong = without_initial_values(_without_reset(text, module, register))
    assert shown in {finding.what for finding in simulate(icarus, wrong, [copies(TINY)], tmp_path, top=DMA)}


@pytest.mark.parametrize("module, register, shown", [
    (r"\ace_engine.sweep", "done", "s_axil__rdata"),
    (r"\ace_engine.network.link_0.control", "session__state", "link_down"),
    (r"\ace_engine.chunks.drain.credit", "available", "no end"),
])
def test_a_missing_reset_of_accelerators_is_found(icarus, accelerator, tmp_path, module, register, shown):
    wrong = _without_reset(accelerator, module, register)
    assert shown in {finding.what for finding in _of_collectives(icarus, wrong, tmp_path)}


def test_wrong_bytes_are_found(icarus, text, tmp_path):
    """And a copy that never ends."""
    work, text = copies(TINY), without_initial_values(text)
    after = bytearray(work.after)
    for at in (0, 0x4000, 0xFFFF):
        after[at] ^= 1
    found = simulate(icarus, text, [work._replace(after=bytes(after))], tmp_path, top=DMA)
    assert [finding.what for finding in found] == ["a byte of memory"] * 3
    found = simulate(icarus, text, [work._replace(stores=work.stores[:2])], tmp_path, top=DMA, cycles=2000)
    assert [finding.what for finding in found] == ["no end"]


def test_initial_values_are_removed():
    text = ("module a(clk);\n  reg [3:0] x = 4'h0;\n  reg \\$auto$verilog_backend.cc:1$2  = 0;\n  reg y = 1'h1;\n"
            "  initial begin : \\initial$m \n    integer row;\n    m[0] = 1;\n  end\n    m[b] <= c;\nendmodule\n")
    assert without_initial_values(text) == (
        "module a(clk);\n  reg [3:0] x ;\n  reg \\$auto$verilog_backend.cc:1$2  = 0;\n  reg y ;\n    m[b] <= c;\n"
        "endmodule\n")
    with pytest.raises(RuntimeError, match=r"^An initial value remains: reg z = x;$"):
        without_initial_values("  reg z = x;\n")


def test_contents_of_a_memory_without_a_write_are_kept():
    """Yosys makes a table, the steps of weights, a memory; random contents changed shares of queues."""
    rom = "  initial begin\n    \\a.m [0] = 1'h0;\n    \\a.m [1] = 1'h1;\n  end\n"
    text = f"module a(clk);\n{rom}  assign \\a.o = \\a.m [1];\nendmodule\n"
    assert without_initial_values(text) == text
    written = f"{rom}  always @(posedge clk) begin\n    if (e)\n      \\a.m [w] <= d;\n  end\n"
    assert "initial" not in without_initial_values(f"module a(clk);\n{written}endmodule\n")
    other = f"module a(clk);\n{rom}endmodule\nmodule b(clk);\n{written}endmodule\n"
    assert without_initial_values(other).count("initial") == 1
