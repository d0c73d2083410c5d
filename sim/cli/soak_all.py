# SPDX-License-Identifier: Apache-2.0
"""``dmace soak all``, for ``make soak``: random work for all engines on all cores, with a final table."""

import argparse
import multiprocessing
import os
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from signal import SIG_DFL, SIGINT, signal

from rich.console import Console
from rich.table import Table

from hw.errors import UserError
from sim.cli.soak_rounds import PARTS, Result, Round
from sim.terminal import Row, Subparsers, add_json, add_seed, check_file, check_range, integer, write_json

__all__ = ["configure", "run"]


def configure(designs: Subparsers) -> None:
    parser = designs.add_parser(
        "all", help="the DMA engine and the accelerators, for hours", description="Copies through the DMA engine, jobs "
        "of the fuzzers, engines and endpoints of random sizes, collectives with faults of links, and collectives that "
        "errors end, on several cores. Prints a line for each round, with its seed, and a table at the end.")
    for part in PARTS:
        parser.add_argument(f"--{part.option}", type=integer, default=part.default, metavar="N",
                            help=f"minimum number of {part.what}; 0: none (default: {part.default:,})")
    parser.add_argument("--workers", type=integer, default=os.cpu_count() or 1, metavar="N",
                        help="number of rounds at the same time (default: one per core)")
    add_seed(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    wanted = {part.option: getattr(args, part.option.replace("-", "_")) for part in PARTS}
    for option, number in wanted.items():
        check_range(f"--{option}", number, 0, 1_000_000_000)
    check_range("--workers", args.workers, 1, 1024)
    check_range("--seed", args.seed, 0, (1 << 32) - 1)
    check_file("--json", args.json)
    console, rows, began = Console(stderr=args.json == "-"), [], time.monotonic()
    for part in PARTS:
        if not wanted[part.option]:
            continue
        console.print(f"{time.monotonic() - began:8.0f} s  building simulators: {part.name}", highlight=False)
        part.prepare()
        row: Row = {"part": part.name, "done": 0, "cycles": 0, "seconds": 0.0, "seeds": [], "findings": []}
        start = time.monotonic()
        with _results(part.rounds(wanted[part.option], args.seed), args.workers) as results:
            for seed, done, cycles, findings in results:
                row["done"] += done
                row["cycles"] += cycles
                row["seconds"] = round(time.monotonic() - start, 1)
                row["seeds"].append(seed)
                row["findings"] += findings
                console.print(f"{time.monotonic() - began:8.0f} s  {row['done']:>10,} {part.name}, seed {seed}, "
                              f"{row['done'] / max(row['seconds'], 0.1):,.0f} per second, {len(row['findings'])} "
                              "findings", highlight=False, soft_wrap=True)
                if findings:
                    console.print("\n".join(findings), markup=False, highlight=False, soft_wrap=True)
                    break
        rows.append(row)
    result = {"seed": args.seed, "parts": rows}
    write_json(args.json, result)
    if args.json != "-":
        _show(result, console)
    return int(any(row["findings"] for row in rows))


@contextmanager
def _results(rounds: Iterator[Round], workers: int) -> Iterator[Iterator[Result]]:
    """Results of the rounds, in order; at the end, rounds that have not begun are dropped."""
    if workers == 1:
        yield (one() for one in rounds)
        return
    # Processes are spawned, as one with threads cannot be forked safely; an interrupt ends them at once.
    pool = ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), signal, (SIGINT, SIG_DFL))
    try:
        yield pool.map(_run, rounds)
    except BrokenProcessPool:
        raise UserError("A process that ran a round ended by itself, perhaps for lack of memory; "
                        f"use fewer --workers than {workers}.") from None
    finally:
        pool.shutdown(cancel_futures=True)


def _run(one: Round) -> Result:
    return one()


def _show(result: Row, console: Console) -> None:
    table = Table(title=f"Soak, seed {result['seed']}")
    for name in ("part", "done", "cycles", "per second", "findings"):
        table.add_column(name, justify="left" if name == "part" else "right", no_wrap=True)
    for row in result["parts"]:
        table.add_row(row["part"], f"{row['done']:,}", f"{row['cycles']:,}" if row["cycles"] else "",
                      f"{row['done'] / max(row['seconds'], 0.1):,.1f}", f"{len(row['findings']):,}")
    console.print(table)
