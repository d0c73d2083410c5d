# SPDX-License-Identifier: Apache-2.0
"""Arbitration among the packets of all ports of a pipe, as in the accelerator."""

from collections import deque
from collections.abc import Callable

from .banks import Stream
from .kernel import Kernel, Server
from .port import Port, Sender, Taken

__all__ = ["Granted", "Picker", "Read"]

AHEAD = 2
"""Packets granted in advance, whose reads have not started."""

Read = Callable[[int, int], tuple[Stream, int]]
"""Begins to read a packet from the SRAM: receives its place there, in bytes, and its length. Returns the stream of its
beats, and how many cycles the first one waits."""

Granted = tuple[Port, int | None, Taken]
"""A packet's port, its place in the SRAM, and what its sender has given."""


class Picker:
    """Grants one packet at a time, which ``reader``, a :class:`Server`, then reads from the SRAM at its rate.

    The sender of the latest packet keeps the grant until its message ends or it stalls; then the oldest sender is
    granted whose port has free entries.

    Parameters
    ----------
    kernel : Kernel
    key : int
        Key of its decisions.
    reader : Server
    delay : int
        Picoseconds from the start of a read until its first bytes can leave.
    packets : int
        Packets per message.
    read : Read, optional
        Stalls by the SRAM; without it, there are none.
    cycle : float
        Picoseconds.
    """

    def __init__(self, kernel: Kernel, key: int, reader: Server, *, delay: int, packets: int, read: Read | None,
                 cycle: float) -> None:
        self._kernel, self._key, self._reader, self._delay, self._packets = kernel, key, reader, delay, packets
        self._read, self._cycle = read, cycle
        self._ready: list[tuple[Sender, Port]] = []
        self._last: Sender | None = None
        self._left = 0
        self._reads: deque[Granted] = deque()       # not begun
        self._reading = False

    def offer(self, port: Port, sender: Sender) -> None:
        self._ready.append((sender, port))
        self.wake()

    def wake(self) -> None:
        """Arbitrate again, as the requests or the ports' free entries have changed."""
        self._kernel.decide(self._key, self._decide)

    def _decide(self) -> None:
        while len(self._reads) < AHEAD and (granted := self._grant()) is not None:
            self._reads.append(granted)
            self._next()

    def _next(self) -> None:
        if not self._reading and self._reads:
            self._begin(self._reads.popleft())
            self.wake()

    def _grant(self, leaving: Port | None = None) -> Granted | None:
        """The next packet, but none for the port ``leaving``; its sender has sent it, and its port expects it."""
        open_ = [entry for entry in self._ready if entry[1].has_free_entries and entry[1] is not leaving]
        if not open_:
            return None
        chosen = next((entry for entry in open_ if self._left and entry[0] is self._last), None)
        if chosen is None:
            chosen, self._left = min(open_, key=lambda entry: entry[0].turn), self._packets
        self._left -= 1
        self._ready.remove(chosen)
        sender, port = chosen
        self._last = sender
        source, taken = sender.source, sender.take()
        port.reserve(taken[0])
        return port, source, taken

    def _begin(self, granted: Granted) -> None:
        """Read a packet from the SRAM."""
        port, source, taken = granted
        self._reading = True
        now, size = self._kernel.now, taken[0]
        end, stream = self._reader.serve(size), None
        waits = 0
        if self._read is not None and source is not None and size:
            stream, waits = self._read(source, size)
        port.put((now + round(waits * self._cycle) + self._delay, *taken))
        self._kernel.at(max(end, now if stream is None else round(stream.end * self._cycle)), self._ended, stream)

    def _ended(self, stream: Stream | None) -> None:
        """A packet has been read, unless it was stalled meanwhile."""
        if stream is not None and (end := round(stream.end * self._cycle)) > self._kernel.now:
            self._kernel.at(end, self._ended, stream)
            return
        self._reading = False
        self._next()
