"""One direction of a link, and the queue of what is to go over it."""

from collections import deque
from heapq import heappop, heappush

from .kernel import picoseconds, ticks_per_byte

__all__ = ["Port"]


class Port:
    """A port of an endpoint, with the link to its neighbour.

    What is ready is chosen when there is room in the queue, by age or in turns; a *signal* (a GRANT) goes before what
    waits, never into what has begun. At any time at most one grain is on the link, for as long as its bytes take.

    Attributes
    ----------
    payload_bytes, wire_bytes, packets : int
        That have left.
    busy : int
        Picoseconds.
    """

    def __init__(self, kernel, config, link, *, key, depth, delay):
        self._kernel, self._key, self._depth, self._delay = kernel, key, depth, delay
        self._header, self._per_byte = config.header_bytes, ticks_per_byte(link.bytes_per_s)
        self._latency = picoseconds(link.latency_s)
        self._turns = config.turns == "message"
        self._message = config.message_bytes
        self._ready = []                       # by age: heap of (key, number, sender); in turns: list of senders
        self._number = 0
        self._queue, self._signals = deque(), []
        self._busy = False
        self._last, self._left = -1, 0         # in turns: whose turn it is, and bytes that are left of it
        self._woken = -1
        self.payload_bytes = self.wire_bytes = self.packets = self.busy = 0

    def offer(self, sender):
        """``sender`` has a grain that may go: it has ``key``, ``turn``, and ``take()`` that gives
        ``(payload, packets, arrived, arguments)``."""
        if self._turns:
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
        queue, now = self._queue, self._kernel.now
        while self._ready and len(queue) < self._depth:
            sender = self._pick()
            payload, packets, arrived, arguments = sender.take()
            self._left -= payload
            queue.append((now + self._delay, payload, packets, arrived, arguments))
        if not self._busy:
            self._begin(now)

    def _pick(self):
        if not self._turns:
            return heappop(self._ready)[2]
        ready = self._ready
        best, last = 0, self._last
        if self._left > 0:
            for index, sender in enumerate(ready):
                if sender.turn == last:
                    return ready.pop(index)
        far = None
        for index, sender in enumerate(ready):
            distance = (sender.turn - last - 1) % 1024
            if far is None or distance < far:
                best, far = index, distance
        sender = ready.pop(best)
        self._last, self._left = sender.turn, self._message
        return sender

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
        ticks = round(wire * self._per_byte)
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
