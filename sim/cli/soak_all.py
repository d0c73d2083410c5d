# SPDX-License-Identifier: Apache-2.0
"""``dmace soak all``, for ``make soak``: requests of the engines and collectives with faults, with a final table."""

import argparse
import random
import time
from collections.abc import Iterator

from rich.console import Console
from rich.table import Table

from hw.ace import config as ace
from hw.dma_engine.config import PRESETS
from sim.configurations import COMPARABLE, DMA_START, configurations, copies, endpoints, show
from sim.terminal import Row, Subparsers, add_json, add_seed, check_file, check_range, integer, write_json

__all__ = ["configure", "run"]

REQUESTS, COLLECTIVES, JOBS, ACE_JOBS, PCIE_JOBS = 10_000_000, 10_000, 100_000, 20_000, 50_000
CONFIGURATIONS, ENDPOINTS = 6, 3

_SMALL, _OTHER = 17_000, 1_000
"""Requests of a round: short ones back to back, and in each of the other three runs."""

_COLLECTIVES, _REVOKED, _JOBS = 260, 20, {"tiny": 1_000, "ace": 200, "pcie": 1_000}
"""In a round: collectives, 20 on each of 13 shapes; collectives ended by errors; jobs of the fuzzers of the DMA engine,
of the accelerator and of the PCIe adapter."""


