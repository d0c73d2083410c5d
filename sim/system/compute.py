# SPDX-License-Identifier: Apache-2.0
"""Computing on a rank beside communication that takes cores and memory bandwidth."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from .configuration import MachineConfig
from .kernel import Kernel, picoseconds

__all__ = ["Compute", "seconds_beside"]


class _Machine(Protocol):
    """The part of the machine that its processors use."""

    config: MachineConfig
    kernel: Kernel


def seconds_beside(config: MachineConfig, seconds_alone: float, memory_bytes: float, *,
                   communicating: bool = True) -> float:
    """Seconds that a computation takes beside the endpoint's share of cores and memory.

    Its arithmetic is slower by the cores that are taken; its memory accesses by the bandwidth. The slower one counts.
    """
    kind, npu = config.kind, config.npu
    if not (communicating or config.reserved):
        return max(seconds_alone, memory_bytes / npu.memory_bytes_per_s)
    left = npu.memory_bytes_per_s - config.memory_share
    return max(seconds_alone * npu.sms / (npu.sms - kind.sms), memory_bytes / left)


@dataclass(eq=False)
class _Job:
    seconds: float
    memory_bytes: float
    ended: Callable[[int], object]
    left: float = 1.0
    """Share that remains."""
    since: int = 0
    begin: int = 0
    ticks: float = 0.0
    """Picoseconds of the whole job at the present speed."""
    version: int = 0


class Compute:
    """Computations in order, one in each slot of the processor at a time.

    Parameters
    ----------
    slots : int
        Equal parts of the processor and of its memory bandwidth: a computation takes ``slots`` times as long as alone
        on the whole processor, whether or not the other slots are used.

    Attributes
    ----------
    busy : int
        Picoseconds, means over the slots.
    """

    def __init__(self, machine: _Machine, rank: int, slots: int = 1) -> None:
        self._machine, self._rank, self.slots, self._slot_ticks = machine, rank, slots, 0
        self._waiting: deque[_Job] = deque()
        self._jobs: list[_Job] = []
        self._communicating = False
        self._slower = machine.config.stragglers.compute_factors(rank)

    @property
    def busy(self) -> int:
        return self._slot_ticks // self.slots

    def run(self, seconds: float, memory_bytes: float, ended: Callable[[int], object]) -> None:
        slower = next(self._slower)
        self._waiting.append(_Job(seconds * slower, memory_bytes * slower, ended))
        if len(self._jobs) < self.slots:
            self._next()

    def communicating(self, whether: bool) -> None:
        """Note whether a collective is in progress on the rank."""
        self._communicating = whether
        if self._machine.config.sharing == "demand":
            for job in self._jobs:
                self._progress(job)
                self._plan(job)

    def _next(self) -> None:
        job = self._waiting.popleft()
        self._jobs.append(job)
        job.since = job.begin = self._machine.kernel.now
        self._plan(job)

    def _plan(self, job: _Job) -> None:
        """Schedule the end of the job, as it is if nothing changes."""
        job.ticks = picoseconds(self.slots * seconds_beside(self._machine.config, job.seconds, job.memory_bytes,
                                                             communicating=self._communicating))
        job.version += 1
        kernel = self._machine.kernel
        kernel.at(kernel.now + round(job.left * job.ticks), self._ended, job, job.version)

    def _progress(self, job: _Job) -> None:
        now = self._machine.kernel.now
        if job.ticks:
            job.left = max(0.0, job.left - (now - job.since) / job.ticks)
        job.since = now

    def _ended(self, job: _Job, version: int) -> None:
        if version != job.version:
            return
        self._jobs.remove(job)
        self._slot_ticks += self._machine.kernel.now - job.begin
        if self._waiting:
            self._next()
        job.ended(self._rank)
