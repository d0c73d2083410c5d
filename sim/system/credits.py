# SPDX-License-Identifier: Apache-2.0
"""The receive buffers of a link: free space in the neighbour's, and reports about this port's own."""

from collections import deque

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
        self._much, self._beat = config.receive_buffer_bytes // 4, config.beat_bytes
        self._packets = 0                       # unknown to the neighbour
        # Runs of beats that leave, unknown to it, too: begin, end and bytes.
        self._runs: deque[tuple[int, int, int]] = deque()
        self._since: int | None = None          # when there was the first of either
        self._at_once: int | None = None        # when there were enough packets for a report at once
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
        time = now + self._cycles(_ARRIVED_CYCLES)
        self._since = time if self._since is None else min(self._since, time)
        if self._packets == LINK_REPORT_PACKETS:
            self._at_once = time + self._cycles(_MUCH_CYCLES)

    def leaves(self, size: int, begin: int, end: int) -> None:
        """``size`` bytes leave the buffer here between these times, beat by beat."""
        delay = self._cycles(_LEFT_CYCLES) - (end - begin) * self._beat // size
        self._runs.append((begin + delay, end + delay, size))

    @property
    def due(self) -> int | None:
        """When a CREDIT packet is due; None if there is nothing to report."""
        if self._since is None:
            return None
        times = [self._since + self._cycles(LINK_REPORT_CYCLES)]
        if self._at_once is not None:
            times.append(self._at_once)
        bytes_ = 0
        for begin, end, size in self._runs:
            bytes_ += size
            if bytes_ >= self._much:
                times.append(end - (end - begin) * (bytes_ - self._much) // size + self._cycles(_MUCH_CYCLES))
                break
        return min(times)

    def report(self, now: int) -> int:
        """A packet starts, and reports all. Returns the bytes that the neighbour gains by it."""
        reported, self._packets, self._at_once, self._since = 0, 0, None, None
        while self._runs:
            begin, end, size = self._runs[0]
            if now < end:
                # The beats that leave after the report are to be reported, too.
                left = max(0, size * (now - begin) // (end - begin)) // self._beat * self._beat
                self._runs[0] = max(begin, now), end, size - left
                self._since = max(now + self._cycles(1), begin)
                return reported + left
            reported += size
            self._runs.popleft()
        return reported
