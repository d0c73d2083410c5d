# SPDX-License-Identifier: Apache-2.0
"""Area and logic depth of Verilog text on an FPGA family, by Yosys.

Yosys (the ``pyosys`` wheel) runs in a child process, so that its memory is given back and a crash is an error.
Figures are those after technology mapping, before placement: for trends and budgets, not for timing.
"""

import json
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Literal, overload

from hw.errors import UserError

from . import lut_levels
from .depth import Depth, Endpoint, depth_of, endpoints_over
from .yosys_json import Module

__all__ = ["FAMILIES", "Area", "Depth", "Family", "measure", "run_yosys"]


@dataclass(frozen=True, kw_only=True)
class Family:
    """Yosys's mapping to one FPGA family, and the names of its cells.

    ``lut_ram`` is the number of LUTs in a memory cell, ``block_ram`` the number of blocks of the larger kind.
    """

    name: str
    command: str
    lut: str
    flip_flop: str
    lut_ram: dict[str, int]
    block_ram: dict[str, float]
    latch: str = r"\$_?S?DLATCH.*|\$a?d?latch.*|LD[CP]E.*"


FAMILIES = {
    "ecp5": Family(
        name="ECP5", command="synth_ecp5", lut="LUT4", flip_flop="TRELLIS_FF",
        lut_ram={"TRELLIS_DPR16X4": 4}, block_ram={"DP16KD": 1}),
    "xcup": Family(
        name="UltraScale+", command="synth_xilinx -family xcup -flatten -noiopad -noclkbuf",
        lut="LUT[1-6]", flip_flop="FD[A-Z]E.*",
        lut_ram={"RAM32M16": 8, "RAM64M8": 8, "RAM32M": 4, "RAM64M": 4, "RAM128X1D": 4, "RAM256X1D": 8,
                 "RAM32X1D": 2, "RAM64X1D": 2, "RAM512X1S": 8,
                 "RAM32X1S": 1, "RAM64X1S": 1, "RAM128X1S": 2, "RAM256X1S": 4},
        block_ram={"RAMB36E2": 1, "RAMB18E2": 0.5}),
}
"""Supported families."""


@dataclass(frozen=True, kw_only=True)
class Area:
    """Area of a design. ``lut`` is logic only; ``lut_ram`` is in LUTs too, ``block_ram`` in DP16KD or RAMB36."""

    family: str
    lut: int
    lut_ram: int
    flip_flop: int
    block_ram: float
    latch: int
    cells: dict[str, int]
    memories: dict[str, Counter[str]]
    """Memory -> Counter of the cells it is made of; ``"flip-flops"`` where it became registers."""


@overload
def measure(text: str, *, family: str = ..., top: str, depth: Literal[True] = ...) -> tuple[Area, Depth]:
    ...


@overload
def measure(text: str, *, family: str = ..., top: str, depth: bool) -> tuple[Area, Depth | None]:
    ...


def measure(text: str, *, family: str = "xcup", top: str, depth: bool = True) -> tuple[Area, Depth | None]:
    """Synthesise Verilog text and return ``(area, depth)``; ``depth`` is ``None`` unless requested.

    Parameters
    ----------
    text : str
        Verilog, without assertions.
    family : str
        A key of :data:`FAMILIES`. Depth is always in 6-input LUTs.
    top : str
        Name of the top module.

    Raises
    ------
    UserError
        If Yosys is missing, or finds a combinational loop, a net with two drivers, or anything else wrong.
    """
    target = FAMILIES[family]
    with tempfile.TemporaryDirectory(prefix="dmace-area-") as name:
        folder = Path(name)
        (folder / "design.v").write_text(text, encoding="utf-8")
        lut_levels.write_cells(folder)
        script = [
            *_read(top),
            # Memories are mapped here, except for those that become flip-flops.
            f"{target.command} -top {top} -run begin:map_ffram", f"json -o memories.json {top}",
            *(["design -save mapped_memories"] if depth else []),
            f"{target.command} -top {top} -run map_ffram:", "check -assert", f"json -o area.json {top}",
        ]
        if depth:
            script += ["design -load mapped_memories", *lut_levels.commands(top)]
        run_yosys(script, folder)
        netlists: dict[str, Module] = {
            path.stem: json.loads(path.read_text())["modules"][top] for path in folder.glob("*.json")}
    area = _area(target, netlists["area"], netlists["memories"])
    return area, depth_of(netlists["gates"]) if depth else None


