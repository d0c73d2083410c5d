# SPDX-License-Identifier: Apache-2.0
"""DMA requests between ranks: the costs of :class:`.slice_costs.SliceCosts`, and the bytes on the links."""

from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from operator import itemgetter
from typing import Protocol

from hw.errors import UserError

from .coarse import messages
from .configuration import MachineConfig
from .endpoint import Endpoint
from .handle import Handle
from .kernel import SECOND, Kernel, picoseconds
from .port import Taken
from .put_engine import PutEngine, Segment
from .slice_costs import SliceCosts, costs_of
from .switches import Switch

__all__ = ["Puts"]

FIRST = 1 << 40
"""Puts go before chunks of collectives: their turns are below any of those."""

_WRITE = 34
"""Order of its decision, after those of the endpoint."""


_Step = tuple[Endpoint, int, int]
"""Endpoint, port and, through a switch, ranks to the next endpoint."""


class _Machine(Protocol):
    """The part of the machine that puts use."""

    config: MachineConfig
    kernel: Kernel
    switches: list[Switch | None]
    """By dimension."""
    memory_latency: int
    """Picoseconds."""

    def coordinates(self, rank: int, dimensions: Iterable[int]) -> tuple[int, ...]:
        ...

    def neighbour(self, rank: int, port: int) -> int:
        ...

    def endpoint(self, rank: int) -> Endpoint:
        ...

    def handle(self, tag: str) -> Handle:
        ...

    def over(self, handle: Handle, what: str, rank: int, name: str, done: Callable[[float], object] | None,
             last: bool = True) -> None:
        ...


class _Put:
    """A put in flight. Each of its hops sends the messages through one port.

    ``taken`` is called when the first link accepts a message, ``passed`` when a message is at the first neighbour.
    """

    def __init__(self, number: int, path: list[_Step], sizes: list[int], check: float,
                 ended: Callable[[], object]) -> None:
        self.number, self.path, self.sizes, self.ended = number, path, sizes, ended
        self.left, self.check = len(sizes), check
        self.taken: Callable[[], object] | None = None
        self.passed: Callable[[], object] | None = None
        self.hops = [_Hop(self, step) for step in range(len(path))]


