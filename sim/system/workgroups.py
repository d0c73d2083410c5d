# SPDX-License-Identifier: Apache-2.0
"""A persistent kernel: its workgroups execute the tasks of a rank in order, and each slice consists of some tasks."""

from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

from hw.errors import UserError

from .machine import Machine

__all__ = ["PersistentKernel", "Task", "Workgroups"]

MOST = 65536


@dataclass(frozen=True, kw_only=True)
class Workgroups:
    """Workgroups that are resident on a processor.

    Parameters
    ----------
    resident : int
        Workgroups at a time, without fusion. 1: each task has the whole processor.
    tasks : int or None
        Tasks of a rank, which the workgroups take in order; each slice has the same number of them, so it is rounded
        up to a multiple of the slices. None: as many as resident workgroups.
    lost : float
        Share of the resident workgroups that a fused kernel does without, because its requests take registers: 0.125
        in arXiv 2305.06942.
    saturation : float
        Share of the resident workgroups that reaches the processor's full rate: 1 for a rate in proportion to the
        workgroups, less where fewer of them are enough.
    """

    resident: int = 1
    tasks: int | None = None
    lost: float = 0.0
    saturation: float = 1.0

    def __post_init__(self) -> None:
        for name in ("resident", "tasks"):
            value = getattr(self, name)
            if value is None and name == "tasks":
                continue
            if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= MOST:
                raise UserError(f"{name} of workgroups must be an integer from 1 to {MOST:,}, not {value!r}.")
        if not isinstance(self.lost, int | float) or not 0 <= self.lost < 1:
            raise UserError(f"lost of workgroups must be at least 0 and less than 1, not {self.lost!r}.")
        if not isinstance(self.saturation, int | float) or not 0 < self.saturation <= 1:
            raise UserError(f"saturation of workgroups must be more than 0 and at most 1, not {self.saturation!r}.")

    def of_slice(self, slices: int) -> int:
        """Tasks of each of a rank's slices."""
        return max(1, -(-(self.tasks or self.resident) // slices)) if slices else 1

    def slots(self, fused: bool) -> int:
        """Resident workgroups of a fused kernel, or of one that is not fused."""
        return max(1, int(self.resident * (1 - self.lost))) if fused else self.resident

    def slowdown(self, fused: bool) -> float:
        """Time of a computation with all slots in use, over its time at the processor's full rate."""
        share = self.slots(fused) / self.resident if self.resident > 1 else 1 - self.lost if fused else 1.0
        return max(1.0, self.saturation / share)


@dataclass(frozen=True, kw_only=True)
class Task:
    """
    Parameters
    ----------
    seconds : float
        On the whole processor.
    memory_bytes : float
    slice : int
    need : hashable or None
        Data that a workgroup waits for after it has taken the task.
    """

    seconds: float
    memory_bytes: float = 0.0
    slice: int
    need: Hashable | None = None


class PersistentKernel:
    """
    Parameters
    ----------
    machine : Machine
    rank : int
        Its processor has a slot for each resident workgroup.
    tasks : sequence of Task
        In order.
    ended : callable
        Receives the number of each slice whose tasks have all ended.
    finished : callable
        Called after the last task.
    """

    def __init__(self, machine: Machine, rank: int, tasks: Sequence[Task],
                 ended: Callable[[int], object], finished: Callable[[], object]) -> None:
        self._machine, self._rank, self._tasks = machine, rank, tasks
        self._ended, self._finished = ended, finished
        self._next, self._left = 0, len(tasks)
        self._of_slice: defaultdict[int, int] = defaultdict(int)
        for task in tasks:
            self._of_slice[task.slice] += 1
        self._arrived: set[Hashable] = set()
        self._waiting: defaultdict[Hashable, list[Task]] = defaultdict(list)

    def start(self) -> None:
        """Take the first tasks, one for each slot."""
        if not self._tasks:
            self._finished()
        for _ in range(min(self._machine.computes[self._rank].slots, len(self._tasks))):
            self._take()

    def arrive(self, need: Hashable) -> None:
        """Data is there that tasks need."""
        self._arrived.add(need)
        for task in self._waiting.pop(need, ()):
            self._run(task)

    def _take(self) -> None:
        if self._next == len(self._tasks):
            return
        task = self._tasks[self._next]
        self._next += 1
        if task.need is None or task.need in self._arrived:
            self._run(task)
        else:
            self._waiting[task.need].append(task)

    def _run(self, task: Task) -> None:
        def done(_: float) -> None:
            self._of_slice[task.slice] -= 1
            self._left -= 1
            if not self._of_slice[task.slice]:
                self._ended(task.slice)
            if not self._left:
                self._finished()
            self._take()

        self._machine.compute(task.seconds, memory_bytes=task.memory_bytes,
                              rank=None if self._machine.config.fold else self._rank, done=done)
