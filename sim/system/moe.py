# SPDX-License-Identifier: Apache-2.0
"""Mixture of experts: tokens go to the experts' ranks, through the experts, and back, slice by slice both ways."""

from dataclasses import dataclass
from functools import partial
from math import isclose, prod

from hw.errors import UserError

from .machine import Machine
from .slices import AllToAll, Fused, Fusion, offset_from
from .workgroups import Task

__all__ = ["Expert", "Moe"]


@dataclass(frozen=True, kw_only=True)
class Moe(Fused):
    """One expert on each rank. ``output_bytes`` is the result for the tokens of a rank, ``arithmetic`` and
    ``memory_bytes`` are the work of an expert with the mean load.

    Parameters
    ----------
    dispatch_bytes : int
        Tokens of a rank, for all experts.
    loads : tuple of float
        Load of each rank's expert over the mean; empty: all equal.
    """

    dispatch_bytes: int
    loads: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if self.loads and not (all(0 <= load < float("inf") for load in self.loads)
                               and isclose(sum(self.loads), len(self.loads))):
            raise UserError(f"Loads of experts must be 0 or more, with a mean of 1, not {self.loads!r}.")


class Expert(AllToAll):
    """Dispatch, compute and combine. Slices are those of the tokens that a rank has for an expert.

    Fused, the expert computes a slice of tokens when it has arrived, and returns it at once; not fused, a rank computes
    when it has all tokens, and returns them when it has computed them all. The order of slices is that in which an
    expert computes tokens: ``remote-first``, ``remote-last``, or ``by-rank``, the order of the tokens' ranks.
    """

    def __init__(self, operation: Moe, machine: Machine, fusion: Fusion) -> None:
        super().__init__(operation, machine, fusion)
        ranks = prod(machine.config.shape)
        if operation.loads and len(operation.loads) != ranks:
            raise UserError(f"There must be a load for each of {ranks} experts, not {len(operation.loads)}.")
        self._moe = operation
        self._missing: dict[int, int] = {}
        self._waiting: dict[int, list[Task]] = {}
        self._numbers: dict[int, list[tuple[int, int]]] = {}

    def load(self, rank: int) -> float:
        """Load of the expert of a rank over the mean."""
        return self._moe.loads[rank] if self._moe.loads else 1.0

    def part(self, size: int, expert: int) -> int:
        """Bytes of a slice of tokens for an expert, of ``size`` bytes for all experts."""
        return -int(-size * self.load(expert) // (self.ranks * self.fusion.slices))

    def plan(self, rank: int) -> list[int]:
        """Ranks whose tokens the expert computes, as offsets: ``rank`` minus the offset."""
        slices = self.fusion.slices
        if self.fusion.order == "by-rank":
            every = sorted(range(self.ranks), key=lambda offset: offset_from(self.machine, rank, offset, -1))
            return [offset for offset in every for _ in range(slices)]
        return super().plan(rank)

    def launch(self, rank: int) -> None:
        plan, fused = self.plan(rank), self.fusion.fused
        seen = dict.fromkeys(range(self.ranks), 0)
        self._numbers[rank] = numbers = []
        for offset in plan:
            numbers.append((offset, seen[offset]))
            seen[offset] += 1
        if not self.part(self._moe.dispatch_bytes, rank):
            numbers.clear()
        self._missing[rank] = sum(1 for offset, _ in numbers if offset)
        made = self.tasks(len(numbers), self.load(rank))
        if fused:
            made = [Task(seconds=one.seconds, memory_bytes=one.memory_bytes, slice=one.slice,
                         need=numbers[one.slice] if numbers[one.slice][0] else None) for one in made]
            self._start(rank, made)
        self.dispatch(rank, made)

    def _start(self, rank: int, made: list[Task]) -> None:
        def ended(number: int) -> None:
            if self.fusion.fused:
                self.send(rank, self._numbers[rank][number][0])

        def finished() -> None:
            self.computed[rank] = self.machine.now
            if not self.fusion.fused:
                for offset, _ in self._numbers[rank]:
                    self.send(rank, offset)
            self.end(rank)

        self.kernel(rank, made, ended, finished)

    def dispatch(self, rank: int, made: list[Task]) -> None:
        """Send a rank's tokens to all experts, a slice for each in turn; the nearest offset first."""
        self._waiting[rank] = made
        for number in range(self.fusion.slices):
            for offset in range(1, self.ranks):
                expert = offset_from(self.machine, rank, offset)
                size = self.part(self._moe.dispatch_bytes, expert)
                if size:
                    self.put(rank, expert, size, partial(self.here, (offset, number)))
        if not self.fusion.fused and not self._missing[rank]:
            self._start(rank, made)

    def here(self, need: tuple[int, int], rank: int) -> None:
        """A slice of tokens has arrived at an expert."""
        self._missing[rank] -= 1
        if self.fusion.fused:
            self.kernels[rank].arrive(need)
        elif not self._missing[rank]:
            self._start(rank, self._waiting[rank])
        self.end(rank)

    def send(self, rank: int, target: int) -> None:
        """Return a slice of tokens to ``rank`` minus the offset ``target``."""
        size = self.part(self._moe.output_bytes, rank)
        if target and size:
            self.put(rank, offset_from(self.machine, rank, target, -1), size, self.end)
