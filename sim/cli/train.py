# SPDX-License-Identifier: Apache-2.0
"""``dmace train``: the time of an iteration on a cluster, and its exposed communication."""

import argparse
from collections.abc import Sequence
from math import prod
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from hw.errors import UserError
from sim.system import cost
from sim.system.configuration import ENDPOINTS
from sim.system.experiment import Experiment, parse_nodes, row
from sim.system.input_sources import source_of
from sim.system.networks import NETWORKS
from sim.system.settings import flatten, parse_assignments
from sim.system.speedups import BASELINES
from sim.system.training import Run
from sim.system.workloads import NAMES
from sim.terminal import Row, add_json, check_file, integer, measuring, write_json
from sim.validation.links import show
from sim.validation.rtl import MOST_RANKS, against_rtl, sizes_of

__all__ = ["configure", "run"]

LONG_SECONDS = 60
"""A simulation that takes longer says so before it starts."""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--workload", metavar="W", help=f"{', '.join(NAMES)}, a file FILE.csv (columns: "
                        "docs/training.md), Chakra traces: FILE.et, or chakra:PREFIX for PREFIX.0.et, ..., or "
                        "traces of PyTorch's ExecutionTraceObserver: pytorch:PREFIX for PREFIX.0.json, ... "
                        "(default: resnet50)")
    parser.add_argument("--nodes", default="4x4x4", metavar="LxVxH", help="ranks along each dimension (default: 4x4x4)")
    parser.add_argument("--endpoint", default=",".join(ENDPOINTS), metavar="E,...",
                        help=f"endpoints: {', '.join(ENDPOINTS)} (default: all)")
    parser.add_argument("--steps", type=integer, default=2, metavar="N", help="iterations (default: 2)")
    parser.add_argument("--set", action="append", metavar="NAME=VALUE", help="set an input, such as "
                        "chunk_bytes=128KiB, endpoint.fsms=8, links.1.bytes_per_s=50GB/s, workload.batch=64, or "
                        f"network={'|'.join(NETWORKS)} for all links; --inputs lists them")
    parser.add_argument("--layers", action="store_true", help="also show the share of each layer")
    parser.add_argument("--inputs", action="store_true", help="also show all inputs and their sources")
    parser.add_argument("--report", metavar="FILE.html", help="write tables and plots as one HTML file")
    parser.add_argument("--trace", metavar="FILE.json", help="write the times of each layer's computation and "
                        "exchange, for Perfetto or chrome://tracing")
    parser.add_argument("--chakra", metavar="PREFIX", help="write the run as Chakra traces PREFIX.0.et, ...")
    parser.add_argument("--check-rtl", action="store_true", help="instead, run some of the workload's all-reduces, cut "
                        "at 64 KiB, on these nodes in the accelerator's RTL and in the simulator, and show the "
                        "cycles of both")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    experiments = _experiments(args)
    if args.check_rtl:
        return _check_rtl(args, experiments[0])
    runs = []
    with measuring("training") as (_, notify):
        notify("", len(experiments), 0)
        for experiment in experiments:
            notify(experiment.endpoint, advance=0)
            runs.append(experiment.run())
            notify(experiment.endpoint)
    result: Row = {"inputs": [experiment.inputs() for experiment in experiments],
                   "rows": [row(*pair) for pair in zip(experiments, runs, strict=True)],
                   "layers": {experiment.endpoint: [vars(times) for times in one.layers()]
                              for experiment, one in zip(experiments, runs, strict=True)}}
    _compared(result["rows"])
    _write(args, experiments, runs, result)
    if args.json != "-":
        _show(args, experiments, runs, result)
    return 0


def _check_rtl(args: argparse.Namespace, experiment: Experiment) -> int:
    for option in ("report", "trace", "chakra", "layers", "inputs"):
        if getattr(args, option):
            raise UserError(f"--check-rtl shows cycles of all-reduces only; leave out --{option}.")
    if others := [name for name in experiment.settings if not name.startswith("workload.")]:
        raise UserError(f"--check-rtl runs the preset tiny with links of its own; leave out --set {others[0]}.")
    ranks = prod(experiment.shape)
    if ranks > MOST_RANKS:
        raise UserError(f"--check-rtl simulates the RTL of up to {MOST_RANKS} ranks; --nodes {args.nodes} has {ranks}.")
    from sim.validation.points import Point

    found = against_rtl([Point(experiment.shape, size) for size in sizes_of(experiment.graph())])
    write_json(args.json, found)
    if args.json != "-":
        show(found, Console(), title="RTL and simulator.", every=True)
    return int(any(abs(one["difference"]) > one["allowed"] for one in found))


