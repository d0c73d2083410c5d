# SPDX-License-Identifier: Apache-2.0
"""``dmace soak fuzz``: arbitrary bits at an engine or at the PCIe adapter, and the shortest job with a finding."""

import argparse
from collections.abc import Callable
from pathlib import Path

from rich.console import Console

from hw.dma_engine.config import PRESETS
from hw.errors import UserError
from sim.terminal import (
    Row,
    Subparsers,
    add_json,
    add_seed,
    check_file,
    check_range,
    integer,
    measuring,
    write_json,
)
from sim.verilator.build import Status
from sim.verilator.program import Program

__all__ = ["build", "configure", "fuzz", "run"]

_ENGINES = {"dma": "copies", "ace": "collectives", "pcie": "copies"}
"""Name of each engine, and what is checked on it."""

_NAMES = {"ace": "two accelerators", "pcie": "the PCIe adapter"}

_PIECE = 200
"""Jobs between two updates of the progress bar; each piece has a seed of its own."""


def configure(designs: Subparsers) -> None:
    parser = designs.add_parser(
        "fuzz", help="an engine under arbitrary bits", description="Store arbitrary bits to doorbells, rings and "
        "registers of the DMA engine, to doorbells, registers, tables and links of two accelerators, or as TLPs to the "
        "PCIe adapter of a small card, with error responses, revocations and resets at any moment. No byte may be "
        "written where no queue may write, another queue's copies or collectives must complete, and after a reset or "
        "a recovery all must work.")
    parser.add_argument("--engine", choices=tuple(_ENGINES), default="dma", metavar="E",
                        help="dma; ace: two small accelerators of fixed sizes; or pcie: a small DMA engine behind its "
                             "PCIe adapter (default: %(default)s)")
    parser.add_argument("--config", choices=tuple(PRESETS), metavar="C",
                        help=f"preset of the DMA engine: {', '.join(PRESETS)} (default: tiny)")
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
    if args.engine != "dma" and args.config is not None:
        raise UserError("soak fuzz takes --config for the DMA engine only; other sizes are fixed.")
    from sim.cpp.fuzz import run_fuzz

    config = (args.config or "tiny") if args.engine == "dma" else None
    name = f"the DMA engine {config}" if config else _NAMES[args.engine]
    with measuring(config or args.engine) as (building, notify):
        program = build(config or args.engine, building)
        if args.job is not None:
            result = run_fuzz(program, job=Path(args.job).resolve())
        else:
            pieces = -(-args.runs // _PIECE)
            result = fuzz(program, runs=args.runs, seed=args.seed,
                          progress=lambda done, seed: notify(f"jobs from seed {seed}", None if done else pieces))
    result = {"engine": args.engine, "config": config, **result}
    write_json(args.json, result)
    if result["finding"] and args.job is None:
        Path(args.output).write_text(result["job"], encoding="utf-8")
    if args.json != "-":
        console = Console()
        console.print(
            f"{result['runs']:,} jobs on {name}: {result['stores']:,} words at doorbells, {result['checked']:,} "
            f"checked {_ENGINES[args.engine]}, {result['features']:,} features reached; "
            f"{'1 finding' if result['finding'] else 'no finding'}.", soft_wrap=True)
        if result["finding"]:
            console.print(result["finding"], markup=False, highlight=False, soft_wrap=True)
            which = f"--config {config}" if config else f"--engine {args.engine}"
            console.print(f"Repeat: dmace soak fuzz {which} --job {args.job or args.output}", markup=False,
                          highlight=False, soft_wrap=True)
    return 1 if result["finding"] else 0


def build(name: str, status: Status | None = None) -> Program:
    """The fuzzer of the DMA engine of a preset, of two accelerators (``ace``) or of the PCIe adapter (``pcie``)."""
    from sim.ace import fuzz as accelerators
    from sim.dma.fuzz import build_fuzz
    from sim.pcie import fuzz as adapters

    if name in PRESETS:
        return build_fuzz(PRESETS[name], status=status)
    if name == "ace":
        return accelerators.build_fuzz(status=status)
    return adapters.build_fuzz(status=status)


def fuzz(program: Program, *, runs: int, seed: int, progress: Callable[[int, int], object] | None = None) -> Row:
    """Jobs in pieces with consecutive seeds, up to the first with a finding."""
    from sim.cpp.fuzz import run_fuzz

    total: Row = {"seed": seed, "runs": 0, "stores": 0, "checked": 0, "features": 0, "kept": 0, "finding": "",
                  "job": ""}
    while total["runs"] < runs and not total["finding"]:
        if progress:
            progress(total["runs"], seed)
        part = run_fuzz(program, seed=seed, runs=min(_PIECE, runs - total["runs"]))
        for name in ("runs", "stores", "checked", "kept"):
            total[name] += part[name]
        total |= {"features": max(total["features"], part["features"]), "finding": part["finding"], "job": part["job"]}
        seed += 1
    return total
