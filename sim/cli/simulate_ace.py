# SPDX-License-Identifier: Apache-2.0
"""``dmace sim ace``: one collective on a cluster of accelerators in RTL, compared bit for bit with the golden model."""

import argparse
import zipfile
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.table import Table

from hw.ace.collectives import Collective, CollectiveInfo, those
from hw.ace.config import PRESETS
from hw.ace.model.arrays import Bits
from hw.ace.model.collective import results
from hw.ace.model.numerics import numpy_type
from hw.ace.model.varying import blocks_received
from hw.ace.numerics.formats import DType, Reduction
from hw.errors import UserError
from sim.ace.faults import HELP, counted, parse
from sim.ace.varying import extents
from sim.cli.terminal_ace import add_config, add_links, at_work, check_links, nodes
from sim.terminal import Row, add_json, add_seed, check_file, check_range, integer, write_json

__all__ = ["configure", "run"]

MOST_BYTES = 1 << 28
LIMIT = 100_000_000


def _all(rule: Callable[[CollectiveInfo], bool]) -> str:
    """Names of the collectives that the rule accepts."""
    return ", ".join(one.name.lower() for one in those(rule))


def configure(parser: argparse.ArgumentParser) -> None:
    def names(kinds: Iterable[Enum]) -> list[str]:
        return [one.name.lower() for one in kinds]

    parser.add_argument("--collective", choices=names(Collective), default="all_reduce", metavar="NAME",
                        help=f"{', '.join(names(Collective))} (default: all_reduce)")
    parser.add_argument("--nodes", default="4", metavar="SHAPE", help="ranks along each dimension: 4, 4x2, 4x2x2 "
                        "(default: 4)")
    parser.add_argument("--dtype", choices=names(DType), default="fp32", metavar="TYPE",
                        help=f"{', '.join(names(DType))} (default: fp32)")
    parser.add_argument("--op", choices=names(Reduction), default="sum", metavar="OP",
                        help=f"{', '.join(names(Reduction))} (default: sum)")
    parser.add_argument("--count", type=integer, metavar="N", help="number of elements, as NCCL counts them (default: "
                        "4096, or the length of --input)")
    parser.add_argument("--counts", metavar="N,N,...", help="elements of each rank's block, for "
                        f"{_all(lambda info: info.varying and not info.pairwise)}; for "
                        f"{_all(lambda info: info.pairwise)}, those from rank 0 to each rank, then from rank 1, ...")
    parser.add_argument("--root", type=integer, default=0, metavar="RANK",
                        help=f"root of {_all(lambda info: info.rooted)} (default: 0)")
    parser.add_argument("--widen", action="store_true", help="floats of 16 and 8 bits are FP32 in the SRAM and on the "
                        "links")
    parser.add_argument("--ordered", action="store_true", help="combine in rank order; on a ring")
    parser.add_argument("--input", metavar="FILE.npz", help="one array per rank, in the order of their names, "
                        "converted to --dtype (default: random)")
    parser.add_argument("--output", metavar="FILE.npz", help="write inputs, results and golden results, as in_0, "
                        "out_0, golden_0 ...; types that NumPy lacks as FP32")
    parser.add_argument("--trace", metavar="FILE", help="write each packet, each chunk's phases and the memories' "
                        "bursts, as JSON for Perfetto or chrome://tracing")
    add_config(parser)
    add_links(parser)
    parser.add_argument("--stall", type=float, default=0.0, metavar="P",
                        help="probability of stalls on all links and channels (default: 0)")
    parser.add_argument("--faults", metavar="SPEC", help=HELP)
    add_seed(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    shape = nodes(args.nodes)
    ranks = int(np.prod(shape))
    collective, dtype = Collective[args.collective.upper()], DType[args.dtype.upper()]
    op = Reduction[args.op.upper()]
    check_range("--root", args.root, 0, ranks - 1, f" in {args.nodes}")
    check_links(args)
    check_range("--seed", args.seed, 0, (1 << 63) - 1)
    if not 0 <= args.stall < 1:
        raise UserError(f"--stall must be at least 0 and less than 1, not {args.stall}.")
    if args.widen and not dtype.info.widens:
        raise UserError(f"--widen is for floats of 16 and 8 bits, not for {args.dtype}.")
    if args.ordered and not collective.info.reduces:
        raise UserError(f"--ordered is for {_all(lambda info: info.reduces)}, not for {args.collective}.")
    faults = None if args.faults is None else parse(args.faults)
    if faults is not None:
        faults.check(shape)
    check_file("--json", args.json)
    check_file("--output", args.output)
    check_file("--trace", args.trace)
    parts = ranks if collective.info.sends_blocks else 1
    counts = _counts(args, ranks, collective)
    if counts is None:
        varying = None
        inputs, count = _inputs(args, ranks, parts, dtype)
    else:
        varying = extents(collective, counts)
        blocks = [[_random(np.random.default_rng([args.seed, rank, part]), dtype, length)
                   for part, (length, _) in enumerate(row)] for rank, row in enumerate(varying.send)]
        inputs, count = [np.concatenate(row) for row in blocks], varying.count
    root = tuple(map(int, np.unravel_index(args.root, shape))) if collective.info.rooted else None
    # Imported here, so that a wrong option is reported at once.
    from sim.ace.cluster import Cluster
    from sim.ace.endpoints import Link, Memory
    from sim.ace.trace import traced

    moves_data = collective.info.moves_data
    with at_work(args.config, PRESETS[args.config]) as (library, notify), Cluster(
            PRESETS[args.config], shape, library=library, seed=args.seed,
            link=Link(latency=args.link_latency, bytes_per_cycle=args.link_rate, stall=args.stall),
            memory=Memory(read_latency=args.latency, write_latency=args.latency, stall=args.stall),
            faults=faults) as cluster:
        notify(0, None, "")
        with traced(cluster, args.trace) if args.trace else nullcontext():
            outcome = cluster.collective(
                collective, limit=LIMIT, progress=lambda cycle: notify(cycle, None, f"{cycle:,} cycles"),
                **({"inputs": inputs, "count": count, "dtype": dtype, "op": op, "root": root, "extents": varying,
                    "widen": args.widen, "ordered": args.ordered} if moves_data else {}))
    what = {"dtype": dtype, "op": op, "widen": args.widen, "ordered": args.ordered}
    golden: Sequence[Bits | None]
    if varying and counts is not None:
        golden = [np.concatenate(row) for row in blocks_received(collective, shape, blocks, counts, **what)]
    else:
        golden = results(collective, shape, inputs, count=count, root=root, **what) if moves_data else [None] * ranks
    wrong = [rank for rank, (got, right) in enumerate(zip(outcome.outputs, golden, strict=True))
             if (got is None) != (right is None)
             or (got is not None and right is not None and not np.array_equal(got, right))]
    if args.output:
        _write(args.output, dtype, inputs, outcome.outputs, golden)
    memories = outcome.statistics["memories"]
    result: Row = {
        "config": args.config, "nodes": args.nodes, "collective": args.collective, "dtype": args.dtype, "op": args.op,
        "ordered": args.ordered, "count": count, "seed": args.seed, "cycles": outcome.cycles,
        "mismatches": len(wrong), "wrong_ranks": wrong, "memories": memories,
        "faults": counted(outcome.statistics) if faults else None,
        "payload_bytes": sum(link["payload_bytes"] for link in outcome.statistics["links"]),
    }
    write_json(args.json, result)
    if args.json != "-":
        _show(result, args.output, args.trace)
    return 1 if wrong else 0


def _inputs(args: argparse.Namespace, ranks: int, parts: int, dtype: DType) -> tuple[list[Bits], int]:
    """Each rank's send buffer as bits, and the count."""
    kind = np.dtype(f"u{dtype.info.bytes}")
    if args.input is None:
        count = 4096 if args.count is None else args.count
        check_range("--count", count, 0, MOST_BYTES // (kind.itemsize * parts))
        random = np.random.default_rng(args.seed)
        return [_random(random, dtype, count * parts) for _ in range(ranks)], count
    try:
        with np.load(args.input, allow_pickle=False) as arrays:
            found = [np.ascontiguousarray(arrays[name]).reshape(-1) for name in arrays.files]
    except FileNotFoundError:
        raise UserError(f"--input: there is no file {args.input}.") from None
    except (OSError, ValueError, zipfile.BadZipFile, AttributeError) as error:
        raise UserError(f"--input: {args.input} is not an NPZ file of arrays of numbers: {error}.") from None
    if len(found) != ranks:
        raise UserError(f"--input: {args.input} has {len(found)} arrays, but --nodes {args.nodes} has {ranks} ranks.")
    if len({len(one) for one in found}) != 1:
        raise UserError(f"--input: the arrays of {args.input} must have equal lengths, not "
                        f"{', '.join(str(len(one)) for one in found[:8])} elements.")
    if not all(np.issubdtype(one.dtype, np.number) and not np.iscomplexobj(one) for one in found):
        raise UserError(f"--input: the arrays of {args.input} must be of real numbers.")
    count = len(found[0]) // parts if args.count is None else args.count
    if count * parts != len(found[0]):
        raise UserError(f"--input: a send buffer must have {parts} times as many elements as --count, "
                        f"not {len(found[0]):,} for {count:,}.")
    with np.errstate(over="ignore", invalid="ignore"):
        return [one.astype(numpy_type(dtype)).view(kind) for one in found], count


def _counts(args: argparse.Namespace, ranks: int, collective: Collective) -> list[int] | list[list[int]] | None:
    """Counts of ``--counts``: a list, or a list for each rank; None without the option."""
    if args.counts is None:
        return None
    if not collective.info.varying:
        raise UserError(f"--counts is for {_all(lambda info: info.varying)}, not for {args.collective}.")
    if args.count is not None or args.input is not None:
        raise UserError("--counts cannot be combined with --count or --input.")
    try:
        counts = [int(one) for one in args.counts.split(",")]
    except ValueError:
        raise UserError(f"--counts must be integers separated by commas, not {args.counts!r}.") from None
    pairwise = collective.info.pairwise
    wanted = ranks ** 2 if pairwise else ranks
    if len(counts) != wanted:
        raise UserError(f"--counts must be {wanted} integers for {args.collective} on {args.nodes}, not {len(counts)}.")
    for count in counts:
        check_range("--counts", count, 0, MOST_BYTES // (4 * ranks))
    return [counts[at:at + ranks] for at in range(0, wanted, ranks)] if pairwise else counts


def _random(random: np.random.Generator, dtype: DType, count: int) -> Bits:
    """Elements as bits."""
    kind = np.dtype(f"u{dtype.info.bytes}")
    if not dtype.info.is_float:
        return random.integers(0, 1 << 8 * kind.itemsize, count, dtype=np.uint64).astype(kind)
    return random.standard_normal(count, np.float32).astype(numpy_type(dtype)).view(kind)


def _write(name: str, dtype: DType, inputs: Sequence[Bits], outputs: Sequence[Bits | None],
           golden: Sequence[Bits | None]) -> None:
    def numbers(bits: Bits) -> npt.NDArray[Any]:
        values: npt.NDArray[Any] = bits.view(numpy_type(dtype))
        return values if hasattr(np, dtype.info.numpy) else values.astype(np.float32)

    arrays: dict[str, Any] = {}
    for prefix, rows in (("in", inputs), ("out", outputs), ("golden", golden)):
        for rank, row in enumerate(rows):
            if row is not None:
                arrays[f"{prefix}_{rank}"] = numbers(row)
    np.savez(Path(name), **arrays)


def _show(result: Row, output: str | None, trace: str | None) -> None:
    console = Console()
    order = " in rank order" if result["ordered"] else ""
    table = Table(title=f"{result['collective']}{order} of {result['count']:,} {result['dtype']} on {result['nodes']} "
                  f"accelerators {result['config']}", title_justify="left")
    table.add_column("what")
    table.add_column("result", justify="right")
    table.add_row("cycles", f"{result['cycles']:,}")
    table.add_row("bytes on the links, without headers", f"{result['payload_bytes']:,}")
    table.add_row("ranks that differ from the model", f"{result['mismatches']}")
    for name, number in (result["faults"] or {}).items():
        table.add_row(f"packets {name}", f"{number:,}")
    console.print(table)
    if result["mismatches"]:
        ranks = ", ".join(map(str, result["wrong_ranks"][:16]))
        console.print(f"Ranks {ranks} differ from the model.", highlight=False)
    else:
        console.print("Every rank has the model's bits, and nothing else changed.", highlight=False)
    for what, name in (("Arrays", output), ("Trace", trace)):
        if name:
            console.print(f"{what}: {name}", markup=False, highlight=False, soft_wrap=True)
