# SPDX-License-Identifier: Apache-2.0
"""``dmace compare pcie``: random requests, faults and resets on a DMA engine behind the PCIe adapter, and the model."""

import argparse

from rich.console import Console
from rich.table import Table

from hw.errors import UserError
from sim.cli.engine_clock import add_engine_clock, has_two_clocks
from sim.terminal import Row, add_json, add_seed, check_file, check_range, integer, simulate, write_json
from sim.verilator.design import Design

__all__ = ["configure", "run"]

WIDTHS = (128, 256, 512)
MOST_REQUESTS, MOST_RESETS = 10_000_000, 1_000_000


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--width", type=integer, default=512, metavar="BITS",
                        help="bits of the hard block's interfaces: 128, 256 or 512 (default: 512)")
    parser.add_argument("--requests", type=integer, default=1000, metavar="N",
                        help="minimum number of requests (default: 1000)")
    parser.add_argument("--resets", type=integer, default=4, metavar="N",
                        help="function-level resets, hot resets, failures of the link and bus-master disables, "
                        "together (default: 4)")
    add_engine_clock(parser)
    add_seed(parser)
    parser.add_argument("--waves", metavar="FILE", help="write a trace of every signal")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    if args.width not in WIDTHS:
        raise UserError(f"--width must be 128, 256 or 512, not {args.width}.")
    check_range("--requests", args.requests, 1, MOST_REQUESTS)
    check_range("--resets", args.resets, 0, MOST_RESETS)
    check_range("--seed", args.seed, 0, (1 << 63) - 1)
    check_file("--json", args.json)
    check_file("--waves", args.waves)
    two_clocks = has_two_clocks(args)

    def design() -> Design:
        from sim.pcie.dma_card import DmaCard, small_dma

        return Design(DmaCard, *small_dma(args.width, two_clocks=two_clocks))

    options = {name: getattr(args, name) for name in ("width", "requests", "resets", "engine_mhz")}
    result = simulate(f"dma_card_{args.width}", design, "sim.pcie.compare", options, args)
    write_json(args.json, result)
    if args.json != "-":
        _show(result)
    return 1 if result["mismatches"] or result["leaked"] else 0


def _show(result: Row) -> None:
    console = Console()
    table = Table(title=f"Card with {result['width']} bits and its model, seed {result['seed']}")
    table.add_column("what")
    table.add_column("number", justify="right")

    def section(rows: dict[str, int], prefix: str = "") -> None:
        table.add_section()
        for name, number in rows.items():
            table.add_row(f"{prefix}{name}", f"{number:,}")

    section({name: result[name] for name in ("requests", "cycles")})
    section(result["failures"])
    section(result["faults"], "completion: ")
    section(result["resets"], "reset: ")
    section({"mismatches": result["mismatches"], "leaked tags": result["leaked"]})
    console.print(table)
    for sentence in result["first_mismatches"]:
        console.print(sentence, markup=False, highlight=False, soft_wrap=True)
