# SPDX-License-Identifier: Apache-2.0
"""``dmace soak``: random copies, every byte checked; queues with reassigned memory; hostile packets."""

import argparse

from rich.console import Console
from rich.table import Table

from hw.dma_engine.config import PRESETS
from sim.cli import soak_all, soak_fuzz, soak_pcie, soak_rdma
from sim.terminal import (
    Row,
    add_config,
    add_json,
    add_seed,
    check_file,
    check_range,
    fast_harness,
    integer,
    measuring,
    write_json,
)

__all__ = ["configure", "run"]

_PIECE = 100
"""Runs between two updates of the progress bar."""


def configure(parser: argparse.ArgumentParser) -> None:
    designs = parser.add_subparsers(dest="design", required=True, metavar="DESIGN")
    dma = designs.add_parser("dma", help="the DMA engine", description="Copy random lengths between random bytes, one "
                             "at a time and back to back, and check every byte.")
    add_config(dma, "wide")
    dma.add_argument("--single", type=integer, default=4000, metavar="N",
                     help="requests one at a time (default: %(default)s)")
    dma.add_argument("--together", type=integer, default=300, metavar="N",
                     help="requests back to back, in each run of that kind (default: %(default)s)")
    dma.add_argument("--rounds", type=integer, default=1, metavar="N",
                     help="repeat all runs N times, with consecutive seeds (default: %(default)s)")
    add_seed(dma)
    add_json(dma)
    handover = designs.add_parser(
        "handover", help="the DMA engine, while memory withholds responses", description="Reset queues while memory "
        "withholds responses or accepts nothing, reassign their memory to others, and check that no byte is stored "
        "there.")
    add_config(handover, "tiny")
    handover.add_argument("--runs", type=integer, default=2000, metavar="N",
                          help="number of runs, with consecutive seeds (default: %(default)s)")
    add_seed(handover)
    add_json(handover)
    soak_pcie.configure(designs)
    soak_rdma.configure(designs)
    soak_fuzz.configure(designs)
    soak_all.configure(designs)


def run(args: argparse.Namespace) -> int:
    verbs = {"dma": _run_copies, "handover": _run_handover, "pcie": soak_pcie.run, "rdma": soak_rdma.run,
             "fuzz": soak_fuzz.run, "all": soak_all.run}
    return verbs[args.design](args)


def _run_copies(args: argparse.Namespace) -> int:
    for name, most in (("single", 10_000_000), ("together", 10_000_000), ("rounds", 1_000_000)):
        check_range(f"--{name}", getattr(args, name), 1, most)
    check_range("--seed", args.seed, 0, (1 << 52) - 1)
    check_file("--json", args.json)
    # Imported here, so that a wrong option is reported at once.
    from sim.dma.soak import runs

    rows: list[Row] = []
    soaks = runs(PRESETS[args.config], args.single, args.together)
    with fast_harness(args.config) as (harness, notify):
        for seed in range(args.seed, args.seed + args.rounds):
            for soak in soaks:
                notify(f"{soak.name}, seed {seed}", None if rows else args.rounds * len(soaks))
                rows.append(soak.run(harness, seed))
    result = {"config": args.config, "seed": args.seed, "runs": rows}
    write_json(args.json, result)
    if args.json != "-":
        _show(result)
    return 0


def _run_handover(args: argparse.Namespace) -> int:
    check_range("--runs", args.runs, 1, 10_000_000)
    check_range("--seed", args.seed, 0, (1 << 52) - 1)
    check_file("--json", args.json)
    from sim.dma.handover import build_handover, run_handover

    result: Row = {"config": args.config, "seed": args.seed, "runs": 0, "findings": []}
    with measuring(args.config) as (building, notify):
        program = build_handover(PRESETS[args.config], status=building)
        pieces = -(-args.runs // _PIECE)
        while result["runs"] < args.runs and not result["findings"]:
            notify(f"runs from seed {args.seed + result['runs']}", None if result["runs"] else pieces)
            part = run_handover(program, seed=args.seed + result["runs"], runs=min(_PIECE, args.runs - result["runs"]))
            for name, value in part.items():
                result[name] = result.get(name, type(value)()) + value
    write_json(args.json, result)
    if args.json != "-":
        Console().print(
            f"{result['runs']:,} runs on {args.config}: {result['epochs']:,} queue configurations with "
            f"{result['requests']:,} requests, {result['resets']:,} RESETs, of which {result['abandoned']:,} "
            f"abandoned transactions; {result['unexpected']:,} responses after rst dropped; "
            f"{len(result['findings']):,} findings.")
        for finding in result["findings"]:
            Console().print(finding)
    return 1 if result["findings"] else 0


def _show(result: Row) -> None:
    table = Table(title=f"DMA engine {result['config']}: random copies")
    for name in ("run", "seed", "requests", "bytes", "wrong bytes", "cycles"):
        table.add_column(name, justify="left" if name == "run" else "right")
    for row in result["runs"]:
        table.add_row(row["run"], str(row["seed"]), *(f"{row[name]:,}" for name in (
            "requests", "bytes", "wrong_bytes", "cycles")))
    Console().print(table)
