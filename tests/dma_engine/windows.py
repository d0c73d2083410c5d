# SPDX-License-Identifier: Apache-2.0
"""Windows of all queues, for benches of single stages: which entry each segment has.

Free blocks are taken at random, which the pool need not do.
"""

from hw.dma_engine.config import BLOCK_ENTRIES

__all__ = ["Windows"]


class Windows:
    """Entries of the segments between issue and retirement, whose numbers count from 0 in each queue."""

    def __init__(self, config, rng):
        self.config, self.rng = config, rng
        self.present = [(queue, 0) for queue in range(config.queues)]
        self.free = [(block, 0) for block in range(config.queues, config.blocks)]
        self.tails = [0] * config.queues

    def number(self, segment):
        """A segment's number, as it is counted."""
        return segment % (1 << self.config.flight_width)

    def next_index(self, queue):
        """Index of the queue's next segment, which has an entry already."""
        block, generation = self.present[queue]
        return (generation * self.config.blocks + block) * BLOCK_ENTRIES + self.tails[queue] % BLOCK_ENTRIES

    def leaves(self, queue):
        """Whether the queue's next segment has the last entry of its block."""
        return self.tails[queue] % BLOCK_ENTRIES == BLOCK_ENTRIES - 1

    def may_schedule(self, queue):
        return not self.leaves(queue) or bool(self.free)

    def schedule(self, queue, block=None):
        """Take the entry and the next block, ``block`` if given; return the segment's index and the fields of ``next``.
        """
        index = self.next_index(queue)
        if self.leaves(queue):
            self.present[queue] = block or self.rng.choice(self.free)
            self.free.remove(self.present[queue])
        self.tails[queue] += 1
        block, generation = self.present[queue]
        return index, {"next.number": block, "next.generation": generation}

    def retire(self, index):
        """The oldest segment of a queue retires: its block is free if this was the last entry."""
        place, block = index % BLOCK_ENTRIES, index // BLOCK_ENTRIES
        if place == BLOCK_ENTRIES - 1:
            self.free.append((block % self.config.blocks, 1 - block // self.config.blocks))
