# SPDX-License-Identifier: Apache-2.0
"""Small all-reduces: cycles beside the latency of the links that they cross one after the other, on the rings and
one-shot."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from hw.ace.config import WIRE_HEADER_BYTES, AceConfig
from sim.ace.bench.runner import Bench
from sim.ace.bench.traffic import hops

__all__ = ["RINGS", "SIZES", "cases", "fit", "one_shot_hops", "show"]

SIZES = (64, 256, 1024, 4096)
RINGS = ((2,), (4,), (8,))


def cases(bench: Bench, shape: tuple[int, ...],
          sizes: Sequence[int] = SIZES) -> Iterator[tuple[str, Callable[[], dict[str, Any]]]]:
    """``(note, case)`` for rings and for ``shape``; ``case()`` is a row."""
    for one in dict.fromkeys((*RINGS, tuple(shape))):
        for size in sizes:
            yield f"{size} B, {'x'.join(map(str, one))}", partial(_point, bench, one, size)


def one_shot_hops(shape: Sequence[int]) -> int:
    """Times that something crosses a link of a one-shot all-reduce, one after the other."""
    return sum(ranks // 2 for ranks in shape)


def _point(bench: Bench, shape: tuple[int, ...], size: int) -> dict[str, Any]:
    row = {"nodes": list(shape), "bytes": size, "hops": hops(shape), "bound_cycles": hops(shape) * bench.link_latency,
           "cycles": bench.run(shape, size)["cycles"]}
    if bench.ordered:
        return row
    return {**row, "one_shot_hops": one_shot_hops(shape),
            "one_shot_cycles": bench.run(shape, size, one_shot=True)["cycles"]}


def fit(config: AceConfig, rows: Sequence[Mapping[str, Any]], link_rate: float,
        link_latency: int) -> dict[str, float]:
    """Cycles of the shortest message over the hops of the rings, as a line.

    ``packet_cycles`` is what one packet with 64 bytes takes on the link, ``fixed_per_hop`` what is left of a hop's
    cycles besides that and the latency.
    """
    size = min(row["bytes"] for row in rows)
    points = [(row["hops"], row["cycles"]) for row in rows if row["bytes"] == size and tuple(row["nodes"]) in RINGS]
    per_hop, start_up = np.polyfit([hop for hop, _ in points], [cycles for _, cycles in points], 1)
    packet = (size + WIRE_HEADER_BYTES) / (link_rate * config.beat_bytes)
    return {"bytes": size, "cycles_per_hop": round(float(per_hop), 1), "start_up": round(float(start_up), 1),
            "link_latency": link_latency, "packet_cycles": round(packet, 1),
            "fixed_per_hop": round(float(per_hop) - link_latency - packet, 1)}


def show(result: Mapping[str, Any], console: Console) -> None:
    table = Table(title="Small all-reduces, cycles", caption="bound: the latencies of the links alone")
    sizes = list(dict.fromkeys(row["bytes"] for row in result["latency"]))
    for name in ("ranks", "hops", "bound", *(f"{size:,} B" for size in sizes)):
        table.add_column(name, justify="right")
    by_shape: dict[tuple[int, ...], list[dict[str, Any]]] = {}
    for row in result["latency"]:
        by_shape.setdefault(tuple(row["nodes"]), []).append(row)
    for shape, rows in by_shape.items():
        table.add_row("x".join(map(str, shape)), f"{rows[0]['hops']}", f"{rows[0]['bound_cycles']:,}",
                      *(f"{row['cycles']:,}" for row in rows))
    console.print(table)
    if "one_shot_cycles" in result["latency"][0]:
        table = Table(title="One-shot, cycles", caption="bound: the latencies of the links alone")
        for name in ("ranks", "hops", "bound", *(f"{size:,} B" for size in sizes)):
            table.add_column(name, justify="right")
        for shape, rows in by_shape.items():
            count = rows[0]["one_shot_hops"]
            table.add_row("x".join(map(str, shape)), f"{count}", f"{count * result['link_latency']:,}",
                          *(f"{row['one_shot_cycles']:,}" for row in rows))
        console.print(table)
    line = result["hop"]
    console.print(f"A hop of {line['bytes']} B takes {line['cycles_per_hop']:.1f} cycles: {line['link_latency']} of "
                  f"the link's latency, {line['packet_cycles']:.1f} of the packet on the link, "
                  f"{line['fixed_per_hop']:.1f} in the endpoints. Start and end take {line['start_up']:.0f}.",
                  highlight=False)
