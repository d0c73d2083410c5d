# SPDX-License-Identifier: Apache-2.0
"""``dmace caches``: cache policies for kernels of machine intelligence, and a DMA engine beside them on the L2."""

import argparse
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from hw.dma_engine.config import PRESETS
from hw.errors import UserError
from sim.cache.config import MachineConfig
from sim.cache.kernels import KERNELS
from sim.cache.policies import POLICIES, REGIONS, STATIC
from sim.cache.program import build_beside, build_model
from sim.cache.run import Copy, beside, idle_kernel, measure
from sim.cache.verdict import GROUPS, group, ratios, summary
from sim.system.settings import apply, parse_assignments
from sim.terminal import Notify, Row, add_json, check_file, measuring, write_json
from sim.verilator.build import Status

__all__ = ["configure", "run"]

_DETAILED = 3
_MIB = 1 << 20
_SENSITIVE_TO = dict(zip(GROUPS, ("arithmetic", "reuse", "throughput"), strict=True))


def configure(parser: argparse.ArgumentParser) -> None:
    described = "; ".join(f"{name}: {policy.summary}" for name, policy in POLICIES.items())
    parser.add_argument("--kernel", default="all", metavar="NAME,...",
                        help=f"kernels: {', '.join(KERNELS)} (default: all)")
    parser.add_argument("--policy", default=",".join(POLICIES), metavar="NAME,...",
                        help=f"policies beside the static ones, which are always measured (default: all): {described}")
    parser.add_argument("--details", action="store_true", help="hit rates, DRAM bytes, row hits and stalls of each "
                        f"run, as for {_DETAILED} kernels or fewer")
    parser.add_argument("--dma", action="store_true", help="measure the reuse-sensitive kernels also beside a DMA "
                        "engine in RTL, whose copies allocate in the L2 or not")
    parser.add_argument("--config", default="base", choices=list(PRESETS), metavar="C",
                        help=f"preset of the engine: {', '.join(PRESETS)} (default: base)")
    parser.add_argument("--rate", default="4,0", metavar="BYTES,...",
                        help="bytes per cycle that are copied, 0 for no limit (default: %(default)s)")
    parser.add_argument("--set", action="append", metavar="NAME=VALUE", help="set an input: cache.sets=512, "
                        "dram.channels=4, units.units=16, predictor.reuse=1, ...; --json contains all")
    parser.add_argument("--quick", action="store_true", help="kernels of small shapes: for tests, not for conclusions")
    add_json(parser)
    parser.add_argument("--plot", metavar="FILE.png", help="draw the cycles under each policy")


@dataclass(frozen=True)
class _Plan:
    kernels: Sequence[str]
    policies: Sequence[str]
    rates: Sequence[float]
    machine: MachineConfig


def run(args: argparse.Namespace) -> int:
    plan = _plan(args)
    with measuring("kernels") as (building, notify):
        rows, dma = _measure(args, plan, building, notify)
    result: Row = {"inputs": plan.machine.inputs(), "quick": args.quick, "rows": rows, **summary(rows)}
    if args.dma:
        result["dma"] = {"config": args.config, "rows": dma}
    if args.plot:
        from sim.cache.plot import draw

        draw(result, args.plot)
    write_json(args.json, result)
    if args.json != "-":
        _show(result, detailed=args.details or len(plan.kernels) <= _DETAILED)
    return 0


def _plan(args: argparse.Namespace) -> _Plan:
    kernels = list(KERNELS) if args.kernel == "all" else _names("--kernel", args.kernel, KERNELS)
    wanted = _names("--policy", args.policy, POLICIES)
    policies = [name for name in POLICIES if name in wanted or name in STATIC]
    check_file("--json", args.json)
    check_file("--plot", args.plot)
    if args.plot is not None and not args.plot.lower().endswith(".png"):
        raise UserError(f"--plot writes PNG, so its file must end in .png, not {args.plot!r}.")
    return _Plan(kernels, policies, _rates(args.rate), apply(MachineConfig(), parse_assignments(args.set)))


def _names(option: str, text: str, known: Iterable[str]) -> list[str]:
    names = text.split(",")
    for name in names:
        if name not in known:
            raise UserError(f"{option} must name some of {', '.join(known)}, not {name!r}.")
    if len(set(names)) != len(names):
        raise UserError(f"{option} must not repeat a name, as {text!r} does.")
    return names


def _rates(text: str) -> list[float]:
    try:
        rates = [float(part) for part in text.split(",")]
    except ValueError:
        raise UserError(f"--rate must be numbers separated by commas, not {text!r}.") from None
    for rate in rates:
        if not 0 <= rate <= 1024:
            raise UserError(f"--rate must be from 0 to 1024 bytes per cycle, not {rate:g}.")
    return rates


