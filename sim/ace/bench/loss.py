# SPDX-License-Identifier: Apache-2.0
"""Throughput over the share of packets that links lose."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from rich.console import Console
from rich.table import Table

from sim.ace.bench.runner import Bench
from sim.ace.faults import Faults, counted

__all__ = ["RATES", "cases", "show"]

RATES = (0, 1e-5, 1e-4, 1e-3, 3e-3, 1e-2, 3e-2)


def cases(bench: Bench, shape: tuple[int, ...], size: int, *,
          rates: Sequence[float] = RATES) -> Iterator[tuple[str, Callable[[], dict[str, Any]]]]:
    """``(note, case)`` for each share of packets; ``case()`` is a row."""
    for rate in rates:
        yield f"loss of {rate:g}", partial(_point, bench, shape, size, rate)


def _point(bench: Bench, shape: tuple[int, ...], size: int, rate: float) -> dict[str, Any]:
    found = bench.run(shape, size, faults=Faults(loss=rate))
    return {"nodes": list(shape), "bytes": size, "loss": rate, "cycles": found["cycles"],
            "bound_share": round(bench.limit(shape, size)[0] / found["cycles"], 4),
            "lost_packets": counted(found)["lost"], "payload_bytes": sum(link["payload_bytes"]
                                                                         for link in found["links"])}


def show(result: Mapping[str, Any], console: Console) -> None:
    table = Table(title="Links that lose packets")
    for name in ("share lost", "packets lost", "cycles", "share of the bound", "bytes sent, over those without loss"):
        table.add_column(name, justify="right")
    least = result["loss"][0]["payload_bytes"]
    for row in result["loss"]:
        table.add_row(f"{row['loss']:g}", f"{row['lost_packets']:,}", f"{row['cycles']:,}", f"{row['bound_share']:.3f}",
                      f"{row['payload_bytes'] / least:.3f}")
    console.print(table)
