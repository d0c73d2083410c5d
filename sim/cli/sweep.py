# SPDX-License-Identifier: Apache-2.0
"""``dmace sweep``: training predicted for every combination of values, on all cores or on many machines."""

import argparse
import csv
import re
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from hw.errors import UserError
from sim.system import cost
from sim.system.speedups import speedups, summary
from sim.system.sweep import Store, experiments_of, read_spec, run_all
from sim.terminal import Row, check_file, check_range, integer, measuring

__all__ = ["configure", "run"]

SHOWN = 40
FIGURES = ("step_seconds", "exposed_step_seconds", "network_bytes_per_s", "link_utilisation")


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("spec", metavar="SPEC.toml", help="common settings, and varied ones (docs/training.md)")
    parser.add_argument("--results", metavar="DIR", help="folder of the results, from which an interrupted sweep "
                        "resumes (default: SPEC.results)")
    parser.add_argument("--output", metavar="FILE", help="write all results as one table: .csv or .parquet")
    parser.add_argument("--report", metavar="FILE.html", help="write tables and plots as one HTML file")
    parser.add_argument("--plot", metavar="FILE.png", help="draw iteration time over Ideal's against ranks; needs "
                        "ideal, and several nodes")
    parser.add_argument("--scheduler", metavar="ADDRESS", help="scheduler of a Dask cluster whose workers have dmace, "
                        "such as tcp://HOST:8786 (default: a cluster on this machine)")
    parser.add_argument("--workers", type=integer, metavar="N", help="workers of the cluster on this machine (default: "
                        "one per core)")
    parser.add_argument("--serial", action="store_true", help="run in this process, without Dask")
    parser.add_argument("--dry-run", action="store_true", help="list the runs without running them")


def run(args: argparse.Namespace) -> int:
    _check(args)
    pairs = experiments_of(read_spec(args.spec))
    transfers = sum(experiment.check() for experiment, _ in pairs)
    keyed = {experiment.key(): (experiment, varied) for experiment, varied in pairs}
    store = Store(Path(args.results or Path(args.spec).with_suffix(".results")))
    console = Console()
    stored = sum(store.get(key) is not None for key in keyed)
    if args.dry_run:
        console.print(f"{len(keyed):,} runs, of which {stored:,} are stored in {store.folder}. All together simulate "
                      f"{transfers:,} transfers, {cost.spoken(transfers)} of a core.", markup=False, highlight=False,
                      soft_wrap=True)
        return 0
    with measuring("sweep") as (_, notify):
        notify("", len(keyed), 0)
        counted = [0]

        def progress(done: int, total: int) -> None:
            notify(f"{done:,} of {total:,}", advance=done - counted[0])
            counted[0] = done

        results = run_all({key: experiment for key, (experiment, _) in keyed.items()}, store, scheduler=args.scheduler,
                          workers=args.workers, serial=args.serial, progress=progress)
    rows = [{**results[key]["row"], **varied} for key, (_, varied) in keyed.items() if "row" in results[key]]
    failed = [(experiment, results[key]["error"]) for key, (experiment, _) in keyed.items() if "error" in results[key]]
    varied = list(dict.fromkeys(name for _, values in keyed.values() for name in values))
    _write(args, rows, varied)
    _show(console, args, rows, varied, stored)
    for experiment, error in failed[:5]:
        console.print(f"Failed: {experiment.workload} on {experiment.endpoint} with {experiment.settings}: {error}",
                      markup=False, highlight=False, soft_wrap=True)
    return 1 if failed else 0


def _check(args: argparse.Namespace) -> None:
    if args.workers is not None:
        check_range("--workers", args.workers, 1, 1024)
    if args.serial and (args.scheduler or args.workers):
        raise UserError("--serial runs in this process, so it cannot be combined with --scheduler or --workers.")
    if args.scheduler and args.workers:
        raise UserError("--workers belong to a cluster on this machine, so they cannot be combined with --scheduler.")
    if args.scheduler and not re.fullmatch(r"(?:[a-z]+://)?[^\s:/]+:\d+", args.scheduler):
        raise UserError(f"--scheduler must be an address like tcp://HOST:8786, not {args.scheduler!r}.")
    for option in ("output", "report", "plot"):
        check_file(f"--{option}", getattr(args, option))
    if args.output and Path(args.output).suffix not in (".csv", ".parquet"):
        raise UserError("--output writes CSV or Parquet, so its file must end in .csv or .parquet, "
                        f"not {args.output!r}.")
    if args.report and Path(args.report).suffix not in (".html", ".htm"):
        raise UserError(f"--report writes HTML, so its file must end in .html, not {args.report!r}.")
    if args.plot and Path(args.plot).suffix != ".png":
        raise UserError(f"--plot writes PNG, so its file must end in .png, not {args.plot!r}.")
    if args.output and Path(args.output).suffix == ".parquet":
        _arrow()


