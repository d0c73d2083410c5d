# SPDX-License-Identifier: Apache-2.0
"""A design in gates: transistors of its logic and bits of its memories, as an estimate for silicon.

Yosys maps to small gates and plain flip-flops, and counts each as the transistors of a usual standard cell (``stat
-tech cmos``). Memories are not made of gates: their bits are counted.
"""

import json
import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hw.errors import UserError

from .area import run_yosys
from .yosys_json import Module

__all__ = ["SRAM_TRANSISTORS", "Gates", "gate_netlist", "measure_gates"]

SRAM_TRANSISTORS = 6
"""Transistors of a bit with one port."""


@dataclass(frozen=True, kw_only=True)
class Gates:
    """``transistors`` of logic and flip-flops together; ``memory_bits`` besides."""

    transistors: int
    memory_bits: int


def _commands(top: str, *, after_memories: Sequence[str] = ()) -> list[str]:
    """Commands from ``design.v`` to gates, plain flip-flops without initial values, and memories."""
    return ["read_verilog -sv design.v", f"hierarchy -check -top {top}", "proc", "flatten", "attrmap -remove init",
            "opt", "memory -nomap", "opt_clean", *after_memories, "opt -full", "alumacc", "share", "opt", "techmap",
            "opt", "dfflegalize -cell $_DFF_P_ x", "abc -g AND,NAND,OR,NOR,XOR,XNOR,MUX,AOI3,OAI3", "opt_clean"]


def gate_netlist(text: str, *, top: str) -> str:
    """Verilog of the gates, flip-flops and memories of a design, for simulation; nothing has an initial value.

    Parameters
    ----------
    text : str
        Verilog, without assertions.
    top : str
        Name of the top module.

    Raises
    ------
    UserError
        If Yosys is missing or finds anything wrong.
    """
    with tempfile.TemporaryDirectory(prefix="dmace-gates-") as name:
        folder = Path(name)
        (folder / "design.v").write_text(text, encoding="utf-8")
        run_yosys([*_commands(top), "opt_clean -purge", "write_verilog -noattr gates.v"], folder)
        return (folder / "gates.v").read_text(encoding="utf-8")


def measure_gates(text: str, *, top: str) -> Gates:
    """Synthesise Verilog text to gates.

    Parameters
    ----------
    text : str
        Verilog, without assertions.
    top : str
        Name of the top module.

    Raises
    ------
    UserError
        If Yosys is missing, finds anything wrong, or leaves cells whose transistors it does not know.
    """
    with tempfile.TemporaryDirectory(prefix="dmace-gates-") as name:
        folder = Path(name)
        (folder / "design.v").write_text(text, encoding="utf-8")
        run_yosys([
            *_commands(top, after_memories=[f"json -o memories.json {top}"]),
            # Not before: what leads to memories and comes from them is to stay.
            "delete t:$mem_v2 t:$scopeinfo", "tee -q -o gates.txt stat -tech cmos",
        ], folder)
        netlist: Module = json.loads((folder / "memories.json").read_text())["modules"][top]
        said = (folder / "gates.txt").read_text()
    found = re.search(r"number of transistors:\s+(\d+)(\+?)", said)
    if not found or found[2]:
        raise UserError(f"Yosys cannot count the transistors of {top}: {' '.join(said.split())[-300:]}")
    return Gates(transistors=int(found[1]), memory_bits=sum(
        int(cell["parameters"]["SIZE"], 2) * int(cell["parameters"]["WIDTH"], 2)
        for cell in netlist["cells"].values() if cell["type"] == "$mem_v2"))
