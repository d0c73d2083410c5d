"""One direction of a link, and the queue of what is to go over it."""

from collections import deque
from heapq import heappop, heappush
from math import ceil

from .kernel import picoseconds, ticks_per_byte

__all__ = ["Port", "Turn"]


class Turn:
    """Whose turn it is among the chunks of an endpoint: the one that had the latest packet until its message is over or
    it has to wait, then the oldest. All ports of an endpoint share one."""

    def __init__(self, grains):
        self._grains = grains
        self._last, self._left = None, 0

    def choose(self, ready):
        """Index of the sender in a list."""
        if self._left and self._last in ready:
            self._left -= 1
            return ready.index(self._last)
        best = min(range(len(ready)), key=lambda index: ready[index].turn)
        self._last, self._left = ready[best], self._grains - 1
        return best


class Port:
    """A port of an endpoint, with the link to its neighbour.

    What is ready is chosen when there is room in the queue, by age or in turns, and read by ``reader``, a
    :class:`Server` that all ports share; a *signal* (a GRANT) goes before what waits, never into what has begun. At any
    time at most one grain is on the link, for as long as its bytes take.

    Attributes
    ----------
    payload_bytes, wire_bytes, packets : int
        That have left.
    busy : int
        Picoseconds.
    """

    def __init__(self, kernel, config, link, *, key, depth, delay, reader, turn):
        self._kernel, self._key, self._depth, self._delay, self._reader = kernel, key, depth, delay, reader
        self._header, self._per_byte = config.header_bytes, ticks_per_byte(link.bytes_per_s)
        self._latency = picoseconds(link.latency_s)
        self._whole = config.whole_packets
        self._turn = turn if config.turns == "message" else None
        self._ready = []                       # by age: heap of (key, number, sender); in turns: list of senders
        self._number = 0
        self._queue, self._signals = deque(), []
        self._busy = False
        self._woken = -1
        self.payload_bytes = self.wire_bytes = self.packets = self.busy = 0

    def offer(self, sender):
        """``sender`` has a grain that may go: it has ``key``, ``turn`` (both smaller for
        those who are older), and ``take()`` that gives
        ``(payload, packets, arrived, arguments)``."""
        if self._turn:
            self._ready.append(sender)
        else:
            self._number += 1
            heappush(self._ready, (sender.key, self._number, sender))
        self._kernel.decide(self._key, self._choose)

    def signal(self, arrived, arguments):
        """Send a packet without payload."""
        heappush(self._signals, (arguments, arrived))
        self._kernel.decide(self._key, self._choose)

    def _choose(self):
        queue, now, reader = self._queue, self._kernel.now, self._reader
        while self._ready and len(queue) < self._depth:
            sender = self._pick()
            payload, packets, arrived, arguments = sender.take()
            # Its first bytes can go while the others are still read. Packets are read one after the other; messages of
            # several ports packet by packet, so none waits for the whole of another.
            if self._whole:
                reads = max(now, reader.free)
                reader.serve(payload)
            else:
                reads = max(now, reader.pass_through(payload) - round(payload * reader.per_byte))
            queue.append((reads + self._delay, payload, packets, arrived, arguments))
        if not self._busy:
            self._begin(now)

    def _pick(self):
        if self._turn:
            return self._ready.pop(self._turn.choose(self._ready))
        return heappop(self._ready)[2]

    def _begin(self, now):
        if self._signals:
            arguments, arrived = heappop(self._signals)
            payload, packets = 0, 1
        elif self._queue and self._queue[0][0] <= now:
            _, payload, packets, arrived, arguments = self._queue.popleft()
        else:
            if self._queue and self._woken != self._queue[0][0]:
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
        self._kernel.at(now + ticks + self._latency, arrived, *arguments)

    def _ended(self):
        self._busy = False
        self._kernel.decide(self._key, self._choose)
