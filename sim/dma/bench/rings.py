# SPDX-License-Identifier: Apache-2.0
"""Small copies through descriptor rings: share of the bus of one ring and of several.

A descriptor costs a beat on R of its own (in ``wide``): with one word in each half of R is the most, with three words
three quarters.
"""

from collections.abc import Iterator, Sequence
from functools import partial

from rich.console import Console
from rich.table import Table

from sim.cpp import Flow

from .format import cycles
from .runner import Bench, Case, Row

__all__ = ["cases", "show"]

SIZE = 64
BELL = 8
"""Descriptors per doorbell."""


def cases(bench: Bench, sizes: Sequence[int], latencies: Sequence[int]) -> Iterator[Case]:
    del sizes
    for latency in latencies:
        for count, pair in ((1, 0), (1, 1), (bench.config.extended, 0)):
            for words, records in ((1, 0), (3, 0), (1, 1), (3, 1)):
                yield ("rings", f"{count} rings, {words} words a descriptor, latency {latency}",
                       partial(_point, bench, count, pair, words, records, latency))


def _point(bench: Bench, count: int, pair: int, words: int, records: int, latency: int) -> Row:
    depth = 2 * bench.config.longest_window + (bench.config.ring_depth << pair) * words
    flow = Flow(size=SIZE, count=count, ring=words, records=records, pair=pair, depth=depth, burst=BELL * words)
    result = bench.run([flow], latency, warmup=bench.steady(latency), window=12000)
    window = result["window"]
    return {
        "rings": count, "pair": pair, "words": words, "records": records, "latency": latency, "size": SIZE,
        "bus_share": bench.share(window), "read_share": round(window["read_beats"] / window["cycles"], 4),
        "record_delay": result["delays"]["records"],
    }


def show(result: Row, console: Console) -> None:
    table = Table(title=f"{SIZE} B copies by descriptor ring, {BELL} descriptors a doorbell")
    for name in ("latency", "rings", "pair", "words a descriptor", "records", "bus share", "R share", "record after"):
        table.add_column(name, justify="right")
    for row in result["rings"]:
        table.add_row(f"{row['latency']}", f"{row['rings']}", "yes" if row["pair"] else "no", f"{row['words']}",
                      "yes" if row["records"] else "no", f"{row['bus_share']:.3f}", f"{row['read_share']:.3f}",
                      cycles((row["record_delay"] or {}).get("max")))
    console.print(table)
