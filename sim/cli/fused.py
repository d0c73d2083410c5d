# SPDX-License-Identifier: Apache-2.0
"""``dmace fused``: computation fused with its communication, over the size and the order of slices."""

import argparse
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from hw.ace.words import Collective
from hw.errors import UserError
from sim.system import fused
from sim.system.configuration import LinkConfig, MachineConfig, Npu
from sim.system.experiment import parse_nodes
from sim.system.slice_costs import DMA_ENGINES
from sim.system.settings import apply, parse_assignments
from sim.terminal import Row, add_json, check_file, measuring, write_json

__all__ = ["PAPER", "configure", "run"]

PAPER = {"embedding": "31 % on average between nodes, 20 % inside a node", "gemm": "12 % on average, 20 % at most",
         "gemv": "13 % on average, 22 % at most"}
"""Reductions that arXiv 2305.06942 reports on its machines, as its readers note them down."""

_LINKS = LinkConfig(bytes_per_s=25e9, latency_s=700e-9)
DEFAULT = MachineConfig(shape=(2,), endpoint="ideal", links=_LINKS,
                        npu=Npu(memory_bytes_per_s=1.6e12, flops=181e12))
"""Links of 200 Gbit/s and 700 ns, memory of 1.6 TB/s, 181 TFLOPS of FP16: inputs, recalled from the paper's set-up."""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--operation", default="embedding", choices=list(fused.OPERATIONS), help="embedding or gemm "
                        "with an all-to-all, gemv with an all-reduce (default: embedding)")
    parser.add_argument("--nodes", default="2", metavar="LxVxH", help="ranks along each dimension (default: 2)")
    parser.add_argument("--slices", default="1,2,4,8,16,32,64", metavar="N,...", help="slices of the part for a rank, "
                        "or of the whole reduction (default: %(default)s)")
    parser.add_argument("--engine", default="hardware", choices=list(DMA_ENGINES),
                        help="engine that executes requests (default: hardware)")
    parser.add_argument("--baseline", choices=list(DMA_ENGINES), help="engine of the unfused run (default: as "
                        "--engine)")
    parser.add_argument("--set", action="append", metavar="NAME=VALUE", help="set an input of the machine, "
                        "as in dmace train, or of the operation: operation.batch=2048")
    parser.add_argument("--report", metavar="FILE.html", help="write table and plot as HTML")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    slices = _slices(args.slices)
    for option in ("json", "report"):
        check_file(f"--{option}", getattr(args, option))
    settings = parse_assignments(args.set)
    mine = {name.removeprefix("operation."): settings.pop(name) for name in list(settings)
            if name.startswith("operation.")}
    per_slice = _per_slice(mine.pop("per_slice", 0.0))
    config = apply(DEFAULT.with_(shape=parse_nodes(args.nodes), links=_LINKS), settings)
    operation = _operation(args.operation, config, mine)
    orders = _orders(operation, config)
    rows = []
    with measuring("slices") as (_, notify):
        notify("", len(slices) * len(orders), 0)
        alone = fused.run(operation, config, engine=args.baseline or args.engine)
        for order in orders:
            for number in slices:
                one = fused.run(operation, config, slices=number, order=order or None, engine=args.engine,
                                per_slice=per_slice)
                rows.append({"slices": number, "slice_bytes": one.slice_bytes, "order": order,
                             "seconds": one.seconds, "compute_seconds": one.computed, "skew": one.skew,
                             "gain": 1 - one.seconds / alone.seconds})
                notify(f"{number} slices")
    result = {"operation": operation.name, "nodes": args.nodes, "engine": args.engine,
              "baseline": args.baseline or args.engine, "unfused_seconds": alone.seconds,
              "unfused_compute_seconds": alone.computed, "rows": rows, "inputs": config.inputs(),
              "paper": PAPER[args.operation]}
    write_json(args.json, result)
    if args.report:
        _report(args, result)
    if args.json != "-":
        _show(args, result)
    return 0


def _orders(operation: fused.Fused, config: MachineConfig) -> list[str]:
    if operation.collective == Collective.ALL_REDUCE:
        return [""]
    return [order for order in fused.ORDERS if order != "by-rank" or config.ranks <= fused.MOST_UNFOLDED]


def _slices(text: str) -> list[int]:
    try:
        return list(dict.fromkeys(int(part) for part in text.split(",")))
    except ValueError:
        raise UserError(f"--slices must be integers separated by commas, not {text!r}.") from None


def _per_slice(value: object) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < 1:
        raise UserError(f"operation.per_slice must be at least 0 and less than 1 second, not {value!r}.")
    return value


def _operation(name: str, config: MachineConfig, settings: dict[str, Any]) -> fused.Fused:
    made = fused.OPERATIONS[name]
    known = made.__kwdefaults__ or {}
    for key, value in settings.items():
        if key not in known:
            raise UserError(f"there is no setting 'operation.{key}'; there are "
                            f"{', '.join(f'operation.{one}' for one in (*known, 'per_slice'))}.")
        if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value < 1 << 31:
            raise UserError(f"operation.{key} must be an integer from 1, not {value!r}.")
    return made(config.npu, config.ranks, **settings)


def _report(args: argparse.Namespace, result: Row) -> None:
    from sim.system.report import plots
    from sim.system.report.page import figure, page, section, table

    rows = [{**row, "gain, %": row["gain"] * 100} for row in result["rows"]]
    Path(args.report).write_text(page(
        f"{result['operation']} on {args.nodes} ranks",
        section("Time saved", figure(plots.curves(rows, "slice_bytes", "gain, %", ["order"], log=True),
                                     "Relative to computing the whole output before its communication.")),
        section("All runs", table(rows))), encoding="utf-8")


def _show(args: argparse.Namespace, result: Row) -> None:
    console = Console()
    table = Table(title=f"{result['operation']} on {args.nodes} ranks, {args.engine} requests\n"
                  f"not fused, {result['baseline']}: {result['unfused_seconds'] * 1e6:,.1f} us, of which compute is "
                  f"{result['unfused_compute_seconds'] * 1e6:,.1f} us", title_justify="left")
    for column in ("order", "slices", "bytes", "us", "saved", "skew"):
        table.add_column(column, justify="left" if column == "order" else "right")
    for row in result["rows"]:
        table.add_row(row["order"], f"{row['slices']:,}", f"{row['slice_bytes']:,}", f"{row['seconds'] * 1e6:,.1f}",
                      f"{row['gain']:.1%}", f"{row['skew']:.1%}" if row["order"] == "by-rank" else "")
    console.print(table)
    console.print(f"The paper (arXiv 2305.06942), on its machines: {result['paper']}.", highlight=False)
    if args.report:
        console.print(f"Report: {args.report}", markup=False, highlight=False, soft_wrap=True)
