"""Computing on a rank beside communication that takes cores and memory bandwidth."""

from collections import deque
from dataclasses import dataclass
from typing import Any

from .kernel import picoseconds

__all__ = ["Compute", "seconds_beside"]


def seconds_beside(config, seconds_alone, memory_bytes, *, communicating=True):
    """Seconds that a computation takes beside the endpoint's share of cores and memory.

    Its arithmetic is slower by the cores that are taken; its memory accesses by the bandwidth. The slower one counts.
    An endpoint without overlap takes nothing while others compute.
    """
    kind, npu = config.endpoint, config.npu
    if not kind.overlap or not (communicating or config.sharing == "reserved"):
        return max(seconds_alone, memory_bytes / npu.memory_bytes_per_s)
    left = npu.memory_bytes_per_s - (kind.memory_bytes_per_s or 0)
    return max(seconds_alone * npu.sms / (npu.sms - kind.sms), memory_bytes / left)


@dataclass
class _Job:
    seconds: float
    memory_bytes: int
    ended: Any
    left: float = 1.0
    """Share that is not done."""
    since: int = 0
    begin: int = 0
    ticks: float = 0.0
    """Of the whole of it, at the speed of now."""


class Compute:
    """One computation after the other.

    Attributes
    ----------
    busy : int
        Picoseconds.
    """

    def __init__(self, machine, endpoint):
        self._machine, self._rank, self.busy = machine, endpoint.rank, 0
        self._waiting, self._job, self._communicating, self._version = deque(), None, False, 0

    def run(self, seconds, memory_bytes, ended):
        self._waiting.append(_Job(seconds, memory_bytes, ended))
        if self._job is None:
            self._next()

    def communicating(self, whether):
        """A collective is under way on the rank, or none is any more."""
        self._communicating = whether
        if self._machine.config.sharing == "demand" and self._job is not None:
            self._progress()
            self._plan()

    def _next(self):
        job = self._job = self._waiting.popleft()
        job.since = job.begin = self._machine.kernel.now
        self._plan()

    def _plan(self):
        """Tell the kernel when the job will have ended, if nothing changes."""
        job = self._job
        job.ticks = picoseconds(seconds_beside(self._machine.config, job.seconds, job.memory_bytes,
                                               communicating=self._communicating))
        self._version += 1
        kernel = self._machine.kernel
        kernel.at(kernel.now + round(job.left * job.ticks), self._ended, self._version)

    def _progress(self):
        job, now = self._job, self._machine.kernel.now
        if job.ticks:
            job.left = max(0.0, job.left - (now - job.since) / job.ticks)
        job.since = now

    def _ended(self, version):
        if version != self._version:
            return
        job, self._job = self._job, None
        self.busy += self._machine.kernel.now - job.begin
        if self._waiting:
            self._next()
        job.ended(self._rank)
