# SPDX-License-Identifier: Apache-2.0
"""Memories of unequal speed behind one engine, and queues of unequal weight."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from rich.console import Console
from rich.table import Table

from sim.cpp import Target

from .runner import Bench, Case, Row

__all__ = ["cases", "show"]

_SIZES = (64, 256, 4096, 65_536)
_FAST = Target(read_latency=100, write_latency=100)
_SLOW = Target(read_latency=1000, write_latency=1000, read_rate=0.05, write_rate=0.05)
_LIMIT = 128
"""Beats: a little more than the slow memory's bandwidth times its latencies."""
_WEIGHTS = (1, 2, 4)


def cases(bench: Bench, sizes: Sequence[int], latencies: Sequence[int]) -> Iterator[Case]:
    for size in _SIZES:
        for limit in (0, _LIMIT):
            note = f"two memories, {size} B, {f'limit {limit}' if limit else 'no limit'}"
            yield "targets", note, partial(_targets, bench, size, limit)
    yield "weights", "weights", lambda: _weights(bench, 1024, latencies[0])


def _targets(bench: Bench, size: int, limit: int) -> Row:
    """Queues full of copies in a fast memory, and as many in one with a tenth of its speed and 1/20 of the bus."""
    count = min(bench.queues, bench.config.queues // 2)
    fast, slow = bench.full(size, 100, count), bench.full(size, 1000, count)
    slow = replace(slow, first=count, depth=min(slow.depth, 64 if size < 8192 else 8), source=1, destination=1,
                   target=1)
    result = bench.run_on([fast, slow], [_FAST, replace(_SLOW, limit=limit)], warmup=20_000, window=20_000)
    window = result["window"]
    moved = sum(result["queue_bytes"][str(queue)] for queue in range(count, 2 * count))
    return {"size": size, "limit": limit, "queues": 2 * count, "bus_share": bench.share(window),
            "read_share": round(window["read_beats"] / window["cycles"], 4),
            "slow_share": round(moved / window["cycles"] / bench.config.beat_bytes, 4)}


def _weights(bench: Bench, size: int, latency: int) -> Row:
    """Bytes of full queues relative to the shares by their weights: maximum and minimum."""
    flows = [replace(bench.full(size, latency, 1), first=queue, weight=weight)
             for queue, weight in enumerate(_WEIGHTS)]
    moved = bench.run(flows, latency, warmup=bench.steady(latency), window=100_000)["queue_bytes"]
    each = [moved[str(queue)] / weight for queue, weight in enumerate(_WEIGHTS)]
    mean = sum(moved.values()) / sum(_WEIGHTS)
    return {"size": size, "latency": latency, "weights": list(_WEIGHTS),
            "least": round(min(each) / mean, 4), "most": round(max(each) / mean, 4)}


def show(result: Row, console: Console) -> None:
    table = Table(title="A fast memory, and one of 1/10 of the speed and 1/20 of the bus; both have full queues")
    for name in ("size", "TARGET_LIMIT", "bus share", "R share", "of it slow"):
        table.add_column(name, justify="right")
    for row in result["targets"]:
        table.add_row(f"{row['size']:,}", f"{row['limit'] or 'none'}", f"{row['bus_share']:.3f}",
                      f"{row['read_share']:.3f}", f"{row['slow_share']:.3f}")
    console.print(table)
    for row in result["weights"]:
        weights = ":".join(map(str, row["weights"]))
        console.print(f"Weights {weights}, {row['size']} B: {row['least']:.3f} to {row['most']:.3f} of the "
                      "expected shares.", highlight=False)
