# SPDX-License-Identifier: Apache-2.0
"""All-reduce in two phases by puts: partial sums to the owner of a slice, and its sums to all (arXiv 2305.06942)."""

from functools import partial

from .machine import Machine
from .slices import AllToAll, Fused, Fusion, offset_from
from .workgroups import Task

__all__ = ["DirectAllReduce"]


class DirectAllReduce(AllToAll):
    """Each rank owns ``1 / ranks`` of the result. Its kernel computes partial sums for all ranks, adds those of all
    ranks for each of its own slices, and puts each sum to all other ranks. An addition is a task: with the order
    ``remote-first`` it follows the rank's own partial sum as soon as that can be complete, otherwise it follows the
    last partial sum.

    Not fused: partial sums are sent when the last has been computed, then the sums are added, and sent after the last.
    """

    def __init__(self, operation: Fused, machine: Machine, fusion: Fusion) -> None:
        super().__init__(operation, machine, fusion)
        self._missing: dict[int, list[int]] = {}

    def launch(self, rank: int) -> None:
        parts, fusion = self.plan(rank), self.fusion
        slots, slices = fusion.workgroups.slots(fusion.fused), fusion.slices
        # Slices are numbered by plan; those behind are sums.
        sums = [Task(seconds=self.operation.reduce_seconds / slots, slice=len(parts) + number, need=number)
                for number in range(slices)]
        numbers, seen = [], dict.fromkeys(range(self.ranks), 0)
        for offset in parts:
            numbers.append(seen[offset])
            seen[offset] += 1
        computed = self.tasks(len(parts))
        made: list[Task] = []
        if fusion.fused and fusion.order == "remote-first":
            # The rank's own slices are the last ones. Other slots may still compute the latest of them.
            tasks = fusion.workgroups.of_slice(len(parts))
            own = len(computed) - slices * tasks
            behind = (slots - 1 + tasks - 1) // tasks
            made = computed[:own]
            for number in range(slices + behind):
                made += computed[own:][number * tasks:(number + 1) * tasks]
                made += sums[number - behind:number - behind + 1] if number >= behind else []
        else:
            made = computed + sums
        self._missing[rank] = [self.ranks] * slices
        left = [len(parts), slices]

        def ended(index: int) -> None:
            if index < len(parts):
                left[0] -= 1
                if not left[0]:
                    self.computed[rank] = self.machine.now
                if not parts[index]:
                    self.add(numbers[index], rank)
                for one in [index] if fusion.fused else range(len(parts)) if not left[0] else ():
                    if parts[one]:
                        self.partial_sum(rank, parts[one], numbers[one])
            else:
                left[1] -= 1
                for _ in range(1 if fusion.fused else 0 if left[1] else slices):
                    self.send(rank, 0)

        self.kernel(rank, made, ended, lambda: self.end(rank))

    def partial_sum(self, rank: int, offset: int, number: int) -> None:
        """Put a slice to its owner."""
        self.put(rank, offset_from(self.machine, rank, offset), self.size, partial(self.here, number))

    def here(self, number: int, rank: int) -> None:
        """Another rank's partial sum of one of the rank's own slices has arrived."""
        self.add(number, rank)
        self.end(rank)

    def add(self, number: int, rank: int) -> None:
        """A partial sum of one of the rank's own slices is there."""
        missing = self._missing[rank]
        missing[number] -= 1
        if not missing[number]:
            self.kernels[rank].arrive(number)

    def send(self, rank: int, target: int) -> None:
        """Put a sum to all other ranks."""
        for offset in range(1, self.ranks):
            self.put(rank, offset_from(self.machine, rank, offset), self.size, self.end)
