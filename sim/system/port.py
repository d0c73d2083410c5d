# SPDX-License-Identifier: Apache-2.0
"""One direction of a link, and the queue of grains that wait for it."""

from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from math import ceil, inf
from typing import Any, Protocol

from hw.ace.config import AHEAD_BEATS

from .background import Backlog
from .configuration import ABORT_BEATS, LinkConfig, MachineConfig
from .credits import Credits, Report
from .kernel import SECOND, Kernel, Server, next_cycle, picoseconds, ticks_per_byte

__all__ = ["Port", "Queued", "Sender", "Taken"]

Taken = tuple[int, int, Callable[..., object], tuple[Any, ...]]
"""A granted grain: ``(payload, packets, arrived, arguments)``; ``arrived(*arguments)`` is called when it arrives."""

Queued = tuple[int, int, int, Callable[..., object], tuple[Any, ...]]
"""A grain that waits for the link: the earliest time at which it may leave, then as :data:`Taken`."""


_REGISTERS = 2
"""Beats between the memory of packets to send and the link."""

_FREE_CYCLES = 2
"""Cycles from a beat that leaves that memory until the next packet can be chosen."""

_RELEASE_CYCLES = 4
"""Cycles from a report's arrival until the first packet that it acknowledges has left the memory of unacknowledged
packets, and the next one can be chosen. The others leave one per cycle."""


