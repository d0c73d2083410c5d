# SPDX-License-Identifier: Apache-2.0
"""Bandwidth that one misbehaving queue takes from the others."""

from collections.abc import Iterator, Sequence
from functools import partial

from rich.console import Console

from sim.cpp import Flow

from .runner import Bench, Case, Row

__all__ = ["KINDS", "cases", "show"]

KINDS = {1: "beyond its region", 2: "malformed words", 3: "never started"}
"""How the queue misbehaves, as :class:`sim.cpp.Flow` numbers it."""


def cases(bench: Bench, sizes: Sequence[int], latencies: Sequence[int]) -> Iterator[Case]:
    for kind in KINDS:
        yield "misbehaving", f"a queue with {KINDS[kind]}", partial(beside, bench, latencies[-1], kind)


def beside(bench: Bench, latency: int, kind: int, size: int = 1024) -> Row:
    """Row of the other queues' payload on W while one queue posts nothing but bad words, and while it does not."""
    others = bench.full(size, latency, max(2, bench.queues - 1))
    last = bench.config.queues - 1
    shares = []
    for flows in ([others], [others, Flow(first=last, size=64, depth=1 << 20, misbehaves=kind)]):
        result = bench.run(flows, latency, warmup=bench.steady(latency), window=12000)
        shares.append(bench.share(result["window"]))
    window = result["window"]
    return {"kind": KINDS[kind], "size": size, "latency": latency, "queues": others.count, "alone": shares[0],
            "beside": shares[1], "bad_words_per_cycle": round(window["misbehaved"] / window["cycles"], 3)}


def show(result: Row, console: Console) -> None:
    for row in result["misbehaving"]:
        console.print(f"Beside a queue with {row['kind']}, {row['bad_words_per_cycle']:.2f} words per cycle: "
                      f"{row['beside']:.3f} of W, without it {row['alone']:.3f}.", highlight=False)
