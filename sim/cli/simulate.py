# SPDX-License-Identifier: Apache-2.0
"""``dmace sim``: run data through a design in RTL simulation, and compare the result bit for bit."""

import argparse
from pathlib import Path

from rich.console import Console
from rich.table import Table

from hw.dma_engine.config import LENGTH_WIDTH, PRESETS
from hw.errors import UserError
from sim.cli.simulate_ace import configure as configure_ace
from sim.cli.simulate_ace import run as run_ace
from sim.cli.simulate_pcie import configure as configure_pcie
from sim.cli.simulate_pcie import run as run_pcie
from sim.dma import gradients
from sim.dma.timeline import MOST_SEGMENTS
from sim.memory import STALLS
from sim.terminal import (
    Row,
    add_config,
    add_json,
    add_latency,
    add_seed,
    check_range,
    integer,
    simulate_dma,
    write_json,
)

__all__ = ["configure", "run"]

MOST_BYTES = 1 << 30


def configure(parser: argparse.ArgumentParser) -> None:
    designs = parser.add_subparsers(dest="design", required=True, metavar="DESIGN")
    dma = designs.add_parser("dma", help="the DMA engine", description="A simulated GPU moves a file "
                             "through the engine; the result is compared with the file and the model.")
    dma.add_argument("--input", metavar="FILE", help="file to move (default: gradients shaped like ResNet-50's, "
                     f"1/{gradients.SCALE} of the size)")
    dma.add_argument("--message", type=integer, default=4096, metavar="BYTES",
                     help="maximum size of a message in bytes (default: 4096)")
    dma.add_argument("--queues", type=integer, metavar="N", help="number of queues in use (default: 8, or all)")
    add_config(dma, "base")
    dma.add_argument("--stalls", nargs="?", default="none", const="random", choices=STALLS,
                     help="stalls on every channel of every bus: random without a kind (default: none)")
    add_latency(dma, 100)
    add_seed(dma)
    dma.add_argument("--trace", metavar="FILE", help="write the progress of each segment, as JSON for Perfetto or "
                     "chrome://tracing")
    dma.add_argument("--plot", metavar="FILE", help=f"draw the first {MOST_SEGMENTS} segments of the trace, as PNG")
    dma.add_argument("--waves", metavar="FILE", help="write every signal")
    add_json(dma)
    ace = designs.add_parser("ace", help="the collectives accelerator", description="Run one collective on a cluster "
                             "of accelerators, and compare each rank's buffer with the model bit by bit.")
    configure_ace(ace)
    configure_pcie(designs)


def run(args: argparse.Namespace) -> int:
    if args.design == "ace":
        return run_ace(args)
    if args.design == "pcie":
        return run_pcie(args)
    config = PRESETS[args.config]
    queues = min(8, config.queues) if args.queues is None else args.queues
    check_range("--queues", queues, 1, config.queues, f" in {args.config}")
    check_range("--message", args.message, 1, (1 << LENGTH_WIDTH) - 1)
    for option, name in (("--trace", args.trace), ("--plot", args.plot)):
        if name is not None and not Path(name).resolve().parent.is_dir():
            raise UserError(f"{option}: there is no folder {Path(name).resolve().parent}.")
    if args.plot is not None and not args.plot.lower().endswith(".png"):
        raise UserError(f"--plot writes PNG, so its file must end in .png, not {args.plot!r}.")
    path, pieces, note = _input(args.input)
    result = simulate_dma(args.config, "sim.dma.copy", {
        "input": str(path.resolve()), "pieces": pieces, "message": args.message, "queues": queues,
        "stalls": args.stalls, "latency": args.latency,
        "trace": args.trace and str(Path(args.trace).resolve()),
        "plot": args.plot and str(Path(args.plot).resolve()),
    }, args)
    write_json(args.json, result)
    if args.json != "-":
        _show(result, note, args.trace, args.plot)
    return 1 if result["mismatches"] or result["errors"] else 0


def _input(name: str | None) -> tuple[Path, list[int] | None, str]:
    """Path of the file to move, its pieces if it has any, and its description."""
    if name is None:
        path, pieces = gradients.make()
        return path, pieces, (f"{len(pieces) - 1} gradient buffers shaped like ResNet-50's, "
                              f"1/{gradients.SCALE} of their size")
    path = Path(name)
    if not path.exists():
        raise UserError(f"--input: there is no file {name}.")
    if not path.is_file():
        raise UserError(f"--input: {name} is not a file.")
    try:
        with path.open("rb"):
            size = path.stat().st_size
    except OSError as error:
        raise UserError(f"--input: {name} cannot be read: {error.strerror}.") from None
    if size == 0:
        raise UserError(f"--input: {name} is empty.")
    if size > MOST_BYTES:
        raise UserError(f"--input: {name} has {size:,} bytes; more than {MOST_BYTES:,} would take hours.")
    return path, None, path.name


def _show(result: Row, note: str, trace: str | None, plot: str | None) -> None:
    console = Console()
    table = Table(title=f"{note}\nthrough the DMA engine {result['config']}", title_justify="left")
    table.add_column("what")
    table.add_column("result", justify="right")
    table.add_row("requests", f"{result['requests']:,} on {result['queues']} queues")
    table.add_row("bytes", f"{result['bytes']:,}")
    table.add_row("cycles", f"{result['cycles']:,}")
    table.add_row("bytes/cycle", f"{result['bytes_per_cycle']:.2f} of {result['bus_bytes_per_cycle']}")
    table.add_row("mean latency, post to RC", f"{result['mean_latency']:,} cycles")
    table.add_row("worst latency, post to RC", f"{result['worst_latency']:,} cycles")
    table.add_row("errors", f"{result['errors']}")
    table.add_row("differences", f"{result['mismatches']}")
    console.print(table)
    if result["mismatches"] or result["errors"]:
        for sentence in result["first_mismatches"]:
            console.print(sentence, markup=False, highlight=False, soft_wrap=True)
    else:
        console.print("Every byte arrived, and nothing else changed.", highlight=False)
    for what, name in (("Trace", trace), ("Plot", plot), ("Waves", result["waves"])):
        if name:
            console.print(f"{what}: {name}", markup=False, highlight=False, soft_wrap=True)
