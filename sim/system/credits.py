# SPDX-License-Identifier: Apache-2.0
"""The receive buffers of a link: free space in the neighbour's, and reports about this port's own."""

from collections import deque
from typing import NamedTuple

from hw.ace.config import LINK_REPORT_CYCLES, LINK_REPORT_PACKETS

from .configuration import MachineConfig
from .kernel import SECOND

__all__ = ["Credits", "Report"]

_ARRIVED_CYCLES, _LEFT_CYCLES, _MUCH_CYCLES, _COUNTED_CYCLES = 3, 5, 1, 5
"""By the contracts of ``hw/ace/link``, until a packet that is about to be sent takes account of it: the last beat of a
packet has arrived; a beat leaves its buffer; enough is known for a report at once; a report has arrived."""


class Report(NamedTuple):
    """A report to the neighbour: bytes that have left the buffer here, and the payloads, in bytes, of the packets that
    have arrived."""

    left: int
    payloads: tuple[int, ...]


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
        # Packets unknown to the neighbour: when each takes effect, and its payload.
        self._arrivals: deque[tuple[int, int]] = deque()
        # Runs of beats that leave, unknown to it, too: begin, end and bytes.
        self._runs: deque[tuple[int, int, int]] = deque()
        self._since: int | None = None          # when there was the first of either
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

    def arrived(self, now: int, payload: int = 0) -> None:
        """A packet has arrived that fills some of the buffer here."""
        time = now + self._cycles(_ARRIVED_CYCLES)
        self._arrivals.append((time, payload))
        self._since = time if self._since is None else min(self._since, time)

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
        if len(self._arrivals) >= LINK_REPORT_PACKETS:
            times.append(self._arrivals[LINK_REPORT_PACKETS - 1][0] + self._cycles(_MUCH_CYCLES))
        bytes_ = 0
        for begin, end, size in self._runs:
            bytes_ += size
            if bytes_ >= self._much:
                times.append(end - (end - begin) * (bytes_ - self._much) // size + self._cycles(_MUCH_CYCLES))
                break
        return min(times)

    def report(self, now: int) -> Report:
        """A packet starts, and reports all that it can take account of."""
        payloads: list[int] = []
        while self._arrivals and self._arrivals[0][0] <= now:
            payloads.append(self._arrivals.popleft()[1])
        left = 0
        while self._runs and self._runs[0][1] <= now:
            left += self._runs.popleft()[2]
        later = [self._arrivals[0][0]] if self._arrivals else []
        if self._runs:
            begin, end, size = self._runs[0]
            # The beats that leave after the report are to be reported, too.
            part = max(0, size * (now - begin) // (end - begin)) // self._beat * self._beat
            self._runs[0] = max(begin, now), end, size - part
            left += part
            later.append(max(now + self._cycles(1), begin))
        self._since = min(later, default=None)
        return Report(left, tuple(payloads))
