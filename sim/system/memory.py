# SPDX-License-Identifier: Apache-2.0
"""The share of a rank's memory bandwidth that communication has."""

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any, TypeVarTuple

from .kernel import Kernel, Server

__all__ = ["POOLS", "Memory", "Reads"]

_Arguments = TypeVarTuple("_Arguments")

POOLS = ("shared", "separate")
"""Conventions for a share of memory bandwidth. ``shared``: bytes read and bytes written together use it, as they do in
DRAM and as computation counts them. ``separate``: reads have it, and writes have as much again, as on a port with a
channel for each."""


class Memory:
    """Requests in order, each for the duration of its bytes at the rate of its direction and, in a shared pool, at the
    rate of the pool; the later of both counts.

    Parameters
    ----------
    kernel : Kernel
    bytes_per_s : float or None
        The share of memory bandwidth; None for no limit.
    way_bytes_per_s : float or None
        Limit of each direction between memory and communication.
    pool : str
        One of :data:`POOLS`.

    Attributes
    ----------
    reads, writes : Server
        Bytes, and picoseconds of service, of each direction.
    """

    def __init__(self, kernel: Kernel, bytes_per_s: float | None, way_bytes_per_s: float | None, pool: str) -> None:
        self._pool = Server(kernel, bytes_per_s) if pool == "shared" and bytes_per_s else None
        limits = [way_bytes_per_s, bytes_per_s]
        way = min((limit for limit in limits if limit), default=None)
        self.reads, self.writes = Server(kernel, way), Server(kernel, way)

    def read(self, size: int, least: int = 0) -> int:
        """Time at which ``size`` bytes have been read; the next read begins ``least`` picoseconds later, or more."""
        return self._both(self.reads.serve(size, least), size)

    def write(self, size: int) -> int:
        """Time at which ``size`` bytes have been written."""
        return self._both(self.writes.serve(size), size)

    def _both(self, end: int, size: int) -> int:
        return end if self._pool is None else max(end, self._pool.serve(size))


class Reads:
    """Reads of an endpoint that keeps partial sums in memory: one after the other, the one with the smallest key first.
    """

    def __init__(self, kernel: Kernel, memory: Memory, *, key: int) -> None:
        self._kernel, self._memory, self._key = kernel, memory, key
        # Heap of (key, number, size, handler, arguments).
        self._waiting: list[tuple[tuple[float, ...], int, int, Callable[..., object], tuple[Any, ...]]] = []
        self._number, self._serving = 0, False

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
        self._serving = True
        self._kernel.at(self._memory.read(size), self._done, handler, arguments)

    def _done(self, handler: Callable[..., object], arguments: tuple[Any, ...]) -> None:
        self._serving = False
        self._kernel.decide(self._key, self._next)
        handler(*arguments)
