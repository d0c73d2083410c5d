# SPDX-License-Identifier: Apache-2.0
"""One direction of a link, and the queue of grains that wait for it."""

from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from math import ceil
from typing import Any, Protocol

from .configuration import LinkConfig, MachineConfig
from .kernel import Kernel, Server, picoseconds, ticks_per_byte

__all__ = ["Port", "Queued", "Sender", "Taken"]

Taken = tuple[int, int, Callable[..., object], tuple[Any, ...]]
"""A granted grain: ``(payload, packets, arrived, arguments)``; ``arrived(*arguments)`` is called when it arrives."""

Queued = tuple[int, int, int, Callable[..., object], tuple[Any, ...]]
"""A grain that waits for the link: the earliest time at which it may leave, then as :data:`Taken`."""


class Sender(Protocol):
    """A sender of grains. ``key`` and ``turn`` order senders by age; the oldest has the smallest. The last part of a
    key is the sender's number in its collective."""

    @property
    def key(self) -> tuple[float, ...]:
        ...

    @property
    def turn(self) -> int:
        ...

    def take(self) -> Taken:
        """Next grain of the sender, which was granted."""


class _Chooser(Protocol):
    """A :class:`~.picker.Picker`."""

    def offer(self, port: "Port", sender: Sender) -> None:
        ...

    def wake(self) -> None:
        ...


class Port:
    """A port of an endpoint, with the link to its neighbour.

    While the queue has free entries, the grain of the oldest sender is granted and read by ``reader``, a
    :class:`Server` that all ports share (with ``turns="fifo"``: of one collective's senders, the first that was ready);
    alternatively a :class:`Picker` arbitrates for all ports. A *signal* (a GRANT)
    precedes waiting grains, but does not interrupt a transfer. The link carries one grain at a time, for the duration
    of its bytes.

    Attributes
    ----------
    payload_bytes, wire_bytes, packets : int
        Sent so far.
    busy : int
        Picoseconds for which the link was busy.
    """

    peer: "Port"
    """Port at the other end of the link; the machine sets it."""

    def __init__(self, kernel: Kernel, config: MachineConfig, link: LinkConfig, *, key: int, depth: int, delay: int,
                 reader: Server, picker: _Chooser | None) -> None:
        self._kernel, self._key, self._depth, self._delay, self._reader = kernel, key, depth, delay, reader
        self._header, self._per_byte = config.header_bytes, ticks_per_byte(link.bytes_per_s)
        self._latency = picoseconds(link.latency_s)
        self._picker, self._fifo = picker, config.turns == "fifo"
        self._ready: list[tuple[tuple[float, ...], int, Sender]] = []   # heap of (key, number, sender)
        self._number = 0
        self._queue: deque[Queued] = deque()
        self._signals: list[tuple[tuple[Any, ...], Callable[..., object]]] = []
        self._busy = False
        self._woken = -1
        self._credit, self._longest = config.receive_buffer_bytes, config.packet_bytes
        self._quarter, self._untold = (config.receive_buffer_bytes or 0) // 4, 0
        self.payload_bytes = self.wire_bytes = self.packets = self.busy = 0

    def offer(self, sender: Sender) -> None:
        """``sender`` has a grain that may be sent."""
        if self._picker is not None:
            self._picker.offer(self, sender)
            return
        self._number += 1
        key = sender.key[:-1] if self._fifo else sender.key
        heappush(self._ready, (key, self._number, sender))
        self._kernel.decide(self._key, self._choose)

    @property
    def has_free_slot(self) -> bool:
        return len(self._queue) < self._depth

    def put(self, entry: Queued) -> None:
        """Queue a grain that the picker granted."""
        self._queue.append(entry)
        self._kernel.decide(self._key, self._choose)

    def signal(self, arrived: Callable[..., object], arguments: tuple[Any, ...]) -> None:
        """Send a packet without payload."""
        heappush(self._signals, (arguments, arrived))
        self._kernel.decide(self._key, self._choose)

    def _choose(self) -> None:
        queue, now, reader = self._queue, self._kernel.now, self._reader
        while self._ready and len(queue) < self._depth:
            payload, packets, arrived, arguments = heappop(self._ready)[2].take()
            # Messages of several ports are read packet by packet, so none waits for another whole message.
            reads = max(now, reader.pass_through(payload) - round(payload * reader.per_byte))
            queue.append((reads + self._delay, payload, packets, arrived, arguments))
        if not self._busy:
            self._begin(now)

    def _begin(self, now: int) -> None:
        arrived: Callable[..., object] | None
        arguments: tuple[Any, ...]
        open_ = self._credit is None or self._credit >= self._longest
        if self._signals and open_:
            arguments, arrived = heappop(self._signals)
            payload, packets = 0, 1
        elif self._queue and self._queue[0][0] <= now and open_:
            _, payload, packets, arrived, arguments = self._queue.popleft()
            if self._picker is not None:
                self._picker.wake()
        elif self._untold and self._untold >= self._quarter:
            payload, packets, arrived, arguments = 0, 1, None, ()
        else:
            if self._queue and self._queue[0][0] > now and self._woken != self._queue[0][0]:
                self._woken = self._queue[0][0]
                self._kernel.at(self._woken, self._kernel.decide, self._key, self._choose)
            return
        wire = payload + packets * self._header
        ticks = ceil(wire * self._per_byte - 1e-6)
        self._busy = True
        self.payload_bytes += payload
        self.wire_bytes += wire
        self.packets += packets
        self.busy += ticks
        self._kernel.at(now + ticks, self._ended)
        if arrived is not None:
            self._kernel.at(now + ticks + self._latency, arrived, *arguments)
        if self._credit is not None:
            self._credit -= payload
            if self._untold:
                self._kernel.at(now + ticks + self._latency, self.peer.credited, self._untold)
                self._untold = 0

    def freed(self, size: int) -> None:
        """Free ``size`` bytes of the receive buffer on this side. The next packet returns the credit to the neighbour;
        if none may start, a CREDIT packet returns it once it is a quarter of the buffer."""
        if self._credit is not None:
            self._untold += size
            self._kernel.decide(self._key, self._choose)

    def credited(self, size: int) -> None:
        """The neighbour returns credit for ``size`` bytes that were freed in its receive buffer."""
        assert self._credit is not None
        self._credit += size
        self._kernel.decide(self._key, self._choose)

    def _ended(self) -> None:
        self._busy = False
        self._kernel.decide(self._key, self._choose)
