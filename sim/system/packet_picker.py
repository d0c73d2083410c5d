# SPDX-License-Identifier: Apache-2.0
"""Arbitration among the packets of all ports of a pipe, cycle by cycle: :class:`hw.ace.pool.sends.SendArbiter` and
:class:`hw.ace.transmit.Transmit`."""

from .banks import Stream
from .kernel import Kernel, Server, next_cycle
from .picker import Read
from .port import Port, Sender, Taken

__all__ = ["OFFER_CYCLES", "READ_CYCLES", "PacketPicker"]

OFFER_CYCLES = 2
"""Cycles from the choice of a packet until its FSM offers the next one of the same send."""

READ_CYCLES = 2
"""Cycles from the choice of a packet until its first beat is read, if no other packet is before it."""

_Granted = tuple[Port, int | None, Taken]


class PacketPicker:
    """Grants a packet to a register, from which it goes to a second one while ``reader``, a :class:`Server`, reads the
    previous packet from the SRAM. The first register takes a packet when it is empty or its packet leaves, but in the
    latter case none for the port of the packet that leaves.

    The sender of the latest packet keeps the grant until its message ends, if it offers its next packet whenever the
    register takes one; otherwise the oldest sender is granted whose port has free entries. So senders at different
    ports alternate; those at the same port do where packets are so short that the register is empty before the next
    offer.

    Parameters
    ----------
    kernel, key, reader, packets, read, cycle
        As for :class:`.picker.Picker`.
    delay : int
        Picoseconds from the first read of a packet until its first bytes can leave.
    """

    def __init__(self, kernel: Kernel, key: int, reader: Server, *, delay: int, packets: int, read: Read | None,
                 cycle: float) -> None:
        self._kernel, self._key, self._reader, self._delay, self._packets = kernel, key, reader, delay, packets
        self._read, self._cycle = read, cycle
        self._ready: list[tuple[Sender, Port]] = []
        self._last: Sender | None = None
        self._left = 0
        # Each register's packet, and since when it has it.
        self._first: tuple[int, _Granted] | None = None
        self._second: tuple[int, _Granted] | None = None
        self._reading = False

    def offer(self, port: Port, sender: Sender) -> None:
        self._ready.append((sender, port))
        self.wake()

    def wake(self) -> None:
        """Arbitrate again, as the requests or the ports' free entries have changed."""
        self._at(next_cycle(self._kernel.now, self._cycle))

    def _at(self, time: int) -> None:
        if time == self._kernel.now:
            self._kernel.decide(self._key, self._step)
        else:
            self._kernel.at(time, self._kernel.decide, self._key, self._step)

    def _step(self) -> None:
        now = self._kernel.now
        after = next_cycle(now + self._cycle / 2, self._cycle)
        if self._second is not None and self._second[0] <= now and not self._reading:
            self._begin(self._second[1])
            self._second = None
        leaving = None
        if self._first is not None and self._first[0] <= now and self._second is None:
            leaving = self._first[1][0]
            self._second, self._first = (after, self._first[1]), None
            self._at(after)
        if self._first is None and (entry := self._choose(leaving)) is not None:
            sender, port = entry
            source, taken = sender.source, sender.take()
            port.reserve(taken[0])
            self._first = after, (port, source, taken)
            self._at(after)

    def _choose(self, leaving: Port | None) -> tuple[Sender, Port] | None:
        open_ = [entry for entry in self._ready if entry[1].has_free_entries and entry[1] is not leaving]
        if not open_:
            return None
        chosen = next((entry for entry in open_ if self._left and entry[0] is self._last), None)
        if chosen is None:
            chosen, self._left = min(open_, key=lambda entry: entry[0].turn), self._packets
        self._left -= 1
        self._ready.remove(chosen)
        self._last = chosen[0]
        return chosen

    def _begin(self, granted: _Granted) -> None:
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
        self.wake()
