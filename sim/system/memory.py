# SPDX-License-Identifier: Apache-2.0
"""Reads of an endpoint that keeps partial sums in memory: the oldest chunk's first."""

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any, TypeVarTuple

from .kernel import Kernel, ticks_per_byte

__all__ = ["Reads"]

_Arguments = TypeVarTuple("_Arguments")


class Reads:
    """One request after the other, the one with the smallest key first.

    Attributes
    ----------
    bytes : int
    busy : int
        Picoseconds.
    """

    def __init__(self, kernel: Kernel, bytes_per_s: float | None, *, key: int) -> None:
        self._kernel, self._per_byte, self._key = kernel, ticks_per_byte(bytes_per_s), key
        # Heap of (key, number, size, handler, arguments).
        self._waiting: list[tuple[tuple[float, ...], int, int, Callable[..., object], tuple[Any, ...]]] = []
        self._number, self._serving = 0, False
        self.bytes = self.busy = 0

    def request(self, key: tuple[float, ...], size: int, handler: Callable[[*_Arguments], object],
                *arguments: *_Arguments) -> None:
        """Call ``handler(*arguments)`` when ``size`` bytes have been read."""
        self._number += 1
        heappush(self._waiting, (key, self._number, size, handler, arguments))
        self._kernel.decide(self._key, self._next)

    def _next(self) -> None:
        if self._serving or not self._waiting:
            return
        _, _, size, handler, arguments = heappop(self._waiting)
        ticks = round(size * self._per_byte)
        self._serving = True
        self.bytes += size
        self.busy += ticks
        self._kernel.at(self._kernel.now + ticks, self._done, handler, arguments)

    def _done(self, handler: Callable[..., object], arguments: tuple[Any, ...]) -> None:
        self._serving = False
        self._kernel.decide(self._key, self._next)
        handler(*arguments)