def measure_endpoints(text: str, *, top: str, over: int, boxes: Sequence[str] = ()) -> list[Endpoint]:
    """Endpoints of paths with more than ``over`` levels of 6-input LUTs, by the mapping whose :class:`Depth`
    :func:`measure` reports, without the time for an area.

    Parameters
    ----------
    text, top
        As in :func:`measure`; so are errors.
    boxes : sequence of str
        Patterns of Yosys for names of modules that are left out: paths start and end at their ports. For all but one of
        several equal instances, where the whole takes too long.
    """
    with tempfile.TemporaryDirectory(prefix="dmace-levels-") as name:
        folder = Path(name)
        (folder / "design.v").write_text(text, encoding="utf-8")
        lut_levels.write_cells(folder)
        run_yosys([*_read(top, boxes), f"{FAMILIES['xcup'].command} -top {top} -run begin:map_ffram",
                   *lut_levels.commands(top)], folder)
        netlist: Module = json.loads((folder / "gates.json").read_text())["modules"][top]
    return endpoints_over(netlist, over)


def _read(top: str, boxes: Sequence[str] = ()) -> list[str]:
    return ["read_verilog -sv design.v", f"hierarchy -check -top {top}", *(f"blackbox {box}" for box in boxes), "proc",
            "flatten", "check -assert"]


_CHILD = """
import sys
from pyosys import libyosys
design = libyosys.Design()
for line in sys.stdin.read().splitlines():
    libyosys.run_pass(line, design)
"""


def run_yosys(script: Sequence[str], folder: Path) -> None:
    if find_spec("pyosys") is None:
        raise UserError("Yosys is not installed; `pip install pyosys==0.70` installs it.")
    done = subprocess.run([sys.executable, "-c", _CHILD], input="\n".join(script), cwd=folder, capture_output=True,
                          text=True, check=False)
    if done.returncode:
        log = (done.stdout + done.stderr).splitlines()
        said = [line for line in log if re.match(r"(ERROR|Warning):", line)] or log
        raise UserError(f"Yosys failed: {' '.join(said[-4:])}")


def _area(target: Family, netlist: Module, mapped: Module) -> Area:
    cells = Counter(cell["type"] for cell in netlist["cells"].values() if cell["type"] != "$scopeinfo")
    known = target.lut_ram | target.block_ram
    strange = [name for name in cells if re.match(r"(RAM|TRELLIS_DPR|DP16|PDPW)", name) and name not in known]
    if strange:
        raise NotImplementedError(f"Memory cells {', '.join(strange)} are not counted")
    memories: dict[str, Counter[str]] = {}
    for name, cell in mapped["cells"].items():
        if cell["type"] in known:
            # Cells of a memory are called MEMORY.PORT.NUMBER, by column or row.
            memory, kind = re.sub(r"(\.\d+)+$", "", name), cell["type"]
        elif cell["type"].startswith("$mem") and int(cell["parameters"]["WR_PORTS"], 2):
            memory, kind = cell["parameters"]["MEMID"].lstrip("\\"), "flip-flops"
        else:
            continue
        memories.setdefault(memory, Counter())[kind] += 1

    def total(pattern: str) -> int:
        return sum(count for name, count in cells.items() if re.fullmatch(pattern, name))

    return Area(
        family=target.name, lut=total(target.lut), flip_flop=total(target.flip_flop), latch=total(target.latch),
        lut_ram=sum(count * cells[name] for name, count in target.lut_ram.items()),
        block_ram=sum(count * cells[name] for name, count in target.block_ram.items()),
        cells=dict(cells), memories=memories)
