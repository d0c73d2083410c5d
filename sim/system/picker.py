# SPDX-License-Identifier: Apache-2.0
"""Arbitration among the packets of all ports of an endpoint, as in the accelerator."""

from .kernel import Kernel, Server
from .port import Port, Sender

__all__ = ["Picker"]

AHEAD = 2
"""Packets granted in advance, whose reads have not started."""


class Picker:
    """Grants one packet at a time, which ``reader``, a :class:`Server`, then reads from the SRAM at its rate.

    The sender of the latest packet keeps the grant until its message ends or it stalls; then the oldest sender is
    granted whose port has room.

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
        """Arbitrate again, as the requests or the ports' room have changed."""
        self._kernel.decide(self._key, self._choose)

    def _choose(self) -> None:
        while self._waiting < AHEAD:
            open_ = [entry for entry in self._ready if entry[1].has_room]
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
