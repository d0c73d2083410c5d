"""Bitstreams by the open flow: Amaranth -> Verilog -> Yosys -> nextpnr -> ecppack, for ECP5.

A build is kept under ``build/fpga/NAME-HASH``; the hash covers Verilog, pins, options and the versions of the tools.
"""

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
from .targets import TARGETS
from .timing import read_report

__all__ = ["Made", "board_config", "build", "implement"]

_DEVICES = {"LFE5U-12F": "--12k", "LFE5U-25F": "--25k", "LFE5U-45F": "--45k", "LFE5U-85F": "--85k",
            "LFE5UM-25F": "--um-25k", "LFE5UM-45F": "--um-45k", "LFE5UM-85F": "--um-85k",
            "LFE5UM5G-25F": "--um5g-25k", "LFE5UM5G-45F": "--um5g-45k", "LFE5UM5G-85F": "--um5g-85k"}
_PACKAGES = {"BG256": "CABGA256", "MG285": "CSFBGA285", "BG381": "CABGA381", "BG554": "CABGA554", "BG756": "CABGA756"}
_LABELS = ("begin", "coarse", "map_ram", "map_ffram", "map_gates", "map_ffs", "map_luts", "map_cells", "check", "json")
"""Of Yosys's ``synth_ecp5``, each run on its own, so that the build can tell how far it is."""


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
    board = TARGETS[target]
    status("writing Verilog", 0, 4)
    top = Ecp5Top(config, clock_hz=board.clock_hz, inverted={pin.name for pin in board.pins() if pin.inverted})
    text = emit.verilog(top, name="board", assertions=False)
    made = implement(text, target, name=f"{target}-{config.design}-{config.preset}", clock_hz=top.pll.output_hz,
                     seed=seed, status=status)
    return replace(made, report={**asdict(config), **made.report})


def implement(text, target, *, name, clock_hz, seed=1, status=quiet):
    """Verilog of a module ``board`` with the target's pins as its ports to :class:`Made`; its clock should reach
    ``clock_hz``."""
    board = TARGETS[target]
    yosys, nextpnr, ecppack = (tools.find(tool) for tool in ("yosys", "nextpnr-ecp5", "ecppack"))
    constraints = lpf(board.pins(), board.clock_hz)
    device, package, speed = board.part
    options = [_DEVICES[device], "--package", _PACKAGES[package], "--speed", speed, "--seed", str(seed),
               "--freq", f"{clock_hz / 1e6:g}"]
    key = digest(text, constraints, options, yosys.version, nextpnr.version, ecppack.version)
    folder = build_root() / "fpga" / f"{name}-{key}"

    def make():
        (folder / "board.v").write_text(text, encoding="utf-8")
        (folder / "board.lpf").write_text(constraints, encoding="utf-8")
        synthesise(folder, yosys, status=lambda what: status(what, 1, 4))
        tools.run(nextpnr, [*options, "--json", "board.json", "--lpf", "board.lpf", "--textcfg", "board.config",
                            "--report", "timing.json", "--timing-allow-fail"], folder=folder,
                  log=folder / "nextpnr.log", line=_progress(status))
        status("packing the bitstream", 3, 4)
        tools.run(ecppack, ["board.config", "--compress", "--bit", "board.bit", "--svf", "board.svf"], folder=folder,
                  log=folder / "ecppack.log")
        status("packed", 4, 4)

    reused, seconds = once(folder, make, product="board.bit", name=name)
    report = {"target": target, "part": f"{device}-{speed} {package}",
              "tools": [tool.version for tool in (yosys, nextpnr, ecppack)], "seconds": round(seconds, 1),
              **read_report(folder / "timing.json", wanted_hz=clock_hz)}
    return Made(folder, report, reused, seconds)


def synthesise(folder, yosys, *, status=lambda what: None):
    """``board.v`` to the netlists ``board.json``, for nextpnr, and ``netlist.v``, for simulation."""
    (folder / "synth.ys").write_text("\n".join([
        "read_verilog -sv board.v",
        *(f"synth_ecp5 -top board -json board.json -run {label}:{after}" for label, after in
          zip(_LABELS, (*_LABELS[1:], ""), strict=True)),
        "write_verilog -noattr netlist.v", ""]), encoding="utf-8")

    def line(text):
        if found := re.search(r"synth_ecp5 .*-run (\w+):", text):
            status(f"synthesising, {found[1].replace('_', ' ')}")

    tools.run(yosys, ["-s", "synth.ys"] if yosys.command[-1] != "fpga.pyosys" else ["synth.ys"], folder=folder,
              log=folder / "yosys.log", line=line)


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
