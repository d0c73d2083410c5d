# SPDX-License-Identifier: Apache-2.0
"""The simulator beside closed forms and other simulators' results.

Each check gives rows: see :class:`Row`.
"""

import csv
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, NotRequired, TypedDict

from hw.ace.words import Collective
from sim.system.configuration import MachineConfig
from sim.system.machine import Machine
from sim.system.rules import GIB, Links, astra, block, closed_form, plain, simgrid

from .astra_training import rows as training_rows

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["CHECKS", "Row", "distinct", "seconds", "show", "worst"]

C = Collective
REFERENCE = Path(__file__).with_name("reference")


class Row(TypedDict):
    """A case of a check: times of both in nanoseconds or, beside the RTL, in cycles; their relative difference, and
    the largest that is allowed. ``ours`` says what was simulated here: rows of equal ``ours`` are one case, which the
    other simulator counts several times."""

    check: str
    what: str
    ours: str
    ours_ns: NotRequired[float]
    theirs_ns: NotRequired[float]
    ours_cycles: NotRequired[float]
    rtl_cycles: NotRequired[int]
    difference: float
    allowed: float


NAMES = {"ALLREDUCE": C.ALL_REDUCE, "REDUCESCATTER": C.REDUCE_SCATTER, "ALLGATHER": C.ALL_GATHER,
         "ALLTOALL": C.ALL_TO_ALL}
TORI: dict[str, Links] = {"ace": [(2 * 200 * GIB, 72e-9), (2 * 25 * GIB, 402e-9), (2 * 25 * GIB, 402e-9)],
        "uniform": [(2 * 25 * GIB, 402e-9)] * 3}
ALGORITHMS = {"ace4": "hierarchical", "astra5": "five-phase", "flat3": "flat"}
"""As the files name them; links are two directions in one."""


def seconds(config: MachineConfig, collective: Collective, size: int, **options: Any) -> float:
    """Seconds of one collective on an idle machine."""
    ends: list[float] = []
    machine = Machine(config)
    machine.issue(collective, size, done=ends.append, **options)
    machine.run()
    return ends[0]


