# SPDX-License-Identifier: Apache-2.0
"""``dmace fpga``: bitstreams by open tools, with their area and clock."""

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from hw.card import PRESET_NAMES
from hw.errors import UserError
from sim.terminal import add_json, check_file, check_range, integer, write_json

from .board.core import DESIGNS
from .floorplan import draw
from .package import DESIGNS as PACKAGED
from .package import NOT_RUN, designs
from .package import TARGETS as PACKAGE_TARGETS
from .package import write as write_package
from .placing import SEEDS
from .targets import TARGETS

if TYPE_CHECKING:
    from sim.verilator.build import Status

    from .build import Made

__all__ = ["configure", "run"]

_Result = TypeVar("_Result")


def configure(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    build = actions.add_parser("build", help="build a bitstream", description="Build a bitstream with Yosys, nextpnr "
                               "and ecppack, and report its area and its clock.")
    _add_design(build)
    _add_seeds(build)
    build.add_argument("-o", "--output", metavar="DIR", type=Path,
                       help="copy the bitstream, its constraints and report.json there")
    build.add_argument("--floorplan", metavar="PNG", type=Path, help="draw the placement of the blocks on the FPGA")
    add_json(build)
    load = actions.add_parser("load", help="load a bitstream into a board", description="Load a bitstream into a board "
                              "with openFPGALoader; it is built first if necessary.")
    _add_design(load)
    _add_seeds(load)
    load.add_argument("--flash", action="store_true", help="write the board's flash, which keeps it over power cycles")
    paths = actions.add_parser("paths", help="estimate the critical paths of a design before placement",
                               description="List the slowest timing paths of a design's netlist for an ECP5, by "
                               "blocks, with a nanosecond for each net: much faster than with nextpnr.")
    _add_design(paths)
    paths.add_argument("--over", type=float, default=15.0, metavar="NS",
                       help="list timing paths slower than this (default: 15)")
    add_json(paths)
    package = actions.add_parser("package", help="write a Vivado project for a PCIe card", description="Write a Vivado "
                                 "project: the card, behind the project's own PCIe adapter and the FPGA's hard block, "
                                 "or a single core behind the vendor's PCIe bridge.")
    package.add_argument("--target", required=True, choices=PACKAGE_TARGETS, metavar="T", help="; ".join(
        f"{target}: {', '.join(designs(target))}" for target in PACKAGE_TARGETS))
    package.add_argument("--design", choices=PACKAGED, metavar="D",
                         help="card, or a core: dma, ace, endpoint (default: the target's first)")
    package.add_argument("--config", choices=PRESET_NAMES, metavar="C",
                         help="preset of the card: tiny (4 lanes), base (8), wide or card (16) "
                         "(default: the target's)")
    package.add_argument("-o", "--output", metavar="DIR", type=Path,
                         help="folder to write to (default: the target's name)")
    actions.add_parser("targets", help="list the boards")


def _add_design(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--target", default="ulx3s-85f", choices=tuple(TARGETS), metavar="T",
                        help=f"board: {', '.join(TARGETS)} (default: ulx3s-85f)")
    parser.add_argument("--design", default="dma", choices=DESIGNS, metavar="D",
                        help="dma; ace: a ring of two accelerators; endpoint: both engines on one memory; probe: "
                        "memory alone (default: dma)")
    parser.add_argument("--config", default="tiny", choices=("tiny", "base", "wide"), metavar="C",
                        help="preset of the engine: tiny, base, wide (default: tiny)")
    parser.add_argument("--mhz", type=float, metavar="F", help="clock of the engine in MHz (default: the target's)")


def _add_seeds(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seeds", type=integer, nargs="+", default=SEEDS, metavar="S", help="seeds of the placements, "
                        "run on all cores at a time; the fastest is kept "
                        f"(default: {' '.join(map(str, SEEDS))})")


def run(args: argparse.Namespace) -> int:
    if args.action == "targets":
        return _list()
    if args.action == "package":
        return _package(args)
    if args.action == "paths":
        return _paths(args)
    if args.action == "build":
        check_file("--json", args.json)
        check_file("--floorplan", args.floorplan)
    made = _build(args)
    if args.action == "load":
        return _load(args, made)
    if args.output is not None:
        from .build import copy_results

        with _written(args.output):
            copy_results(made, args.output)
            (args.output / "report.json").write_text(json.dumps(made.report, indent=1) + "\n", encoding="utf-8")
    write_json(args.json, made.report)
    if args.floorplan is not None:
        draw(json.loads((made.folder / "placement.json").read_text(encoding="utf-8")), args.floorplan,
             title=f"{args.design} {args.config} on {args.target}")
    if args.json != "-":
        show(made)
    return 0 if made.report["met"] else 1


@contextmanager
def _written(folder: Path) -> Iterator[None]:
    """Report a failed write to ``folder`` in a sentence."""
    try:
        yield
    except OSError as error:
        raise UserError(f"Cannot write to {folder}: {error.strerror}.") from error


def _build(args: argparse.Namespace) -> "Made":
    from .build import board_config, build

    for seed in args.seeds:
        check_range("--seeds", seed, 1, (1 << 31) - 1)
    config = board_config(args.target, args.design, args.config, mhz=args.mhz)
    if args.action == "build" and args.output is not None:
        with _written(args.output):
            args.output.mkdir(parents=True, exist_ok=True)
    return _with_progress(f"building {args.design} for {args.target}",
                          lambda status: build(args.target, config, seeds=tuple(args.seeds), status=status))


def _with_progress(title: str, job: "Callable[[Status], _Result]") -> _Result:
    """Run ``job(status)`` with its progress on the terminal, or with a line per stage without a terminal."""
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True) as progress:
        task, shown = progress.add_task(title, total=None), [""]

        def status(what: str, done: int, total: int) -> None:
            progress.update(task, description=f"{done}/{total} {what}")
            stage = what.partition(",")[0].partition(":")[0]
            if not console.is_terminal and stage != shown[0]:
                shown[0] = stage
                console.print(f"{done}/{total} {what}", highlight=False)

        return job(status)


