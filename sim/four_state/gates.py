# SPDX-License-Identifier: Apache-2.0
"""Gates that Yosys makes of Verilog, without initial values."""

import tempfile
from pathlib import Path

from fpga.area import run_yosys
from sim.verilator.initial_values import without_initial_values

__all__ = ["gate_level"]

def gate_level(text: str, *, top: str) -> str:
    """Flat Verilog of two-input gates, multiplexers, flip-flops and memories, without initial values.

    Raises :class:`hw.errors.UserError` if Yosys is missing or refuses.
    """
    with tempfile.TemporaryDirectory(prefix="dmace-gates-") as name:
        folder = Path(name)
        (folder / "design.v").write_text(without_initial_values(text), encoding="utf-8")
        run_yosys(["read_verilog -sv design.v", f"hierarchy -check -top {top}", "proc", "flatten", "opt", "wreduce",
                   "opt_expr", "alumacc", "share", "opt", "memory -nomap", "opt -fast", "techmap", "opt", "dffunmap",
                   "simplemap", "abc -g simple", "opt_clean -purge", "setattr -unset init w:*",
                   "write_verilog -noattr gates.v"], folder)
        return without_initial_values((folder / "gates.v").read_text(encoding="utf-8"))
