# SPDX-License-Identifier: Apache-2.0
"""The emitted Verilog passes Verilator's lint with all warnings, except those that ``fpga/lint.vlt`` waives."""

import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from hw import emit
from hw.ace import config as ace
from hw.ace.engine import AceEngine
from hw.ace.numerics.alu import Lane
from hw.dma_engine.config import PRESETS
from hw.dma_engine.engine import DmaEngine
from hw.endpoint import config as endpoint_config
from hw.endpoint.doorbells import DoorbellSplit
from hw.endpoint.engine import Endpoint
from hw.endpoint.memory_port import MemoryPort
from hw.endpoint.puts import Puts
from hw.rdma import config as rdma
from sim.verilator.design import Design, verilog_of
from sim.verilator.toolchain import find_verilator

ENDPOINT = (DoorbellSplit, MemoryPort, Puts)
WAIVERS = Path(__file__).parents[1] / "fpga" / "lint.vlt"


def lint(folder, source, *, waivers=True):
    """Verilator's messages about ``folder/source``; the top module has the name of the file."""
    verilator = find_verilator()
    command = [verilator.path, "--lint-only", "-Wall", "--top-module", Path(source).stem]
    command += [WAIVERS] if waivers else []
    done = subprocess.run([*command, source], cwd=folder, env=verilator.env(), capture_output=True, text=True,
                          check=False)
    text = done.stderr.replace("\n" + " " * 20, " ")
    assert done.returncode in (0, 1), text
    return re.findall(r"^%(?!Error: Exiting due to).*", text, flags=re.MULTILINE)


HARMLESS = re.compile(r"%Warning-(VARHIDDEN|WIDTHTRUNC: .*Operator ASSIGNW .* Assign RHS's SHIFTR) ?")
"""In accelerator and endpoint: a signal with the name of its module's instance, or of the variable of a loop over rows;
and ``bits.word_select(index, width)``, which is written as a shift assigned to ``width`` bits."""

COMPARED_SUMS = {
    "responder.completion": "responses that arrived and those of this cycle, with carry, are compared with bursts",
    "responder.responses": "a beat's number is compared with the number of the last, of at least one",
    "triggers.poster": "a page is compared with the first one behind those of the engines plus the block, with carry",
}
"""Blocks that compare a sum with a value of another width, and why its carry counts."""


def lint_accelerator(folder, source):
    return [line for line in lint(folder, source) if not HARMLESS.match(line)]


def lint_endpoint(folder, source):
    """Messages about an endpoint, where values of different widths are compared, as nowhere else.

    That is harmless unless one of them is a sum, whose carry may have been meant to be dropped.
    """
    text = (folder / source).read_text().splitlines()
    return [line for line in lint_accelerator(folder, source) if not _compares_values(line, text)]


def _compares_values(message, text):
    found = re.match(r"%Warning-WIDTHEXPAND: [^:]*:(\d+):\d+: Operator N?EQ .*In instance '([^']*)'", message)
    if not found:
        return False
    number, instance = int(found[1]) - 1, re.sub(r"__\d+$", "", found[2])
    if instance.endswith(tuple(COMPARED_SUMS)):
        return True
    body = text[_boundary(text, number, "module ", -1):_boundary(text, number, "endmodule", 1)]
    return not any(_is_sum(operand, body) for operand in re.split("[!=]=", text[number].split(" = ")[1].rstrip(";")))


def _boundary(text, number, word, step):
    while not text[number].startswith(word):
        number += step
    return number


def _is_sum(operand, body):
    """Whether this is a sum or a difference in all its bits, perhaps by way of a signal with another name."""
    if re.search(" [+-] ", operand):
        return True
    name = re.sub(r"\$signed\((.*)\)", r"\1", operand.strip()).strip()
    drivers = [line for line in body if line.startswith(f"  assign {name} ") and "[" not in name]
    return any(_is_sum(line.split(" = ", 1)[1].rstrip(";"), body) for line in drivers
               if re.fullmatch(r"\s*\S+\s*|.* [+-] .*", line.split(" = ", 1)[1].rstrip(";")))


@pytest.mark.rtl
@pytest.mark.parametrize("preset, assertions", [
    ("tiny", True), pytest.param("base", False, marks=pytest.mark.long),
    *(pytest.param(preset, False, marks=pytest.mark.soak) for preset in ("tiny", "wide"))])
def test_dma_engine_is_clean(tmp_path, preset, assertions):
    text = verilog_of(Design(DmaEngine, PRESETS[preset]), name="dma_engine", assertions=assertions)
    (tmp_path / "dma_engine.v").write_text(text)
    assert lint(tmp_path, "dma_engine.v") == []


