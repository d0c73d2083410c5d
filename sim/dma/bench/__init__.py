# SPDX-License-Identifier: Apache-2.0
"""Benchmarks of the DMA engine, a file per group of cases.

Each group has ``cases(bench, sizes, latencies)``, which yields ``(key, note, case)``: what ``case()`` returns is
appended to the result's list ``key``; and ``show(result, console)``, which prints its part of the result. To measure
something else, write such a file and name it in :data:`GROUPS`.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from rich.console import Console

from . import ablation, alone, fairness, isolation, latency, rings, sharing, throughput
from .runner import UNALIGNED, Bench, Case, Row

__all__ = ["GROUPS", "UNALIGNED", "Bench", "Group", "measure", "plan"]


class Group(Protocol):
    """Contents of a group's module."""

    __name__: str

    def cases(self, bench: Bench, sizes: Sequence[int], latencies: Sequence[int]) -> Iterator[Case]: ...

    def show(self, result: Row, console: Console) -> None: ...


_GROUPS: tuple[Group, ...] = (throughput, alone, rings, ablation, latency, fairness, sharing, isolation)

#: Name -> module.
GROUPS = {group.__name__.rpartition(".")[2]: group for group in _GROUPS}


def plan(bench: Bench, sizes: Sequence[int], latencies: Sequence[int],
         groups: Sequence[str] = tuple(GROUPS)) -> list[Case]:
    """All cases of these groups, as a list of ``(key, note, case)``."""
    return [case for group in groups for case in GROUPS[group].cases(bench, sizes, latencies)]


def measure(bench: Bench, cases: Sequence[Case], *, progress: Callable[[str], object] = lambda note: None) -> Row:
    """Run cases and return what ``--json`` writes.

    ``results`` and the other lists hold a row per case; ``single`` is the last row of ``single_by_latency``.
    """
    result: Row = {
        "data_width": bench.config.data_width, "queues": bench.queues, "seed": bench.seed,
        "source_shift": bench.shifts[0], "destination_shift": bench.shifts[1],
    }
    for key, note, case in cases:
        progress(note)
        result.setdefault(key, []).append(case())
    if "single_by_latency" in result:
        result["single"] = result["single_by_latency"][-1]
    result["cycles"], result["cycles_per_second"] = bench.cycles, round(bench.cycles / max(bench.seconds, 1e-9))
    return result