def _measure(args: argparse.Namespace, plan: _Plan, building: Status, notify: Notify) -> tuple[list[Row], list[Row]]:
    program = build_model(status=building)
    engine = build_beside(PRESETS[args.config], status=building) if args.dma else None
    notify("", len(plan.kernels) * len(plan.policies), 0)
    rows = measure(program, plan.kernels, plan.policies, plan.machine, quick=args.quick, progress=notify)
    if engine is None:
        return rows, []
    alone = _best(rows)
    notify("", 2 * len(plan.rates) * (len(alone) + 1), 0)
    dma = []
    for kernel, policy, cycles in [("", STATIC[0], 0), *alone]:
        trace = KERNELS[kernel].kernel(args.quick) if kernel else idle_kernel()
        for rate in plan.rates:
            for allocate in (False, True):
                row = beside(engine, trace, policy, plan.machine, Copy(allocate=allocate, rate=rate))
                dma.append({**row, "slowdown": row["executed"] / cycles if cycles else None})
                notify(f"{trace.name} beside copies")
    return rows, dma


def _best(rows: Sequence[Row]) -> list[tuple[str, str, int]]:
    """Each reuse-sensitive kernel, its best static policy, and the cycles until its last work group ends."""
    best = []
    for kernel in dict.fromkeys(row["kernel"] for row in rows):
        mine = [row for row in rows if row["kernel"] == kernel]
        if group(mine) == GROUPS[1]:
            row = min((row for row in mine if row["policy"] in STATIC), key=lambda row: row["cycles"])
            best.append((kernel, row["policy"], row["executed"]))
    return best


def _show(result: Row, *, detailed: bool) -> None:
    console = Console()
    policies = [row["policy"] for row in result["policies"]]
    table = _table("Cycles over those of the best static policy", ("kernel", "group"), policies)
    for row in result["kernels"]:
        table.add_row(row["kernel"], _SENSITIVE_TO[row["group"]],
                      *(f"{row['ratios'][policy]:.2f}" for policy in policies))
    table.add_section()
    for name, key in (("mean", "mean"), ("largest", "worst")):
        table.add_row(name, "", *(f"{row[key]:.2f}" for row in result["policies"]))
    console.print(table)
    console.print("Groups: sensitive to reuse or to throughput, or arithmetic most of the time. Means are geometric.",
                  highlight=False)
    if detailed:
        _show_details(console, result["rows"])
    if "dma" in result:
        _show_dma(console, result["dma"])
    worst = {row["policy"]: row["worst"] for row in result["policies"]}
    universal = [policy for policy in STATIC if worst[policy] == 1]
    console.print(f"{universal[0]} is the best static policy for all of these kernels." if universal else
                  "No static policy is the best for all of these kernels.", highlight=False)
    if REGIONS in worst:
        console.print(f"Regions take at most {worst[REGIONS] - 1:+.1%} of the time of the best static policy.",
                      highlight=False)


def _table(title: str, texts: Sequence[str], numbers: Sequence[str]) -> Table:
    """A table with columns of texts, then of numbers."""
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for column in texts:
        table.add_column(column)
    for column in numbers:
        table.add_column(column, justify="right")
    return table


def _show_details(console: Console, rows: Sequence[Row]) -> None:
    relative = ratios(rows)
    table = _table("Each run: MiB of DRAM read and written; blocked and other stalls in cycles of a bank",
                   ("kernel", "policy"), ("cycles", "ratio", "L2 hits", "row hits", "read", "written", "blocked",
                                          "stalls"))
    for row in rows:
        table.add_row(row["kernel"], row["policy"], f"{row['cycles']:,}",
                      f"{relative[row['kernel']][row['policy']]:.2f}", f"{row['hit_rate']:.1%}",
                      f"{row['row_hit_rate']:.1%}", f"{row['dram_bytes_read'] / _MIB:.2f}",
                      f"{row['dram_bytes_written'] / _MIB:.2f}", f"{row['blocked']:,}",
                      f"{row['mshr_stalls'] + row['write_stalls']:,}")
    console.print(table)


def _show_dma(console: Console, dma: Row) -> None:
    table = _table(f"Beside copies of the DMA engine {dma['config']} in RTL: bytes per cycle posted and copied",
                   ("kernel", "policy", "copies"), ("posted", "copied", "kernel's time", "L2 hits"))
    for row in dma["rows"]:
        table.add_row(row["kernel"], row["policy"], "allocate" if row["allocate"] else "no-allocate",
                      f"{row['rate']:g}" if row["rate"] else "no limit", f"{row['copied_per_cycle']:.2f}",
                      f"{row['slowdown']:.2f}" if row["slowdown"] else "", f"{row['hit_rate']:.1%}")
    console.print(table)
