# SPDX-License-Identifier: Apache-2.0
"""Share of the bus over the size of requests."""

from collections.abc import Iterator, Sequence
from functools import partial

from rich.console import Console
from rich.table import Table

from .format import cycles
from .runner import Bench, Case, Row

__all__ = ["cases", "show"]


def cases(bench: Bench, sizes: Sequence[int], latencies: Sequence[int]) -> Iterator[Case]:
    for latency in latencies:
        for size in sizes:
            yield "results", f"{size} B, latency {latency}", partial(_point, bench, size, latency)


def _point(bench: Bench, size: int, latency: int) -> Row:
    """Requests of one size, on queues that are kept full, and on queues of threads.

    Threads post only what they know to fit, because they have seen SC; that is bounded by words per queue times
    queues over the time until SC is seen.
    """
    full = bench.run([bench.full(size, latency, bench.queues)], latency, warmup=bench.steady(latency), window=12000)
    window = full["window"]
    depth = _thread_depth(bench, size, latency)
    rounds = 2 * bench.queues * depth * bench.beats(size)
    closed = bench.run([bench.flow(size, count=bench.queues, depth=depth)], latency, warmup=bench.steady(latency),
                       window=min(max(12000, rounds), 150_000))
    return {
        "size": size, "latency": latency, "queues": bench.queues,
        "bus_share": bench.share(window),
        "read_share": round(window["read_beats"] / window["cycles"], 4),
        "completion_share": round(window["completion_words"] / window["cycles"], 4),
        "requests_per_cycle": bench.rate(window, size), "word_delay": full["delays"]["words"],
        "closed_loop": {"depth": depth, "bus_share": bench.share(closed["window"]), **closed["latency"]},
    }


def _thread_depth(bench: Bench, size: int, latency: int) -> int:
    """Words that threads keep posted per queue: enough for the round trip if the queue holds as many."""
    there_and_back = 2 * (3 * latency + 200)
    return min(bench.config.queue_depth, 1 + -(-there_and_back // (bench.queues * bench.beats(size))))


def show(result: Row, console: Console) -> None:
    shift = f", {result['source_shift']} and {result['destination_shift']} bytes off" if result["source_shift"] else ""
    table = Table(title=f"DMA engine {result['config']}, {result['data_width']} bit, {result['queues']} queues{shift}",
                  caption="Queues full, with the longest cycles from a request's end to AW of its completion word; "
                          "and threads that wait for SC before they post more, cycles from doorbell to SC")
    for name in ("latency", "size", "bus share", "R share", "requests/cycle", "word after", "by SC: share", "p50",
                 "p99"):
        table.add_column(name, justify="right")
    before = None
    for row in result["results"]:
        closed, seen = row["closed_loop"], row["closed_loop"]["to_seen"] or {}
        if before not in (None, row["latency"]):
            table.add_section()
        before = row["latency"]
        table.add_row(f"{row['latency']}", f"{row['size']:,}", f"{row['bus_share']:.3f}", f"{row['read_share']:.3f}",
                      f"{row['requests_per_cycle']:.4f}", cycles((row["word_delay"] or {}).get("max")),
                      f"{closed['bus_share']:.3f}", cycles(seen.get("p50")),
                      cycles(seen.get("p99")))
    console.print(table)
