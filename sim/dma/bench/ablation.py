# SPDX-License-Identifier: Apache-2.0
"""Gain from pipelining: the same requests with one part of it disabled.

=============  ========================================================================================
all            full queues, nothing taken away
every word     SC and RC of every request are written: no coalescing (``ABLATION.every_word``)
one read       one segment's read in flight (``ABLATION.single_read``)
one at a time  one queue whose thread posts a request when it has seen SC of the one before
=============  ========================================================================================
"""

from collections.abc import Iterator, Sequence
from functools import partial

from rich.console import Console
from rich.table import Table

from .runner import Bench, Case, Row

__all__ = ["VARIANTS", "cases", "show"]

#: Variant -> what it is called in plots.
VARIANTS = {
    "all": "pipelined, completion words coalesced",
    "every word": "every SC and RC written",
    "one read": "one read in flight",
    "one at a time": "one request at a time, posted on SC of the last",
}


def cases(bench: Bench, sizes: Sequence[int], latencies: Sequence[int]) -> Iterator[Case]:
    for latency in latencies:
        for size in sizes:
            for variant in VARIANTS:
                yield "ablations", f"{variant}, {size} B, latency {latency}", (
                    partial(_point, bench, variant, size, latency))


def _point(bench: Bench, variant: str, size: int, latency: int) -> Row:
    registers = {"every word": {"ABLATION": {"every_word": 1}}, "one read": {"ABLATION": {"single_read": 1}}}
    if variant == "one at a time":
        queues, flow, warmup = 1, bench.flow(size), 0
        # Approximately a whole number of requests.
        window = 8 * (bench.beats(size) + 3 * latency + 30)
    else:
        queues, flow, warmup = bench.queues, bench.full(size, latency, bench.queues), bench.steady(latency)
        # With a single read at a time, each segment takes its beats and the memory's latency.
        segment = min(size, bench.config.segment_bytes)
        window = max(12000, 8 * (bench.beats(segment) + latency) * bench.queues)
    result = bench.run([flow], latency, warmup=warmup, window=window, registers=registers.get(variant, {}))
    return {"variant": variant, "size": size, "latency": latency, "queues": queues,
            "bus_share": bench.share(result["window"]), "requests_per_cycle": bench.rate(result["window"], size)}


def show(result: Row, console: Console) -> None:
    table = Table(title="Share of the bus with one part of the pipelining taken away")
    for name in ("latency", "size", *VARIANTS):
        table.add_column(name, justify="right")
    shares: dict[tuple[int, int], dict[str, float]] = {}
    before = None
    for row in result["ablations"]:
        shares.setdefault((row["latency"], row["size"]), {})[row["variant"]] = row["bus_share"]
    for (latency, size), share in shares.items():
        if before not in (None, latency):
            table.add_section()
        before = latency
        table.add_row(f"{latency}", f"{size:,}", *(f"{share[variant]:.3f}" for variant in VARIANTS))
    console.print(table)
