# SPDX-License-Identifier: Apache-2.0
"""The DMA engine without initial values: X in Icarus Verilog until a reset or a write.

Icarus is this machine's, or the package of Debian's, which is downloaded once; without either, its tests are skipped.
"""

import re

import pytest

from hw.dma_engine.config import TINY
from hw.dma_engine.engine import DmaEngine
from hw.errors import UserError
from sim.four_state import Script, find_icarus, simulate
from sim.verilator.design import Design, verilog_of
from sim.verilator.initial_values import without_initial_values

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def icarus():
    try:
        return find_icarus()
    except UserError as reason:
        pytest.skip(f"Icarus Verilog is missing (apt install iverilog): {reason}")


@pytest.fixture(scope="module")
def text():
    return verilog_of(Design(DmaEngine, TINY), name="dma_engine", assertions=False)


def test_no_x_of_rtl(icarus, text, tmp_path):
    assert simulate(icarus, without_initial_values(text), Script(TINY), tmp_path).findings == []


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
    wrong = _without_reset(text, module, register)
    found = simulate(icarus, without_initial_values(wrong), Script(TINY), tmp_path).findings
    assert shown in {finding.what for finding in found}


def test_a_wrong_byte_is_found(icarus, text, tmp_path):
    """And a copy that never ends."""
    script, text = Script(TINY), without_initial_values(text)
    script.moves[1] = (script.moves[1][0] + 1, *script.moves[1][1:])
    words = list(Script(TINY).words())
    script.words = lambda: iter(words)
    found = simulate(icarus, text, script, tmp_path).findings
    assert [finding.what for finding in found] == ["a copied byte"] * 8
    script.words = lambda: iter(words[:2])
    found = simulate(icarus, text, script, tmp_path, cycles=2000).findings
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
