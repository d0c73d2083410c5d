# SPDX-License-Identifier: Apache-2.0
"""``dmace fused``: computation fused with its communication, over the size and the order of slices."""

import argparse
from dataclasses import fields
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from hw.ace.words import Collective
from hw.errors import UserError
from sim.system import fused
from sim.system.attribution import CAUSES, Attribution, attribute
from sim.system.configuration import LinkConfig, MachineConfig, Npu
from sim.system.experiment import parse_nodes
from sim.system.fused_operations import OPERATIONS
from sim.system.settings import Setting, apply, parse_assignments
from sim.system.slice_costs import DMA_ENGINES
from sim.system.slices import ORDERS, Fused, Fusion
from sim.system.workgroups import Workgroups
from sim.terminal import Row, add_json, check_file, measuring, write_json

__all__ = ["PAPER", "configure", "run"]

_FUSED = "arXiv 2305.06942"
PAPER: dict[str, tuple[str, dict[str, float]]] = {
    "embedding": (_FUSED, {"mean between nodes": 0.31, "most between nodes": 0.58,
                           "mean inside a node, first version": 0.25,
                           "mean inside a node, later version": 0.20}),
    "gemm": (_FUSED, {"mean": 0.12, "most": 0.20}),
    "gemv": (_FUSED, {"mean": 0.13, "most": 0.22}),
    "dlrm": (_FUSED, {"128 nodes, first version": 0.10, "128 nodes, later version, recalled": 0.21}),
    "tp-gemm": ("T3, ASPLOS'24", {"geometric mean of sublayers": 0.30, "most": 0.47}),
    "moe": (f"{_FUSED}, combine only", {"mean": 0.12, "most": 0.20}),
}
"""Reductions of time that the papers report for their machines, as their readers note them down."""

_LINKS = LinkConfig(bytes_per_s=25e9, latency_s=700e-9)
DEFAULT = MachineConfig(shape=(2,), endpoint="ideal", links=_LINKS,
                        npu=Npu(memory_bytes_per_s=1.6e12, flops=181e12))
"""Links of 200 Gbit/s and 700 ns, memory of 1.6 TB/s, 181 TFLOPS of FP16: inputs, recalled from the paper's set-up."""

_NODES = {"dlrm": "16x8", "tp-gemm": "8", "moe": "8"}
_SLICES = {"dlrm": "1,2,4,8,16"}


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--operation", default="embedding", choices=list(OPERATIONS), help="embedding or gemm with an "
                        "all-to-all, gemv with an all-reduce, tp-gemm with a reduce-scatter, moe with an all-to-all to "
                        "the experts and back, dlrm: a training step around embedding (default: embedding)")
    parser.add_argument("--nodes", metavar="LxVxH", help="ranks along each dimension (default: 16x8 for dlrm, 8 for "
                        "tp-gemm and moe, else 2)")
    parser.add_argument("--slices", metavar="N,...", help="slices of the part for a rank, or of the whole reduction "
                        "(default: 1,2,4,8,16,32,64, up to 16 for dlrm)")
    parser.add_argument("--engine", default="hardware", choices=list(DMA_ENGINES),
                        help="engine that executes requests (default: hardware)")
    parser.add_argument("--baseline", choices=list(DMA_ENGINES), help="engine of the unfused run (default: as "
                        "--engine)")
    parser.add_argument("--set", action="append", metavar="NAME=VALUE", help="set an input of the machine, "
                        "as in dmace train, of the operation: operation.batch=2048, or of its kernel: "
                        "workgroups.resident=832")
    parser.add_argument("--causes", action="store_true", help="also show why fused runs take longer than their "
                        "computation and their communication, each alone; not for the order by-rank")
    parser.add_argument("--plot", metavar="FILE", help="draw the time saved over slices as .png or .svg")
    parser.add_argument("--report", metavar="FILE.html", help="write table and plot as HTML")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    args.nodes = args.nodes or _NODES.get(args.operation, "2")
    slices = _slices(args.slices or _SLICES.get(args.operation, "1,2,4,8,16,32,64"))
    for option in ("json", "plot", "report"):
        check_file(f"--{option}", getattr(args, option))
    if args.plot and Path(args.plot).suffix not in (".png", ".svg"):
        raise UserError(f"--plot writes PNG or SVG, so its file must end in .png or .svg, not {args.plot!r}.")
    settings = parse_assignments(args.set)
    mine, groups = _with_prefix(settings, "operation."), _with_prefix(settings, "workgroups.")
    per_slice = _per_slice(mine.pop("per_slice", 0.0))
    workgroups = _workgroups(groups)
    config = apply(DEFAULT.with_(shape=parse_nodes(args.nodes), links=_LINKS), settings)
    operation = _operation(args.operation, config, mine)
    fusions = [(order, Fusion(slices=number, order=order or ORDERS[0], engine=args.engine, per_slice=per_slice,
                              workgroups=workgroups))
               for order in _orders(args.operation, operation, config) for number in slices]
    for _, fusion in fusions:
        # Report a wrong value before any of them runs.
        fused.can_fold(operation, config, fusion)
    rows = []
    with measuring("slices") as (_, notify):
        notify("", len(fusions), 0)
        alone = fused.run(operation, config, engine=args.baseline or args.engine, workgroups=workgroups)
        bound = max(alone.compute_seconds, alone.link_seconds)
        for order, fusion in fusions:
            rows.append(_row(operation, config, fusion, order, alone.seconds,
                             causes=args.causes and order != "by-rank"))
            notify(f"{fusion.slices} slices")
    source, saved = PAPER[args.operation]
    result = {"operation": operation.name, "nodes": args.nodes, "engine": args.engine,
              "baseline": args.baseline or args.engine, "unfused_seconds": alone.seconds,
              "unfused_compute_seconds": alone.compute_seconds, "unfused_phases": alone.phases, "bound_seconds": bound,
              "bound_gain": 1 - bound / alone.seconds, "rows": rows, "inputs": config.inputs(),
              "operation_inputs": vars(operation), "workgroups": vars(workgroups), "per_slice": per_slice,
              "paper": saved, "paper_source": source}
    write_json(args.json, result)
    if args.report:
        _report(args, result)
    if args.plot:
        from sim.system.report.plots import saved_time

        saved_time(result).savefig(args.plot, dpi=110, metadata={
            "Software" if Path(args.plot).suffix == ".png" else "Date": None})
    if args.json != "-":
        _show(args, result)
    return 0


