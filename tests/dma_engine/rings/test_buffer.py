# SPDX-License-Identifier: Apache-2.0
"""The rows of rings, against a list of each: random descriptors arrive beat by beat, are read, and are taken."""

import random
from collections import deque

import pytest

from hw.dma_engine.config import TINY
from hw.dma_engine.descriptors import DESCRIPTOR_BYTES
from hw.dma_engine.rings.buffer import RingBuffer
from tests.harness.cell import CellBench, run_bench

BITS, WIDTH = 8 * DESCRIPTOR_BYTES, TINY.data_width
KEPT = (0, 32), (128, BITS)
"""Bits of a descriptor that a row has, in this order."""


class Bench(CellBench):

    def __init__(self, ctx, dut, rng, pair):
        super().__init__(ctx, rng)
        self.dut = dut
        self.depths = [2 * TINY.ring_depth, 0] if pair else [TINY.ring_depth] * TINY.extended
        self.rows = [deque() for _ in self.depths]
        self.coming = [deque() for _ in self.depths]            # beats, each with its descriptor if it is the last
        self.requested = [0 for _ in self.depths]
        self.wanted = None                                      # result of the read in the previous cycle
        self.set(dut.states.used, 1 if pair else (1 << TINY.extended) - 1)
        self.set(dut.states.pair, pair)

    def _one(self, choices, pace=0.9):
        return self.rng.choice(choices) if choices and self.chance(pace) else None

    async def step(self, pace):
        """One cycle, in which a row is read with probability ``pace``."""
        ctx, dut, rng = self.ctx, self.dut, self.rng
        rings = range(len(self.depths))
        lengths = [len(rows) for rows in self.rows]
        assert ctx.get(dut.rows.some) == sum((length > 0) << ring for ring, length in enumerate(lengths))
        assert ctx.get(dut.rows.several) == sum((length > 1) << ring for ring, length in enumerate(lengths))
        assert ctx.get(dut.awaited.some) == sum((self.requested[ring] > 0) << ring for ring in rings)
        assert ctx.get(dut.awaited.outstanding) == 0
        if self.wanted is not None:
            assert ctx.get(dut.rows.row).as_value().value & (1 << self.wanted[1]) - 1 == self.wanted[0]

        ring = self._one([ring for ring in rings if lengths[ring]], pace)
        behind = ring is not None and lengths[ring] > 1 and rng.randrange(2)
        self.set(dut.rows.read, ring is not None)
        self.set(dut.rows.behind, behind)
        self.seen["behind"] += behind
        take = ring is not None and self.chance(0.5)
        self.set(dut.rows.take, take)
        self.set(dut.rows.ring, ring or 0)
        self.wanted = None if ring is None else self.rows[ring][behind]

        free = {number: self.depths[number] - self.requested[number] - lengths[number] for number in rings}
        number = self._one([number for number in rings if free[number]])
        count = 0 if number is None else rng.randint(1, min(free[number], TINY.fetch_burst))
        self.set(dut.requested.valid, number is not None)
        self.set(dut.requested.ring, number or 0)
        self.set(dut.requested.count, count)

        beats = self._one([number for number in rings if self.coming[number]])
        self.set(dut.beats.valid, beats is not None)
        self.set(dut.beats.ring, rng.randrange(TINY.extended) if beats is None else beats)
        data, row = (rng.getrandbits(WIDTH), None) if beats is None else self.coming[beats].popleft()
        self.set(dut.beats.data, data)
        await ctx.tick()

        if take:
            self.rows[ring].popleft()
        if row is not None:
            self.rows[beats].append(row)
            self.requested[beats] -= 1
            self.seen["full"] += len(self.rows[beats]) == self.depths[beats]
            self.seen["taken at the last beat"] += take and ring == beats
        if number is not None:
            self.requested[number] += count
            for _ in range(count):
                self._request(number)

    def _request(self, ring):
        bits, row, size = self.rng.getrandbits(BITS), 0, 0
        for low, high in KEPT:
            row |= (bits >> low & (1 << high - low) - 1) << size
            size += high - low
        for at in range(0, BITS, WIDTH):
            last = at + WIDTH == BITS
            self.coming[ring].append((bits >> at & (1 << WIDTH) - 1, (row, size) if last else None))

    async def drain(self):
        """Nothing remains that a later run would see."""


@pytest.mark.parametrize("pair", [0, 1])
def test_rows(pair, seed):
    """Two rings, or one with the rows of both."""
    rng, dut = random.Random(f"{seed} rows"), RingBuffer(TINY)

    async def body(bench):
        for cycle in range(5000):
            # Rarely read, so that the rows fill; then often, so that they run out.
            await bench.step(0.5 if cycle // 500 % 2 else 0.03)

    seen = run_bench(dut, lambda ctx: Bench(ctx, dut, rng, pair), body)
    assert seen["behind"] > 50 and seen["full"] > 5 and seen["taken at the last beat"] > 5, seen