def _arrow() -> Any:
    try:
        import pyarrow
        import pyarrow.parquet
    except ModuleNotFoundError:
        raise UserError("Parquet needs the Python package pyarrow; run `pip install -e '.[sweep]'` in the checkout, or "
                        "write .csv.") from None
    return pyarrow


def _write(args: argparse.Namespace, rows: list[Row], varied: list[str]) -> None:
    if not rows:
        return
    columns = list(dict.fromkeys(name for one in rows for name in one))
    if args.output and args.output.endswith(".csv"):
        with Path(args.output).open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, columns, lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
    elif args.output:
        arrow = _arrow()
        # A column whose values are of several types is written as text.
        mixed = {name for name in columns if len({type(one.get(name)) for one in rows} - {type(None)}) > 1
                 and not all(isinstance(one.get(name), int | float | None) for one in rows)}
        table = arrow.table({name: [str(one.get(name)) if name in mixed else one.get(name) for one in rows]
                             for name in columns})
        arrow.parquet.write_table(table, args.output)
    if args.plot:
        from sim.system.report.plots import over_ranks

        if (drawn := over_ranks(rows, varied)) is None:
            raise UserError("--plot needs runs of ideal on several nodes; there are none.")
        drawn.savefig(args.plot, dpi=110, metadata={"Software": None})
    if args.report:
        _report(args, rows, varied)


def _report(args: argparse.Namespace, rows: list[Row], varied: list[str]) -> None:
    from sim.system.report import plots
    from sim.system.report.labels import label, scaled, shown
    from sim.system.report.page import figure, page, section, table

    rows = [{**one, "exposed_step_seconds": one["exposed_seconds"] / one["steps"]} for one in rows]
    sections = []
    for name in varied:
        values: set[Any] = {one.get(name) for one in rows} - {None}
        if len(values) < 2 or not all(isinstance(value, int | float) for value in values):
            continue
        mine = [one for one in rows if one.get(name) is not None]
        others = [other for other in varied if other != name]
        log = min(values) > 0 and max(values) / min(values) >= 8
        sections.append(section(f"Over {label(name)}", *(figure(plots.curves(
            [{**one, name: scaled(name, one[name]), y: scaled(y, one[y])} for one in mine], name, y, others,
            xlabel=label(name), ylabel=label(y), log=log), f"{label(y)}, over {name}.") for y in FIGURES[:3])))
    if (drawn := plots.over_ranks(rows, varied)) is not None:
        sections.insert(0, section("Over ranks", figure(plots.svg(drawn), "Iteration time over that of Ideal.")))
    if found := speedups(rows, varied):
        sections.append(section("ACE over the best baseline", table([shown(one, found[0]) for one in found])))
    columns = dict.fromkeys((*varied, *FIGURES, "ranks"))
    Path(args.report).write_text(page(f"Sweep {Path(args.spec).name}", *sections,
                                           section("All runs", table([shown(one, columns) for one in rows]))),
                                 encoding="utf-8")


def _show_speedups(console: Console, rows: list[Row], varied: list[str]) -> None:
    """ACE compared with the other endpoints of the sweep: means over the nodes."""
    found = speedups(rows, varied)
    by = [name for name in varied if name not in ("endpoint", "nodes")]
    if not found:
        return
    table = Table(title="ACE over the best baseline: means over nodes", title_justify="left")
    for column in (*by, "speed-up", "most", "of\nideal", "network over\nthe best's", "network over\ncompopt's",
                   "mean over\nbaselines'"):
        table.add_column(column, justify="right")
    for one in summary(found, by):
        table.add_row(*(str(one[name]) for name in by), *("" if one[name] is None else f"{one[name]:.3f}" for name in (
            "speedup", "most", "of_ideal", "network", "network_same_memory", "network_mean")))
    console.print(table)


def _show(console: Console, args: argparse.Namespace, rows: list[Row], varied: list[str], stored: int) -> None:
    table = Table(title=f"{Path(args.spec).name}: {len(rows):,} runs, {stored:,} of them stored before",
                  title_justify="left")
    for column in (*varied, "time\nus", "exposed\nus", "network\nGB/s", "links\nbusy"):
        table.add_column(column, justify="right")
    for one in rows[:SHOWN]:
        table.add_row(*(str(one.get(name, "")) for name in varied), f"{one['step_seconds'] * 1e6:,.1f}",
                      f"{one['exposed_seconds'] / one['steps'] * 1e6:,.1f}", f"{one['network_bytes_per_s'] / 1e9:.1f}",
                      f"{one['link_utilisation']:.1%}")
    console.print(table)
    _show_speedups(console, rows, varied)
    if len(rows) > SHOWN:
        console.print(f"... and {len(rows) - SHOWN:,} more; --output writes all.", highlight=False)
    for what, name in (("Table", args.output), ("Report", args.report), ("Plot", args.plot)):
        if name:
            console.print(f"{what}: {name}", markup=False, highlight=False, soft_wrap=True)