@pytest.mark.rtl
@pytest.mark.long
@pytest.mark.parametrize("pipes", [1, 4])
def test_accelerator_is_clean(tmp_path, pipes):
    config = replace(ace.TINY, pipes=pipes)
    (tmp_path / "accelerator.v").write_text(emit.verilog(AceEngine(config), name="accelerator", assertions=False))
    assert lint_accelerator(tmp_path, "accelerator.v") == []


@pytest.mark.rtl
@pytest.mark.soak
def test_endpoint_with_remote_machines_is_clean(tmp_path):
    """``tests/test_configurations.py`` lints endpoints of other sizes."""
    config = endpoint_config.TINY.with_rdma(rdma.TINY)
    (tmp_path / "endpoint.v").write_text(emit.verilog(Endpoint(config), name="endpoint", assertions=False))
    assert lint_endpoint(tmp_path, "endpoint.v") == []


@pytest.mark.rtl
def test_lane_is_clean(tmp_path):
    (tmp_path / "lane.v").write_text(emit.verilog(Lane(), name="lane"))
    assert lint(tmp_path, "lane.v") == []


@pytest.mark.rtl
@pytest.mark.parametrize("block", ENDPOINT, ids=lambda block: block.__name__)
def test_endpoint_is_clean(tmp_path, block):
    """Blocks that belong to the endpoint alone."""
    (tmp_path / "block.v").write_text(emit.verilog(block(endpoint_config.TINY), name="block"))
    assert lint(tmp_path, "block.v") == []


# Harmful forms of the warnings that are waived in a harmless form, and some that are never waived.
FAULTS = {
    "truncated sum": ("output [3:0] y, input [3:0] a", "assign y = a + 5'd16;", "WIDTHTRUNC"),
    "truncated vector": ("output [3:0] y, input [7:0] a", "assign y = a;", "WIDTHTRUNC"),
    "compare with a carry": ("output y, input [3:0] a, b",
                             "wire [4:0] n = a + 1'd1; assign y = n == b;", "WIDTHEXPAND"),
    "shift to several bits": ("output [1:0] y, input [7:0] a", "assign y = a >> 2;", "WIDTHTRUNC"),
    "latch": ("output reg y, input a, b", "always @* if (a) y = b;", "LATCH"),
    "missing driver": ("output y", "", "UNDRIVEN"),
    "two drivers": ("output reg y, input clk, a", "always @(posedge clk) y <= a; always @* y = ~a;", "BLKANDNBLK"),
}


@pytest.mark.rtl
@pytest.mark.parametrize("fault", FAULTS)
def test_waivers_hide_no_fault(tmp_path, fault):
    ports, body, warning = FAULTS[fault]
    (tmp_path / "bad.v").write_text(f"module bad({ports});\n{body}\nendmodule\n")
    assert any(line.startswith((f"%Warning-{warning}:", f"%Error-{warning}:")) for line in lint(tmp_path, "bad.v"))


@pytest.mark.rtl
@pytest.mark.parametrize("body, harmful", [
    ("assign y = a == b;", False),
    ("wire [4:0] n;\n  assign n  = a + 1'd1;\n  assign y = n[3:0] == b;", False),
    ("wire [4:0] n;\n  assign n  = a + 1'd1;\n  assign y = n == b;", True),
    ("wire [4:0] n, k;\n  assign n  = a - 1'd1;\n  assign k  = n;\n  assign y = k != b;", True),
])
def test_a_compared_carry_is_reported(tmp_path, body, harmful):
    """In endpoints, where other values of different widths may be compared; the accelerator's lint reports all."""
    (tmp_path / "bad.v").write_text(f"module bad(output y, input [3:0] a, input [5:0] b);\n  {body}\nendmodule\n")
    assert any(lint_accelerator(tmp_path, "bad.v"))
    assert any(lint_endpoint(tmp_path, "bad.v")) == harmful


@pytest.mark.rtl
@pytest.mark.parametrize("preset", ["tiny", pytest.param("base", marks=pytest.mark.soak)])
def test_every_waiver_is_needed(tmp_path, preset):
    text = verilog_of(Design(DmaEngine, PRESETS[preset]), name="dma_engine")
    (tmp_path / "dma_engine.v").write_text(text)
    found = lint(tmp_path, "dma_engine.v", waivers=False)
    seen = {re.match(r"%Warning-([A-Z]+)", line)[1] for line in found}
    assert seen == set(re.findall(r"^lint_off -rule ([A-Z]+)", WAIVERS.read_text(), flags=re.MULTILINE))
    constant = [line for line in found if re.match(r"%Warning-(CMPCONST|UNSIGNED)", line)]
    assert all("In instance 'dma_engine.mover.aligner'" in line for line in constant)
