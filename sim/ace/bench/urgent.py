# SPDX-License-Identifier: Apache-2.0
"""A small all-reduce beside a large one: alone, of equal priority, and of a higher one."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from math import prod
from typing import Any

from rich.console import Console
from rich.table import Table

from dmace.drivers.ace import Share
from hw.ace.words import Collective
from sim.ace.bench.runner import Bench
from sim.ace.communicators import Communicator

__all__ = ["BESIDE", "LARGE", "SIZES", "cases", "show"]

SIZES = (64, 4096)

LARGE = 1 << 20
"""Bytes of each rank's buffer."""

BESIDE = {"alone": None, "equal": 0, "higher": 1}
"""Name -> the small one's priority, that of the large one being 0."""

_WHEN = 20_000
"""Cycles after the large one began: all of its chunks are in progress."""


def cases(bench: Bench, shape: tuple[int, ...], sizes: Sequence[int] = SIZES,
          large: int = LARGE) -> Iterator[tuple[str, Callable[[], dict[str, Any]]]]:
    """``(note, case)``; ``case()`` is a row."""
    for size in sizes:
        for name in BESIDE:
            yield f"{size} B, {name}", partial(_point, bench, shape, size, name, large)


def _point(bench: Bench, shape: tuple[int, ...], size: int, name: str, large: int) -> dict[str, Any]:
    return {"bytes": size, "beside": name, "large": large, "cycles": _cycles(bench, shape, size, name, large)}


def _cycles(bench: Bench, shape: tuple[int, ...], size: int, name: str, large: int) -> int:
    """From the doorbells until the last rank has seen the end. Each of the two has half of FSMs and slots."""
    config, whole = bench.config, tuple(range(len(shape)))
    fsms, slots = config.fsms // 2, config.slots // 2
    communicators = [Communicator(whole, Share(0, fsms, 0, slots)),
                     Communicator(whole, Share(fsms, fsms, slots, slots), BESIDE[name] or 0)]
    with bench.cluster(shape, communicators) as cluster:
        if BESIDE[name] is not None:
            cluster.submit(Collective.ALL_REDUCE, bench.inputs(prod(shape), large), dtype=bench.dtype)
            cluster.run(_WHEN)
        inputs = bench.inputs(prod(shape), size)
        outcome = cluster.collective(Collective.ALL_REDUCE, inputs, dtype=bench.dtype, communicator=1, queue=1,
                                     progress=bench.notify)
        bench.cycles += cluster.cycle
    bench.check_results(shape, inputs, outcome.outputs)
    return outcome.cycles


def show(result: Mapping[str, Any], console: Console) -> None:
    rows = result["urgent"]
    table = Table(title=f"A small all-reduce beside one of {rows[0]['large']:,} B, cycles")
    table.add_column("bytes", justify="right")
    for heading in ("alone", "of equal priority", "of higher priority"):
        table.add_column(heading, justify="right")
    for size in dict.fromkeys(row["bytes"] for row in rows):
        cycles = {row["beside"]: row["cycles"] for row in rows if row["bytes"] == size}
        table.add_row(f"{size:,}", *(f"{cycles[name]:,}" for name in BESIDE))
    console.print(table)
