# SPDX-License-Identifier: Apache-2.0
"""Event queue of the simulator: events in order of time, and arbitration after all events of the same time.

Time is an integer number of picoseconds. Handlers of events at the same time may run in any order, so they only record
state; arbitration follows after all of them. Results therefore do not depend on the order in which ranks are processed,
and one rank can represent all ranks of a symmetric machine.
"""

from collections.abc import Callable
from heapq import heappop, heappush
from math import ceil
from typing import Any, TypeVarTuple

__all__ = ["SECOND", "Kernel", "Server", "next_cycle", "picoseconds", "ticks_per_byte"]

_Arguments = TypeVarTuple("_Arguments")

SECOND = 1_000_000_000_000
"""Picoseconds."""


def picoseconds(seconds: float) -> int:
    """Nearest number of picoseconds."""
    return round(seconds * SECOND)


def ticks_per_byte(bytes_per_s: float | None) -> float:
    """Picoseconds per byte; 0 without a limit (None)."""
    return 0.0 if bytes_per_s is None else SECOND / bytes_per_s


def next_cycle(time: float, cycle: float) -> int:
    """When the first clock cycle of ``cycle`` picoseconds begins that does not begin before ``time``."""
    return round(ceil(time / cycle - 1e-6) * cycle)


class Kernel:
    """An event queue.

    Attributes
    ----------
    now : int
        Current time in picoseconds.
    """

    def __init__(self) -> None:
        self.now = 0
        self._events: list[tuple[int, int, Callable[..., object], tuple[Any, ...]]] = []
        self._number = 0
        self._undecided: dict[int, Callable[[], object]] = {}

    def at(self, time: int, handler: Callable[[*_Arguments], object], *arguments: *_Arguments) -> None:
        """Call ``handler(*arguments)`` at ``time``, which must not be in the past."""
        self._number += 1
        heappush(self._events, (time, self._number, handler, arguments))

    def decide(self, key: int, decision: Callable[[], object]) -> None:
        """Call ``decision()`` after all events of the current time; once for each ``key``, smaller keys first."""
        self._undecided[key] = decision

    @property
    def idle(self) -> bool:
        return not self._events and not self._undecided

    def run(self, until: int | None = None) -> None:
        """Run until no event remains, or until all events up to time ``until`` are processed."""
        events, undecided = self._events, self._undecided
        while True:
            now = self.now
            while events and events[0][0] <= now:
                _, _, handler, arguments = heappop(events)
                handler(*arguments)
            if undecided:
                if len(undecided) == 1:
                    undecided.popitem()[1]()
                else:
                    keys = sorted(undecided)
                    for decision in [undecided.pop(key) for key in keys]:
                        decision()
                continue
            if not events or (until is not None and events[0][0] > until):
                break
            self.now = events[0][0]
        if until is not None and until > self.now:
            self.now = until


class Server:
    """A resource that serves requests in order at a rate: a memory's read or write side, a pipeline.

    Parameters
    ----------
    kernel : Kernel
    bytes_per_s : float or None
        Rate; None for no limit.

    Attributes
    ----------
    bytes : int
        Bytes of all requests so far.
    busy : int
        Picoseconds of service for them.
    """

    def __init__(self, kernel: Kernel, bytes_per_s: float | None) -> None:
        self._kernel = kernel
        self.per_byte = ticks_per_byte(bytes_per_s)
        self.free = 0
        self.bytes = self.busy = 0

    def serve(self, size: int, least: int = 0) -> int:
        """Completion time of a request for ``size`` bytes, whose service takes at least ``least`` picoseconds."""
        ticks = max(round(size * self.per_byte), least)
        self.bytes += size
        self.busy += ticks
        self.free = max(self.free, self._kernel.now) + ticks
        return self.free

    def pass_through(self, size: int) -> int:
        """As :meth:`serve`, for ``size`` bytes that arrived until now, no faster than they are served. Without a
        backlog, service ends with the arrival of the last byte, which is now."""
        ticks = round(size * self.per_byte)
        self.bytes += size
        self.busy += ticks
        self.free = max(self.free + ticks, self._kernel.now)
        return self.free
