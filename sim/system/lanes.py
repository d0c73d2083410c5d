# SPDX-License-Identifier: Apache-2.0
"""The receiving end of a pipe: packets of its ports in turn, as in :class:`hw.ace.receive.Receive`."""

from collections import deque
from collections.abc import Callable, Sequence

from .banks import Stream
from .kernel import Kernel, Server

__all__ = ["Lanes"]

Begins = Callable[[], Stream | None]
"""A packet's first beat is taken from its port. Returns the stream of beats in the SRAM; None for no stalls."""

Ends = Callable[[int], object]
"""Its last beat has been taken. Receives when the first one was."""


class Lanes:
    """Serve one packet at a time; after it, the next port in turn that has one. Messages, which are simulated while
    they arrive, use the ``server`` in order of arrival.

    Parameters
    ----------
    kernel : Kernel
    key : int
        Of its decisions.
    ports : sequence of int
        Of the pipe.
    bytes_per_s : float or None
        Rate; None for no limit.
    per_byte : float
        Picoseconds of a packet for each of its bytes, at least.
    cycle : float
        Picoseconds.

    Attributes
    ----------
    server : Server
        Counts bytes, and picoseconds of service.
    """

    def __init__(self, kernel: Kernel, key: int, ports: Sequence[int], bytes_per_s: float | None, *,
                 per_byte: float, cycle: float) -> None:
        self._kernel, self._key, self._per_byte, self._cycle = kernel, key, per_byte, cycle
        self.server = Server(kernel, bytes_per_s)
        self._waiting: dict[int, deque[tuple[int, Begins, Ends]]] = {port: deque() for port in ports}
        self._ports, self._last = list(ports), len(ports) - 1
        self._busy = False

    def packet(self, port: int, size: int, begins: Begins, ends: Ends) -> None:
        """A packet of ``size`` bytes has arrived at ``port``."""
        self._waiting[port].append((size, begins, ends))
        self._kernel.decide(self._key, self._choose)

    def _choose(self) -> None:
        if self._busy:
            return
        count = len(self._ports)
        for turn in range(self._last + 1, self._last + 1 + count):
            if queue := self._waiting[self._ports[turn % count]]:
                self._last = turn % count
                size, begins, ends = queue.popleft()
                break
        else:
            return
        self._busy = True
        now = self._kernel.now
        end = max(self.server.serve(size), now + round(self._per_byte * size))
        stream = begins()
        self._kernel.at(end if stream is None else max(end, round(stream.end * self._cycle)), self._ended, stream, now,
                        ends)

    def _ended(self, stream: Stream | None, began: int, ends: Ends) -> None:
        """A packet has been taken, unless it was stalled meanwhile."""
        if stream is not None and (end := round(stream.end * self._cycle)) > self._kernel.now:
            self._kernel.at(end, self._ended, stream, began, ends)
            return
        self._busy = False
        ends(began)
        self._kernel.decide(self._key, self._choose)
