# SPDX-License-Identifier: Apache-2.0
"""``dmace bench pcie``: copies between GPUs through the card, beside the limits of link and hard block.

By the C++ harness of :mod:`sim.pcie.fast`; with ``--cocotb``, by the models of cocotbext-pcie.
"""

import argparse

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from hw.card import PRESET_NAMES
from hw.errors import UserError
from sim.cli.engine_clock import add_engine_clock, has_two_clocks
from sim.terminal import (
    Row,
    Subparsers,
    add_json,
    add_seed,
    check_file,
    check_range,
    integer,
    measuring,
    simulate,
    write_json,
)
from sim.verilator.build import Design

__all__ = ["configure", "run"]

SIZES, QUEUES = "64,256,1024,65536", "1,16,64"
WINDOW_US = 100

MOST_BYTES = 1 << 18


def configure(designs: Subparsers) -> None:
    pcie = designs.add_parser("pcie", help="copies between GPUs through the PCIe adapter", description="Measure copies "
                              "from one GPU to another through the DMA engine behind the PCIe adapter, with the hard "
                              "block, a switch and two GPUs as models, at 250 MHz. The models are in C++, or with "
                              "--cocotb those of cocotbext-pcie, which are slower and check more rules.")
    pcie.add_argument("--config", default="wide", choices=PRESET_NAMES, metavar="C",
                      help=f"preset of the card: {', '.join(PRESET_NAMES)} (default: %(default)s)")
    pcie.add_argument("--sizes", default=SIZES, metavar="BYTES,...", help="sizes of copies (default: %(default)s)")
    pcie.add_argument("--queues", default=QUEUES, metavar="N,...", help="queues in use (default: %(default)s)")
    pcie.add_argument("--latency", type=integer, default=500, metavar="NS",
                      help="latency of the GPUs' memories in ns (default: %(default)s)")
    pcie.add_argument("--max-payload", type=integer, default=512, metavar="BYTES", help="MPS (default: %(default)s)")
    pcie.add_argument("--max-read", type=integer, default=512, metavar="BYTES", help="MRRS (default: %(default)s)")
    pcie.add_argument("--split", default="never", choices=("never", "random", "always"),
                      help="completions end at read completion boundaries (default: %(default)s)")
    pcie.add_argument("--window", type=integer, metavar="US",
                      help=f"time of each measurement of throughput in us (default: {WINDOW_US}); 20 with --cocotb")
    pcie.add_argument("--cocotb", action="store_true", help="use the models of cocotbext-pcie")
    add_engine_clock(pcie)
    add_seed(pcie)
    add_json(pcie)
    pcie.set_defaults(bench=run)


def run(args: argparse.Namespace) -> int:
    from hw.card.config import PRESETS

    engine = PRESETS[args.config].endpoint.dma
    sizes, queues = _integers("--sizes", args.sizes), _integers("--queues", args.queues)
    for size in sizes:
        if not 64 <= size <= MOST_BYTES or size % 64:
            raise UserError(f"--sizes must be multiples of 64 from 64 to {MOST_BYTES:,} bytes, not {size}.")
    for count in queues:
        check_range("--queues", count, 1, engine.queues, f" in {args.config}")
    check_range("--latency", args.latency, 10, 100_000)
    for option, value, low, high in (("--max-payload", args.max_payload, 128, 1024),
                                     ("--max-read", args.max_read, 128, 4096)):
        check_range(option, value, low, high)
        if value & value - 1:
            raise UserError(f"{option} must be a power of two, not {value}.")
    if has_two_clocks(args) and not args.cocotb:
        raise UserError("--engine-mhz needs --cocotb: the models in C++ have one clock.")
    if args.window is not None and args.cocotb:
        raise UserError(f"--window {args.window} has no effect with --cocotb, which measures for 20 us.")
    window_us = WINDOW_US if args.window is None else args.window
    check_range("--window", window_us, 1, 100_000)
    check_range("--seed", args.seed, 0, (1 << 52) - 1)
    check_file("--json", args.json)
    options: Row = {"sizes": sizes, "queues": queues, "latency": args.latency, "max_payload": args.max_payload,
                    "max_read": args.max_read, "split": args.split}
    result = _with_cocotb(args, options) if args.cocotb else _with_cpp(args, options, window_us)
    write_json(args.json, result)
    if args.json != "-":
        _show(result)
    return 0


def _with_cpp(args: argparse.Namespace, options: Row, window_us: int) -> Row:
    # Imported here, so that a wrong option is reported at once.
    from sim.pcie.fast.bench import bench

    with measuring(args.config) as (building, _):
        return bench(args.config, **options, seed=args.seed, window_us=window_us, status=building)


def _with_cocotb(args: argparse.Namespace, options: Row) -> Row:
    def design() -> Design:
        from sim.pcie.dma_card import DmaCard, preset_sizes

        return Design(DmaCard, *preset_sizes(args.config, two_clocks=args.engine_mhz is not None))

    return simulate(f"dma_card_{args.config}", design, "sim.pcie.bench", {
        "config": args.config, **options, "engine_mhz": args.engine_mhz}, args)


def _integers(option: str, given: str) -> list[int]:
    try:
        return [int(part, 0) for part in given.split(",")]
    except ValueError:
        raise UserError(f"{option} must be integers separated by commas, not {given!r}.") from None


def _show(result: Row) -> None:
    console = Console()
    table = Table(title=f"Copies between two GPUs, card {result['config']}, MPS {result['max_payload']}, MRRS "
                  f"{result['max_read']}, memories of {result['latency']} ns, by {result['path']}", box=SIMPLE_HEAD,
                  pad_edge=False,
                  caption="bound: the least of link, RQ, RC, and tags over latency")
    for name in ("queues", "bytes", "GB/s", "cycles each", "bound", "by", "share of bound", "RQ busy"):
        table.add_column(name, justify="right")
    for row in result["throughput"]:
        table.add_row(f"{row['queues']}", f"{row['bytes']:,}", f"{row['gigabytes_per_second']:.2f}",
                      f"{row['cycles_per_request']:.2f}", f"{row['bound']:.2f}", row["limit"], f"{row['share']:.3f}",
                      f"{row['rq_busy']:.3f}")
    console.print(table)
    times = Table(title="One copy in an idle card, ns", box=SIMPLE_HEAD, pad_edge=False,
                  caption="store to CQ: link and switch; CQ to RQ, RC to RQ: the card; memory: read request to "
                  "completion")
    columns = {"bytes": "bytes", "store to CQ": "link_in", "CQ to read on RQ": "read", "memory": "memory",
               "RC to write on RQ": "data", "last RC to last word on RQ": "last_word", "store to RC there": "rc_there",
               "store to SC here": "sc_here"}
    for name in columns:
        times.add_column(name, justify="right")
    for row in result["latencies"]:
        times.add_row(*(f"{row[key]:,.0f}" for key in columns.values()))
    console.print(times)
