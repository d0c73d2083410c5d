# SPDX-License-Identifier: Apache-2.0
"""``dmace bench remote``: tensors between two machines by static placement, dynamic allocation and messages."""

import argparse
from collections.abc import Callable

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from hw.endpoint.config import PRESETS
from hw.errors import UserError
from sim.cli.network_options import add_line, add_plot, add_sizes, check_line, check_plot, integers
from sim.terminal import Row, Subparsers, add_json, add_seed, check_file, check_range, integer, measuring, write_json

__all__ = ["configure", "run"]

SIZES = "64,256,1024,4096,16384,65536,262144,1048576"
MOST_BYTES = 1 << 24
MOST_LOSS = 0.1
MECHANISMS = ("static", "dynamic", "rpc")


def configure(designs: Subparsers) -> None:
    remote = designs.add_parser("remote", help="tensors to a remote machine, with and without copies",
                                description="Measure the cycles of a tensor over its size between two endpoints with "
                                "RoCEv2: static placement, dynamic allocation, and messages with copies; one at a time "
                                "and with several in flight. Every byte is checked.")
    remote.add_argument("--config", default="tiny", choices=list(PRESETS), metavar="C",
                        help=f"preset of the endpoints: {', '.join(PRESETS)} (default: tiny)")
    add_sizes(remote, SIZES, "sizes of tensors")
    remote.add_argument("--count", type=integer, default=4, metavar="N", help="tensors of each latency, and of each "
                        "rate per tensor in flight (default: %(default)s)")
    remote.add_argument("--depth", type=integer, default=8, metavar="N", help="tensors in flight, fewer where they "
                        "have more than 1 MiB together (default: %(default)s)")
    add_line(remote, "endpoints")
    remote.add_argument("--loss", type=float, default=0.0, metavar="P",
                        help="probability of the loss of a frame (default: 0)")
    remote.add_argument("--selective", action="store_true", help="repeat lost packets selectively")
    remote.add_argument("--period", type=integer, default=16, metavar="CYCLES",
                        help="cycles between two polls by software (default: %(default)s)")
    remote.add_argument("--training", action="store_true",
                        help="measure training steps of a small model, too, equal bit for bit to those of one process")
    add_seed(remote)
    add_json(remote)
    add_plot(remote, "draw cycles per tensor over its size")
    remote.set_defaults(bench=run)


def run(args: argparse.Namespace) -> int:
    config = PRESETS[args.config]
    sizes = integers("--sizes", args.sizes)
    for size in sizes:
        if not 0 <= size <= MOST_BYTES:
            raise UserError(f"--sizes must be from 0 to {MOST_BYTES:,} bytes, not {size}.")
    line_rate = check_line(args, config.dma.beat_bytes)
    check_range("--count", args.count, 2, 1000)
    check_range("--depth", args.depth, 1, 64)
    check_range("--period", args.period, 1, 10_000)
    check_range("--seed", args.seed, 0, (1 << 53) - 1)
    if not 0 <= args.loss <= MOST_LOSS:
        raise UserError(f"--loss must be from 0 to {MOST_LOSS:g}, not {args.loss:g}.")
    check_file("--json", args.json)
    check_plot(args)
    if args.plot is not None and 0 in sizes:
        raise UserError("--plot has logarithmic axes, so --sizes must not have 0 with it.")
    # Imported here, so that a wrong option is reported at once.
    from sim.remote import bench
    from sim.remote.ethernet import Ethernet, build
    from sim.remote.step_times import step_times

    setting = Ethernet(config=args.config, line_rate=line_rate, line_latency=args.line_latency,
                       memory_latency=args.latency, loss=args.loss, selective=args.selective, period=args.period,
                       seed=args.seed)
    result: Row = {"config": args.config, "data_width": config.data_width, "line_rate": line_rate,
                   "line_latency": args.line_latency, "memory_latency": args.latency, "loss": args.loss,
                   "selective": args.selective, "period": args.period, "seed": args.seed, "latencies": [], "rates": [],
                   "steps": []}
    with measuring(f"remote {args.config}") as (building, notify):
        build(setting, building)
        notify("tensors", total=2 * len(sizes) * len(MECHANISMS) + args.training)
        with bench.bench_machines(setting, max(sizes), args.depth) as both:
            for size in sizes:
                for mechanism in MECHANISMS:
                    notify(f"{mechanism}, {size:,} B")
                    result["latencies"].append(bench.latency(both, mechanism, size, count=args.count))
                    notify(f"{mechanism}, {size:,} B, several in flight")
                    result["rates"].append(bench.rate(both, mechanism, size, rounds=args.count,
                                                      depth=bench.depth_of(size, args.depth)))
            if args.training:
                notify("training steps")
                result["steps"] = step_times(both.machines)
    write_json(args.json, result)
    if args.plot:
        from sim.remote.plot import draw

        draw(result, args.plot)
    if args.json != "-":
        _show(result)
    return 0


def _show(result: Row) -> None:
    console = Console()
    lossy = f", loss {result['loss']:g}" if result["loss"] else ""
    line = f"{result['config']}, line of {result['line_rate']:g} B per cycle{lossy}"
    for rows, title in (("latencies", "One tensor at a time"), ("rates", "Several tensors in flight")):
        table = Table(title=f"{title}: {line}", box=SIMPLE_HEAD, pad_edge=False, caption="cycles per tensor; bound: "
                      "frames on the line, round trips, latencies of memories; rpc/static: ratio of the cycles")
        table.add_column("bytes", justify="right")
        for mechanism in MECHANISMS:
            table.add_column(mechanism, justify="right")
            table.add_column("bound", justify="right")
        table.add_column("rpc/static", justify="right")
        for size in dict.fromkeys(row["bytes"] for row in result[rows]):
            found = {row["mechanism"]: row for row in result[rows] if row["bytes"] == size}
            cells = [f"{found[mechanism][name]:,.0f}" for mechanism in MECHANISMS for name in ("cycles", "bound")]
            table.add_row(f"{size:,}", *cells, f"{found['rpc']['cycles'] / found['static']['cycles']:.2f}")
        console.print(table)
    if result["steps"]:
        table = Table(title=f"Training step of a small model: {line}", box=SIMPLE_HEAD, pad_edge=False,
                      caption="cycles of the communication; losses and weights are those of one process, bit for bit")
        columns: dict[str, Callable[[Row], str]] = {
            "mechanism": lambda row: str(row["mechanism"]), "rows": lambda row: str(row["rows"]),
            "transfers": lambda row: str(row["transfers"]), "bytes sent": lambda row: f"{row['bytes']:,}",
            "cycles": lambda row: f"{row['cycles']:,.0f}"}
        for name in columns:
            table.add_column(name, justify="left" if name == "mechanism" else "right")
        for row in result["steps"]:
            table.add_row(*(cell(row) for cell in columns.values()))
        console.print(table)
