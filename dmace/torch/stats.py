# SPDX-License-Identifier: Apache-2.0
"""Statistics of the collectives of this process: cycles of the RTL, and bytes on memories and links."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass

from dmace.cluster_client.protocol import Result

__all__ = ["Record", "Stats", "record", "reset_stats", "stats"]

_lock = threading.Lock()
_records: list["Record"] = []


@dataclass(frozen=True)
class Record:
    """A collective that has completed.

    Attributes
    ----------
    collective : str
        The accelerator's.
    dtype : str
        As which its elements were reduced or moved.
    ranks : int
        Of the group.
    bytes : int
        Of this rank's send buffer.
    result : :class:`dmace.cluster_client.protocol.Result`
        Cycles and bytes, of all ranks together.
    seconds : float
        From this rank's post to its completion on this machine: the time of the simulation, and of waiting for others.
    begun : int
        Time of the post, in nanoseconds since 1970.
    """

    collective: str
    dtype: str
    ranks: int
    bytes: int
    result: Result
    seconds: float
    begun: int = 0


class Stats:
    """Statistics of :func:`stats`.

    Attributes
    ----------
    records : tuple of :class:`Record`
        In the order of completion.
    """

    def __init__(self, records: Sequence[Record]) -> None:
        self.records = tuple(records)

    @property
    def cycles(self) -> int:
        """Sum of the RTL's cycles of all collectives."""
        return sum(one.result.cycles for one in self.records)

    @property
    def simulated_share(self) -> float:
        """Share of the collectives' time, from post to completion, in which the process of the cluster simulated them.
        The rest are copies, messages, and waiting for other ranks and other collectives."""
        seconds = sum(one.seconds for one in self.records)
        return sum(one.result.seconds for one in self.records) / seconds if seconds else 0.0

    def predicted_seconds(self, clock_mhz: float) -> float:
        """Time of these collectives on accelerators of this clock frequency, one after the other."""
        return self.cycles / (clock_mhz * 1e6)

    def __str__(self) -> str:
        """A table with a row for each collective and type."""
        header = ("collective", "type", "number", "bytes sent", "cycles", "memory read", "memory written",
                  "link payload", "link headers")
        rows: list[tuple[str, ...]] = [header]
        for key in sorted({(one.collective, one.dtype) for one in self.records}):
            found = [one for one in self.records if (one.collective, one.dtype) == key]
            results = [one.result for one in found]
            totals = (len(found), sum(one.bytes for one in found), sum(one.cycles for one in results),
                      sum(one.read_bytes for one in results), sum(one.written_bytes for one in results),
                      sum(one.payload_bytes for one in results), sum(one.header_bytes for one in results))
            rows.append((*key, *(f"{total:,}" for total in totals)))
        widths = [max(len(row[column]) for row in rows) for column in range(len(header))]
        return "\n".join("  ".join(cell.rjust(width) if column > 1 else cell.ljust(width)
                                   for column, (cell, width) in enumerate(zip(row, widths, strict=True)))
                         for row in rows)


def record(one: Record) -> None:
    with _lock:
        _records.append(one)


def stats() -> Stats:
    """:class:`Stats` of all collectives of this process that have completed since :func:`reset_stats`. Those that Gloo
    has done, and those of one rank, are not in them."""
    with _lock:
        return Stats(_records)


def reset_stats() -> None:
    with _lock:
        _records.clear()
