"""What the verbs that simulate share: options, building and running with a progress bar, results by file."""

import json
import tempfile
from argparse import ArgumentTypeError
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn

from hw.dma_engine.config import PRESETS
from hw.errors import UserError
from sim.verilator.build import Design, build

__all__ = ["add_config", "add_json", "add_latency", "add_seed", "check_file", "check_range", "fast_harness", "integer",
           "measuring", "simulate_dma", "write_json"]


def integer(text):
    """Type of an option that takes an integer, decimal or with a prefix like ``0x``."""
    try:
        return int(text, 0)
    except ValueError:
        raise ArgumentTypeError(f"{text!r} is not an integer") from None


def check_range(name, value, low, high, where=""):
    """Raise :class:`UserError` unless ``value`` is from ``low`` to ``high``."""
    if not low <= value <= high:
        raise UserError(f"{name} must be from {low:,} to {high:,}{where}, not {value:,}.")


def check_file(option, name):
    """Raise :class:`UserError` unless a file of this name can be there; ``None`` and ``-`` are none."""
    if name not in (None, "-") and not Path(name).resolve().parent.is_dir():
        raise UserError(f"{option}: there is no folder {Path(name).resolve().parent}.")


def add_config(parser, default):
    parser.add_argument("--config", default=default, choices=list(PRESETS), metavar="C",
                        help=f"preset of the engine: {', '.join(PRESETS)} (default: {default})")


def add_seed(parser):
    parser.add_argument("--seed", type=integer, default=1, metavar="S", help="seed of all that is random "
                        "(default: 1)")


def add_latency(parser, default):
    parser.add_argument("--latency", type=integer, default=default, metavar="CYCLES",
                        help=f"of the memory, for reads and for writes (default: {default})")


def add_json(parser):
    parser.add_argument("--json", nargs="?", const="-", metavar="FILE",
                        help="write the result as JSON, to standard output if no file is named")


def write_json(name, result):
    """What ``--json`` asks for."""
    text = json.dumps(result, indent=2)
    if name == "-":
        print(text)
    elif name is not None:
        Path(name).write_text(text + "\n", encoding="utf-8")


@contextmanager
def measuring(name):
    """``with`` a progress bar: ``building``, which takes the status of a build, and ``tell(note, total=None,
    advance=1)``, which shows a step of so many."""
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(),
               TextColumn("{task.fields[note]}"))
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(f"building {name}", total=None, note="")

        def building(what, done, total):
            progress.update(task, completed=done, total=total or None, note=what)

        def tell(note, total=None, advance=1):
            if total is not None:
                progress.reset(task, description=f"measuring {name}", total=total)
            progress.update(task, advance=advance, note=note)

        yield building, tell


@contextmanager
def fast_harness(name):
    """``with`` the fast harness of a preset, and ``tell`` of :func:`measuring`."""
    from sim.cpp import build_harness

    with measuring(name) as (building, tell):
        yield build_harness(PRESETS[name], status=building), tell


def simulate_dma(config, module, options, args):
    """Build the checked engine, run a cocotb module on it, and return the JSON that it writes.

    Parameters
    ----------
    config : str
        Name of the preset.
    module : str
        Module with the cocotb test, which finds its options in ``$DMACE_RUN`` and writes to their ``result``.
    options : dict
        For the test, as JSON.
    args : namespace
        The verb's arguments of :func:`add_seed`, :func:`add_latency` and :func:`add_json`, and ``waves``.
    """
    check_range("--seed", args.seed, 0, (1 << 63) - 1)
    check_range("--latency", args.latency, 2, 10_000)
    check_file("--json", args.json)
    check_file("--waves", args.waves)
    waves = args.waves
    # Imported here, so that a wrong option is told without waiting for the hardware description.
    from sim.dma.checked import CheckedDma

    console = Console(stderr=True)
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(),
               TimeElapsedColumn(), TextColumn("{task.fields[note]}"))
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(f"building {config}", total=None, note="")

        def building(what, done, total):
            progress.update(task, completed=done, total=total or None, note=what)

        made = build(Design(CheckedDma, PRESETS[config]), name=f"dma_{config}", waves=waves is not None,
                     status=building)
        progress.update(task, description=f"simulating {config}", completed=0, total=None, note="")

        def simulating(told):
            note = f"{told.get('cycles', 0):,} cycles {told.get('note', '')}"
            progress.update(task, completed=told["done"], total=told["total"], note=note)

        with tempfile.TemporaryDirectory(prefix="dmace-") as folder:
            result = Path(folder) / "result.json"
            env = {"DMACE_RUN": json.dumps({**options, "config": config, "seed": args.seed, "result": str(result)})}
            run = made.run(module, env=env, seed=args.seed % (1 << 31), waves=waves, progress=simulating)
            return {**json.loads(result.read_text(encoding="utf-8")), "seconds": round(run.seconds, 2),
                    "waves": str(run.waves) if run.waves else None}
