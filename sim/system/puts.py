# SPDX-License-Identifier: Apache-2.0
"""DMA requests between ranks: what events cost, and the bytes on the links.

Costs of an event are shares of ARK's one-way latencies (NSDI'23): 4.3 us with the hardware engine; 9.1 times that with
a CPU-driven one, and 2.6 times with a software engine: 39 us and 11.2 us.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from hw.errors import UserError

from .configuration import MachineConfig
from .endpoint import Endpoint
from .handle import Handle
from .kernel import Kernel, picoseconds
from .port import Taken

__all__ = ["DMA_ENGINES", "DmaEngine", "Puts"]


@dataclass(frozen=True, kw_only=True)
class DmaEngine:
    """
    Parameters
    ----------
    post_s : float
        From a GPU thread's wish until the engine has the request.
    complete_s : float
        From the last byte's arrival until a thread at the target sees it.
    serial : bool
        A request begins when the one before of the same rank is over.
    """

    post_s: float
    complete_s: float
    serial: bool


DMA_ENGINES = {
    "cpu": DmaEngine(post_s=19.5e-6, complete_s=19.5e-6, serial=False),
    "software": DmaEngine(post_s=5.6e-6, complete_s=5.6e-6, serial=True),
    "hardware": DmaEngine(post_s=2.15e-6, complete_s=2.15e-6, serial=False),
}
"""Half of each one-way latency at either end."""


FIRST = 1 << 40
"""Puts go before chunks of collectives: their turns are below any of those."""


class _Machine(Protocol):
    """The part of the machine that puts use."""

    config: MachineConfig
    kernel: Kernel
    endpoints: list[Endpoint]

    def coordinates(self, rank: int, dimensions: Iterable[int]) -> tuple[int, ...]:
        ...

    def neighbour(self, rank: int, port: int) -> int:
        ...

    def handle(self, tag: str) -> Handle:
        ...

    def over(self, handle: Handle, what: str, rank: int, name: str, done: Callable[[float], object] | None,
             last: bool = True) -> None:
        ...


class _Put:
    """A put in flight. Each of its hops sends the messages through one port."""

    def __init__(self, number: int, path: list[tuple[Endpoint, int]], sizes: list[int],
                 ended: Callable[[], object]) -> None:
        self.number, self.path, self.sizes, self.ended = number, path, sizes, ended
        self.left = len(sizes)
        self.hops = [_Hop(self, step) for step in range(len(path))]


class _Hop:
    """A put at one of the ranks on its path, as a port sees it."""

    def __init__(self, put: _Put, step: int) -> None:
        self.put, self.step = put, step
        self.key, self.turn = (float("-inf"), put.number), put.number - FIRST
        self.there, self.sent, self.offered = 0, 0, False

    def take(self) -> Taken:
        put, (endpoint, _) = self.put, self.put.path[self.step]
        size = put.sizes[self.sent]
        self.sent, self.offered = self.sent + 1, False
        endpoint.kernel.at(endpoint.kernel.now, self.go_on)
        return size, -(-size // endpoint.config.packet_bytes), self.arrived, (put.number, self.step)

    def go_on(self) -> None:
        if not self.offered and self.sent < self.there:
            self.offered = True
            endpoint, port = self.put.path[self.step]
            endpoint.ports[port].offer(self)

    def come(self) -> None:
        """One more message has arrived."""
        self.there += 1
        self.go_on()

    def arrived(self, *_: int) -> None:
        if self.step + 1 < len(self.put.path):
            self.put.hops[self.step + 1].come()
        else:
            self.put.ended()


class Puts:
    """All puts of a machine."""

    def __init__(self, machine: _Machine) -> None:
        self._machine = machine
        self._number = 0
        self._waiting: dict[tuple[int, str], list[Callable[[], None]]] = {}

    def put(self, source: int, target: int, size: int, engine: str, tag: str,
            done: Callable[[float], object] | None) -> Handle:
        """On a folded machine every rank does the same, to the rank as far away as ``target`` is from ``source``."""
        machine, config = self._machine, self._machine.config
        if engine not in DMA_ENGINES:
            raise UserError(f"The engine of a put must be one of {', '.join(DMA_ENGINES)}, not {engine!r}.")
        for rank in (source, target):
            if not 0 <= rank < config.ranks:
                raise UserError(f"There are ranks 0 to {config.ranks - 1}, not {rank!r}.")
        if size != int(size) or size < 1:
            raise UserError(f"A put must have 1 byte or more, not {size!r}.")
        self._number += 1
        path = self._path(source, target)
        begin = machine.endpoints[0 if config.fold else source]
        end = machine.endpoints[0 if config.fold else target]
        handle = machine.handle(tag)
        costs, kernel = DMA_ENGINES[engine], machine.kernel
        sizes = [min(config.message_bytes, size - low) for low in range(0, size, config.message_bytes)]

        def seen() -> None:
            machine.over(handle, "put", source, tag or "put", done)
            if costs.serial:
                queue = self._waiting[begin.rank, engine]
                queue.pop(0)
                if queue:
                    queue[0]()

        def message_here() -> None:
            put.left -= 1
            written = end.drains.serve(sizes[len(sizes) - 1 - put.left])
            if not put.left:
                kernel.at(written + picoseconds(costs.complete_s), seen)

        def start() -> None:
            kernel.at(kernel.now + picoseconds(costs.post_s), read)

        def read() -> None:
            for part in sizes:
                kernel.at(begin.fills.serve(part), put.hops[0].come if path else message_here)

        put = _Put(self._number, path, sizes, message_here)
        if costs.serial:
            queue = self._waiting.setdefault((begin.rank, engine), [])
            queue.append(start)
            if len(queue) > 1:
                return handle
        start()
        return handle

    def _path(self, source: int, target: int) -> list[tuple[Endpoint, int]]:
        """``(endpoint, port)`` of each hop: dimension after dimension, in the shorter direction round each ring."""
        path: list[tuple[Endpoint, int]] = []
        machine, shape = self._machine, self._machine.config.shape
        coordinates, goal = (machine.coordinates(rank, range(len(shape))) for rank in (source, target))
        at = 0 if machine.config.fold else source
        for dimension, size in enumerate(shape):
            up = (goal[dimension] - coordinates[dimension]) % size
            port, hops = (2 * dimension, up) if up <= size - up else (2 * dimension + 1, size - up)
            for _ in range(hops):
                path.append((machine.endpoints[at], port))
                at = machine.neighbour(at, port)
        return path
