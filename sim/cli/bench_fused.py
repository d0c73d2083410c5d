# SPDX-License-Identifier: Apache-2.0
"""``dmace bench fused``: computation fused with its communication, by trigger counters on endpoints in RTL."""

import argparse
from dataclasses import replace
from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from hw.endpoint.config import PRESETS
from hw.errors import UserError
from sim.terminal import Row, Subparsers, add_json, add_seed, check_file, check_range, integer, measuring, write_json

if TYPE_CHECKING:
    from sim.fused.bench import Bench

__all__ = ["configure", "run"]

PAPER = {"embedding": "31 % on average and at most 58 % between nodes, 20 % on average inside a node",
         "gemm": "12 % on average, at most 20 %", "gemv": "13 % on average, at most 22 %"}
"""Time saved in arXiv 2305.06942, on its machines."""

SLICES = (1, 2, 4, 8, 16, 32, 64)
MOST_SLICES = {2: 64, 3: 32, 4: 16}
"""Default for an all-to-all, by ranks: as there are counters in ``tiny``."""

MOST_COMMANDS = 32


def configure(designs: Subparsers) -> None:
    fused = designs.add_parser(
        "fused", help="computation fused with its communication, on 2 to 4 endpoints",
        description="Measure an operation whose slices are sent by trigger counters, by a thread that polls, by the "
        "last workgroup of each slice, or after the kernel; in cycles of the RTL. Every byte of the result is checked.")
    fused.add_argument("--operation", default="embedding", choices=("embedding", "gemm", "gemv"),
                       help="embedding or gemm with an all-to-all, gemv with an all-reduce (default: embedding)")
    fused.add_argument("--config", default="tiny", choices=list(PRESETS), metavar="C",
                       help=f"preset of the endpoint: {', '.join(PRESETS)} (default: tiny)")
    fused.add_argument("--ranks", type=integer, default=2, metavar="N", help="endpoints on a ring, 2 to 4 (default: 2)")
    fused.add_argument("--bytes", type=integer, default=65536, metavar="N", help="bytes of a rank's result for each "
                       "rank, or of the whole sum of gemv (default: %(default)s)")
    fused.add_argument("--tasks", type=integer, default=256, metavar="N",
                       help="tasks that compute them (default: %(default)s)")
    fused.add_argument("--slices", metavar="N,...", help="slices that they form (default: powers of two to 64; with 3 "
                       "ranks or gemv to 32, with 4 ranks to 16)")
    fused.add_argument("--element", default="int32", choices=("int32", "fp32"), help="(default: int32)")
    fused.add_argument("--workgroups", type=integer, default=8, metavar="N", help="of each rank (default: %(default)s)")
    length = fused.add_mutually_exclusive_group()
    length.add_argument("--compute", type=integer, metavar="CYCLES", help="length of a task")
    length.add_argument("--balance", type=float, default=1.0, metavar="RATIO", help="choose the length so that "
                        "computation takes RATIO times communication (default: 1)")
    fused.add_argument("--period", type=integer, default=200, metavar="CYCLES",
                       help="of the thread that polls masks (default: %(default)s)")
    fused.add_argument("--reaction", type=integer, default=100, metavar="CYCLES",
                       help="of that thread, from a load to the post that depends on it (default: %(default)s)")
    fused.add_argument("--launch", type=integer, default=0, metavar="CYCLES",
                       help="from the end of a kernel to the posts without fusion (default: %(default)s)")
    fused.add_argument("--receipts", default="counter", choices=("counter", "signal"), help="how a consumer's flag is "
                       "set: by a counter that counts the slice's bytes, or by a signal behind it (default: counter)")
    fused.add_argument("--link-rate", type=float, default=1.0, metavar="BEATS", help="bandwidth of each direction "
                       "of a link in beats per cycle, headers included (default: %(default)s)")
    fused.add_argument("--link-latency", type=integer, default=20, metavar="CYCLES",
                       help="latency of the links (default: %(default)s)")
    fused.add_argument("--latency", type=integer, default=50, metavar="CYCLES",
                       help="latency of the memories, for reads and for writes (default: %(default)s)")
    fused.add_argument("--causes", type=integer, metavar="SLICES", help="also measure the causes of the difference "
                       "from the bound, and the orders of slices, at this number of slices; 0: do not (default: 32, or "
                       "16 with 4 ranks)")
    add_seed(fused)
    add_json(fused)
    fused.add_argument("--plot", metavar="FILE", help="draw time over slices as PNG")
    fused.set_defaults(bench=run)


