# SPDX-License-Identifier: Apache-2.0
"""Functional coverage: counts of requests and collectives by their properties.

A bin is a combination of one value of each property of a cross. The requests and failures are those that the golden
model has, the collectives those that a cluster is given.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

__all__ = ["CROSSES", "Cross", "Tally", "collective_bins", "failure_bins", "request_bins"]

Bin = tuple[str, ...]

LENGTHS = ("1 byte", "below a beat", "up to a segment", "up to 4 KiB", "above 4 KiB")
ALIGNMENTS = ("both aligned", "source unaligned", "destination unaligned", "both unaligned")
PATHS = ("doorbell", "ring", "ARK")
STALLS = ("no stalls", "stalls")
COUNTS = ("0", "1", "2 to 100", "101 to 1000", "above 1000")


@dataclass(frozen=True)
class Cross:
    """A table of bins: ``rows`` and ``columns`` are products of the values of properties."""

    name: str
    engine: str
    rows: tuple[tuple[str, ...], ...]
    columns: tuple[tuple[str, ...], ...]
    never: tuple[tuple[Bin, str], ...] = ()
    """Bins that cannot occur, as prefixes or with ``*``, and why."""

    def bins(self) -> Iterator[Bin]:
        """All bins."""
        return product(*self.rows, *self.columns)

    def impossible(self, name: Bin) -> str:
        """Why a bin cannot occur; empty if it can."""
        for pattern, why in self.never:
            if all(part in ("*", value) for part, value in zip(pattern, name, strict=True)):
                return why
        return ""


def _statuses() -> tuple[str, ...]:
    from hw.dma_engine.words import Status

    return tuple(status.name for status in Status)


def _collectives() -> tuple[str, ...]:
    from hw.ace.collectives import Collective

    return tuple(one.name for one in Collective)


def _types() -> tuple[str, ...]:
    from hw.ace.config import TINY
    from hw.ace.numerics.formats import types

    return tuple(one.name for one in types(TINY))


def _reductions() -> tuple[str, ...]:
    from hw.ace.config import TINY
    from hw.ace.numerics.formats import reductions

    return tuple(one.name for one in reductions(TINY))


CROSSES = (
    Cross("Successful requests: length and alignment, path and stalls", "dma", (LENGTHS, ALIGNMENTS), (PATHS, STALLS),
          tuple((("*", alignment, "ARK", "*"), "an ARK word names whole regions, which begin at a page")
                for alignment in ALIGNMENTS[1:])),
    Cross("Status, and path", "dma", (_statuses(),), (PATHS,), (
        (("OVERFLOW", "ring"), "a tail beyond the ring is RING_RANGE"),
        *((("CONNECTION", path), "only ARK words have connections") for path in PATHS[:2]),
        *(((status, path), "only a ring has descriptors and a tail")
          for status in ("RING_FETCH", "RING_RANGE") for path in ("doorbell", "ARK")))),
    Cross("Collectives: elements, and stalls", "ace", (_collectives(),), (COUNTS, STALLS),
          tuple((("BARRIER", count, "*"), "a barrier has no elements") for count in COUNTS[1:])),
    Cross("Collectives that combine: type and operation", "ace", (_types(),), (_reductions(),)),
    Cross("Collectives: faults of links", "ace", (_collectives(),), (("no faults", "faults"),)),
)


class Tally:
    """Counts of bins by cross, in a file that several processes add to one after the other."""

    def __init__(self) -> None:
        self.counts: dict[str, Counter[Bin]] = {cross.name: Counter() for cross in CROSSES}

    def add(self, found: Mapping[str, Bin]) -> None:
        """Count one request or collective: name of the cross -> bin."""
        for name, one in found.items():
            self.counts[name][one] += 1

    def load(self, path: Path) -> None:
        """Add the counts of a file."""
        for name, rows in json.loads(path.read_text(encoding="utf-8")).items():
            for one, count in rows:
                self.counts[name][tuple(one)] += count

    def store(self, path: Path) -> None:
        """Write the counts."""
        path.write_text(json.dumps({name: [[list(one), count] for one, count in counter.items()]
                                    for name, counter in self.counts.items()}), encoding="utf-8")

    def empty(self, cross: Cross) -> list[Bin]:
        """Bins that could occur and did not."""
        return [one for one in cross.bins() if not self.counts[cross.name][one] and not cross.impossible(one)]


def _class(value: int, limits: Sequence[int], names: Sequence[str]) -> str:
    return names[next((index for index, limit in enumerate(limits) if value <= limit), len(limits))]


def request_bins(*, length: int, source: int, destination: int, beat_bytes: int, segment_bytes: int, path: str,
                 stalls: bool) -> dict[str, Bin]:
    """Bins of a request of the DMA engine that has succeeded.

    Parameters
    ----------
    length, source, destination : int
        Bytes, and addresses or offsets in regions that begin at a beat.
    beat_bytes, segment_bytes : int
        Sizes of the engine.
    path : str
        One of ``PATHS``.
    """
    size = _class(length, (1, beat_bytes - 1, segment_bytes, 4096), LENGTHS)
    alignment = ALIGNMENTS[bool(source % beat_bytes) + 2 * bool(destination % beat_bytes)]
    return {CROSSES[0].name: (size, alignment, path, STALLS[stalls]), CROSSES[1].name: ("OK", path)}


def failure_bins(*, status: str, path: str) -> dict[str, Bin]:
    """Bins of a failure in the log of the DMA engine; ``path`` is that of its queue."""
    return {CROSSES[1].name: (status, path)}


def collective_bins(*, name: str, count: int, dtype: str, operation: str, combines: bool, stalls: bool,
                    faults: bool) -> dict[str, Bin]:
    """Bins of a collective."""
    found = {CROSSES[2].name: (name, _class(count, (0, 1, 100, 1000), COUNTS), STALLS[stalls]),
             CROSSES[4].name: (name, "faults" if faults else "no faults")}
    if combines and count:
        found[CROSSES[3].name] = (dtype, operation)
    return found
