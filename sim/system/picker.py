# SPDX-License-Identifier: Apache-2.0
"""Choice of the next packet of an endpoint, for all of its ports, as the accelerator makes it."""

from .kernel import Kernel, Server
from .port import Port, Sender

__all__ = ["Picker"]

AHEAD = 2
"""Packets that are chosen and not yet begun to be read: one waits behind the one that is read, one before it."""


class Picker:
    """One packet after the other is chosen, and read from the SRAM at the rate of ``reader``, a :class:`Server`.

    Who had the latest goes on until its message is over or it has to wait; then it is the oldest of those whose port
    has room.

    Parameters
    ----------
    kernel : Kernel
    key : int
        Of its decisions.
    reader : Server
    delay : int
        Picoseconds from the begin of a read until its first bytes can leave.
    packets : int
        Of a message.
    """

    def __init__(self, kernel: Kernel, key: int, reader: Server, *, delay: int, packets: int) -> None:
        self._kernel, self._key, self._reader, self._delay, self._packets = kernel, key, reader, delay, packets
        self._ready: list[tuple[Sender, Port]] = []
        self._last: Sender | None = None
        self._left, self._waiting = 0, 0

    def offer(self, port: Port, sender: Sender) -> None:
        self._ready.append((sender, port))
        self.wake()

    def wake(self) -> None:
        """Something has come that may change the choice."""
        self._kernel.decide(self._key, self._choose)

    def _choose(self) -> None:
        while self._waiting < AHEAD:
            open_ = [entry for entry in self._ready if entry[1].has_free_slot]
            if not open_:
                return
            chosen = next((entry for entry in open_ if self._left and entry[0] is self._last), None)
            if chosen is None:
                chosen, self._left = min(open_, key=lambda entry: entry[0].turn), self._packets
            self._left -= 1
            self._ready.remove(chosen)
            sender, port = chosen
            self._last = sender
            payload, packets, arrived, arguments = sender.take()
            begin = max(self._kernel.now, self._reader.free)
            self._reader.serve(payload)
            if begin > self._kernel.now:
                self._waiting += 1
                self._kernel.at(begin, self._begun)
            port.put((begin + self._delay, payload, packets, arrived, arguments))

    def _begun(self) -> None:
        self._waiting -= 1
        self.wake()
