# SPDX-License-Identifier: Apache-2.0
"""``dmace soak fuzz``: arbitrary bits at the DMA engine, and the shortest job with a finding."""

import argparse
from collections.abc import Callable
from pathlib import Path

from rich.console import Console

from hw.dma_engine.config import PRESETS
from hw.errors import UserError
from sim.terminal import (
    Row,
    Subparsers,
    add_config,
    add_json,
    add_seed,
    check_file,
    check_range,
    integer,
    measuring,
    write_json,
)
from sim.verilator.program import Program

__all__ = ["configure", "fuzz", "run"]

_PIECE = 200
"""Jobs between two updates of the progress bar; each piece has a seed of its own."""


def configure(designs: Subparsers) -> None:
    parser = designs.add_parser(
        "fuzz", help="the DMA engine under arbitrary bits", description="Store arbitrary bits to doorbells, rings and "
        "registers of the DMA engine, with error responses, revoked regions and resets at any moment. No byte may be "
        "written where no queue may write, another queue's copies must complete, and after a reset all must work.")
    add_config(parser, "tiny")
    parser.add_argument("--runs", type=integer, default=1000, metavar="N", help="number of jobs (default: %(default)s)")
    parser.add_argument("--job", metavar="FILE", help="instead, run the job of this file")
    parser.add_argument("--output", metavar="FILE", default="fuzz.job",
                        help="where the shortest job with a finding is written (default: %(default)s)")
    add_seed(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    check_range("--runs", args.runs, 1, 100_000_000)
    check_range("--seed", args.seed, 0, (1 << 52) - 1)
    check_file("--json", args.json)
    check_file("--output", args.output)
    if args.job is not None and not Path(args.job).is_file():
        raise UserError(f"--job: there is no file {args.job}.")
    from sim.dma.fuzz import build_fuzz, run_fuzz

    with measuring(args.config) as (building, notify):
        program = build_fuzz(PRESETS[args.config], status=building)
        if args.job is not None:
            result = run_fuzz(program, job=Path(args.job).resolve())
        else:
            pieces = -(-args.runs // _PIECE)
            result = fuzz(program, runs=args.runs, seed=args.seed,
                          progress=lambda done, seed: notify(f"jobs from seed {seed}", None if done else pieces))
    result = {"config": args.config, **result}
    write_json(args.json, result)
    if result["finding"] and args.job is None:
        Path(args.output).write_text(result["job"], encoding="utf-8")
    if args.json != "-":
        console = Console()
        console.print(f"{result['runs']:,} jobs on {args.config}: {result['stores']:,} words at doorbells, "
                      f"{result['copies']:,} checked copies, {result['features']:,} features reached; "
                      f"{'1 finding' if result['finding'] else 'no finding'}.")
        if result["finding"]:
            console.print(result["finding"], markup=False, highlight=False, soft_wrap=True)
            again = f"dmace soak fuzz --config {args.config} --job {args.job or args.output}"
            console.print(f"Repeat: {again}", markup=False, highlight=False)
    return 1 if result["finding"] else 0


def fuzz(program: Program, *, runs: int, seed: int, progress: Callable[[int, int], object] | None = None) -> Row:
    """Jobs in pieces with consecutive seeds, up to the first with a finding."""
    from sim.dma.fuzz import run_fuzz

    total: Row = {"seed": seed, "runs": 0, "stores": 0, "copies": 0, "features": 0, "kept": 0, "finding": "", "job": ""}
    while total["runs"] < runs and not total["finding"]:
        if progress:
            progress(total["runs"], seed)
        part = run_fuzz(program, seed=seed, runs=min(_PIECE, runs - total["runs"]))
        for name in ("runs", "stores", "copies", "kept"):
            total[name] += part[name]
        total |= {"features": max(total["features"], part["features"]), "finding": part["finding"], "job": part["job"]}
        seed += 1
    return total