def run(args: argparse.Namespace) -> int:
    slices = _check(args)
    # Imported here, so that a wrong option is reported at once.
    from sim.fused.bench import METHODS
    from sim.fused.setup import Method

    bench = _bench(args)
    for number in {*slices, *([args.causes] if args.causes else [])}:
        bench.check(number)
    methods = [method for method in METHODS if args.operation != "gemv" or method != Method.LAST]
    with measuring(f"fused {args.config}") as (building, notify):
        from sim.endpoint.cluster import library

        library(bench.setup.config, status=building)
        others = (4 + 3 * 5 + 1 if args.causes else 0) + 4
        notify("", total=len(slices) * (2 + len(methods)) + others, advance=0)
        if args.compute is None:
            notify("communication alone")
            bench = bench.balanced(args.balance, args.causes or max(slices))
        result: Row = {
            "operation": args.operation, "config": args.config, "data_width": bench.setup.config.data_width,
            "ranks": args.ranks, "bytes": args.bytes, "tasks": args.tasks, "element": args.element,
            "workgroups": args.workgroups, "compute": bench.setup.compute, "link_rate": args.link_rate,
            "link_latency": args.link_latency, "memory_latency": args.latency, "period": args.period,
            "reaction": args.reaction, "launch": args.launch, "receipts": args.receipts, "seed": args.seed,
            "paper": PAPER[args.operation]}
        result["rows"] = list(bench.sweep(slices, methods, notify))
        result["path"] = [bench.path(size, notify) for size in (256, 1024, 4096)]
        result["orders"] = list(bench.orders(args.causes, notify)) if args.causes and args.operation != "gemv" else []
        result["causes"] = bench.causes(args.causes, notify) if args.causes else []
        if args.causes:
            result["slice_cost"] = bench.slice_cost(args.causes, notify)
    if args.plot:
        from sim.fused.plot import draw

        draw(result, args.plot)
    write_json(args.json, result)
    if args.json != "-":
        _show(result)
    return 0


def _bench(args: argparse.Namespace) -> "Bench":
    from sim.ace.endpoints import Link, Memory
    from sim.fused.bench import Bench
    from sim.fused.setup import Setup, Thread

    config = PRESETS[args.config]
    link = Link(latency=args.link_latency, bytes_per_cycle=args.link_rate * config.beat_bytes)
    setup = Setup(config=config, link=link,
                  memory=Memory(read_latency=args.latency, write_latency=args.latency), workgroups=args.workgroups,
                  compute=args.compute or 0, launch=args.launch, receipts=args.receipts, seed=args.seed,
                  thread=replace(Thread(), period=args.period, latency=args.reaction))
    return Bench(name=args.operation, ranks=args.ranks, target_bytes=args.bytes, tasks=args.tasks, setup=setup,
                 element=args.element)


