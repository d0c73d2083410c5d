# SPDX-License-Identifier: Apache-2.0
"""Events in order of time, and decisions once all that happens at a time is known.

Time is an integer number of picoseconds. Handlers of events of the same time may run in any order, so they only note
what has happened; who goes next is decided after all of them. So results do not depend on the order in which ranks
are looked at, and one rank can stand for all of a symmetric machine.
"""

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any, TypeVarTuple

__all__ = ["SECOND", "Kernel", "Server", "picoseconds", "ticks_per_byte"]

_Arguments = TypeVarTuple("_Arguments")

SECOND = 1_000_000_000_000
"""Picoseconds."""


def picoseconds(seconds: float) -> int:
    """Nearest number of picoseconds."""
    return round(seconds * SECOND)


def ticks_per_byte(bytes_per_s: float | None) -> float:
    """Picoseconds for a byte, as a float; 0 without a limit (None)."""
    return 0.0 if bytes_per_s is None else SECOND / bytes_per_s


class Kernel:
    """An event queue.

    Attributes
    ----------
    now : int
        Picoseconds.
    """

    def __init__(self) -> None:
        self.now = 0
        self._events: list[tuple[int, int, Callable[..., object], tuple[Any, ...]]] = []
        self._number = 0
        self._undecided: dict[int, Callable[[], object]] = {}

    def at(self, time: int, handler: Callable[[*_Arguments], object], *arguments: *_Arguments) -> None:
        """Call ``handler(*arguments)`` at a time that is not past."""
        self._number += 1
        heappush(self._events, (time, self._number, handler, arguments))

    def decide(self, key: int, decision: Callable[[], object]) -> None:
        """Call ``decision()`` when all events of this time are over; once for each ``key``, smaller keys first."""
        self._undecided[key] = decision

    @property
    def idle(self) -> bool:
        return not self._events and not self._undecided

    def run(self, until: int | None = None) -> None:
        """Run until nothing is left, or to the end of time ``until``."""
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
    """Serves one request after the other at a rate: a memory's read or write side, a pipeline.

    Parameters
    ----------
    kernel : Kernel
    bytes_per_s : float or None
        None serves everything at once.

    Attributes
    ----------
    bytes : int
        Served or begun.
    busy : int
        Picoseconds.
    """

    def __init__(self, kernel: Kernel, bytes_per_s: float | None) -> None:
        self._kernel = kernel
        self.per_byte = ticks_per_byte(bytes_per_s)
        self.free = 0
        self.bytes = self.busy = 0

    def serve(self, size: int, least: int = 0) -> int:
        """Time at which ``size`` bytes, which take ``least`` picoseconds or more, will have been served."""
        ticks = max(round(size * self.per_byte), least)
        self.bytes += size
        self.busy += ticks
        self.free = max(self.free, self._kernel.now) + ticks
        return self.free

    def pass_through(self, size: int) -> int:
        """As :meth:`serve`, for ``size`` bytes that arrive at most as fast as they are served: unless the server is
        behind, it is done when the last byte arrives, which is now."""
        ticks = round(size * self.per_byte)
        self.bytes += size
        self.busy += ticks
        self.free = max(self.free + ticks, self._kernel.now)
        return self.free
