# SPDX-License-Identifier: Apache-2.0
"""Share of the bus of one queue that is alone, a plain one and an extended one.

A queue alone may have ``default_limit`` segments between issue and retirement: no more than these per round trip
of the memory, 2L and some cycles of the engine's.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from rich.console import Console
from rich.table import Table

from .runner import Bench, Case, Row

__all__ = ["cases", "show"]

KINDS = ("plain", "extended")


def cases(bench: Bench, sizes: Sequence[int], latencies: Sequence[int]) -> Iterator[Case]:
    kinds = KINDS if bench.config.extended < bench.config.queues else KINDS[1:]
    for latency in latencies:
        for kind in kinds:
            for size in sizes:
                yield "alone", f"one {kind} queue, {size} B, latency {latency}", (
                    partial(_point, bench, kind, size, latency))


def _point(bench: Bench, kind: str, size: int, latency: int) -> Row:
    """One queue that is kept full of native words."""
    config = bench.config
    window = config.default_limit
    flow = replace(bench.full(size, latency, 1), first=config.extended if kind == "plain" else 0)
    # Requests come and go in bursts of a window: many of them, that it does not matter where they are cut.
    measured = bench.run([flow], latency, warmup=bench.steady(latency), window=max(12_000, 80 * latency))["window"]
    return {"queue": kind, "window": window, "size": size, "latency": latency, "bus_share": bench.share(measured),
            "read_share": round(measured["read_beats"] / measured["cycles"], 4),
            "requests_per_cycle": bench.rate(measured, size)}


def show(result: Row, console: Console) -> None:
    table = Table(title="One queue alone, kept full")
    for name in ("latency", "queue", "window", "size", "bus share", "requests/cycle"):
        table.add_column(name, justify="right")
    before = None
    for row in result["alone"]:
        if before not in (None, row["latency"]):
            table.add_section()
        before = row["latency"]
        table.add_row(f"{row['latency']}", row["queue"], f"{row['window']}", f"{row['size']:,}",
                      f"{row['bus_share']:.3f}", f"{row['requests_per_cycle']:.4f}")
    console.print(table)
