# SPDX-License-Identifier: Apache-2.0
"""Other jobs on a link."""

from .kernel import picoseconds
from .networks import Background

__all__ = ["Backlog"]


class Backlog:
    """Bytes that other jobs have requested of a link and not sent yet, as time on the link.

    The link never idles while there are some. Before each of our transfers each of the other jobs sends as many bytes
    as that has, while its backlog lasts: a byte each in turn. So ours get ``max(1 - load, 1 / (1 + jobs))`` of a link
    that they always use.

    Parameters
    ----------
    background : Background
    """

    def __init__(self, background: Background) -> None:
        self._load, self._jobs = background.load, background.jobs
        self._period = picoseconds(background.period_s)
        self._burst = self._period * background.load
        self._backlog = 0.0
        self._until = 0.0

    def _requested(self, time: float) -> float:
        """Picoseconds on the link that have been requested up to a time, besides a constant."""
        if not self._period:
            return self._load * time
        periods, rest = divmod(time, self._period)
        return periods * self._burst + min(rest, self._burst)

    def before(self, begin: float, ticks: float) -> float:
        """Picoseconds for which others precede a transfer of ours of ``ticks``, for which the link is free at
        ``begin``."""
        idle = begin - self._until
        if idle > 0:
            arrived = self._requested(begin) - self._requested(self._until)
            # Requests come no faster than the link carries them, so a backlog only shrinks while we send nothing.
            self._backlog = max(0.0, self._backlog + arrived - idle)
            self._until = begin
        others = min(self._backlog, self._jobs * ticks)
        end = self._until + others + ticks
        self._backlog += self._requested(end) - self._requested(self._until) - others
        self._until = end
        return others