def _row(operation: Fused, config: MachineConfig, fusion: Fusion, order: str, unfused: float, *, causes: bool) -> Row:
    one = fused.simulate(operation, config, fusion)
    row: Row = {"slices": fusion.slices, "slice_bytes": one.slice_bytes, "order": order, "seconds": one.seconds,
                "compute_seconds": one.computed, "skew": one.skew, "gain": 1 - one.seconds / unfused,
                "phases": one.phases}
    if causes:
        found: Attribution = attribute(operation, config, fusion)
        row |= {"causes": found.shares, "cause_bound_seconds": found.bound}
    return row


def _with_prefix(settings: dict[str, Setting], prefix: str) -> dict[str, Any]:
    """Take the settings that begin with a prefix."""
    return {name.removeprefix(prefix): settings.pop(name) for name in list(settings) if name.startswith(prefix)}


def _workgroups(settings: dict[str, Any]) -> Workgroups:
    known = [one.name for one in fields(Workgroups)]
    for name in settings:
        if name not in known:
            raise UserError(f"there is no setting 'workgroups.{name}'; there are "
                            f"{', '.join(f'workgroups.{one}' for one in known)}.")
    return apply(Workgroups(), settings)


def _orders(name: str, operation: Fused, config: MachineConfig) -> list[str]:
    if operation.collective != Collective.ALL_TO_ALL:
        return [""]
    return [order for order in ORDERS
            if order != "by-rank" or (config.ranks <= fused.MOST_UNFOLDED and name != "dlrm")]


def _slices(text: str) -> list[int]:
    try:
        return list(dict.fromkeys(int(part) for part in text.split(",")))
    except ValueError:
        raise UserError(f"--slices must be integers separated by commas, not {text!r}.") from None


def _per_slice(value: object) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < 1:
        raise UserError(f"operation.per_slice must be at least 0 and less than 1 second, not {value!r}.")
    return value


def _operation(name: str, config: MachineConfig, settings: dict[str, Any]) -> Fused:
    made = OPERATIONS[name]
    known = made.__kwdefaults__ or {}
    for key, value in settings.items():
        if key not in known:
            raise UserError(f"there is no setting 'operation.{key}'; there are "
                            f"{', '.join(f'operation.{one}' for one in (*known, 'per_slice'))}.")
        if isinstance(known[key], bool):
            if not isinstance(value, bool):
                raise UserError(f"operation.{key} must be true or false, not {value!r}.")
        elif isinstance(known[key], float):
            if not isinstance(value, int | float) or isinstance(value, bool):
                raise UserError(f"operation.{key} must be a number, not {value!r}.")
        elif not isinstance(value, int) or isinstance(value, bool) or not min(1, known[key]) <= value < 1 << 31:
            raise UserError(f"operation.{key} must be an integer from {min(1, known[key])}, not {value!r}.")
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
    paper = ", ".join(f"{share:.0%} ({what})" for what, share in result["paper"].items())
    console.print(f"Saved at most {result['bound_gain']:.1%}: the longer of computation and the busiest link, "
                  f"{result['bound_seconds'] * 1e6:,.1f} us.\nSaved in the paper ({result['paper_source']}), on its "
                  f"machines: {paper}.", highlight=False)
    if result["unfused_phases"]:
        _show_phases(console, result)
    if args.causes:
        _show_causes(console, result)
    for what, name in (("Plot", args.plot), ("Report", args.report)):
        if name:
            console.print(f"{what}: {name}", markup=False, highlight=False, soft_wrap=True)


def _show_phases(console: Console, result: Row) -> None:
    best = min(result["rows"], key=lambda row: row["seconds"])
    table = Table(title=f"ends of phases, us: not fused, and in {best['slices']} slices", title_justify="left")
    for column in ("phase", "not fused", "fused"):
        table.add_column(column, justify="left" if column == "phase" else "right")
    for name, seconds in result["unfused_phases"].items():
        table.add_row(name, f"{seconds * 1e6:,.1f}", f"{best['phases'][name] * 1e6:,.1f}")
    console.print(table)


def _show_causes(console: Console, result: Row) -> None:
    table = Table(title="us beyond the longer of computation and communication, by cause", title_justify="left")
    for column in ("order", "slices", "all", *CAUSES):
        table.add_column(column.replace(" ", "\n"), justify="left" if column == "order" else "right", no_wrap=True)
    for row in result["rows"]:
        if "causes" in row:
            table.add_row(row["order"], f"{row['slices']:,}", *(f"{value * 1e6:,.1f}" for value in (
                row["seconds"] - row["cause_bound_seconds"], *(row["causes"][cause] for cause in CAUSES))))
    console.print(table)
    for cause, meaning in CAUSES.items():
        console.print(f"{cause}: {meaning}", highlight=False)
