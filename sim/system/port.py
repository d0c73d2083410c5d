"""One direction of a link, and the queue of what is to go over it."""

from collections import deque
from heapq import heappop, heappush
from math import ceil

from .kernel import picoseconds, ticks_per_byte

__all__ = ["Port"]


class Port:
    """A port of an endpoint, with the link to its neighbour.

    What is ready is chosen when there is room in the queue, the oldest first, and read by ``reader``, a
    :class:`Server` that all ports share; or a :class:`Picker` chooses for all ports. A *signal* (a GRANT) goes before
    what waits, never into what has begun. At any time at most one grain is on the link, for as long as its bytes take.

    Attributes
    ----------
    payload_bytes, wire_bytes, packets : int
        That have left.
    busy : int
        Picoseconds.
    """

    def __init__(self, kernel, config, link, *, key, depth, delay, reader, picker):
        self._kernel, self._key, self._depth, self._delay, self._reader = kernel, key, depth, delay, reader
        self._header, self._per_byte = config.header_bytes, ticks_per_byte(link.bytes_per_s)
        self._latency = picoseconds(link.latency_s)
        self._picker = picker
        self._ready = []                       # heap of (key, number, sender)
        self._number = 0
        self._queue, self._signals = deque(), []
        self._busy = False
        self._woken = -1
        self._credit, self._longest = config.receive_buffer_bytes, config.packet_bytes
        self._quarter, self._untold = (config.receive_buffer_bytes or 0) // 4, 0
        self.peer = None
        self.payload_bytes = self.wire_bytes = self.packets = self.busy = 0

    def offer(self, sender):
        """``sender`` has a grain that may go: it has ``key``, ``turn`` (both smaller for those who are older), and
        ``take()`` that gives ``(payload, packets, arrived, arguments)``."""
        if self._picker is not None:
            self._picker.offer(self, sender)
            return
        self._number += 1
        heappush(self._ready, (sender.key, self._number, sender))
        self._kernel.decide(self._key, self._choose)

    @property
    def has_room(self):
        return len(self._queue) < self._depth

    def put(self, entry):
        """The picker has chosen: ``(time, payload, packets, arrived, arguments)``."""
        self._queue.append(entry)
        self._kernel.decide(self._key, self._choose)

    def signal(self, arrived, arguments):
        """Send a packet without payload."""
        heappush(self._signals, (arguments, arrived))
        self._kernel.decide(self._key, self._choose)

    def _choose(self):
        queue, now, reader = self._queue, self._kernel.now, self._reader
        while self._ready and len(queue) < self._depth:
            payload, packets, arrived, arguments = heappop(self._ready)[2].take()
            # Messages of several ports are read packet by packet: none waits for the whole of another.
            reads = max(now, reader.pass_through(payload) - round(payload * reader.per_byte))
            queue.append((reads + self._delay, payload, packets, arrived, arguments))
        if not self._busy:
            self._begin(now)

    def _begin(self, now):
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

    def freed(self, size):
        """So much has left the receive buffer on this side: the neighbour is told with the next packet, or, where none
        may begin, by one of its own once it is a quarter of the buffer."""
        if self._credit is not None:
            self._untold += size
            self._kernel.decide(self._key, self._choose)

    def credited(self, size):
        """The neighbour tells that so much has left its receive buffer."""
        self._credit += size
        self._kernel.decide(self._key, self._choose)

    def _ended(self):
        self._busy = False
        self._kernel.decide(self._key, self._choose)
