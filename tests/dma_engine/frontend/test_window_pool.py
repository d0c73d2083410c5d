# SPDX-License-Identifier: Apache-2.0
"""The pool of window entries alone: no block is offered twice, and each queue that may take one finds one."""

import random

import pytest
from amaranth import ResetInserter, Signal

from hw.dma_engine.config import BLOCK_ENTRIES, DmaConfig
from hw.dma_engine.frontend.window_pool import RESERVE_BITS, WindowPool
from tests.dma_engine.frontend.sizes import SIZES, SMALL
from tests.harness.cell import CellBench, run_bench

CONFIGS = pytest.mark.parametrize("config", [
    SMALL, DmaConfig(**SIZES | {"entries": 128, "window": 16}), DmaConfig(**SIZES | {"entries": 256, "window": 8}),
], ids=["small", "larger parts", "block RAM"])


class Bench(CellBench):
    """Queues that take blocks at random, and return them in the order in which they took them."""

    def __init__(self, ctx, dut, rst, rng):
        super().__init__(ctx, rng)
        self.rst, self.dut, self.config = rst, dut, dut.config
        self.guaranteed = self.config.window // BLOCK_ENTRIES
        self.spares = self.config.blocks - self.config.queues * self.guaranteed

    async def sweep(self):
        self.set(self.dut.scheduler.take, 0)
        self.set(self.dut.retired.valid, 0)
        self.set(self.rst, 1)
        await self.ctx.tick()
        self.set(self.rst, 0)
        self.set(self.dut.init.active, 1)
        for row in range(self.config.sweep_rows):
            self.set(self.dut.init.address, row)
            await self.ctx.tick()
        self.set(self.dut.init.active, 0)
        self.held = [[(queue, 0)] for queue in range(self.config.queues)]
        self.accounts, self.without, self.last = (0, 0), 0, {}

    def borrowed(self):
        return sum(max(0, len(held) - self.guaranteed) for held in self.held)

    async def step(self, taker=None, giver=None):
        """One cycle, in which queue ``taker`` takes a block if it may, and queue ``giver`` returns its oldest one."""
        ctx, dut, config, before = self.ctx, self.dut, self.config, self.borrowed()
        offer, valid = ctx.get(dut.scheduler.block), ctx.get(dut.scheduler.valid)
        free = config.blocks - sum(map(len, self.held))
        self.without = 0 if valid or not free else self.without + 1
        assert self.without <= 1, "a free block is not offered"
        entitled = taker is not None and len(self.held[taker]) < self.guaranteed
        spare = ctx.get(dut.scheduler.spare)
        takes = bool(taker is not None and valid and (entitled or spare))
        giver = giver if giver is not None and len(self.held[giver]) > 1 else None
        self.set(dut.scheduler.take, takes)
        self.set(dut.scheduler.borrows, self.accounts[0])
        self.set(dut.scheduler.returns, self.accounts[1])
        self.set(dut.retired.valid, giver is not None or self.rng.random() < 0.5)
        place = BLOCK_ENTRIES - 1 if giver is not None else self.rng.randrange(BLOCK_ENTRIES - 1)
        block, generation = self.held[giver][0] if giver is not None else (self.rng.randrange(config.blocks), 0)
        self.set(dut.retired.index, (generation * config.blocks + block) * BLOCK_ENTRIES + place)
        if takes:
            block = offer.number, offer.generation
            assert block[0] not in {number for held in self.held for number, _ in held}, "a block is taken twice"
            assert block[1] != self.last.get(block[0], 1), "the generation of a block does not change"
            self.seen["again"] += block[1]
            self.held[taker].append(block)
        if giver is not None:
            number, generation = self.held[giver].pop(0)
            self.last[number] = generation
        change = self.borrowed() - before
        # One queue may borrow while another one returns.
        lent = takes and taker != giver and not entitled
        self.accounts = int(lent), int(lent - change)
        assert self.borrowed() <= self.spares
        self.seen["most borrowed"] += self.borrowed() > self.spares - (1 << RESERVE_BITS)
        self.seen["entitled"] += entitled and takes and not spare
        self.seen["refused"] += taker is not None and not entitled and not spare
        await ctx.tick()

    async def drain(self):
        pass


def run(config, rng, body):
    dut, rst = WindowPool(config), Signal()
    return run_bench(ResetInserter(rst)(dut), lambda ctx: Bench(ctx, dut, rst, rng), body)


@CONFIGS
def test_random(config, seed):
    """Greedy queues take what they get while the others take and return a few blocks; and again after a sweep."""
    rng = random.Random(f"{seed} pool")

    async def body(bench):
        for _ in range(2):
            await bench.sweep()
            for cycle in range(2500):
                if cycle % 250 == 0:
                    greedy, returns = rng.sample(range(config.queues), 2), rng.choice((0.1, 0.5, 0.9))
                taker = rng.choice(greedy) if rng.random() < 0.7 else rng.randrange(config.queues)
                await bench.step(taker, rng.randrange(config.queues) if rng.random() < returns else None)

    seen = run(config, rng, body)
    assert seen["entitled"] and seen["refused"] and seen["again"] and seen["most borrowed"], seen


@CONFIGS
def test_guaranteed(config):
    """While two queues take all that they get, each of the others has its guaranteed part at once, at any time."""
    rng = random.Random("guaranteed")

    async def body(bench):
        await bench.sweep()
        for cycle in range(4 * config.blocks):
            await bench.step(cycle % 2)
        assert bench.borrowed() > bench.spares - (1 << RESERVE_BITS)
        for queue in range(2, config.queues):
            for _ in range(4 * bench.guaranteed):
                await bench.step(queue)
            assert len(bench.held[queue]) == bench.guaranteed

    run(config, rng, body)
