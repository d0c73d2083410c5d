# SPDX-License-Identifier: Apache-2.0
"""Arbitration among the packets of all ports of a pipe, cycle by cycle: :class:`hw.ace.pool.sends.SendArbiter` and
:class:`hw.ace.transmit.Transmit`."""

from .kernel import Kernel, Server, next_cycle
from .picker import Granted, Picker, Read

__all__ = ["OFFER_CYCLES", "READ_CYCLES", "PacketPicker"]

OFFER_CYCLES = 2
"""Cycles from the choice of a packet until its FSM offers the next one of the same send."""

READ_CYCLES = 2
"""Cycles from the choice of a packet until its first beat is read, if no other packet is before it."""


class PacketPicker(Picker):
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
        super().__init__(kernel, key, reader, delay=delay, packets=packets, read=read, cycle=cycle)
        # Each register's packet, and since when it has it.
        self._first: tuple[int, Granted] | None = None
        self._second: tuple[int, Granted] | None = None

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
        if self._first is None and (granted := self._grant(leaving)) is not None:
            self._first = after, granted
            self._at(after)

    def _next(self) -> None:
        self.wake()