def closed_forms() -> Iterator[Row]:
    """Rings and tori, a single chunk of whole steps."""
    links = [(400e9, 72e-9), (50e9, 402e-9), (50e9, 402e-9)]
    for shape, size, collective in product(
            ((2,), (5,), (8,), (64,), (1024,), (4, 2, 2), (4, 4, 4), (4, 8, 4), (3, 5, 2)), (240_000, 61_440_000),
            NAMES.values()):
        if collective == C.ALL_TO_ALL and prod(shape) > 128:
            continue
        size = -(-size // prod(shape)) * prod(shape)
        machine = plain(shape, links if len(shape) > 1 else links[1:2], algorithm="hierarchical")
        rings = [(link.bytes_per_s, link.latency_s) for link in machine.dimension_links]
        yield _row("closed forms", _what(shape, collective, size), seconds(machine, collective, block(
            collective, size, prod(shape))), closed_form(collective, shape, size, rings), 0.001)


def astra_rings() -> Iterator[Row]:
    """ASTRA-sim 1.0 on rings: 1 to 64 chunks."""
    for row in _rows("ring1d_v1.csv"):
        ranks, chunks = int(row["npus"]), int(row["chunks"])
        yield from _astra(row, (ranks,), [(2 * 25 * GIB, 500e-9)], chunks, optimised=True)


def astra_tori() -> Iterator[Row]:
    """ASTRA-sim 1.0 on tori: 1 to 256 chunks."""
    for row in _rows("torus3d_v1.csv"):
        yield from _astra(row, _shape(row), TORI[row["param_set"]], int(row["chunks"]),
                          optimised=row["optimization"] == "localBWAware", links=row["param_set"])


def simgrid_tori() -> Iterator[Row]:
    """SimGrid 3.32 on tori."""
    for row in _rows("simgrid_torus.csv"):
        shape, size = _shape(row), int(row["bytes"])
        machine = simgrid(shape, TORI["ace"], algorithm=ALGORITHMS[row["algorithm"]])
        ours = f"{_what(shape, C.ALL_REDUCE, size)}, {row['algorithm']}"
        yield _row("SimGrid", f"{ours}, {row['chunks_in_flight']} in flight", seconds(machine, C.ALL_REDUCE, size),
                   float(row["time_ns"]) / 1e9, 0.005, ours)


def astra_training() -> Iterator[Row]:
    """ASTRA-sim 1.0, two iterations of training, 1 and 16 chunks for each collective: total and compute."""
    for what, ours, theirs in training_rows(REFERENCE / "training_v1.csv"):
        yield _row("ASTRA-sim", what, ours, theirs, 0.005)


CHECKS: dict[str, Callable[[], Iterator[Row]]] = {
    "closed": closed_forms, "astra-rings": astra_rings, "astra-tori": astra_tori, "simgrid": simgrid_tori,
    "astra-training": astra_training}


def _astra(row: dict[str, str], shape: tuple[int, ...], links_of: Links, chunks: int, *, optimised: bool,
           links: str = "") -> Iterator[Row]:
    collective, size = NAMES[row["collective"]], int(row["bytes"])
    whole = size * prod(shape) if collective == C.ALL_GATHER else size
    machine = astra(shape, links_of, chunks=chunks, optimised=optimised)
    what = f"{_what(shape, collective, size)}, {chunks} chunks" + ("" if optimised else ", baseline") + (
        f", {links} links" if links else "")
    yield _row("ASTRA-sim", what, seconds(machine, collective, block(collective, whole, prod(shape))),
               float(row["time_ns"]) / 1e9, 0.005)


def _rows(name: str) -> Iterator[dict[str, str]]:
    with open(REFERENCE / name, encoding="utf-8", newline="") as file:
        yield from csv.DictReader(file)


def _shape(row: dict[str, str]) -> tuple[int, ...]:
    return tuple(int(size) for size in row["torus_LxVxH"].split("x"))


def _what(shape: tuple[int, ...], collective: Collective, size: int) -> str:
    return f"{'x'.join(map(str, shape))} {collective.name} {size:,} B"


def _row(check: str, what: str, ours: float, theirs: float, allowed: float, case: str = "") -> Row:
    return {"check": check, "what": what, "ours": case or what, "ours_ns": ours * 1e9, "theirs_ns": theirs * 1e9,
            "difference": ours / theirs - 1, "allowed": allowed}


def worst(rows: Sequence[Row]) -> Row:
    """The row with the greatest difference."""
    return max(rows, key=lambda row: abs(row["difference"]))


def distinct(rows: Sequence[Row]) -> int:
    """Number of different simulations behind the rows."""
    return len({row["ours"] for row in rows})


def show(rows: Sequence[Row], console: "Console", *, title: str, every: bool = False) -> None:
    """Print the rows of a check, or its worst."""
    from rich.table import Table

    unit = "cycles" if "rtl_cycles" in rows[0] else "us"
    table = Table(title=f"{title} {len(rows)} rows, {distinct(rows)} distinct cases")
    for column in ("case", f"ours, {unit}", f"theirs, {unit}", "difference", "allowed"):
        table.add_column(column, justify="left" if column == "case" else "right")
    for row in rows if every else sorted(rows, key=lambda row: -abs(row["difference"]))[:3]:
        times = [f"{row['ours_cycles']:,.0f}", f"{row['rtl_cycles']:,}"] if unit == "cycles" else \
            [f"{ns / 1e3:,.3f}" for ns in (row["ours_ns"], row["theirs_ns"])]
        table.add_row(row["what"], *times, f"{row['difference']:+.4%}", f"{row['allowed']:.1%}")
    console.print(table)