def _check(args: argparse.Namespace) -> list[int]:
    check_range("--ranks", args.ranks, 2, 4)
    most = MOST_COMMANDS if args.operation == "gemv" else MOST_SLICES[args.ranks]
    try:
        slices = [number for number in SLICES if number <= most] if args.slices is None else list(
            dict.fromkeys(int(part, 0) for part in args.slices.split(",")))
    except ValueError:
        raise UserError(f"--slices must be integers separated by commas, not {args.slices!r}.") from None
    for number in slices:
        check_range("--slices", number, 1, 64)
    if args.causes is None:
        args.causes = min(most, 32)
    check_range("--bytes", args.bytes, 8, 1 << 22)
    check_range("--tasks", args.tasks, 1, 4096)
    check_range("--workgroups", args.workgroups, 1, 1024)
    check_range("--compute", args.compute or 0, 0, 1_000_000)
    check_range("--period", args.period, 1, 1_000_000)
    check_range("--reaction", args.reaction, 0, 1_000_000)
    check_range("--launch", args.launch, 0, 10_000_000)
    check_range("--causes", args.causes, 0, 64)
    if not 0 < args.balance <= 100:
        raise UserError(f"--balance must be more than 0 and at most 100, not {args.balance:g}.")
    if not 0 < args.link_rate <= 1:
        raise UserError(f"--link-rate must be more than 0 and at most 1 beat per cycle, not {args.link_rate:g}.")
    check_range("--link-latency", args.link_latency, 1, 10_000)
    check_range("--latency", args.latency, 2, 10_000)
    check_range("--seed", args.seed, 0, (1 << 53) - 1)
    check_file("--json", args.json)
    check_file("--plot", args.plot)
    if args.plot is not None and not args.plot.lower().endswith(".png"):
        raise UserError(f"--plot writes PNG, so its file must end in .png, not {args.plot!r}.")
    return slices


def _show(result: Row) -> None:
    console = Console()
    methods = [name for name in ("triggers", "last", "polled", "unfused") if name in result["rows"][0]]
    table = _table(f"{result['operation']} on {result['ranks']} endpoints {result['config']}, tasks of "
                   f"{result['compute']:,} cycles",
                   "Cycles. saved: time saved by triggers, relative to unfused; excess: triggers beyond the longer of "
                   "compute and communication, each alone", "slices", "bytes", "compute", "comm.", *methods, "saved",
                   "excess")
    for row in result["rows"]:
        table.add_row(*(f"{row[name]:,}" for name in ("slices", "slice_bytes", "compute", "communication", *methods)),
                      f"{1 - row['triggers'] / row['unfused']:.1%}", f"{row['triggers'] / row['bound'] - 1:.1%}")
    console.print(table)
    console.print(f"Time saved in the paper (arXiv 2305.06942), on its machines: {result['paper']}.", highlight=False)
    path = _table("A single slice", "Cycles from its last tick", "bytes", "first AR", "first packet", "flag seen")
    for row in result["path"]:
        path.add_row(*(f"{row[name]:,}" for name in ("slice_bytes", "read", "packet", "seen")))
    console.print(path)
    if result["orders"]:
        orders = _table(f"Orders of {result['orders'][0]['slices']} slices",
                        "skew: between the ranks that end first and last, relative to cycles", "order", "cycles",
                        "skew")
        for row in result["orders"]:
            orders.add_row(row["order"], f"{row['cycles']:,}", f"{row['skew']:.1%}")
        console.print(orders)
    if result["causes"]:
        whole = result["causes"][0]["excess"]
        causes = _table(f"Causes of the excess of {whole:,} cycles with {result['slice_cost']['slices']} slices",
                        "less: without this cause only; remaining: without it and those above; bound and run are "
                        "measured again for the changed input", "cause", "changed input", "less", "share", "remaining")
        for row in result["causes"][1:]:
            causes.add_row(row["cause"], row["change"], f"{row['cycles']:,}",
                           f"{row['cycles'] / whole:.0%}" if whole else "", f"{row['remaining']:,}")
        console.print(causes)
        console.print(f"The first slice is complete after {result['causes'][0]['first']:,} cycles; the run ends "
                      f"{result['causes'][0]['tail']:,} cycles after the computation.", highlight=False)
        cost = result["slice_cost"]
        console.print(f"The bound contains {cost['cycles']:g} cycles per slice: communication alone takes "
                      f"{cost['communication']:,} cycles, in one slice {cost['one']:,}.", highlight=False)


def _table(title: str, caption: str, *columns: str) -> Table:
    table = Table(title=title, caption=caption, box=SIMPLE_HEAD, pad_edge=False,
                  padding=(0, 0 if len(columns) > 7 else 1, 0, 0), title_justify="left", caption_justify="left")
    for column in columns:
        table.add_column(column, justify="left" if column in ("order", "cause", "changed input") else "right")
    return table
