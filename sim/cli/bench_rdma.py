# SPDX-License-Identifier: Apache-2.0
"""``dmace bench rdma``: messages of a RoCEv2 unit to another one, their latency, and goodput over loss."""

import argparse
import math

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from hw.errors import UserError
from hw.rdma.config import PRESETS
from sim.terminal import Row, Subparsers, add_json, add_seed, check_file, check_range, integer, measuring, write_json

__all__ = ["configure", "run"]

SIZES = "64,256,1024"
LINE_RATES = {"tiny": 8.0, "base": 25.0, "wide": 50.0}
"""Bytes per cycle; 100 Gbit/s at 250 MHz for `wide`."""
_MOST = 1_000_000
"""Messages."""


def configure(designs: Subparsers) -> None:
    rdma = designs.add_parser("rdma", help="messages of a RoCEv2 unit to another one",
                              description="Measure WRITEs and READs between two RoCEv2 units at a switch: rates on one "
                              "queue pair, latency, and goodput over loss. Every byte is checked.")
    rdma.add_argument("--config", default="tiny", choices=list(PRESETS), metavar="C",
                      help=f"preset of the unit: {', '.join(PRESETS)} (default: tiny)")
    rdma.add_argument("--sizes", default=SIZES, metavar="BYTES,...",
                      help="sizes of messages, each in one packet (default: %(default)s)")
    rdma.add_argument("--count", type=integer, default=1000, metavar="N",
                      help="messages of each rate (default: %(default)s)")
    rdma.add_argument("--depth", type=integer, default=256, metavar="N",
                      help="maximum of messages in flight (default: %(default)s)")
    rdma.add_argument("--line-rate", type=float, metavar="BYTES", help="bytes per cycle of each segment (default: "
                      + ", ".join(f"{rate:g} for {name}" for name, rate in LINE_RATES.items()) + ")")
    rdma.add_argument("--line-latency", type=integer, default=50, metavar="CYCLES",
                      help="latency of each of the two segments between the units (default: %(default)s)")
    rdma.add_argument("--latency", type=integer, default=100, metavar="CYCLES",
                      help="latency of the memories, for reads and for writes (default: %(default)s)")
    rdma.add_argument("--loss", default="", metavar="P,...", help="probabilities of loss, of which the goodput is "
                      "measured with go-back-N and with selective repeat")
    rdma.add_argument("--lost", type=integer, default=0, metavar="N", help="of each loss, send enough messages that N "
                      "frames with data are lost on average, if --count is less (default: %(default)s)")
    add_seed(rdma)
    add_json(rdma)
    rdma.add_argument("--plot", metavar="FILE.png", help="draw the rates, and the goodput if it is measured")
    rdma.set_defaults(bench=run)


def run(args: argparse.Namespace) -> int:
    config = PRESETS[args.config]
    sizes, losses = _sizes(args.sizes, config.max_mtu), _losses(args.loss)
    line_rate = LINE_RATES[args.config] if args.line_rate is None else args.line_rate
    if not 0 < line_rate <= config.beat_bytes:
        raise UserError(f"--line-rate must be more than 0 and at most the {config.beat_bytes} bytes of a beat, "
                        f"not {line_rate:g}.")
    check_range("--count", args.count, 100, _MOST)
    check_range("--lost", args.lost, 0, 1000)
    for loss in losses:
        if loss and args.lost / loss > _MOST:
            raise UserError(f"{args.lost} lost frames at a loss of {loss:g} take {args.lost / loss:,.0f} messages, "
                            f"more than {_MOST:,}.")
    check_range("--depth", args.depth, 1, 4096)
    check_range("--line-latency", args.line_latency, 1, 100_000)
    check_range("--latency", args.latency, 2, 10_000)
    check_range("--seed", args.seed, 0, (1 << 53) - 1)
    check_file("--json", args.json)
    check_file("--plot", args.plot)
    if args.plot is not None and not args.plot.lower().endswith(".png"):
        raise UserError(f"--plot writes PNG, so its file must end in .png, not {args.plot!r}.")
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


def _sizes(given: str, most: int) -> list[int]:
    try:
        sizes = [int(part, 0) for part in given.split(",")]
    except ValueError:
        raise UserError(f"--sizes must be integers separated by commas, not {given!r}.") from None
    for size in sizes:
        if not 1 <= size <= most:
            raise UserError(f"--sizes must be from 1 to {most:,} bytes, the longest packet, not {size}.")
    return sizes


def _losses(given: str) -> list[float]:
    try:
        losses = [float(part) for part in given.split(",") if given]
    except ValueError:
        raise UserError(f"--loss must be probabilities separated by commas, not {given!r}.") from None
    for loss in losses:
        if not 0 <= loss <= 0.5:
            raise UserError(f"--loss must be from 0 to 0.5, not {loss:g}.")
    return losses


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
