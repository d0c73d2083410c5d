# SPDX-License-Identifier: Apache-2.0
"""All-reduce of slices by the accelerators of a ring of 2 to 4 endpoints.

All ranks must post the collectives of a communicator in the same order, whatever the order in which their slices are
complete. So each slice has two counters, and a workgroup ticks both in one store: the first posts the slice's command,
the second ticks both counters of the next slice (a chain). Each of them waits for one tick more than the slice has
tasks.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from hw.ace.collectives import Collective
from hw.ace.model.collective import results
from hw.ace.numerics.formats import Reduction
from hw.ace.words import CommandFlag, CommandWord
from hw.common.sizes import PAGE_BYTES
from hw.endpoint.config import EndpointConfig
from hw.triggers.words import TickWord
from sim.ace.buffers import REGIONS
from sim.ace.kernels import Credit, Store, Wait
from sim.ace.shared_library import ClusterFailed

from .counters import Counter, Counters
from .operations import ELEMENTS, Sizes
from .setup import Method
from .transport import MASK_BYTES, MASKS, Transport

__all__ = ["PARTIAL", "SlicedReduction"]

_SEND, _RECEIVE, _QUEUE = 0, 1, 0
PARTIAL: int = REGIONS[_SEND]["base"]
"""Address of a rank's partial sums."""

_RESULT: int = REGIONS[_RECEIVE]["base"]
_BEFORE = 0xA5


class _Pair:
    """Two ticks in one word of 16 bytes."""

    def __init__(self, ticks: Sequence[TickWord]) -> None:
        self._ticks = ticks

    def to_bytes(self) -> bytes:
        return b"".join(tick.to_bytes() for tick in self._ticks)


class SlicedReduction(Transport):
    """An all-reduce for each slice; without fusion, one for the whole result."""

    in_order = True

    @staticmethod
    def allot(config: EndpointConfig, sizes: Sizes) -> list[Counter]:
        """Two counters for each slice but the last, in one block. Raises UserError where there are too few."""
        return Counters(config).consecutive(2 * sizes.slices - 1, "Slices of an all-reduce")

    def prepare(self) -> None:
        sizes = self.sizes
        self.length = sizes.slices * sizes.slice_bytes
        self.page = self.cluster.whole.dma.queues + _QUEUE
        for rank in range(sizes.ranks):
            self.cluster.write_memory(rank, PARTIAL, np.zeros(self.length, np.uint8))
            self.cluster.write_memory(rank, _RESULT, np.full(self.length + PAGE_BYTES, _BEFORE, np.uint8))
            self.cluster.write_memory(rank, MASKS, bytes(MASK_BYTES))
            if self.method == Method.COMMUNICATION:
                self.cluster.write_memory(rank, PARTIAL, self.operation.parts[rank].ravel())
        if self.ticked:
            self._count()

    def _count(self) -> None:
        tasks, slices = self.sizes.tasks, self.sizes.slices
        counters = self.allot(self.cluster.whole, self.sizes)
        self._pairs = [counters[2 * number:2 * number + 2] for number in range(slices)]
        self.assign_blocks()
        for rank in range(self.sizes.ranks):
            for number, pair in enumerate(self._pairs):
                threshold = tasks + (number > 0)
                self.arm(rank, pair[0], [self._command(number)], threshold=threshold, page=self.page)
                if len(pair) == 2:
                    chained = _Pair([TickWord.add(one.number, generation=0) for one in self._pairs[number + 1]])
                    self.arm(rank, pair[1], [chained], threshold=threshold,
                             page=self.cluster.whole.triggers.tick_page(pair[1].block))

    def _command(self, number: int, slices: int = 1) -> CommandWord:
        elements = self.sizes.slice_bytes // 4
        return CommandWord(Collective.ALL_REDUCE, CommandFlag.SC, 0, ELEMENTS[self.sizes.element], Reduction.SUM, 0, 0,
                           _SEND, number * elements, _RECEIVE, number * elements, slices * elements)

    # Methods of Transport

    def plan(self, rank: int) -> list[tuple[int, int]]:
        return [(0, number) for number in range(self.sizes.slices)]

    def address(self, rank: int, target: int, number: int) -> int:
        return PARTIAL + number * self.sizes.slice_bytes

    def posts(self, rank: int, target: int, number: int) -> list[Store]:
        return [Store(self.page * PAGE_BYTES, self._command(number).to_bytes())]

    def unfused_posts(self, rank: int, plan: Sequence[tuple[int, int]]) -> list[list[Store]]:
        return [[Store(self.page * PAGE_BYTES, self._command(0, self.sizes.slices).to_bytes())]]

    def tick(self, rank: int, target: int, number: int, value: int) -> Store | None:
        return self.tick_store(*self._pairs[number], value=value)

    def credits(self) -> list[Credit]:
        return [Credit(self.page, self.cluster.config.queue_depth, self.cluster.completion_address(_QUEUE))]

    def waits(self, rank: int) -> list[Wait]:
        # One command or several count up to their number.
        word, commands = self.cluster.completion_address(_QUEUE), self._commands()
        return [Wait(word, count=min(number + 1, commands), period=self.setup.wait_period)
                for number in range(self.sizes.slices)]

    def _commands(self) -> int:
        return 1 if self.method == Method.UNFUSED else self.sizes.slices

    def check(self) -> None:
        found = [self.cluster.read_memory(rank, _RESULT, self.length + PAGE_BYTES) for rank in range(self.sizes.ranks)]
        wanted = np.full_like(found[0], _BEFORE)
        if self.method != Method.COMPUTE:
            wanted[:self.length] = self._sums()
        for rank, one in enumerate(found):
            if not np.array_equal(one, wanted):
                number = int(np.argmax(one != wanted)) // self.sizes.slice_bytes
                raise ClusterFailed(f"Slice {number} of the sum is wrong at rank {rank}.")

    def _sums(self) -> npt.NDArray[np.uint8]:
        """The bits that the accelerators must produce, by the golden model; equal on all ranks."""
        partial = self.operation.reference.reshape(self.sizes.ranks, self._commands(), -1).view(np.uint32)
        sums = []
        for command in range(self._commands()):
            made = results(Collective.ALL_REDUCE, (self.sizes.ranks,), list(partial[:, command]),
                           dtype=ELEMENTS[self.sizes.element], count=partial.shape[2], one_shot=0)
            first, *others = (one for one in made if one is not None)
            if not all(np.array_equal(first, other) for other in others):
                raise ClusterFailed("The golden model has different sums at different ranks.")
            sums.append(first)
        return np.concatenate(sums).view(np.uint8)