def _paths(args: argparse.Namespace) -> int:
    from .build import board_config, synthesise
    from .paths import WIRE_NS, longest, timing_paths

    check_file("--json", args.json)
    check_range("--over", args.over, 0, 1000)
    config = board_config(args.target, args.design, args.config, mhz=args.mhz)
    if TARGETS[args.target].family != "ecp5":
        raise UserError(f"Timing paths are estimated only for an ECP5, not for {args.target}.")
    folder = _with_progress(f"synthesising {args.design}",
                            lambda status: synthesise(args.target, config, status=status))
    found = timing_paths((folder / "board.json").read_text(encoding="utf-8"))
    rows = longest(found, over=args.over)
    counts = {limit: sum(timing_path.ns > limit for timing_path in found) for limit in (10, 12, 14, 16, 18, 20)}
    write_json(args.json, {"ends": len(found), "over": counts, "timing_paths": [
        dict(zip(("from", "to", "ns", "ends"), row, strict=True)) for row in rows]})
    if args.json != "-":
        table = Table(title=f"Timing paths of more than {args.over:g} ns in {args.design} {args.config} for "
                      f"{args.target}, {WIRE_NS:g} ns for each net", title_justify="left")
        for name in ("ns", "endpoints"):
            table.add_column(name, justify="right")
        for name in ("from", "to"):
            table.add_column(name)
        for start, end, ns, count in rows:
            table.add_row(f"{ns:.1f}", f"{count:,}", start, end)
        Console().print(table)
        print(f"Slower than a number of ns, of {len(found):,} endpoints: "
              + ", ".join(f"{limit}: {count:,}" for limit, count in counts.items()) + ".")
    return 0


def show(made: "Made") -> None:
    """Print the results of a build."""
    report, console = made.report, Console()
    table = Table(title=f"{report['design']} {report['preset']} on {report['target']} ({report['part']})",
                  title_justify="left")
    table.add_column("resource")
    for name in ("used", "of", "share"):
        table.add_column(name, justify="right")
    for kind, used in report["used"].items():
        of = report["available"][kind]
        table.add_row(kind, f"{used:,}", f"{of:,}", f"{100 * used / of:.0f} %")
    table.add_row("MHz", f"{report['mhz']:.1f}", f"{report['wanted_mhz']:.1f} requested",
                  "met" if report["met"] else "missed")
    console.print(table)
    console.print("Seeds: " + ", ".join(f"{seed}: {f'{mhz:.1f} MHz' if mhz else 'failed'}" for seed, mhz in
                                        report["mhz_by_seed"].items()) + ".", highlight=False)
    console.print(f"Critical path: {report['logic_ns']} ns logic in {report['levels']} levels, "
                  f"{report['routing_ns']} ns routing", highlight=False)
    for name, spent in report["critical"]:
        console.print(f"  {spent:6.2f} ns  {name}", markup=False, highlight=False, soft_wrap=True)
    console.print(f"Bitstream: {made.bitstream}" + (" (built before)" if made.reused else
                                                    f", {made.seconds:.0f} s"), markup=False, highlight=False,
                  soft_wrap=True)
    if not report["met"]:
        console.print(f"The clock is missed by {report['wanted_mhz'] - report['mhz']:.1f} MHz: "
                      "request a lower --mhz, or try other --seeds.", highlight=False)


def _package(args: argparse.Namespace) -> int:
    for path in write_package(args.target, args.output or Path(args.target), design=args.design, preset=args.config,
                              status=lambda text: print(text, file=sys.stderr)):
        print(path)
    print(NOT_RUN)
    return 0


def _load(args: argparse.Namespace, made: "Made") -> int:
    from . import tools

    if not made.report["met"]:
        raise UserError(f"The bitstream reaches {made.report['mhz']} MHz of {made.report['wanted_mhz']} MHz and "
                        "would not work reliably; build it with a lower --mhz or other --seeds.")
    tool = tools.find("openFPGALoader")
    tools.run(tool, ["-b", TARGETS[args.target].loader, *(["-f"] if args.flash else []), made.bitstream],
              folder=made.folder, log=made.folder / "load.log", line=print)
    return 0


def _list() -> int:
    table = Table()
    for name in ("target", "board", "part", "oscillator", "designs"):
        table.add_column(name)
    for name, target in TARGETS.items():
        designs = ", ".join(f"{design} at {config.clock_hz / 1e6:g} MHz" for design, config in target.designs.items())
        table.add_row(name, target.title, target.flow.part, f"{target.clock_hz / 1e6:g} MHz", designs)
    Console().print(table)
    return 0
