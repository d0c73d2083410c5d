# SPDX-License-Identifier: Apache-2.0
"""``dmace bench endpoint``: puts between neighbours, and the memory port that both engines share."""

import argparse

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from hw.endpoint.config import PRESETS
from hw.errors import UserError
from sim.cli.network_options import add_sizes, integers
from sim.terminal import Row, Subparsers, add_json, add_seed, check_file, check_range, integer, measuring, write_json

__all__ = ["configure", "run"]

SIZES = "64,256,1024,4096,16384,65536,262144,1048576"
WEIGHTS = ((1, 1), (1, 3), (3, 1), (1, 15))
MOST_BYTES = 1 << 23


def configure(designs: Subparsers) -> None:
    endpoint = designs.add_parser("endpoint", help="DMA engine and accelerator on one memory port, and puts",
                                  description="Measure puts between two neighbours, and the shares of DMA engine and "
                                  "accelerator at full use of one memory. Every byte that is put is checked.")
    endpoint.add_argument("--config", default="tiny", choices=list(PRESETS), metavar="C",
                          help=f"preset of the endpoint: {', '.join(PRESETS)} (default: tiny)")
    add_sizes(endpoint, SIZES, "sizes of puts")
    endpoint.add_argument("--link-rate", type=float, default=1.0, metavar="BEATS", help="bandwidth of each direction "
                          "of a link in beats per cycle, headers included (default: %(default)s)")
    endpoint.add_argument("--link-latency", type=integer, default=20, metavar="CYCLES",
                          help="latency of the links (default: %(default)s)")
    endpoint.add_argument("--latency", type=integer, default=50, metavar="CYCLES",
                          help="latency of the memories, for reads and for writes (default: %(default)s)")
    add_seed(endpoint)
    add_json(endpoint)
    endpoint.set_defaults(bench=run)


def run(args: argparse.Namespace) -> int:
    sizes = integers("--sizes", args.sizes)
    for size in sizes:
        if not 8 <= size <= MOST_BYTES or size % 8:
            raise UserError(f"--sizes must be multiples of 8 from 8 to {MOST_BYTES:,} bytes, not {size}.")
    if not 0 < args.link_rate <= 1:
        raise UserError(f"--link-rate must be more than 0 and at most 1 beat per cycle, not {args.link_rate:g}.")
    check_range("--link-latency", args.link_latency, 1, 10_000)
    check_range("--latency", args.latency, 2, 10_000)
    check_range("--seed", args.seed, 0, (1 << 53) - 1)
    check_file("--json", args.json)
    # Imported here, so that a wrong option is reported at once.
    from sim.endpoint import bench
    from sim.endpoint.cluster import library

    config = PRESETS[args.config]
    around: Row = {"link_rate": args.link_rate, "link_latency": args.link_latency, "memory_latency": args.latency,
                   "seed": args.seed}
    result: Row = {"config": args.config, "data_width": config.data_width, **around, "latency": [], "throughput": [],
                   "contention": []}
    with measuring(f"endpoint {args.config}") as (building, notify):
        around["library"] = library(config, status=building)
        notify("puts", total=2 * len(sizes) + len(WEIGHTS))
        for size in sizes:
            notify(f"a put of {size:,} B")
            result["latency"].append(bench.latency(config, size, **around))
        for size in sizes:
            notify(f"puts of {size:,} B")
            result["throughput"].append(bench.throughput(config, size, **around))
        for weights in WEIGHTS:
            notify(f"both engines, weights {weights[0]} and {weights[1]}")
            result["contention"].append(bench.contention(config, weights, library=around["library"], seed=args.seed))
    write_json(args.json, result)
    if args.json != "-":
        _show(result)
    return 0


def _show(result: Row) -> None:
    console = Console()
    puts = Table(title=f"Puts between neighbours, endpoint {result['config']}", box=SIMPLE_HEAD, pad_edge=False,
                 collapse_padding=True,
                 caption="share: payload over the link's capacity; most: packets back to back, with headers of 16 B. "
                 "Cycles from the doorbell; bound: the time of memories and links alone")
    for name in ("bytes", "share", "most", "data there", "bound", "RC there", "bound", "SC here", "bound"):
        puts.add_column(name, justify="right", min_width={"bytes": 9, "share": 5, "most": 5}.get(name, 7))
    for one, many in zip(result["latency"], result["throughput"], strict=True):
        puts.add_row(f"{one['bytes']:,}", f"{many['link_share']:.3f}", f"{many['most']:.3f}",
                     *(f"{one[name]:,}" for name in ("data", "data_bound", "rc", "rc_bound", "sc", "sc_bound")))
    console.print(puts)
    shares = Table(title="Both engines at full use of one memory port")
    for name in ("weights", "DMA's share of R", "R busy", "DMA's share of W", "W busy"):
        shares.add_column(name, justify="right")
    for row in result["contention"]:
        shares.add_row(f"{row['weights'][0]} : {row['weights'][1]}", f"{row['dma_read_share']:.3f}",
                       f"{row['read_busy']:.3f}", f"{row['dma_write_share']:.3f}", f"{row['write_busy']:.3f}")
    console.print(shares)
