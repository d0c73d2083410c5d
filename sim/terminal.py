# SPDX-License-Identifier: Apache-2.0
"""Shared by the verbs that simulate: options, building and running with a progress bar, results as files."""

import argparse
import json
import tempfile
from argparse import ArgumentTypeError
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn

from hw.dma_engine.config import PRESETS
from hw.errors import UserError
from sim.verilator.build import Design, Status, build

if TYPE_CHECKING:
    from sim.cpp import Harness

__all__ = [
    "Notify",
    "Row",
    "Subparsers",
    "add_config",
    "add_json",
    "add_latency",
    "add_seed",
    "check_file",
    "check_range",
    "fast_harness",
    "integer",
    "measuring",
    "simulate",
    "simulate_dma",
    "write_json",
]


Row = dict[str, Any]
"""Results by name, ready for JSON."""

Subparsers: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
"""Where a design adds its own options to a verb."""


class Notify(Protocol):
    """Shows a step of a measurement on its progress bar."""

    def __call__(self, note: str, total: int | None = None, advance: int = 1) -> None: ...


def integer(text: str) -> int:
    """Type of an option that takes an integer, decimal or with a prefix like ``0x``."""
    try:
        return int(text, 0)
    except ValueError:
        raise ArgumentTypeError(f"{text!r} is not an integer") from None


def check_range(name: str, value: int, low: int, high: int, where: str = "") -> None:
    """Raise :class:`UserError` unless ``value`` is from ``low`` to ``high``."""
    if not low <= value <= high:
        raise UserError(f"{name} must be from {low:,} to {high:,}{where}, not {value:,}.")


def check_file(option: str, name: str | None) -> None:
    """Raise :class:`UserError` unless the folder of this file exists; ``None`` and ``-`` name no file."""
    if name is not None and name != "-" and not Path(name).resolve().parent.is_dir():
        raise UserError(f"{option}: there is no folder {Path(name).resolve().parent}.")


def add_config(parser: argparse.ArgumentParser, default: str) -> None:
    parser.add_argument("--config", default=default, choices=list(PRESETS), metavar="C",
                        help=f"preset of the engine: {', '.join(PRESETS)} (default: {default})")


def add_seed(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seed", type=integer, default=1, metavar="S", help="random seed (default: 1)")


def add_latency(parser: argparse.ArgumentParser, default: int) -> None:
    parser.add_argument("--latency", type=integer, default=default, metavar="CYCLES",
                        help=f"latency of the memory, for reads and for writes (default: {default})")


def add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", nargs="?", const="-", metavar="FILE",
                        help="write the result as JSON, to standard output without FILE")


def write_json(name: str | None, result: object) -> None:
    """Write the result to the file of ``--json``."""
    text = json.dumps(result, indent=2)
    if name == "-":
        print(text)
    elif name is not None:
        Path(name).write_text(text + "\n", encoding="utf-8")


@contextmanager
def measuring(name: str) -> Iterator[tuple[Status, Notify]]:
    """``with`` a progress bar: ``building`` shows the status of a build, ``notify(note, total=None, advance=1)`` one
    of ``total`` steps."""
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(),
               TextColumn("{task.fields[note]}"))
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(f"building {name}", total=None, note="")

        def building(what: str, done: int, total: int) -> None:
            progress.update(task, completed=done, total=total or None, note=what)

        def notify(note: str, total: int | None = None, advance: int = 1) -> None:
            if total is not None:
                progress.reset(task, description=f"measuring {name}", total=total)
            progress.update(task, advance=advance, note=note)

        yield building, notify


@contextmanager
def fast_harness(name: str) -> Iterator[tuple["Harness", Notify]]:
    """``with`` the fast harness of a preset, and the ``notify`` of :func:`measuring`."""
    from sim.cpp import build_harness

    with measuring(name) as (building, notify):
        yield build_harness(PRESETS[name], status=building), notify


def simulate_dma(config: str, module: str, options: dict[str, Any], args: argparse.Namespace) -> dict[str, Any]:
    """:func:`simulate` of the checked DMA engine of a preset."""
    check_range("--latency", args.latency, 2, 10_000)

    def design() -> Design:
        from sim.dma.checked import CheckedDma

        return Design(CheckedDma, PRESETS[config])

    return simulate(f"dma_{config}", design, module, {**options, "config": config}, args)


def simulate(name: str, design: Callable[[], Design], module: str, options: dict[str, Any],
             args: argparse.Namespace) -> dict[str, Any]:
    """Build a design, run a cocotb module on it, and return the JSON that it writes.

    Parameters
    ----------
    name : str
        Of the build.
    design : callable
        Makes the design. It imports the hardware description, so that a wrong option is reported before.
    module : str
        Module with the cocotb test, which finds its options in ``$DMACE_RUN`` and writes to their ``result``.
    options : dict
        Options of the test, as JSON.
    args : namespace
        The verb's arguments of :func:`add_seed` and :func:`add_json`, and ``waves`` if it has that.
    """
    check_range("--seed", args.seed, 0, (1 << 63) - 1)
    check_file("--json", args.json)
    waves = getattr(args, "waves", None)
    check_file("--waves", waves)
    shown = name.rpartition("_")[2]
    console = Console(stderr=True)
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(),
               TimeElapsedColumn(), TextColumn("{task.fields[note]}"))
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(f"building {shown}", total=None, note="")

        def building(what: str, done: int, total: int) -> None:
            progress.update(task, completed=done, total=total or None, note=what)

        made = build(design(), name=name, waves=waves is not None, status=building)
        progress.update(task, description=f"simulating {shown}", completed=0, total=None, note="")

        def simulating(reported: dict[str, Any]) -> None:
            note = f"{reported.get('cycles', 0):,} cycles {reported.get('note', '')}"
            progress.update(task, completed=reported["done"], total=reported["total"], note=note)

        with tempfile.TemporaryDirectory(prefix="dmace-") as folder:
            result = Path(folder) / "result.json"
            env = {"DMACE_RUN": json.dumps({**options, "seed": args.seed, "result": str(result)})}
            run = made.run(module, env=env, seed=args.seed % (1 << 31), waves=waves, progress=simulating)
            return {**json.loads(result.read_text(encoding="utf-8")), "seconds": round(run.seconds, 2),
                    "waves": str(run.waves) if run.waves else None}
