# SPDX-License-Identifier: Apache-2.0
"""Bitstreams by open tools: Amaranth -> Verilog -> Yosys -> nextpnr -> ecppack or gowin_pack.

A build is kept under ``build/fpga/NAME-HASH``; the hash covers Verilog, pins, options and the versions of the tools.
"""

import json
import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hw import emit
from hw.errors import UserError
from sim.verilator.build import quiet
from sim.verilator.store import digest, once
from sim.verilator.toolchain import build_root

from . import tools
from .board.core import BoardConfig
from .board.twin import TWIN
from .floorplan import read_placement
from .netlist import netlist
from .placing import SEEDS, place
from .targets import TARGETS
from .timing import read_report

if TYPE_CHECKING:
    from sim.verilator.build import Status

__all__ = ["Made", "board_config", "board_text", "build", "implement", "synthesise"]


@dataclass(frozen=True)
class Made:
    """Result of a build: its folder, the files to keep, with the bitstream first, and the report."""

    folder: Path
    results: tuple[str, ...]
    report: dict[str, Any]
    reused: bool
    seconds: float

    @property
    def bitstream(self) -> Path:
        return self.folder / self.results[0]


def board_config(target: str, design: str, preset: str = "tiny", *, mhz: float | None = None) -> BoardConfig:
    """:class:`BoardConfig` of a design on a target. Raises :class:`UserError` where there is none."""
    if target not in TARGETS:
        raise UserError(f"There is no target {target!r}; the targets are {', '.join(TARGETS)}.")
    designs = TARGETS[target].designs
    if design not in designs:
        raise UserError(f"{design} is too large for {target}, which holds {', '.join(designs)}.")
    if design == "probe" and preset != "tiny":
        raise UserError(f"A probe has no engine that could be {preset}: leave --config out.")
    config = replace(designs[design], preset=preset)
    if mhz is None:
        return config
    try:
        return replace(config, clock_hz=TARGETS[target].flow.reachable(round(mhz * 1e6)))
    except ValueError as error:
        raise UserError(f"--mhz: {error}.") from None


def build(target: str, config: BoardConfig, *, seeds: Sequence[int] = SEEDS, status: "Status" = quiet) -> Made:
    """Make a bitstream unless it exists already, and return :class:`Made`.

    Parameters
    ----------
    target : str
        A key of :data:`fpga.targets.TARGETS`.
    config : BoardConfig
    seeds : tuple of int
        Seeds of the placements, of which the fastest is kept.
    status : callable
        Receives ``(what, done, total)`` as the build progresses.

    Raises
    ------
    UserError
        If a tool is missing or fails, or the design does not fit. A missed clock frequency is in the report only.
    """
    status("writing Verilog", 0, 4)
    text, clock_hz = board_text(target, config)
    made = implement(text, target, name=_name(target, config), clock_hz=clock_hz, seeds=seeds, status=status)
    return replace(made, report={**asdict(config), **made.report})


def board_text(target: str, config: BoardConfig) -> tuple[str, int]:
    """Verilog of a design on a target, and the clock of its engines, in Hz."""
    board = TARGETS[target]
    top, clock_hz = board.flow.top(config, board.pins())
    text = emit.verilog(top, name="board", assertions=False)
    if top.core.twin:
        text += emit.verilog(top.core.twin, name=TWIN, assertions=False, reset=False)
    return text, clock_hz


def synthesise(target: str, config: BoardConfig, *, status: "Status" = quiet) -> Path:
    """Folder of a design's netlist, as :func:`build` has it placed."""
    status("writing Verilog", 0, 2)
    text, _ = board_text(target, config)
    return netlist(text, name=_name(target, config), synthesis=TARGETS[target].flow.synthesis,
                   status=lambda what: status(what, 1, 2))


def _name(target: str, config: BoardConfig) -> str:
    return f"{target}-{config.design}-{config.preset}"


def implement(text: str, target: str, *, name: str, clock_hz: int, seeds: Sequence[int] = (1,),
              status: "Status" = quiet) -> Made:
    """Verilog of a module ``board`` with the target's pins as its ports to :class:`Made`; its clock should reach
    ``clock_hz``."""
    board = TARGETS[target]
    flow = board.flow
    yosys, nextpnr, packer = (tools.find(tool) for tool in ("yosys", *flow.programs))
    constraints, options = flow.constrain(board.pins()), {seed: flow.options(clock_hz, seed) for seed in seeds}
    key = digest(text, constraints, list(options.values()), *(tool.version for tool in (yosys, nextpnr, packer)))
    folder = build_root() / "fpga" / f"{name}-{key}"

    def make() -> None:
        (folder / flow.constraints).write_text(constraints, encoding="utf-8")
        synthesised = netlist(text, name=name, synthesis=flow.synthesis, status=lambda what: status(what, 1, 4))
        shutil.copy(synthesised / "board.json", folder / "board.json")
        reached = place(nextpnr, folder, options, needs=("board.json", flow.constraints), clock_hz=clock_hz,
                        line=_progress(status))
        (folder / "seeds.json").write_text(json.dumps(reached), encoding="utf-8")
        status("packing the bitstream", 3, 4)
        flow.pack(folder)
        (folder / "placement.json").write_text(json.dumps(read_placement(folder / "placed.json", flow.site)),
                                               encoding="utf-8")
        (folder / "placed.json").unlink()
        status("packed", 4, 4)

    # The last file that is written: a build of before it was made is done again.
    reused, seconds = once(folder, make, product="placement.json", name=name)
    report = {"target": target, "part": flow.part, "tools": [tool.version for tool in (yosys, nextpnr, packer)],
              "seconds": seconds, "mhz_by_seed": json.loads((folder / "seeds.json").read_text(encoding="utf-8")),
              **read_report(folder / "timing.json", wanted_hz=clock_hz)}
    return Made(folder, flow.results, report, reused, seconds)


def _progress(status: "Status") -> Callable[[str], None]:
    """Reports the step that nextpnr has reached, from the lines of its log."""
    def line(text: str) -> None:
        for pattern, what in ((r"Info: Packing (.*)", "packing {}"),
                              (r"Info:\s+at iteration #(\d+), type ALL", "placing, round {}"),
                              (r"Info:\s+at iteration #(\d+): temp", "refining the placement, round {}"),
                              (r"Info:\s+(\d+) \|", "routing, {} wires"), (r"Info: Routing\.\.", "routing"),
                              (r"Info:\s+iter=(\d+) ", "routing, round {}")):
            if found := re.match(pattern, text):
                status(what.format(*found.groups()), 2, 4)
                return
    return line


def copy_results(made: Made, folder: Path) -> list[Path]:
    """Copy bitstream, SVF and report to ``folder``; returns their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    return [Path(shutil.copy(made.folder / name, folder / name)) for name in made.results]
