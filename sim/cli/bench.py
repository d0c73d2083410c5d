# SPDX-License-Identifier: Apache-2.0
"""``dmace bench``: performance of a design. This module measures the DMA engine in the C++ harness."""

import argparse
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from rich.console import Console

from hw.dma_engine.config import PRESETS, DmaConfig
from hw.errors import UserError
from sim.cli import bench_ace as ace
from sim.cli import bench_endpoint as endpoint
from sim.cli import bench_fused as fused
from sim.cli import bench_pcie as pcie
from sim.cli import bench_rdma as rdma
from sim.cli import bench_remote as remote
from sim.terminal import Row, add_config, add_json, add_seed, check_file, fast_harness, integer, write_json

if TYPE_CHECKING:
    from sim.dma.bench import Group

__all__ = ["configure", "run"]

SIZES = (64, 128, 256, 512, 1024, 2048, 4096, 16384, 65536, 1048576)
LATENCIES = (100, 250, 500)


def configure(parser: argparse.ArgumentParser) -> None:
    designs = parser.add_subparsers(dest="design", required=True, metavar="DESIGN")
    dma = designs.add_parser("dma", help="the DMA engine", description="Measure bus utilisation, latencies and "
                             "fairness of the engine with a memory of a given latency; every byte is checked.")
    add_config(dma, "wide")
    dma.add_argument("--latency", default=_listed(LATENCIES), metavar="L,...",
                     help="latencies of the memory in cycles, for reads and for writes (default: %(default)s)")
    dma.add_argument("--sizes", default=_listed(SIZES), metavar="BYTES,...",
                     help="sizes of requests (default: %(default)s)")
    dma.add_argument("--queues", type=integer, metavar="N", help="number of queues in use (default: 16, or all)")
    dma.add_argument("--unaligned", action="store_true", help="offset sources by 3 and destinations by 17 bytes")
    dma.add_argument("--only", metavar="GROUP,...", help="measure only these groups: throughput, ablation, latency, "
                     "... (the files of sim/dma/bench)")
    add_seed(dma)
    add_json(dma)
    dma.add_argument("--plot", metavar="FILE", help="draw as PNG: bus "
                     "utilisation with that of other engines; also FILE-ablation and FILE-latency")
    dma.set_defaults(bench=_run_dma)
    ace.configure(designs)
    endpoint.configure(designs)
    fused.configure(designs)
    pcie.configure(designs)
    rdma.configure(designs)
    remote.configure(designs)


def run(args: argparse.Namespace) -> int:
    return int(args.bench(args))


def _run_dma(args: argparse.Namespace) -> int:
    config = PRESETS[args.config]
    queues = min(16, config.queues) if args.queues is None else args.queues
    latencies, sizes = _integers("--latency", args.latency), _integers("--sizes", args.sizes)
    _check(args, config, queues, latencies, sizes)
    # Imported here, so that a wrong option is reported at once.
    from sim.dma.bench import GROUPS, UNALIGNED, Bench, measure, plan

    groups = tuple(GROUPS) if args.only is None else _groups(args, tuple(GROUPS))
    with fast_harness(args.config) as (harness, notify):
        bench = Bench(harness, queues=queues, seed=args.seed, shifts=UNALIGNED if args.unaligned else (0, 0))
        cases = plan(bench, sizes, latencies, groups)
        result = {"config": args.config,
                  **measure(bench, cases, progress=lambda note: notify(note, len(cases) if not bench.cycles else None))}
    if args.plot:
        from sim.dma.bench.plot import draw

        draw(result, args.plot)
    write_json(args.json, result)
    if args.json != "-":
        _show(result, [GROUPS[group] for group in groups])
    return 0


def _integers(name: str, given: str) -> list[int]:
    """Integers of an option ``A,B,...``."""
    try:
        values = [int(part, 0) for part in given.split(",")]
    except ValueError:
        raise UserError(f"{name} must be integers separated by commas, not {given!r}.") from None
    if len(set(values)) != len(values):
        raise UserError(f"{name} must not repeat a number, as {given!r} does.")
    return values


def _groups(args: argparse.Namespace, known: Sequence[str]) -> tuple[str, ...]:
    """Groups of ``--only``, in the order of ``known``."""
    wanted = args.only.split(",")
    for name in wanted:
        if name not in known:
            raise UserError(f"--only must name groups of {', '.join(known)}, not {name!r}.")
    if args.plot:
        raise UserError("--plot draws all groups, so it cannot be combined with --only.")
    return tuple(name for name in known if name in wanted)


def _listed(values: Iterable[object]) -> str:
    return ",".join(map(str, values))


def _check(args: argparse.Namespace, config: DmaConfig, queues: int, latencies: Iterable[int],
           sizes: Iterable[int]) -> None:
    for latency in latencies:
        if not 2 <= latency <= 10_000:
            raise UserError(f"--latency must be from 2 to 10000 cycles, not {latency}.")
    for size in sizes:
        if not 1 <= size <= 4 << 20:
            raise UserError(f"--sizes must be from 1 to {4 << 20} bytes, not {size}.")
    if not 2 <= queues <= config.queues:
        raise UserError(f"--queues must be from 2 to {config.queues} for {args.config}, not {queues}.")
    if not 0 <= args.seed < 1 << 53:
        raise UserError(f"--seed must be from 0 to {(1 << 53) - 1}, not {args.seed}.")
    check_file("--json", args.json)
    check_file("--plot", args.plot)
    if args.plot is not None and not args.plot.lower().endswith(".png"):
        raise UserError(f"--plot writes PNG, so its file must end in .png, not {args.plot!r}.")


def _show(result: Row, groups: "Iterable[Group]") -> None:
    console = Console()
    for group in groups:
        group.show(result, console)
    console.print(f"{result['cycles']:,} cycles at {result['cycles_per_second']:,} cycles/s.", highlight=False)