def _experiments(args: argparse.Namespace) -> list[Experiment]:
    for option in ("json", "report", "trace", "chakra"):
        check_file(f"--{option}", getattr(args, option))
    if args.report and not args.report.lower().endswith((".html", ".htm")):
        raise UserError(f"--report writes HTML, so its file must end in .html, not {args.report!r}.")
    try:
        shape = parse_nodes(args.nodes)
    except UserError as error:
        raise UserError(f"--{error}") from None
    chosen = args.endpoint.split(",")
    for name in chosen:
        if name not in ENDPOINTS or chosen.count(name) > 1:
            raise UserError(f"--endpoint must name different ones of {', '.join(ENDPOINTS)}, not {args.endpoint!r}.")
    experiments = [Experiment(workload=args.workload or "resnet50", shape=shape, endpoint=name, steps=args.steps,
                              settings=_settings(args.set, name, chosen)) for name in chosen]
    # A wrong value is reported before any of them runs.
    transfers = sum(experiment.check() for experiment in experiments)
    if args.chakra and experiments[0].graph().ranks:
        raise UserError("--chakra writes traces that are alike on all ranks, and stages of a pipeline differ; leave it "
                        "out.")
    if cost.seconds(transfers) > LONG_SECONDS and not args.check_rtl:
        Console(stderr=True).print(f"{transfers:,} transfers, {cost.spoken(transfers)} of a core.", highlight=False)
    return experiments


def _settings(texts: list[str] | None, endpoint: str, chosen: Sequence[str]) -> dict[str, Any]:
    """Settings of one endpoint: ``endpoint.NAME`` for all, and ``ace.NAME`` and the like for one of them."""
    made = {}
    for name, value in parse_assignments(texts).items():
        first, dot, rest = name.partition(".")
        if dot and first in ENDPOINTS:
            if first not in chosen:
                raise UserError(f"--set {name}: {first} is not among --endpoint.")
            if first != endpoint:
                continue
            name = f"endpoint.{rest}"
        made[name] = value
    return made


def _compared(rows: list[Row]) -> None:
    """Add to each row its speed-up over the best baseline of the run, and its share of ideal's speed."""
    best = min((one["step_seconds"] for one in rows if one["endpoint"] in BASELINES), default=None)
    ideal = next((one["step_seconds"] for one in rows if one["endpoint"] == "ideal"), None)
    for one in rows:
        one["speedup_over_best_baseline"] = best and best / one["step_seconds"]
        one["share_of_ideal"] = ideal and ideal / one["step_seconds"]


def _write(args: argparse.Namespace, experiments: Sequence[Experiment], runs: Sequence[Run], result: Row) -> None:
    write_json(args.json, result)
    if args.chakra:
        from sim.system import chakra

        processor = experiments[0].processor()
        chakra.write(runs[0].graph, args.chakra, experiments[0].shape, processor)
        lost = chakra.rounding(runs[0].graph, processor)
        if lost.nodes:
            Console(stderr=True).print(
                f"{args.chakra}: {lost.nodes:,} of {lost.of:,} computations are no whole number of microseconds, which "
                "is all that duration_micros can have. dmace reads the exact time from duration_seconds; for other "
                f"readers the total changes by {lost.change:.2%}.", highlight=False, markup=False)
    if args.trace:
        from sim.system import timeline

        timeline.write(args.trace, {experiment.endpoint: one
                                    for experiment, one in zip(experiments, runs, strict=True)})
    if args.report:
        from sim.system import report

        report.write(Path(args.report), experiments, runs, result)


