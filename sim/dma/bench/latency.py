# SPDX-License-Identifier: Apache-2.0
"""Cycles of one request: alone, behind a large one, and under load."""

from collections.abc import Iterator, Sequence
from functools import partial

from rich.console import Console
from rich.table import Table

from .format import cycles
from .runner import Bench, Case, Row

__all__ = ["cases", "show"]

_LARGE = (65_536, 1_048_576)
_LOADS = (0.1, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95)
_LOAD_BYTES = 1024


def cases(bench: Bench, sizes: Sequence[int], latencies: Sequence[int]) -> Iterator[Case]:
    for latency in latencies:
        yield "single_by_latency", f"one request, latency {latency}", partial(_single, bench, latency)
        for large in _LARGE:
            yield "behind", f"64 B behind {large} B, latency {latency}", partial(_behind, bench, latency, large)
        for share in _LOADS:
            yield "load", f"load {share}, latency {latency}", partial(_load, bench, latency, share)


def _single(bench: Bench, latency: int, size: int = 64) -> Row:
    """One request in an idle engine. Cycles start with the doorbell's W handshake."""
    request, = bench.run([bench.flow(size, requests=1)], latency)["requests"]
    return {
        "latency": latency, "size": size,
        "doorbell_to_first_ar": request["to_read"],
        "doorbell_to_done": request["to_done"],
        "overhead": request["to_done"] - 2 * latency - bench.beats(size),
        "done_to_rc": request["done_to_rc"],
        "done_to_sc": request["done_to_sc"],
        "doorbell_to_seen": request["to_seen"],
    }


def _behind(bench: Bench, latency: int, large: int, small: int = 64) -> Row:
    """A small request right behind a large one on another queue; and one among queues full of large ones."""
    result = bench.run([bench.flow(large, requests=1), bench.flow(small, first=1, requests=1, start=1)], latency)
    alone = next(request for request in result["requests"] if request["queue"] == 1)
    begin, others = bench.steady(latency), bench.queues - 1
    busy = bench.run([bench.full(large, latency, others), bench.flow(small, first=others, requests=1, start=begin)],
                     latency, warmup=begin + 1)
    among = next(request for request in busy["requests"] if request["queue"] == others)
    return {"latency": latency, "small": small, "large": large, "done": alone["to_done"], "seen": alone["to_seen"],
            "bound": 2 * latency + 100, "among": others, "done_among": among["to_done"],
            "seen_among": among["to_seen"]}


def _load(bench: Bench, latency: int, share: float, size: int = _LOAD_BYTES) -> Row:
    """Latency where requests come evenly and offer ``share`` of the bus as load."""
    flow = bench.flow(size, count=bench.queues, depth=bench.config.queue_depth,
                      rate=share * bench.config.beat_bytes / size)
    result = bench.run([flow], latency, warmup=bench.steady(latency), window=20000)
    return {"latency": latency, "size": size, "offered": share, "bus_share": bench.share(result["window"]),
            **result["latency"]}


def show(result: Row, console: Console) -> None:
    table = Table(title="One 64 B request, cycles")
    for name in ("latency", "doorbell to AR", "to data done", "beyond memory", "done to RC", "done to SC"):
        table.add_column(name, justify="right")
    for one in result["single_by_latency"]:
        table.add_row(*(cycles(one[name]) for name in (
            "latency", "doorbell_to_first_ar", "doorbell_to_done", "overhead", "done_to_rc", "done_to_sc")))
    console.print(table)

    among = result["behind"][0]["among"]
    table = Table(title="A 64 B request, cycles from doorbell to data done",
                  caption="Right behind one large request of another queue; and among queues full of large ones")
    for name in ("latency", "large", "behind one", f"among {among} queues"):
        table.add_column(name, justify="right")
    for row in result["behind"]:
        table.add_row(*(cycles(row[name]) for name in ("latency", "large", "done", "done_among")))
    console.print(table)

    table = Table(title=f"{result['load'][0]['size']} B requests at a set rate, cycles from doorbell to SC")
    for name in ("latency", "offered", "achieved", "p50", "p90", "p99", "most"):
        table.add_column(name, justify="right")
    for row in result["load"]:
        seen = row["to_seen"] or {}
        table.add_row(f"{row['latency']}", f"{row['offered']:.2f}", f"{row['bus_share']:.3f}",
                      *(cycles(seen.get(name)) for name in ("p50", "p90", "p99", "max")))
    console.print(table)