class _Hop:
    """A put at one of the ranks on its path, as a port sees it."""

    def __init__(self, put: _Put, step: int) -> None:
        self.put, self.step = put, step
        # Puts that ranks began together, at a port that they cross after different numbers of hops: nearer ones first.
        self.key, self.turn = (float("-inf"), put.number, step), put.number - FIRST
        self.there, self.sent, self.offered = 0, 0, False

    source = None
    """It is not in the SRAM."""

    def take(self) -> Taken:
        put, (endpoint, port, hop) = self.put, self.put.path[self.step]
        size = put.sizes[self.sent]
        self.sent, self.offered = self.sent + 1, False
        endpoint.kernel.at(endpoint.kernel.now, self.go_on)
        if not self.step and put.taken is not None:
            endpoint.kernel.at(endpoint.kernel.now, put.taken)
        packets = -(-size // endpoint.config.packet_bytes)
        wire = size + packets * endpoint.config.header_bytes
        return size, packets, endpoint.towards(port, wire, lambda _: self.arrived, hop), (put.number, size)

    def go_on(self) -> None:
        if not self.offered and self.sent < self.there:
            self.offered = True
            endpoint, port, _ = self.put.path[self.step]
            endpoint.ports[port].offer(self)

    def come(self) -> None:
        """One more message has arrived."""
        self.there += 1
        self.go_on()

    def arrived(self, _: int, size: int) -> None:
        kernel = self.put.path[self.step][0].kernel
        if self.put.check:
            packet = min(size, self.put.path[self.step][0].config.packet_bytes)
            kernel.at(kernel.now + round(packet * self.put.check), self.checked)
        else:
            self.checked()

    def checked(self) -> None:
        put = self.put
        if self.step + 1 < len(put.path):
            put.hops[self.step + 1].come()
            if not self.step and put.passed is not None:
                put.passed()
        else:
            put.ended()


class Puts:
    """All puts of a machine."""

    def __init__(self, machine: _Machine) -> None:
        self._machine = machine
        self._numbers: dict[int, int] = {}
        self._arrived: dict[int, list[tuple[tuple[float, ...], Callable[[], None]]]] = {}
        self._waiting: dict[tuple[int, SliceCosts], list[Callable[[], None]]] = {}
        self._engines: dict[tuple[int, SliceCosts], PutEngine] = {}
        self._begins: dict[tuple[int, SliceCosts], int] = {}

    def put(self, source: int, target: int, size: int, engine: str | SliceCosts, tag: str,
            done: Callable[[float], object] | None, counted: Callable[[], object] | None = None) -> Handle:
        """On a folded machine every rank does the same, to the rank as far away as ``target`` is from ``source``.

        ``counted`` is called when the memory of the target has responded to the last byte, before any notification.
        """
        machine, config = self._machine, self._machine.config
        costs = costs_of(engine)
        self.check(source, target, size)
        if costs.segment_bytes is not None and any(machine.switches):
            raise UserError("a DMA engine with segments and acknowledgements needs links of the kind ring in all "
                            "dimensions.")
        number = self._numbers[source] = self._numbers.get(source, 0) + 1
        path = self._path(source, target)
        begin, end = machine.endpoint(source), machine.endpoint(target)
        handle = machine.handle(tag)
        kernel = machine.kernel
        latency = machine.memory_latency if costs.from_memory else 0
        if costs.segment_bytes is None:
            sizes = messages(config, size)
        else:
            part_bytes = min(config.message_bytes, costs.segment_bytes)
            sizes = [min(part_bytes, size - low) for low in range(0, size, part_bytes)]
        own = begin.rank, costs

        def ticks(cycles: float) -> int:
            return round(cycles * SECOND / config.clock_hz)

        notified = ticks(costs.notify_cycles) + latency + ticks(costs.poll_cycles) + picoseconds(costs.complete_s)

        def seen() -> None:
            machine.over(handle, "put", source, tag or "put", done)
            if costs.serial:
                queue = self._waiting[own]
                queue.pop(0)
                if queue:
                    queue[0]()

        def message_here() -> None:
            # Messages that arrive at the same time through several ports are written in an order of their own.
            self._arrived.setdefault(end.rank, []).append(((number, len(path), path[-1][1] if path else 0), write))
            kernel.decide(_WRITE << 16 | end.rank, lambda: self._write(end.rank))

        def write() -> None:
            put.left -= 1
            written = end.memory.write(sizes[len(sizes) - 1 - put.left]) + latency
            if passed is not None and len(path) < 2:
                kernel.at(written, passed)
            if not put.left:
                if counted is not None:
                    kernel.at(written, counted)
                kernel.at(written + notified, seen)

        def start() -> None:
            wait = picoseconds(costs.post_s) + ticks(costs.tick_cycles) + ticks(costs.request_cycles)
            if costs.interval_cycles:
                first = max(kernel.now + wait, self._begins.get(own, 0))
                self._begins[own] = first + ticks(costs.interval_cycles)
                wait = first - kernel.now
            kernel.at(kernel.now + wait, read)

        def read() -> None:
            if costs.segment_bytes is not None:
                segments.append(self._engine(begin, costs, latency).request(sizes, come, path[0][1] if path else None))
            else:
                kernel.at(kernel.now + latency, fill)

        def fill() -> None:
            begin.memory.read(0, least=ticks(costs.engine_cycles))
            for part in sizes:
                kernel.at(begin.memory.read(part), come)

        put = _Put(number, path, sizes, costs.beat_cycles * SECOND / config.clock_hz / config.beat_bytes,
                   message_here)
        come = put.hops[0].come if path else message_here
        passed: Callable[[], object] | None = None
        segments: list[deque[Segment]] = []
        if costs.segment_bytes is not None:
            sender = self._engine(begin, costs, latency)
            passed = put.passed = self._acknowledge(put, sender, segments, costs, latency)
            if path:
                put.taken = partial(sender.left, path[0][1])
        if costs.serial:
            queue = self._waiting.setdefault(own, [])
            queue.append(start)
            if len(queue) > 1:
                return handle
        start()
        return handle

    def check(self, source: int, target: int, size: int) -> None:
        """Raise :class:`UserError` for a put that cannot be."""
        for rank in (source, target):
            if not 0 <= rank < self._machine.config.ranks:
                raise UserError(f"There are ranks 0 to {self._machine.config.ranks - 1}, not {rank!r}.")
        if size != int(size) or size < 1:
            raise UserError(f"A put must have 1 byte or more, not {size!r}.")

    def _write(self, rank: int) -> None:
        # A decision of the same time may have asked again after this one was due.
        for _, write in sorted(self._arrived.pop(rank, []), key=itemgetter(0)):
            write()

    def _engine(self, endpoint: Endpoint, costs: SliceCosts, latency: int) -> PutEngine:
        key = endpoint.rank, costs
        if key not in self._engines:
            self._engines[key] = PutEngine(endpoint, costs, latency)
        return self._engines[key]

    def _acknowledge(self, put: _Put, sender: PutEngine, segments: list[deque[Segment]],
                     costs: SliceCosts, latency: int) -> Callable[[], None]:
        """Handler for each message that is at the first neighbour, or in the target's memory: the neighbour
        acknowledges the last one of each segment."""
        number = offset = 0
        assert costs.segment_bytes is not None
        segment_bytes = costs.segment_bytes

        def passed() -> None:
            nonlocal number, offset
            offset += put.sizes[number]
            number += 1
            if offset % segment_bytes and number < len(put.sizes):
                return
            if put.path:
                endpoint, port, _ = put.path[0]
                neighbour = self._engine(endpoint.neighbours[port], costs, latency)
                neighbour.acknowledge(port ^ 1, acknowledged)
            else:
                acknowledged()

        def acknowledged() -> None:
            sender.acknowledged(segments[0])

        return passed

    def _path(self, source: int, target: int) -> list[_Step]:
        """Dimension after dimension: in the shorter direction round each ring, and directly through a switch."""
        path: list[_Step] = []
        machine, shape = self._machine, self._machine.config.shape
        coordinates, goal = (machine.coordinates(rank, range(len(shape))) for rank in (source, target))
        at = source
        for dimension, size in enumerate(shape):
            up = (goal[dimension] - coordinates[dimension]) % size
            switch = machine.switches[dimension]
            if switch is not None:
                if up:
                    endpoint = machine.endpoint(at)
                    path.append((endpoint, 2 * dimension, up))
                    at = switch.peer(endpoint.rank, up)
                continue
            port, hops = (2 * dimension, up) if up <= size - up else (2 * dimension + 1, size - up)
            for _ in range(hops):
                path.append((machine.endpoint(at), port, 1))
                at = machine.neighbour(at, port)
        return path
