# SPDX-License-Identifier: Apache-2.0
"""``dmace validate``: the system simulator compared with closed forms, other simulators and the RTL."""

import argparse
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from hw.ace.config import PRESETS
from hw.errors import UserError
from sim.terminal import add_json, check_file, measuring, write_json
from sim.validation.links import CHECKS, show, worst
from sim.validation.rtl import MOST_RANKS, against_rtl

if TYPE_CHECKING:
    from sim.validation.links import Row
    from sim.validation.points import Point

__all__ = ["configure", "run"]

MOST_LATENCY = 10_000
"""Cycles of a link in --check-rtl."""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = ("Compare the system simulator with closed forms, with stored results of ASTRA-sim 1.0 and "
                          "SimGrid 3.32, or with the RTL. Ends with status 1 if a difference exceeds its limit.")
    parser.add_argument("--only", metavar="CHECK,...", help=f"checks: {', '.join(CHECKS)} (default: all)")
    parser.add_argument("--check-rtl", nargs="?", const="", metavar="[PRESET:]NODES/BYTES[/LATENCY],...",
                        help="compare with the accelerator's RTL instead, in cycles: cases like 4x2x2/65536, of the "
                        "preset tiny with links of a quarter of a beat per cycle, and like 8/262144/20, with links of "
                        "a beat per cycle and this latency, and sizes by the rule; ultra:4/1048576/20 has those "
                        "of another preset (default: rings of 2 to 16 and tori, "
                        "both, 64 and 256 KiB: some minutes)")
    parser.add_argument("--long", action="store_true", help="with --check-rtl, also 1 MiB, links of latency 500, "
                        "4x2x2 and 4x4x4 with links of a beat per cycle: about half an hour")
    parser.add_argument("--sums", action="store_true", help="with cases of --check-rtl, RTL without what an all-reduce "
                        "of FP32 does not need: products, FP8, averages, widening and v-variants; ultra is built in "
                        "minutes")
    parser.add_argument("--offload", action="store_true", help="instead, compare the accelerator's network rate with "
                        "the ideal one's and a conventional endpoint's at 128 GB/s of memory, and the memory that each "
                        "needs for 90 %% of the ideal rate")
    parser.add_argument("--headlines", nargs="?", const="", metavar="FILE.md", help="instead, show the ACE paper's "
                        "headline figures beside the simulator's, and write the table as Markdown: 280 runs, about a "
                        "quarter of an hour of a core, stored in --results")
    parser.add_argument("--results", metavar="DIR", help="folder of the results of --headlines, from which an "
                        "interrupted one resumes (default: headlines.results)")
    parser.add_argument("--growth", metavar="FILE", help="instead, measure the cost of simulating an iteration of "
                        "ResNet-50 on 16 to 1,024 endpoints, and draw it as PNG")
    parser.add_argument("--every", action="store_true", help="show every case, not the three worst of each check")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    chosen = [name for name in ("only", "check_rtl", "offload", "headlines", "growth")
              if getattr(args, name) not in (None, False)]
    if len(chosen) > 1:
        options = [f"--{name.replace('_', '-')}" for name in chosen]
        raise UserError(f"{' and '.join(options)} cannot be combined.")
    names = list(CHECKS) if args.only is None else args.only.split(",")
    for name in names:
        if name not in CHECKS:
            raise UserError(f"--only must name checks of {', '.join(CHECKS)}, not {name!r}.")
    check_file("--json", args.json)
    check_file("--growth", args.growth)
    check_file("--headlines", args.headlines or None)
    if args.long and args.check_rtl != "":
        raise UserError("--long adds cases to those of --check-rtl, so it needs that option, without cases of its own.")
    if args.sums and not args.check_rtl:
        raise UserError("--sums is about the RTL of --check-rtl, so it needs that option, with cases.")
    if args.results is not None and args.headlines is None:
        raise UserError("--results is the folder of --headlines, so it needs that option.")
    if args.headlines is not None:
        return _headlines(args)
    if args.offload or args.growth is not None:
        return _offload(args) if args.offload else _growth(args)
    if args.check_rtl is not None:
        found = {"rtl": _rtl(args.check_rtl, long=args.long, sums=args.sums)}
    else:
        found = {name: list(CHECKS[name]()) for name in names}
    write_json(args.json, found)
    if args.json != "-":
        console = Console()
        for name, rows in found.items():
            show(rows, console, title="RTL and simulator." if name == "rtl" else (CHECKS[name].__doc__ or "").strip(),
                 every=args.every or name == "rtl")
            if name == "rtl":
                one = worst(rows)
                console.print(f"Worst: {one['what']}, {one['difference']:+.2%}; allowed {one['allowed']:.0%}.",
                              highlight=False)
    return int(any(abs(row["difference"]) > row["allowed"] for row in map(worst, found.values())))


