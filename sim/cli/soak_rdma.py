# SPDX-License-Identifier: Apache-2.0
"""``dmace soak rdma``: a RoCEv2 unit under valid, invalid and hostile packets, while good queue pairs work."""

import argparse

from rich.console import Console
from rich.table import Table

from hw.rdma.config import PRESETS
from sim.terminal import Row, Subparsers, add_json, add_seed, check_file, check_range, integer, measuring, write_json

__all__ = ["configure", "run"]

_PIECE = 100_000
"""Packets of one run, from reset to the end; each has the next seed."""


def configure(designs: Subparsers) -> None:
    rdma = designs.add_parser("rdma", help="a RoCEv2 unit under hostile packets", description="A station sends valid, "
                              "invalid and hostile packets to a RoCEv2 unit as fast as its line permits. Every byte "
                              "that the unit writes or reads must be in registered memory, good queue pairs must "
                              "complete everything, and a failure must concern its own queue pair only.")
    rdma.add_argument("--config", default="tiny", choices=list(PRESETS), metavar="C",
                      help=f"preset of the unit: {', '.join(PRESETS)} (default: tiny)")
    rdma.add_argument("--count", type=integer, default=100_000, metavar="N",
                      help="packets of the attacker at least (default: %(default)s)")
    add_seed(rdma)
    add_json(rdma)


def run(args: argparse.Namespace) -> int:
    check_range("--count", args.count, 1, 1_000_000_000)
    check_range("--seed", args.seed, 0, (1 << 52) - 1)
    check_file("--json", args.json)
    # Imported here, so that a wrong option is reported at once.
    from sim.rdma.cluster import build_cluster
    from sim.rdma.soak import add, missing, soak

    total: Row = {}
    pieces = -(-args.count // _PIECE)
    with measuring(f"rdma {args.config}") as (building, notify):
        library = build_cluster(PRESETS[args.config], status=building)
        for piece in range(pieces):
            notify(f"seed {args.seed + piece}", None if piece else pieces)
            add(total, soak(library, packets=min(_PIECE, args.count - _PIECE * piece), seed=args.seed + piece))
            if total["findings"]:
                total["findings"].insert(0, f"Seed {args.seed + piece}:")
                break
    total["findings"] += missing(total)
    result: Row = {"config": args.config, "data_width": PRESETS[args.config].data_width, "seed": args.seed, **total}
    write_json(args.json, result)
    if args.json != "-":
        _show(result)
    return 1 if result["findings"] else 0


def _show(result: Row) -> None:
    console = Console()
    table = Table(title=f"RoCEv2 unit {result['config']}: {result['packets']:,} packets of the attacker in "
                  f"{result['cycles']:,} cycles, from seed {result['seed']}")
    table.add_column("what")
    table.add_column("number", justify="right")
    for title, name in (("sent", "kinds"), ("unit", "counters"), ("checked", "checked"),
                        ("failed queue pairs", "faults"), ("most", "longest")):
        table.add_section()
        for what, count in result[name].items():
            table.add_row(f"{title}: {what.replace('_', ' ')}", f"{count:,}")
    console.print(table)
    for finding in result["findings"]:
        console.print(finding, highlight=False)
    if not result["findings"]:
        console.print("No byte outside of registered memory, no request without an end, no failure of another queue "
                      "pair.", highlight=False)
