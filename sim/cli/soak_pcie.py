# SPDX-License-Identifier: Apache-2.0
"""``dmace soak pcie``: random copies of several tenants through the card, with failing memories, stalls and resets."""

import argparse

from rich.console import Console
from rich.table import Table

from hw.card import PRESET_NAMES
from hw.dma_engine.words import Status
from hw.errors import UserError
from sim.terminal import Row, Subparsers, add_json, add_seed, check_file, check_range, integer, measuring, write_json

__all__ = ["configure", "run"]

WIDTHS = (128, 256, 512)
_COUNTS = {"requests": "requests", "cut_off": "cut off by a reset", "bytes": "bytes", "rounds": "rounds", "reads":
           "read requests on RQ", "writes": "write requests on RQ", "function_resets": "function-level resets",
           "link_failures": "failures of the link", "cycles": "cycles"}
_PIECE = 10_000
"""Requests between two updates of the progress bar, each with the next seed."""


def configure(designs: Subparsers) -> None:
    pcie = designs.add_parser("pcie", help="the DMA engine behind the PCIe adapter", description="Random copies of all "
                              "queues between two GPUs and the host, with completions that are split, reordered and "
                              "fail, stalls of all four packet interfaces, and resets. Every byte, status and TLP is "
                              "checked, and every tag must remain in use.")
    pcie.add_argument("--config", choices=PRESET_NAMES, metavar="C",
                      help=f"preset of the card: {', '.join(PRESET_NAMES)} (default: wide)")
    pcie.add_argument("--width", type=integer, metavar="BITS",
                      help="in place of a preset, an engine with small tables, and 128, 256 or 512 bits")
    pcie.add_argument("--requests", type=integer, default=100_000, metavar="N",
                      help="minimum number of requests (default: %(default)s)")
    pcie.add_argument("--resets", type=integer, default=10, metavar="N",
                      help="resets, function-level and failures of the link alternating (default: %(default)s)")
    add_seed(pcie)
    add_json(pcie)


def run(args: argparse.Namespace) -> int:
    if args.config is not None and args.width is not None:
        raise UserError("soak pcie takes --width or --config, not both.")
    if args.width not in (None, *WIDTHS):
        raise UserError(f"--width must be 128, 256 or 512, not {args.width}.")
    check_range("--requests", args.requests, 1, 1_000_000_000)
    check_range("--resets", args.resets, 0, 1_000_000)
    check_range("--seed", args.seed, 0, (1 << 52) - 1)
    check_file("--json", args.json)
    # Imported here, so that a wrong option is reported at once.
    from sim.pcie.dma_card import preset_sizes, small_dma
    from sim.pcie.fast import build_card

    result: Row = {}
    pieces = -(-args.requests // _PIECE)
    config = (args.config or "wide") if args.width is None else None
    engine, adapter = small_dma(args.width) if config is None else preset_sizes(config)
    with measuring(config or f"{args.width} bits") as (building, notify):
        harness = build_card(engine, adapter, status=building)
        for piece in range(pieces):
            notify(f"seed {args.seed + piece}", None if piece else pieces)
            resets = args.resets * (piece + 1) // pieces - args.resets * piece // pieces
            _add(result, harness.soak(requests=min(_PIECE, args.requests - _PIECE * piece), resets=resets,
                                      seed=args.seed + piece))
    result = {"config": config, "width": adapter.data_width, "seed": args.seed, **result}
    result["failures"] = {Status(int(number)).name: count for number, count in sorted(
        result["failures"].items(), key=lambda item: int(item[0]))}
    write_json(args.json, result)
    if args.json != "-":
        _show(result)
    return 0


def _add(total: Row, part: Row) -> None:
    """Add counts, also those in tables."""
    for name, value in part.items():
        if isinstance(value, dict):
            _add(total.setdefault(name, {}), value)
        elif value is not None:
            total[name] = total.get(name, 0) + value


def _show(result: Row) -> None:
    table = Table(title=f"Card {result['config'] or 'small'}, {result['width']} bits: random copies from seed "
                  f"{result['seed']}")
    table.add_column("what")
    table.add_column("number", justify="right")
    for name, shown in _COUNTS.items():
        table.add_row(shown, f"{result[name]:,}")
    for title, rows in (("status", result["failures"]), ("completions", result["faults"])):
        table.add_section()
        for name, count in rows.items():
            table.add_row(f"{title}: {name}", f"{count:,}")
    console = Console()
    console.print(table)
    console.print("Every byte arrived, nothing else changed, and no tag was lost.", highlight=False)