def _show(args: argparse.Namespace, experiments: Sequence[Experiment], runs: Sequence[Run], result: Row) -> None:
    console = Console()
    first = runs[0].graph
    table = Table(title=f"{first.name}\non {args.nodes} ranks, mean of {first.steps} iterations", title_justify="left")
    unit, factor = unit_of(max(one["step_seconds"] for one in result["rows"]))
    for column in ("endpoint", f"time\n{unit}", f"compute\n{unit}", f"exposed\n{unit}", "network\nGB/s", "links\nbusy",
                   "speed-up", "of ideal"):
        table.add_column(column, justify="left" if column == "endpoint" else "right", no_wrap=True)
    for one in result["rows"]:
        steps = one["steps"]
        times = (one["step_seconds"], one["compute_seconds"] / steps, one["exposed_seconds"] / steps)
        table.add_row(one["endpoint"], *(f"{seconds * factor:,.3f}" for seconds in times),
                      f"{one['network_bytes_per_s'] / 1e9:.1f}",
                      f"{one['link_utilisation']:.1%}", ratio(one["speedup_over_best_baseline"]),
                      "" if one["share_of_ideal"] is None else f"{one['share_of_ideal']:.1%}")
    console.print(table)
    console.print("Speed-up: over the best of noovl, commopt and compopt. Network: payload that a rank sends while a "
                  "collective is in progress.", highlight=False)
    if not any(node.work.memory_bytes for node in first.nodes):
        name = experiments[0].workload
        others = f" {name}-fp16 and {name}-fp32 have that." if f"{name}-fp16" in NAMES else ""
        console.print("This workload has no memory traffic of its layers: communication slows them by the cores that "
                      f"it uses, but not by the memory bandwidth.{others}", highlight=False)
    if first.ranks:
        _show_stages(console, experiments, runs)
    if args.layers:
        _show_layers(console, experiments, runs)
    if args.inputs:
        _show_inputs(console, experiments)
    for what, name in (("Report", args.report), ("Trace", args.trace),
                       ("Chakra", args.chakra and f"{args.chakra}.RANK.et")):
        if name:
            console.print(f"{what}: {name}", markup=False, highlight=False, soft_wrap=True)


def _show_layers(console: Console, experiments: Sequence[Experiment], runs: Sequence[Run]) -> None:
    for experiment, one in zip(experiments, runs, strict=True):
        title = f"layers, {experiment.endpoint}: us of an iteration"
        table = Table(title=title + (", mean over ranks" if one.graph.ranks else ""), title_justify="left")
        layers = one.layers()
        columns = {"forward": "forward", "input_grad": "input\ngrad", "weight_grad": "weight\ngrad", "other": "other",
                   "exchange": "collec-\ntives", "exposed": "exposed"}
        if not any(times.other for times in layers):
            del columns["other"]
        table.add_column("layer")
        for column in columns.values():
            table.add_column(column, justify="right")
        for times in layers:
            table.add_row(times.layer, *(f"{getattr(times, name) * 1e6:,.1f}" for name in columns))
        console.print(table)


def _show_stages(console: Console, experiments: Sequence[Experiment], runs: Sequence[Run]) -> None:
    table = Table(title="stages: share of the run in which the processor computes", title_justify="left")
    table.add_column("stage")
    for experiment in experiments:
        table.add_column(experiment.endpoint, justify="right")
    for number, rank in enumerate(runs[0].graph.ranks):
        table.add_row(str(number), *(f"{one.busy()[rank] / one.seconds:.1%}" for one in runs))
    console.print(table)


def _show_inputs(console: Console, experiments: Sequence[Experiment]) -> None:
    table = Table(title="inputs", title_justify="left")
    table.add_column("--set", no_wrap=True)
    table.add_column("value")
    table.add_column("source of the value")
    values = [flatten(experiment.config()) | {"processor.efficiency": experiment.processor().efficiency} |
              experiment.described() for experiment in experiments]
    for name in dict.fromkeys(name for one in values for name in one):
        mine = [_number(one.get(name)) for one in values]
        table.add_row(name, _joined(experiments, mine), _joined(experiments, [
            source_of(name, experiment.endpoint, experiment.settings) for experiment in experiments]))
    console.print(table)
    console.print(f"Workload: {experiments[0].graph().source}", markup=False, highlight=False, soft_wrap=True)


def _joined(experiments: Sequence[Experiment], texts: Sequence[str]) -> str:
    """The text that is the same for all, or each with its endpoint."""
    return texts[0] if len(set(texts)) == 1 else ", ".join(
        f"{experiment.endpoint} {text}" for experiment, text in zip(experiments, texts, strict=True))


def _number(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def unit_of(seconds: float) -> tuple[str, float]:
    """Name of the unit in which this time is 1 to 1000, and its number per second."""
    return next(((unit, factor) for unit, factor in (("s", 1), ("ms", 1e3)) if seconds * factor >= 1), ("us", 1e6))


def ratio(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"
