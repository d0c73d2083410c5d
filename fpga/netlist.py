# SPDX-License-Identifier: Apache-2.0
"""A board's Verilog to cells of its FPGA, by Yosys: for nextpnr, and to be simulated.

A netlist is kept under ``build/fpga/NAME-netlist-HASH``; the hash covers the Verilog and the version of Yosys.
"""

import re
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

from hw.errors import UserError
from sim.verilator.store import digest, once
from sim.verilator.toolchain import build_root

from . import tools
from .board.twin import TWIN
from .delays import BOXED, BOXES, LUTS, OPAQUE, UNBOXED

__all__ = ["CELLS", "models", "netlist"]

CELLS = Path(__file__).parent / "board" / "ecp5_cells.v"
"""Models of cells that Yosys's library only declares: block RAM and the PLL."""

_LABELS = ("begin", "coarse", "map_ram", "map_ffram", "map_gates", "map_ffs", "map_luts", "map_cells", "check")
"""Labels of Yosys's ``synth_ecp5`` and ``synth_gowin``, run one by one so that the build can report its progress."""


_COVER = "&if,-C,32,{D},{R},-v;&mfs"
_EFFORT = "+" + ";".join((
    "&scorr;&sweep;&dc2", f"&dch,-f,-r;{_COVER}", f"&st;&dch,-f,-r;{_COVER}", f"&st;&synch2;{_COVER}"))
"""ABC's script. Yosys's own covers once, with a quarter of the cuts; each further pass shortens the critical path."""

_MAP_LUTS = [
    "read_verilog -lib -specify boxes.v", "techmap -max_iter 1 -map boxed.v", "clean",
    f"chtype -set {OPAQUE} t:TRELLIS_FF", f"abc9 -lut luts.txt -script {_EFFORT}", f"chtype -set TRELLIS_FF t:{OPAQUE}",
    "techmap -map unboxed.v", "clean"]
"""Commands that replace this label of ``synth_ecp5``."""


def netlist(text: str, *, name: str, synthesis: str = "synth_ecp5",
            status: Callable[[str], object] = lambda what: None) -> Path:
    """Synthesise Verilog of a module ``board``, unless that was done before.

    Returns the folder, with ``board.json`` for nextpnr and ``netlist.v`` for simulation, and ``yosys.log``.

    Raises
    ------
    UserError
        If Yosys is missing or refuses.
    """
    yosys = tools.find("yosys")
    key = digest(text, list(_steps(synthesis)), BOXES, BOXED, UNBOXED, LUTS, yosys.version)
    folder = build_root() / "fpga" / f"{name}-netlist-{key}"
    once(folder, lambda: _synthesise(text, folder, yosys, synthesis, status), product="netlist.v", name=name)
    return folder


def models() -> list[Path]:
    """Verilog files with a model of each cell of an ECP5's netlist: Yosys's own, and :data:`CELLS`."""
    if (package := find_spec("pyosys")) is None or package.origin is None:
        raise UserError("Yosys's models of the cells are in the package pyosys, which is not installed; "
                        "`pip install pyosys==0.70` installs it.")
    library = Path(package.origin).parent / "share" / "lattice"
    return [CELLS, library / "common_sim.vh", library / "ccu2c_sim.vh"]


def _steps(synthesis: str) -> Iterator[str]:
    """Commands from Verilog to cells."""
    for label, after in zip(_LABELS, (*_LABELS[1:], ""), strict=True):
        if (synthesis, label) == ("synth_ecp5", "map_luts"):
            yield from _MAP_LUTS
        else:
            yield f"{synthesis} -top board -run {label}:{after}"


def _synthesise(text: str, folder: Path, yosys: tools.Tool, synthesis: str, status: Callable[[str], object]) -> None:
    (folder / "board.v").write_text(text, encoding="utf-8")
    for name, rule in (("boxes.v", BOXES), ("boxed.v", BOXED), ("unboxed.v", UNBOXED), ("luts.txt", LUTS)):
        (folder / name).write_text(rule, encoding="utf-8")
    # Engines that are alike are one module until all of it is cells.
    twins = TWIN if re.search(rf"^module {TWIN}\b", text, flags=re.MULTILINE) else None
    (folder / "synth.ys").write_text("\n".join([
        "read_verilog -sv board.v",
        *([f"setattr -mod -set keep_hierarchy 1 {twins}"] if twins else ()),
        *_steps(synthesis),
        *([f"setattr -mod -unset keep_hierarchy {twins}", "flatten", "clean"] if twins else ()),
        "write_json board.json",
        "write_verilog -noattr netlist.v", ""]), encoding="utf-8")

    def line(text: str) -> None:
        if found := re.search(r"synth_\w+ .*-run (\w+):|-- .*\babc9 -lut", text):
            status(f"synthesising, {(found[1] or 'map_luts').replace('_', ' ')}")

    tools.run(yosys, ["-s", "synth.ys"] if yosys.command[-1] != "fpga.pyosys" else ["synth.ys"], folder=folder,
              log=folder / "yosys.log", line=line)
