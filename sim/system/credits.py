# SPDX-License-Identifier: Apache-2.0
"""The receive buffers of a link: free space in the neighbour's, and reports about this port's own."""

from hw.ace.config import LINK_REPORT_CYCLES, LINK_REPORT_PACKETS

from .configuration import MachineConfig
from .kernel import SECOND

__all__ = ["Credits"]

_ARRIVED_CYCLES, _LEFT_CYCLES, _MUCH_CYCLES, _COUNTED_CYCLES = 3, 5, 1, 5
"""By the contracts of ``hw/ace/link``, until a packet that is about to be sent takes account of it: the last beat of a
packet has arrived; a beat leaves its buffer; enough is known for a report at once; a report has arrived."""


class Credits:
    """A packet may start when the longest one would fit the neighbour's buffer. Each packet reports what has arrived
    and what has left the buffer here; if none starts, a CREDIT packet does: at once after a quarter of the buffer or
    four packets, otherwise some cycles after the first change.

    Times are those at which a packet that starts then takes account of an event.

    Parameters
    ----------
    config : MachineConfig
        With ``receive_buffer_bytes``.

    Attributes
    ----------
    counted : int
        Picoseconds from a report's arrival until :meth:`gain`.
    """

    def __init__(self, config: MachineConfig) -> None:
        assert config.receive_buffer_bytes is not None
        self._cycle = SECOND / config.clock_hz
        self._free, self._longest = config.receive_buffer_bytes, config.packet_bytes
        self._much = config.receive_buffer_bytes // 4
        self._bytes = self._packets = 0         # that the neighbour does not know
        self._since: int | None = None          # when there was the first of them
        self._at_once: int | None = None        # when there were enough for a report at once
        self._begins = self._ends = 0           # beats leave the buffer between these times
        self.counted = self._cycles(_COUNTED_CYCLES)

    def _cycles(self, number: int) -> int:
        return round(number * self._cycle)

    @property
    def suffice(self) -> bool:
        """The longest packet would fit the neighbour's buffer."""
        return self._free >= self._longest

    def spend(self, size: int) -> None:
        """A packet that fills ``size`` bytes of the neighbour's buffer starts."""
        self._free -= size

    def gain(self, size: int) -> None:
        """The neighbour has reported that ``size`` bytes have left."""
        self._free += size

    def arrived(self, now: int) -> None:
        """A packet has arrived that fills some of the buffer here."""
        self._packets += 1
        self._changed(now + self._cycles(_ARRIVED_CYCLES))

    def leaves(self, begin: int, end: int) -> int:
        """Beats leave the buffer here between these times. Returns when the last one counts: see :meth:`left`."""
        delay = self._cycles(_LEFT_CYCLES)
        if begin + delay > self._ends:
            self._begins = begin + delay
        self._ends = max(self._ends, end + delay - self._cycles(1))
        return self._ends

    def left(self, size: int, now: int) -> None:
        """``size`` bytes have left."""
        self._bytes += size
        self._changed(now)

    def _changed(self, time: int) -> None:
        self._since = time if self._since is None else min(self._since, time)
        if self._at_once is None and (self._bytes >= self._much or self._packets >= LINK_REPORT_PACKETS):
            self._at_once = time + self._cycles(_MUCH_CYCLES)

    @property
    def due(self) -> int | None:
        """When a CREDIT packet is due; None if there is nothing to report."""
        if self._since is None:
            return None
        late = self._since + self._cycles(LINK_REPORT_CYCLES)
        return late if self._at_once is None else min(late, self._at_once)

    def report(self, now: int) -> int:
        """A packet starts, and reports all. Returns the bytes that the neighbour gains by it."""
        size, self._bytes, self._packets, self._at_once = self._bytes, 0, 0, None
        # The beats that leave after the report are to be reported, too.
        self._since = max(now + self._cycles(1), self._begins) if now < self._ends else None
        return size