def configure(designs: Subparsers) -> None:
    parser = designs.add_parser(
        "all", help="the DMA engine and the accelerators, for hours", description="Copies through the DMA engine, jobs "
        "of the fuzzers, engines of random sizes, collectives with faults of links, and collectives that errors end. "
        "Prints a line for each piece, with its seed, and a table at the end.")
    for name, default, what in (("requests", REQUESTS, "requests of the DMA engine"),
                                ("collectives", COLLECTIVES, "collectives with faults"),
                                ("jobs", JOBS, "jobs of the DMA engine's fuzzer"),
                                ("ace-jobs", ACE_JOBS, "jobs of the accelerator's fuzzer"),
                                ("pcie-jobs", PCIE_JOBS, "jobs of the PCIe adapter's fuzzer"),
                                ("configurations", CONFIGURATIONS, "DMA engines of random sizes"),
                                ("endpoints", ENDPOINTS, "pairs of endpoints of random sizes")):
        parser.add_argument(f"--{name}", type=integer, default=default, metavar="N",
                            help=f"minimum number of {what}; 0: none (default: {default:,})")
    add_seed(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    for name in ("requests", "collectives", "jobs", "ace-jobs", "pcie-jobs", "configurations", "endpoints"):
        check_range(f"--{name}", getattr(args, name.replace("-", "_")), 0, 1_000_000_000)
    check_range("--seed", args.seed, 0, (1 << 32) - 1)
    check_file("--json", args.json)
    console, rows, began = Console(stderr=args.json == "-"), {}, time.monotonic()
    failed = False
    for part, wanted, pieces in (
            ("copies", args.requests, _requests(args.requests, args.seed)),
            ("jobs of the fuzzer", args.jobs, _jobs("tiny", args.jobs, args.seed)),
            ("jobs, accelerators", args.ace_jobs, _jobs("ace", args.ace_jobs, args.seed)),
            ("jobs, PCIe adapter", args.pcie_jobs, _jobs("pcie", args.pcie_jobs, args.seed)),
            ("copies, random sizes", args.configurations, _sizes(args.configurations, args.seed)),
            ("requests, random endpoints", args.endpoints, _endpoints(args.endpoints, args.seed)),
            ("collectives, link faults", args.collectives, _collectives(args.collectives, args.seed)),
            ("collectives, errors", args.collectives, _errors(args.collectives, args.seed))):
        if not wanted:
            continue
        row: Row = {"part": part, "done": 0, "first_seed": args.seed, "last_seed": args.seed, "cycles": 0,
                    "seconds": 0.0, "findings": []}
        start = time.monotonic()
        for seed, done, cycles, findings in pieces:
            row["done"] += done
            row["cycles"] += cycles
            if row["done"] == done:
                row["first_seed"] = seed
            row["last_seed"], row["findings"] = seed, row["findings"] + findings
            row["seconds"] = round(time.monotonic() - start, 1)
            console.print(f"{time.monotonic() - began:8.0f} s  {row['done']:>10,} {part}, seed {seed}, "
                          f"{row['done'] / max(row['seconds'], 0.1):,.0f} per second, {len(row['findings'])} findings",
                          highlight=False, soft_wrap=True)
            if findings:
                console.print("\n".join(findings), markup=False, highlight=False, soft_wrap=True)
                break
        failed |= bool(row["findings"])
        rows[part] = row
    result = {"seed": args.seed, "parts": list(rows.values())}
    write_json(args.json, result)
    if args.json != "-":
        _show(result, console)
    return int(failed)


_Pieces = Iterator[tuple[int, int, int, list[str]]]
"""Seed, how many were done, cycles, findings."""


def _requests(wanted: int, seed: int) -> _Pieces:
    """Alternating on `tiny` and on `wide`."""
    from sim.cpp import HarnessFailed, build_harness
    from sim.dma.soak import runs

    done = 0
    while done < wanted:
        config = PRESETS["tiny" if seed % 2 else "wide"]
        harness, piece, cycles = build_harness(config), 0, 0
        try:
            for index, soak in enumerate(runs(config, _OTHER, _OTHER)):
                row = (runs(config, 1, _SMALL)[2] if index == 2 else soak).run(harness, seed)
                piece, cycles = piece + row["requests"], cycles + row["cycles"]
        except HarnessFailed as failure:
            yield seed, piece, cycles, [f"Seed {seed} of the requests: {failure}"]
            return
        done += piece
        yield seed, piece, cycles, []
        seed += 1


def _jobs(name: str, wanted: int, seed: int) -> _Pieces:
    """On a DMA engine of a preset, on two accelerators, or on the PCIe adapter."""
    from sim.cli.soak_fuzz import build, fuzz

    done = 0
    while done < wanted:
        result = fuzz(build(name), runs=min(_JOBS[name], wanted - done), seed=seed << 16)
        done += result["runs"]
        yield seed, result["runs"], 0, [f"{result['finding']} The job:\n{result['job']}"] if result["finding"] else []
        seed += 1


def _sizes(wanted: int, seed: int) -> _Pieces:
    """Copies on engines whose sizes are at their limits or between."""
    from sim.cpp import HarnessFailed

    for config in list(configurations(DMA_START, rounds=-(-wanted // 3), seed=seed, least=COMPARABLE))[:wanted]:
        try:
            rows = copies(config, seed=seed, requests=1000)
        except HarnessFailed as failure:
            yield seed, 0, 0, [f"Sizes {show(config)}: {failure}"]
            return
        yield seed, sum(row["requests"] for row in rows), sum(row["cycles"] for row in rows), []


def _endpoints(wanted: int, seed: int) -> _Pieces:
    """Copies, puts and an all-reduce of two endpoints whose sizes are at their limits or between."""
    from sim.ace.shared_library import ClusterFailed
    from sim.endpoint.soak import work

    for config in list(endpoints(rounds=-(-wanted // 3), seed=seed))[:wanted]:
        try:
            found = work(config, seed=seed)
        except ClusterFailed as failure:
            yield seed, 0, 0, [f"Sizes {show(config)}: {failure}"]
            return
        yield seed, found.requests, found.cycles, [f"Sizes {show(config)}: {text}" for text in found.findings]


def _collectives(wanted: int, seed: int) -> _Pieces:
    from sim.ace.compare import compare
    from sim.ace.shared_library import build_library

    done, library = 0, build_library(ace.TINY)
    while done < wanted:
        found = compare(ace.TINY, collectives=min(_COLLECTIVES, wanted - done), seed=seed, faults=True, library=library)
        done += found["collectives"]
        yield seed, found["collectives"], found["cycles"], found["first_mismatches"]
        seed += 1


def _errors(wanted: int, seed: int) -> _Pieces:
    """A tenth as many, whose communicators end at random moments and are opened again."""
    from sim.ace.compare_errors import compare_errors
    from sim.ace.shared_library import build_library

    done, library, rng = 0, build_library(ace.TINY), random.Random(seed)
    while done < wanted / 10:
        piece = rng.getrandbits(32)
        found = compare_errors(ace.TINY, errors=min(_REVOKED, -(-wanted // 10) - done), seed=piece, library=library)
        done += found["errors"]
        yield piece, found["errors"], found["cycles"], found["first_mismatches"]


def _show(result: Row, console: Console) -> None:
    table = Table(title=f"Soak, seed {result['seed']}")
    for name in ("part", "done", "cycles", "per second", "findings"):
        table.add_column(name, justify="left" if name == "part" else "right", no_wrap=True)
    for row in result["parts"]:
        table.add_row(row["part"], f"{row['done']:,}", f"{row['cycles']:,}" if row["cycles"] else "",
                      f"{row['done'] / max(row['seconds'], 0.1):,.1f}", f"{len(row['findings']):,}")
    console.print(table)
