# SPDX-License-Identifier: Apache-2.0
"""A rank's DMA engine and send queues, for puts whose segments are limited.

Request -> queue -> reads, a segment's when its window and tag are free -> buffer -> send queue of a port -> link. The
data that was read first leaves the buffer first: while the send queue of its port is full, later data waits, too.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from .endpoint import Endpoint
from .kernel import SECOND
from .port import Taken
from .slice_costs import SliceCosts

__all__ = ["PutEngine", "Segment"]

_ISSUE, _SEND = 32, 33                  # order of decisions, after those of the endpoint


@dataclass(eq=False)
class Segment:
    """A write in flight."""

    queue: "_Queue"
    done: bool = False


class _Acknowledgement:
    """A packet without payload, as a port sees it."""

    key, turn, source = (float("-inf"), 0), -1, None

    def __init__(self, engine: "PutEngine", port: int, arrived: Callable[[], object]) -> None:
        self._engine, self._port, self._arrived = engine, port, arrived

    def offer(self) -> None:
        self._engine.endpoint.ports[self._port].offer(self)

    def take(self) -> Taken:
        kernel = self._engine.endpoint.kernel
        kernel.at(kernel.now, self._engine.left, self._port)
        return 0, 1, self._arrived, ()


@dataclass
class _Request:
    sizes: Sequence[int]
    come: Callable[[], object]
    port: int | None
    segments: deque[Segment]
    next: int = 0
    offset: int = 0


@dataclass
class _Queue:
    requests: deque[_Request] = field(default_factory=deque)
    window: deque[Segment] = field(default_factory=deque)


class PutEngine:
    """
    Parameters
    ----------
    endpoint : Endpoint
    costs : SliceCosts
        With ``segment_bytes``.
    latency : int
        Of reads of the memory, in picoseconds.
    """

    def __init__(self, endpoint: Endpoint, costs: SliceCosts, latency: int) -> None:
        assert costs.segment_bytes is not None
        self.endpoint, self._kernel, self._costs, self._latency = endpoint, endpoint.kernel, costs, latency
        self._segment = costs.segment_bytes
        self._held = round(costs.acknowledge_cycles * SECOND / endpoint.config.clock_hz)
        self._leaving = round(costs.buffer_cycles * SECOND / endpoint.config.clock_hz)
        self._engine = round(costs.engine_cycles * SECOND / endpoint.config.clock_hz)
        self._queues = [_Queue() for _ in range(costs.queues)]
        self._turn = 0
        self._in_flight = self._buffered = 0
        self._read: deque[tuple[_Request, int]] = deque()       # in the buffer, completely
        # By port: handlers that offer a packet; the first one is offered.
        self._sending: list[deque[Callable[[], object]]] = [deque() for _ in endpoint.ports]

    def request(self, sizes: Sequence[int], come: Callable[[], object], port: int | None) -> deque[Segment]:
        """Read parts of these sizes. ``come()`` is called for each when it is first in the send queue of ``port``, or
        has been read if that is None. Requests through one port are in one queue.

        Returns
        -------
        deque
            Segments whose reads have been issued, in order, for :meth:`acknowledged`.
        """
        request = _Request(sizes, come, port, deque())
        self._queues[(port or 0) % len(self._queues)].requests.append(request)
        self._decide(_ISSUE, self._issue)
        return request.segments

    def left(self, port: int) -> None:
        """The link has accepted a packet."""
        queue = self._sending[port]
        queue.popleft()
        if queue:
            queue[0]()
        self._decide(_SEND, self._send)

    def acknowledge(self, port: int, arrived: Callable[[], object]) -> None:
        """Acknowledge a segment that arrived through ``port``, behind the packets in its send queue."""
        self._append(port, _Acknowledgement(self, port, arrived).offer)

    def _append(self, port: int, offer: Callable[[], object]) -> None:
        self._sending[port].append(offer)
        if len(self._sending[port]) == 1:
            offer()

    def acknowledged(self, segments: deque[Segment]) -> None:
        """The acknowledgement of the oldest of the segments has arrived."""
        self._kernel.at(self._kernel.now + self._held, self._complete, segments.popleft())

    def _complete(self, segment: Segment) -> None:
        segment.done = True
        self._in_flight -= 1
        window = segment.queue.window
        while window and window[0].done:
            window.popleft()
        self._decide(_ISSUE, self._issue)

    def _decide(self, resource: int, decision: Callable[[], object]) -> None:
        self._kernel.decide(resource << 16 | self.endpoint.rank, decision)

    def _issue(self) -> None:
        """Issue the reads for which there are credits, a segment of each queue in turn."""
        while (queue := self._next()) is not None:
            request = queue.requests[0]
            size = request.sizes[request.next]
            if not request.offset % self._segment:
                segment = Segment(queue)
                request.segments.append(segment)
                queue.window.append(segment)
                self._in_flight += 1
            self._buffered += size
            request.next += 1
            request.offset += size
            self._kernel.at(self._kernel.now + self._latency, self._data, request, size, request.next == 1)
            if request.next == len(request.sizes):
                queue.requests.popleft()
                self._turn += 1
            elif not request.offset % self._segment:
                self._turn += 1

    def _next(self) -> _Queue | None:
        """The next queue in turn that may read."""
        costs, number = self._costs, len(self._queues)
        for step in range(number):
            queue = self._queues[(self._turn + step) % number]
            if not queue.requests:
                continue
            request = queue.requests[0]
            if costs.buffer_bytes is not None and self._buffered + request.sizes[request.next] > costs.buffer_bytes:
                return None
            if request.offset % self._segment or (
                    (costs.in_flight is None or self._in_flight < costs.in_flight)
                    and (costs.window is None or len(queue.window) < costs.window)):
                self._turn = (self._turn + step) % number
                return queue
        return None

    def _data(self, request: _Request, size: int, first: bool) -> None:
        memory = self.endpoint.memory
        if first:
            memory.read(0, least=self._engine)
        self._kernel.at(memory.read(size), self._stored, request, size)

    def _stored(self, request: _Request, size: int) -> None:
        self._read.append((request, size))
        self._decide(_SEND, self._send)

    def _send(self) -> None:
        """Move data to the send queues, in the order in which it was read."""
        limit = self._costs.port_packets
        while self._read:
            request, size = self._read[0]
            if request.port is not None:
                if limit is not None and len(self._sending[request.port]) >= limit:
                    break
                self._append(request.port, request.come)
            else:
                request.come()
            self._read.popleft()
            self._kernel.at(self._kernel.now + self._leaving, self._leave, size)

    def _leave(self, size: int) -> None:
        self._buffered -= size
        self._decide(_ISSUE, self._issue)