def _offload(args: argparse.Namespace) -> int:
    from sim.validation import offload

    rows = list(offload.rows())
    write_json(args.json, rows)
    if args.json != "-":
        table = Table(title="All-reduce of 64 MiB: network rate over the ideal endpoint's with 128 GB/s of memory, and "
                      "memory for 90 % of it")
        for name in ("nodes", "reads and writes", "ace", "ace, twice the lanes", "conventional", "ace needs, GB/s",
                     "conventional needs, GB/s", "ratio"):
            table.add_column(name, justify="left" if name in ("nodes", "reads and writes") else "right")
        for row in rows:
            needs = [f"{need / 1e9:.0f}" if need else "never"
                     for need in (row["ace_needs"], row["conventional_needs"])]
            shares = [f"{share:.3f}" for share in (row["ace_share"], row["twice_lanes_share"], row["compopt_share"])]
            table.add_row(row["shape"], row["memory_pool"], *shares, *needs,
                          f"{row['ratio']:.2f}" if row["ratio"] else "")
        Console().print(table)
    return 0


def _headlines(args: argparse.Namespace) -> int:
    from sim.system.sweep import Store
    from sim.validation import headlines, offload

    if args.headlines and not args.headlines.lower().endswith(".md"):
        raise UserError(f"--headlines writes Markdown, so its file must end in .md, not {args.headlines!r}.")
    with measuring("headlines") as (_, notify):
        done = [0]

        def progress(count: int, total: int) -> None:
            notify(f"{count:,} of {total:,}", total=total, advance=count - done[0])
            done[0] = count

        results = headlines.measure(Store(Path(args.results or "headlines.results")), progress=progress)
        rows = list(headlines.headlines(results, offload.rows()))
    if args.headlines:
        Path(args.headlines).write_text(headlines.page(rows), encoding="utf-8")
    write_json(args.json, rows)
    if args.json != "-":
        table = Table(title="The paper and the simulator")
        for name in ("figure", "case", "reads and\nwrites", "paper", "ours", "Ideal", "wide", "ultra", "why"):
            table.add_column(name, justify="left" if name in ("figure", "case", "why") else "right")
        for cells in headlines.cells(rows):
            table.add_row(*cells)
        Console().print(table)
    return 0


def _growth(args: argparse.Namespace) -> int:
    from sim.validation import growth

    if not args.growth.lower().endswith(".png"):
        raise UserError(f"--growth writes PNG, so its file must end in .png, not {args.growth!r}.")
    with measuring("growth") as (_, notify):
        notify("iterations", total=len(growth.SHAPES))
        rows = []
        for row in growth.measure():
            rows.append(row)
            notify(f"{row['ranks']} endpoints")
    growth.draw(rows, args.growth)
    write_json(args.json, rows)
    if args.json != "-":
        table = Table(title="An iteration of ResNet-50, chunks of 64 KiB")
        for name in ("endpoints", "seconds of a core", "MiB at most", "simulated, ms"):
            table.add_column(name, justify="right")
        for row in rows:
            table.add_row(f"{row['ranks']:,}", f"{row['core_seconds']:.2f}", f"{row['peak_bytes'] / (1 << 20):.0f}",
                          f"{row['simulated_seconds'] * 1e3:.3f}")
        Console().print(table)
    return 0


def _rtl(cases: str, *, long: bool, sums: bool) -> "list[Row]":
    from sim.validation.points import LONG, POINTS

    if cases:
        return against_rtl([_case(case, sums=sums) for case in cases.split(",")])
    return against_rtl([*POINTS, *(LONG if long else ())])


def _case(text: str, *, sums: bool) -> "Point":
    from sim.validation.points import operating_point

    named, colon, case = text.rpartition(":")
    if colon and named not in PRESETS:
        raise UserError(f"--check-rtl takes cases of the presets {', '.join(PRESETS)}, not {text!r}.")
    nodes, _, rest = case.partition("/")
    size, separator, latency = rest.partition("/")
    sizes = nodes.split("x")
    numbers = [size, *([latency] if separator else [])]
    if not all(number.isdecimal() for number in numbers) or not 1 <= len(sizes) <= 3 or not all(
            one.isdecimal() and int(one) for one in sizes):
        raise UserError(f"--check-rtl takes cases like 4x2x2/65536 or 8/262144/20, not {text!r}.")
    shape = tuple(map(int, sizes))
    if not 2 <= prod(shape) <= MOST_RANKS or int(size) < 4 or int(size) % 4:
        raise UserError(f"--check-rtl takes 2 to {MOST_RANKS} ranks with buffers of whole 4-byte words, not {text}.")
    if separator and not 1 <= int(latency) <= MOST_LATENCY:
        raise UserError(f"--check-rtl takes links of a latency of 1 to {MOST_LATENCY:,} cycles, not {text}.")
    return operating_point(shape, int(size), int(latency) if separator else None, named or None, sums=sums)
