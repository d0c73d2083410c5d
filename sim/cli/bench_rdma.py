# SPDX-License-Identifier: Apache-2.0
"""``dmace bench rdma``: messages of a RoCEv2 unit to another one, their latency, and goodput over loss."""

import argparse
import math

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from hw.errors import UserError
from hw.rdma.config import PRESETS
from sim.cli.network_options import add_line, add_plot, add_sizes, check_line, check_plot, integers, probabilities
from sim.terminal import Row, Subparsers, add_json, add_seed, check_file, check_range, integer, measuring, write_json

__all__ = ["configure", "run"]

SIZES = "64,256,1024"
_MOST = 1_000_000
"""Messages."""


def configure(designs: Subparsers) -> None:
    rdma = designs.add_parser("rdma", help="messages of a RoCEv2 unit to another one",
                              description="Measure WRITEs and READs between two RoCEv2 units at a switch: rates on one "
                              "queue pair, latency, and goodput over loss. Every byte is checked.")
    rdma.add_argument("--config", default="tiny", choices=list(PRESETS), metavar="C",
                      help=f"preset of the unit: {', '.join(PRESETS)} (default: tiny)")
    add_sizes(rdma, SIZES, "sizes of messages, each in one packet")
    rdma.add_argument("--count", type=integer, default=1000, metavar="N",
                      help="messages of each rate (default: %(default)s)")
    rdma.add_argument("--depth", type=integer, default=256, metavar="N",
                      help="maximum of messages in flight (default: %(default)s)")
    add_line(rdma, "units")
    rdma.add_argument("--loss", default="", metavar="P,...", help="probabilities of loss, of which the goodput is "
                      "measured with go-back-N and with selective repeat")
    rdma.add_argument("--lost", type=integer, default=0, metavar="N", help="of each loss, send enough messages that N "
                      "frames with data are lost on average, if --count is less (default: %(default)s)")
    add_seed(rdma)
    add_json(rdma)
    add_plot(rdma, "draw the rates, and the goodput if it is measured")
    rdma.set_defaults(bench=run)


def run(args: argparse.Namespace) -> int:
    config = PRESETS[args.config]
    sizes, losses = integers("--sizes", args.sizes), probabilities("--loss", args.loss, 0.5)
    for size in sizes:
        if not 1 <= size <= config.max_mtu:
            raise UserError(f"--sizes must be from 1 to {config.max_mtu:,} bytes, the longest packet, not {size}.")
    line_rate = check_line(args, config.beat_bytes)
    check_range("--count", args.count, 100, _MOST)
    check_range("--lost", args.lost, 0, 1000)
    for loss in losses:
        if loss and args.lost / loss > _MOST:
            raise UserError(f"{args.lost} lost frames at a loss of {loss:g} take {args.lost / loss:,.0f} messages, "
                            f"more than {_MOST:,}.")
    check_range("--depth", args.depth, 1, 4096)
    check_range("--seed", args.seed, 0, (1 << 53) - 1)
    check_file("--json", args.json)
    check_plot(args)
    # Imported here, so that a wrong option is reported at once.
    from sim.rdma import bench
    from sim.rdma.cluster import build_cluster

    setting = bench.Setting(line_rate=line_rate, line_latency=args.line_latency, memory_latency=args.latency,
                            seed=args.seed)
    result: Row = {"config": args.config, "data_width": config.data_width, "line_rate": line_rate,
                   "line_latency": args.line_latency, "memory_latency": args.latency, "seed": args.seed,
                   "rates": [], "latencies": [], "goodput": []}
    with measuring(f"rdma {args.config}") as (building, notify):
        library = build_cluster(config, status=building)
        kinds = [(size, write) for write in (True, False) for size in sizes]
        notify("messages", total=2 * len(kinds) + 2 * len(losses))
        for size, write in kinds:
            notify(f"{'WRITEs' if write else 'READs'} of {size:,} B")
            result["rates"].append(bench.rate(library, setting, size, write=write, count=args.count, depth=args.depth))
        for size, write in kinds:
            notify(f"one {'WRITE' if write else 'READ'} of {size:,} B")
            result["latencies"].append(bench.latency(library, setting, size, write=write))
        for loss in losses:
            count = max(args.count, math.ceil(args.lost / loss)) if loss else args.count
            for selective in (False, True):
                notify(f"loss {loss:g}")
                result["goodput"].append(bench.goodput(library, setting, loss, selective=selective, size=sizes[-1],
                                                       count=count, depth=args.depth))
    write_json(args.json, result)
    if args.plot:
        from sim.rdma.plot import draw

        draw(result, args.plot)
    if args.json != "-":
        _show(result)
    return 0


def _show(result: Row) -> None:
    console = Console()
    rates = Table(title=f"Messages on one queue pair, RoCEv2 unit {result['config']}", box=SIMPLE_HEAD, pad_edge=False,
                  caption="cycles per message; bound: the frame on the line, or its beats on the bus")
    latencies = Table(title="One message", box=SIMPLE_HEAD, pad_edge=False,
                      caption="cycles from the burst to its response, and their parts")
    for table, names in ((rates, ("", "bytes", "in flight", "cycles", "bound", "binds", "share", "B/cycle")),
                         (latencies, ("", "bytes", "cycles", "network", "memory", "both units"))):
        for name in names:
            table.add_column(name, justify="left" if name in ("", "binds") else "right")
    for row in result["rates"]:
        rates.add_row("WRITE" if row["write"] else "READ", f"{row['bytes']:,}", str(row["depth"]),
                      f"{row['cycles']:,.2f}", f"{row['bound']:,.2f}", row["binds"], f"{row['share']:.3f}",
                      f"{row['bytes_per_cycle']:.2f}")
    for row in result["latencies"]:
        latencies.add_row("WRITE" if row["write"] else "READ", f"{row['bytes']:,}", *(
            f"{row[name]:,.0f}" for name in ("cycles", "network", "memory", "units")))
    console.print(rates)
    console.print(latencies)
    if result["goodput"]:
        table = Table(title="Goodput over loss", box=SIMPLE_HEAD, pad_edge=False, caption="share: of the ideal, which "
                      "sends each lost frame again without any other cost")
        for name in ("loss", "repeat", "B/cycle", "ideal", "share", "resent", "timeouts"):
            table.add_column(name, justify="left" if name == "repeat" else "right")
        for row in result["goodput"]:
            table.add_row(f"{row['loss']:g}", "selective" if row["selective"] else "go-back-N",
                          f"{row['bytes_per_cycle']:.2f}", f"{row['ideal']:.2f}", f"{row['share']:.3f}",
                          f"{row['resent']:,}", f"{row['timeouts']:,}")
        console.print(table)
