"""Bitstreams by the open flow: Amaranth -> Verilog -> Yosys -> nextpnr -> ecppack, for ECP5.

A build is kept under ``build/fpga/NAME-HASH``; the hash covers Verilog, pins, options and the versions of the tools.
"""

import json
import re
import shutil
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from hw import emit
from hw.errors import UserError
from sim.toolchain import build_root
from sim.verilate import digest, once, quiet

from . import tools
from .board.top import Ecp5Pll, Ecp5Top
from .floorplan import read_placement
from .netlist import netlist
from .targets import TARGETS
from .timing import read_report

__all__ = ["Made", "board_config", "board_text", "build", "implement"]

_DEVICES = {"LFE5U-12F": "--12k", "LFE5U-25F": "--25k", "LFE5U-45F": "--45k", "LFE5U-85F": "--85k",
            "LFE5UM-25F": "--um-25k", "LFE5UM-45F": "--um-45k", "LFE5UM-85F": "--um-85k",
            "LFE5UM5G-25F": "--um5g-25k", "LFE5UM5G-45F": "--um5g-45k", "LFE5UM5G-85F": "--um5g-85k"}
_PACKAGES = {"BG256": "CABGA256", "MG285": "CSFBGA285", "BG381": "CABGA381", "BG554": "CABGA554", "BG756": "CABGA756"}
@dataclass(frozen=True)
class Made:
    """What a build gave: its folder with ``board.bit``, ``board.svf`` and ``report.json``, and the report."""

    folder: Path
    report: dict
    reused: bool
    seconds: float

    @property
    def bitstream(self):
        return self.folder / "board.bit"


def board_config(target, design, preset="tiny", *, mhz=None):
    """:class:`BoardConfig` of a design on a target. Raises :class:`UserError` where there is none."""
    if target not in TARGETS:
        raise UserError(f"There is no target {target!r}; the targets are {', '.join(TARGETS)}.")
    designs = TARGETS[target].designs
    if design not in designs:
        raise UserError(f"{design} is too large for {target}, which holds {', '.join(designs)}.")
    config = replace(designs[design], preset=preset)
    if mhz is None:
        return config
    try:
        return replace(config, clock_hz=Ecp5Pll.find(TARGETS[target].clock_hz, round(mhz * 1e6)).output_hz)
    except ValueError as error:
        raise UserError(f"--mhz: {error}.") from None


def build(target, config, *, seed=1, status=quiet):
    """Make a bitstream unless that was done before, and return :class:`Made`.

    Parameters
    ----------
    target : str
        A key of :data:`fpga.targets.TARGETS`.
    config : BoardConfig
    seed : int
        Of the placement.
    status : callable
        Receives ``(what, done, total)`` as the build goes on.

    Raises
    ------
    UserError
        If a tool is missing or refuses, or the design does not fit. A clock that is missed is in the report only.
    """
    status("writing Verilog", 0, 4)
    text, clock_hz = board_text(target, config)
    made = implement(text, target, name=f"{target}-{config.design}-{config.preset}", clock_hz=clock_hz, seed=seed,
                     status=status)
    return replace(made, report={**asdict(config), **made.report})


def board_text(target, config):
    """Verilog of a design on a target, and the clock that its PLL makes, in Hz."""
    board = TARGETS[target]
    top = Ecp5Top(config, clock_hz=board.clock_hz, inverted={pin.name for pin in board.pins() if pin.inverted})
    return emit.verilog(top, name="board", assertions=False), top.pll.output_hz


def implement(text, target, *, name, clock_hz, seed=1, status=quiet):
    """Verilog of a module ``board`` with the target's pins as its ports to :class:`Made`; its clock should reach
    ``clock_hz``."""
    board = TARGETS[target]
    nextpnr, ecppack = (tools.find(tool) for tool in ("nextpnr-ecp5", "ecppack"))
    constraints = lpf(board.pins(), board.clock_hz)
    device, package, speed = board.part
    options = [_DEVICES[device], "--package", _PACKAGES[package], "--speed", speed, "--seed", str(seed),
               "--freq", f"{clock_hz / 1e6:g}"]
    key = digest(text, constraints, options, tools.find("yosys").version, nextpnr.version, ecppack.version)
    folder = build_root() / "fpga" / f"{name}-{key}"

    def make():
        (folder / "board.lpf").write_text(constraints, encoding="utf-8")
        synthesised = netlist(text, name=name, status=lambda what: status(what, 1, 4))
        shutil.copy(synthesised / "board.json", folder)
        tools.run(nextpnr, [*options, "--json", "board.json", "--lpf", "board.lpf", "--textcfg", "board.config",
                            "--report", "timing.json", "--write", "placed.json", "--timing-allow-fail"], folder=folder,
                  log=folder / "nextpnr.log", line=_progress(status))
        (folder / "placement.json").write_text(json.dumps(read_placement(folder / "placed.json")), encoding="utf-8")
        (folder / "placed.json").unlink()
        status("packing the bitstream", 3, 4)
        tools.run(ecppack, ["board.config", "--compress", "--bit", "board.bit", "--svf", "board.svf"], folder=folder,
                  log=folder / "ecppack.log")
        status("packed", 4, 4)

    reused, seconds = once(folder, make, product="board.bit", name=name)
    report = {"target": target, "part": f"{device}-{speed} {package}",
              "tools": [tool.version for tool in (tools.find("yosys"), nextpnr, ecppack)], "seconds": round(seconds, 1),
              **read_report(folder / "timing.json", wanted_hz=clock_hz)}
    return Made(folder, report, reused, seconds)


def lpf(pins, clock_hz):
    """Constraints of nextpnr: sites, attributes, the oscillator's clock."""
    lines = []
    for pin in pins:
        lines.append(f'LOCATE COMP "{pin.name}" SITE "{pin.site}";')
        attributes = " ".join(f"{name}={value}" for name, value in sorted(pin.attributes.items()))
        lines.append(f'IOBUF PORT "{pin.name}" {attributes};')
    lines.append(f'FREQUENCY PORT "clk" {clock_hz / 1e6:g} MHZ;')
    return "\n".join(lines) + "\n"


def _progress(status):
    """What nextpnr is at, from its log."""
    def line(text):
        for pattern, what in ((r"Info: Packing (.*)", "packing {}"),
                              (r"Info:\s+at iteration #(\d+), type ALL", "placing, round {}"),
                              (r"Info:\s+at iteration #(\d+): temp", "refining the placement, round {}"),
                              (r"Info:\s+(\d+) \|", "routing, {} wires"), (r"Info: Routing\.\.", "routing")):
            if found := re.match(pattern, text):
                status(what.format(*found.groups()), 2, 4)
                return
    return line


def copy_results(made, folder):
    """Copy bitstream, SVF and report to ``folder``; returns their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    return [Path(shutil.copy(made.folder / name, folder / name)) for name in ("board.bit", "board.svf", "board.lpf")]
