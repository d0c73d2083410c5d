# SPDX-License-Identifier: Apache-2.0
"""Throughput over FSMs and slots.

A communicator with a share of FSMs and slots works as in an accelerator that has no more of them, so one accelerator
with many measures all.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from rich.console import Console
from rich.table import Table

from hw.ace.config import AceConfig
from sim.ace.bench.runner import Bench

__all__ = ["cases", "largest", "show"]

SHAPES = ((8,), (4, 2, 2))
FSMS = (1, 2, 4, 8, 16)
SLOTS_PER_FSM = (1, 2, 4)
MOST_SLOTS = 32


def largest(config: AceConfig) -> AceConfig:
    """The accelerator that has all that is swept."""
    return replace(config, fsms=max(config.fsms, *FSMS), slots=max(config.slots, MOST_SLOTS))


def cases(bench: Bench, size: int, *, shapes: Sequence[tuple[int, ...]] = SHAPES,
          fsms: Sequence[int] = FSMS) -> Iterator[tuple[str, Callable[[], dict[str, Any]]]]:
    """``(note, case)`` for each number of FSMs, with as many slots, or more; ``case()`` is a row.

    Few FSMs are slow, and have less than ``size`` bytes to do.
    """
    for shape in shapes:
        for one in fsms:
            part = size * min(one, 4) // 4
            for slots in (one * times for times in SLOTS_PER_FSM if one * times <= min(MOST_SLOTS, bench.config.slots)):
                yield f"{one} FSMs, {slots} slots", partial(_point, bench, shape, part, one, slots)


def _point(bench: Bench, shape: tuple[int, ...], size: int, fsms: int, slots: int) -> dict[str, Any]:
    cycles = bench.run(shape, size, fsms=fsms, slots=slots)["cycles"]
    least, _ = bench.limit(shape, size)
    return {"nodes": list(shape), "bytes": size, "fsms": fsms, "slots": slots,
            "sram_bytes": slots * bench.config.chunk_bytes, "cycles": cycles, "bound_share": round(least / cycles, 4)}


def show(result: Mapping[str, Any], console: Console) -> None:
    by_shape: dict[tuple[int, ...], dict[tuple[int, int], dict[str, Any]]] = {}
    for row in result["sweep"]:
        by_shape.setdefault(tuple(row["nodes"]), {})[row["fsms"], row["slots"]] = row
    for shape, rows in by_shape.items():
        sram = {slots: row["sram_bytes"] for (_, slots), row in sorted(rows.items())}
        table = Table(title=f"Share of the bound on {'x'.join(map(str, shape))}, over FSMs and SRAM")
        table.add_column("FSMs", justify="right")
        for slots, size in sorted(sram.items()):
            table.add_column(f"{size // 1024} KiB,\n{slots} slot{'s' * (slots > 1)}", justify="right")
        for fsms in sorted({fsms for fsms, _ in rows}):
            table.add_row(f"{fsms}", *(f"{rows[fsms, slots]['bound_share']:.3f}" if (fsms, slots) in rows else ""
                                       for slots in sorted(sram)))
        console.print(table)
