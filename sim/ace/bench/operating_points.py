# SPDX-License-Identifier: Apache-2.0
"""The same all-reduce over links of several latencies: NCCL's bus bandwidth beside the bound."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from math import prod
from typing import Any

from rich.console import Console
from rich.table import Table

from sim.ace.bench.runner import MEMORY_LATENCY, Bench
from sim.ace.bench.traffic import latencies

__all__ = ["LATENCIES", "bus_bandwidth", "cases", "show"]

LATENCIES = (20, 100, 500)


def bus_bandwidth(shape: Sequence[int], size: int, cycles: float) -> float:
    """Bytes per cycle, as nccl-tests count an all-reduce: 2 (n - 1) / n of the buffer over its time, whatever the
    topology."""
    ranks = prod(shape)
    return 2 * (ranks - 1) / ranks * size / cycles


def cases(benches: Sequence[Bench], shape: tuple[int, ...],
          size: int) -> Iterator[tuple[str, Callable[[], dict[str, Any]]]]:
    """``(note, case)`` for each bench, whose links have different latencies; ``case()`` is a row."""
    for bench in benches:
        yield f"latency {bench.link_latency}", partial(_point, bench, shape, size)


def _point(bench: Bench, shape: tuple[int, ...], size: int) -> dict[str, Any]:
    cycles, (least, resource) = bench.run(shape, size)["cycles"], bench.limit(shape, size)
    waits = latencies(shape, link_latency=bench.link_latency, memory_latency=MEMORY_LATENCY)
    return {"nodes": list(shape), "bytes": size, "link_rate": bench.link_rate, "link_latency": bench.link_latency,
            "cycles": cycles, "bound_by": resource,
            "bound_cycles": round(least), "bound_share": round(least / cycles, 4),
            "latencies": waits, "bound_share_with_latencies": round((least + waits) / cycles, 4),
            "link_bound_share": round(max(bench.bound(shape, size)) / cycles, 4),
            "bus_bytes_per_cycle": round(bus_bandwidth(shape, size, cycles), 2),
            "bound_bus_bytes_per_cycle": round(bus_bandwidth(shape, size, least), 2)}


def show(result: Mapping[str, Any], console: Console) -> None:
    rows = result["operating_points"]
    table = Table(title=f"All-reduce of {rows[0]['bytes']:,} bytes on {'x'.join(map(str, rows[0]['nodes']))}, links of "
                        f"{rows[0]['link_rate']:g} beats per cycle",
                  caption="bus bandwidth as in nccl-tests; bound: the busiest links, or the memory port; "
                          "with latencies: of the bound and the latencies of memory and of each hop")
    for name in ("latency", "cycles", "bytes/cycle", "bound", "share", "with latencies", "bound by"):
        table.add_column(name, justify="left" if name == "bound by" else "right")
    for row in rows:
        table.add_row(f"{row['link_latency']}", f"{row['cycles']:,}", f"{row['bus_bytes_per_cycle']:.2f}",
                      f"{row['bound_bus_bytes_per_cycle']:.2f}", f"{row['bound_share']:.3f}",
                      f"{row['bound_share_with_latencies']:.3f}", row["bound_by"])
    console.print(table)
