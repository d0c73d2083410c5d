# SPDX-License-Identifier: Apache-2.0
"""``dmace sim pcie``: a file from one GPU to another through the card, peer to peer."""

import argparse
from pathlib import Path

from rich.console import Console
from rich.table import Table

from hw.card import PRESET_NAMES
from hw.dma_engine.config import LENGTH_WIDTH
from hw.errors import UserError
from sim.cli.engine_clock import add_engine_clock, has_two_clocks
from sim.terminal import Row, Subparsers, add_json, add_seed, check_range, integer, simulate, write_json
from sim.verilator.build import Design

__all__ = ["configure", "run"]

MOST_BYTES = 1 << 24


def configure(designs: Subparsers) -> None:
    pcie = designs.add_parser("pcie", help="the DMA engine behind the PCIe adapter", description="A simulated GPU "
                              "moves a file to another through the card: requests, reads and writes are peer-to-peer "
                              "TLPs through a switch. Completions are reordered and split at random; every TLP is "
                              "checked.")
    pcie.add_argument("--input", required=True, metavar="FILE", help="file to move")
    pcie.add_argument("--message", type=integer, default=4096, metavar="BYTES",
                      help="maximum size of a message in bytes (default: %(default)s)")
    pcie.add_argument("--queues", type=integer, metavar="N", help="number of queues in use (default: 8, or all)")
    pcie.add_argument("--config", default="tiny", choices=PRESET_NAMES, metavar="C",
                      help=f"preset of the card: {', '.join(PRESET_NAMES)} (default: %(default)s)")
    pcie.add_argument("--latency", type=integer, default=500, metavar="NS",
                      help="latency of the GPUs' memories in ns (default: %(default)s)")
    add_engine_clock(pcie)
    add_seed(pcie)
    pcie.add_argument("--waves", metavar="FILE", help="write every signal")
    add_json(pcie)


def run(args: argparse.Namespace) -> int:
    from hw.card.config import PRESETS

    engine = PRESETS[args.config].endpoint.dma
    queues = min(8, engine.queues) if args.queues is None else args.queues
    check_range("--queues", queues, 1, engine.queues, f" in {args.config}")
    check_range("--message", args.message, 1, (1 << LENGTH_WIDTH) - 1)
    check_range("--latency", args.latency, 10, 100_000)
    path = _checked(args.input)
    two_clocks = has_two_clocks(args)

    def design() -> Design:
        from sim.pcie.dma_card import DmaCard, preset_sizes

        return Design(DmaCard, *preset_sizes(args.config, two_clocks=two_clocks))

    result = simulate(f"dma_card_{args.config}", design, "sim.pcie.copy", {
        "config": args.config, "input": str(path.resolve()), "message": args.message, "queues": queues,
        "latency": args.latency, "engine_mhz": args.engine_mhz}, args)
    write_json(args.json, result)
    if args.json != "-":
        _show(result, path.name)
    return 1 if result["mismatches"] or result["errors"] else 0


def _checked(name: str) -> Path:
    path = Path(name)
    if not path.is_file():
        raise UserError(f"--input: {name} is not a file." if path.exists() else f"--input: there is no file {name}.")
    try:
        size = path.stat().st_size
    except OSError as error:
        raise UserError(f"--input: {name} cannot be read: {error.strerror}.") from None
    if not 0 < size <= MOST_BYTES:
        raise UserError(f"--input: {name} has {size:,} bytes; it must have 1 to {MOST_BYTES:,}.")
    return path


def _show(result: Row, name: str) -> None:
    console = Console()
    table = Table(title=f"{name}\nfrom GPU to GPU through the card {result['config']}", title_justify="left")
    table.add_column("what")
    table.add_column("result", justify="right")
    for what, shown in (
            ("requests", f"{result['requests']:,} on {result['queues']} queues"), ("bytes", f"{result['bytes']:,}"),
            ("cycles at 250 MHz", f"{result['cycles']:,}"),
            ("GB/s", f"{result['gigabytes_per_second']:.2f}"), ("errors", f"{result['errors']}"),
            ("differences", f"{result['mismatches']}")):
        table.add_row(what, shown)
    console.print(table)
    if result["mismatches"] or result["errors"]:
        for sentence in result["first_mismatches"]:
            console.print(sentence, markup=False, highlight=False, soft_wrap=True)
    else:
        console.print("Every byte arrived, nothing else changed, and no TLP violated the specification.",
                      highlight=False)
    if result["waves"]:
        console.print(f"Waves: {result['waves']}", markup=False, highlight=False, soft_wrap=True)