class Sender(Protocol):
    """A sender of grains. ``key`` and ``turn`` order senders by age; the oldest has the smallest. The last part of a
    key is the sender's number in its collective."""

    @property
    def key(self) -> tuple[float, ...]:
        ...

    @property
    def turn(self) -> int:
        ...

    @property
    def source(self) -> int | None:
        """Bytes from the begin of the SRAM to its next grain; None if it is not there."""

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
    alternatively a :class:`Picker` arbitrates for all ports. There are free entries while at most
    :data:`~hw.ace.config.AHEAD_BEATS` wait for the link or, if grains are messages, while none waits.

    A *signal* (a GRANT) precedes waiting grains, but does not interrupt a transfer. The link carries one grain at a
    time, for the duration of its bytes. With receive buffers (:class:`.credits.Credits`), the next one is chosen as
    soon as the registers before the link, of two beats, are free for it.

    ``slower`` is a factor of its link, ``latency`` replaces that of the link, in picoseconds, and ``backlog`` are other
    jobs on it.

    Attributes
    ----------
    per_byte : float
        Picoseconds per byte on the link.
    payload_bytes, wire_bytes, packets : int
        Sent so far.
    busy : int
        Picoseconds for which the link was busy.
    """

    peer: "Port"
    """Port at the other end of the link; the machine sets it."""

    def __init__(self, kernel: Kernel, config: MachineConfig, link: LinkConfig, *, key: int, delay: int,
                 reader: Server, picker: _Chooser | None, slower: float = 1.0, latency: int | None = None,
                 backlog: Backlog | None = None) -> None:
        self._kernel, self._key, self._delay, self._reader = kernel, key, delay, reader
        self._header, self.per_byte = config.header_bytes, ticks_per_byte(link.bytes_per_s / slower)
        self._latency = picoseconds(link.latency_s) if latency is None else latency
        self._backlog = backlog
        self._picker, self._fifo = picker, config.turns == "fifo"
        self._ready: list[tuple[tuple[float, ...], int, Sender]] = []   # heap of (key, number, sender)
        self._number = 0
        self._queue: deque[Queued] = deque()
        self._signals: list[tuple[tuple[Any, ...], Callable[..., object]]] = []
        self._busy = False
        self._free = 0      # when the link has carried all of what was chosen
        self._woken = self._free_woken = -1
        self._credits = None if config.receive_buffer_bytes is None else Credits(config)
        cycle, self._beat = SECOND / config.clock_hz, config.beat_bytes
        # The registers before the link hold beats that it takes one after the other; an idle one takes two cycles.
        self._ahead = 0 if self._credits is None else max(0, round(_REGISTERS * (self._beat * self.per_byte - cycle)))
        self._most = AHEAD_BEATS * self._beat if config.whole_packets else None
        self._waiting = self._reserved = 0      # bytes of the queue, and of reservations; their number
        # Of the grain on the link: its bytes, and when the memory before the registers will have none of them.
        self._size, self._empty = 0, 0
        registers = config.kind.engine == "sram"
        # A link takes at most one beat, or packet without payload, per cycle; and beats arrive in whole cycles.
        self._cycle = cycle if registers and config.whole_packets else 1
        self._least = round(cycle) if registers and config.whole_packets else 0
        # Bytes in the memory of unacknowledged packets, and the most that permit a further one.
        self._kept, self._most_kept = 0, inf
        if config.replay_bytes is not None:
            self._most_kept = config.replay_bytes - config.packet_bytes - ABORT_BEATS * self._beat
        self._known = round(_FREE_CYCLES * cycle - _REGISTERS * self._beat * self.per_byte) if registers else 0
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
    def has_free_entries(self) -> bool:
        """The next grain may be chosen."""
        if self._most is None:
            return not self._queue and not self._reserved
        return self._free_at() <= self._kernel.now

    def _free_at(self) -> float:
        """When the grain on the link has left free entries for another."""
        assert self._most is not None
        spare = self._most - self._waiting
        if spare < 0 or self._kept > self._most_kept:
            return inf
        return 0 if self._size <= spare else self._empty - round(spare * self.per_byte)

    def reserve(self, payload: int) -> None:
        """The picker has granted a grain, which :meth:`put` follows."""
        self._waiting += payload
        self._kept += payload
        self._reserved += 1

    def put(self, entry: Queued) -> None:
        """Queue a grain for which there is a reservation."""
        self._queue.append(entry)
        self._reserved -= 1
        self._kernel.decide(self._key, self._choose)

    def signal(self, arrived: Callable[..., object], arguments: tuple[Any, ...]) -> None:
        """Send a packet without payload."""
        heappush(self._signals, (arguments, arrived))
        self._kernel.decide(self._key, self._choose)

    def _choose(self) -> None:
        now, reader = self._kernel.now, self._reader
        while self._ready and self.has_free_entries:
            payload, packets, arrived, arguments = heappop(self._ready)[2].take()
            # Messages of several ports are read packet by packet, so none waits for another whole message.
            reads = max(now, reader.pass_through(payload) - round(payload * reader.per_byte))
            self._waiting += payload
            self._kept += payload
            self._queue.append((reads + self._delay, payload, packets, arrived, arguments))
        if not self._busy:
            self._begin(now)
        if self._most is not None and now < (free := self._free_at()) < inf and free != self._free_woken:
            self._free_woken = round(free)
            self._kernel.at(self._free_woken, self._has_free)

    def _has_free(self) -> None:
        if self._picker is not None:
            self._picker.wake()
        self._kernel.decide(self._key, self._choose)

    def _begin(self, now: int) -> None:
        arrived: Callable[..., object] | None
        arguments: tuple[Any, ...]
        credits = self._credits
        open_, due = (True, None) if credits is None else (credits.suffice, credits.due)
        if self._signals and open_:
            arguments, arrived = heappop(self._signals)
            payload, packets, filled = 0, 1, self._beat
        elif self._queue and self._queue[0][0] <= now and open_:
            _, payload, packets, arrived, arguments = self._queue.popleft()
            self._waiting -= payload
            filled = payload
            if self._picker is not None:
                self._picker.wake()
        elif due is not None and due <= now:
            payload, packets, filled, arrived, arguments = 0, 1, 0, None, ()
        else:
            times = [time for time in (self._queue[0][0] if self._queue else None, due)
                     if time is not None and time > now]
            if times and self._woken != min(times):
                self._woken = min(times)
                self._kernel.at(self._woken, self._kernel.decide, self._key, self._choose)
            return
        wire = payload + packets * self._header
        ticks = max(ceil(wire * self.per_byte - 1e-6), self._least)
        begin = max(now, self._free)
        if self._backlog is not None:
            begin += ceil(self._backlog.before(begin, ticks))
        self._busy, self._free = True, begin + ticks
        if payload:
            self._size, self._empty = payload, self._free + self._known
        self.payload_bytes += payload
        self.wire_bytes += wire
        self.packets += packets
        self.busy += ticks
        self._kernel.at(max(now, self._free - self._ahead), self._ended)
        there = next_cycle(self._free, self._cycle) + self._latency
        if credits is not None:
            credits.spend(filled)
            self._kernel.at(there, self.peer.comes, filled, payload, credits.report(now))
        if arrived is not None:
            self._kernel.at(there, arrived, *arguments)

    # -- Receive buffers

    def comes(self, filled: int, payload: int, reported: Report) -> None:
        """A packet has arrived, with ``filled`` bytes of the receive buffer, and a report about the neighbour's."""
        credits, now = self._credits, self._kernel.now
        assert credits is not None
        if filled:
            credits.arrived(now, payload)
        if reported.left:
            self._kernel.at(now + credits.counted, self._gain, reported.left)
        if self._most_kept < inf:
            for number, size in enumerate(reported.payloads):
                self._kernel.at(now + round((_RELEASE_CYCLES + number) * self._cycle), self._release, size)
        self._kernel.decide(self._key, self._choose)

    def leaves(self, size: int, begin: int, end: int) -> None:
        """``size`` bytes leave the receive buffer, beat by beat from ``begin`` to ``end``."""
        if self._credits is not None:
            self._credits.leaves(size, begin, end)
            self._kernel.decide(self._key, self._choose)

    def _release(self, size: int) -> None:
        """The neighbour has a packet of ``size`` bytes."""
        held = self._kept > self._most_kept
        self._kept -= size
        if held and self._kept <= self._most_kept:
            self._has_free()

    def _gain(self, size: int) -> None:
        assert self._credits is not None
        self._credits.gain(size)
        self._kernel.decide(self._key, self._choose)

    def _ended(self) -> None:
        self._busy = False
        self._kernel.decide(self._key, self._choose)
