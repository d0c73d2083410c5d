# SPDX-License-Identifier: Apache-2.0
"""PendingFirings: the counters of each block leave in order, once each, while their queues have free entries."""

import random
from collections import deque
from dataclasses import replace

import pytest

from hw.triggers.config import COUNTERS_PER_BLOCK, TriggerConfig
from hw.triggers.pending import PendingFirings
from tests.harness.cell import CellBench, run_bench

CONFIG = TriggerConfig(blocks=4, dma_pages=2, ace_pages=1)
PIPELINED = replace(CONFIG, pipelined=True)

both = pytest.mark.parametrize("config", [CONFIG, PIPELINED], ids=["plain", "pipelined"])


class _Bench(CellBench):
    """``queues``: index and page of the due counters of each block, oldest first."""

    def __init__(self, ctx, dut, rng):
        super().__init__(ctx, rng)
        self.dut = dut
        self.queues = [deque() for _ in range(CONFIG.blocks)]
        # Block, and index and page, of a counter that has left and will be queued again.
        self.leaving = deque([None] * dut.config.read_latency)
        # Looked up in the previous cycle.
        self.eligible, self.allowed = [False] * CONFIG.blocks, [False] * CONFIG.blocks
        self.served = []

    async def cycle(self, *, due=None, ready=True, requeue=False, free=-1, allowed=-1, resetting=0, pages=None):
        """``due``: block, index and page of a counter that is queued unless a firing leaves. Returns the block and the
        counter that leaves. ``pages``: block whose pages change."""
        ctx, dut = self.ctx, self.dut
        latency = dut.config.read_latency
        again = self._again(resetting) if latency else None
        due = again or due
        ready = ready and not any(self.leaving)
        for signal, value in ((dut.ready, ready), (dut.resetting, resetting),
                              (dut.requeue, bool(again) if latency else requeue),
                              (dut.settings.pages_valid, pages is not None), (dut.settings.pages_block, pages or 0)):
            ctx.set(signal, value)
        for number, look_up in enumerate(dut.pages):
            block = number if number < CONFIG.blocks else due[0] if due else 0
            ctx.set(look_up.free, free >> block & 1)
            ctx.set(look_up.allowed, allowed >> block & 1)
        able = [block for block in range(CONFIG.blocks) if self.eligible[block] and not resetting >> block & 1]
        for block, queue in enumerate(self.queues):
            assert ctx.get(dut.pages[block].block) == block
            if queue:
                assert ctx.get(dut.pages[block].page) == queue[0][1]
        empty = [not queue for queue in self.queues]
        leaves = ctx.get(dut.leave.valid)
        assert leaves == (bool(able) and bool(ready))
        left = None
        if leaves:
            block, index = divmod(ctx.get(dut.leave.counter), COUNTERS_PER_BLOCK)
            assert block in able and index == self.queues[block][0][0]
            assert ctx.get(dut.leave.allowed) == self.allowed[block]
            oldest = self.queues[block].popleft()
            if requeue and latency:
                self.leaving.append((block, *oldest))
            elif requeue:
                self.queues[block].append(oldest)
            self.served.append(block)
            left = block, index
            self.seen["requeue" if requeue else "leave" if self.allowed[block] else "refused"] += 1
        if len(self.leaving) < latency:
            self.leaving.append(None)
        # Without registered reads, the table queues a counter only in a cycle in which no firing leaves.
        valid = due is not None and (bool(latency) or not leaves)
        ctx.set(dut.due.valid, valid and not again)
        if valid:
            block, index, page = due
            ctx.set(dut.due.block, block)
            ctx.set(dut.due.payload.index, index)
            ctx.set(dut.due.payload.page, page)
            assert (ctx.get(dut.pages[-1].block), ctx.get(dut.pages[-1].page)) == (block, page)
            if not resetting >> block & 1:
                self.queues[block].append((index, page))
            self.seen["due"] += 1
        await ctx.tick()
        for block in range(CONFIG.blocks):
            enters = valid and due[0] == block if empty[block] else (left is None or left[0] != block)
            able_next = free >> block & 1 or not allowed >> block & 1
            self.eligible[block] = bool(enters and able_next and not resetting >> block & 1 and pages != block)
            self.allowed[block] = bool(allowed >> block & 1)
            if resetting >> block & 1:
                self.seen["discarded"] += len(self.queues[block])
                self.queues[block].clear()
        return left

    def _again(self, resetting):
        """The counter that left ``read_latency`` cycles ago, unless its block has been reset."""
        for number, left in enumerate(self.leaving):
            if left and resetting >> left[0] & 1:
                self.leaving[number] = None
        return self.leaving.popleft()

    async def drain(self):
        while any(self.queues) or any(self.leaving):
            await self.cycle()
        assert await self.cycle() is None


def _run(body, config=CONFIG, *, seed=0):
    dut = PendingFirings(config)
    return run_bench(dut, lambda ctx: _Bench(ctx, dut, random.Random(seed)), body)


@both
@pytest.mark.parametrize(("ready", "free"), [(0.8, 0.8), (0.5, 0.4), (0.9, 0.05)])
def test_random(ready, free, config, seed):
    async def body(bench):
        rng = bench.rng
        for _ in range(1000):
            block = rng.randrange(CONFIG.blocks)
            index = rng.randrange(COUNTERS_PER_BLOCK)
            due = (block, index, rng.randrange(256)) if bench.chance(0.6) else None
            if any(index == queued for queued, _ in bench.queues[block]) or any(
                    left and left[:2] == (block, index) for left in bench.leaving):
                due = None
            await bench.cycle(
                due=due, ready=bench.chance(ready), requeue=bench.chance(0.3),
                free=sum(bench.chance(free) << number for number in range(CONFIG.blocks)),
                allowed=sum(bench.chance(0.9) << number for number in range(CONFIG.blocks)),
                resetting=1 << rng.randrange(CONFIG.blocks) if bench.chance(0.03) else 0,
                pages=rng.randrange(CONFIG.blocks) if bench.chance(0.1) else None)

    seen = _run(body, config, seed=f"{seed} {ready} {free}")
    assert all(seen[name] for name in ("leave", "requeue", "refused", "due", "discarded"))


def test_all_counters_of_a_block_are_due():
    """Each leaves three times, in turn; another block does not wait."""
    async def body(bench):
        for index in range(COUNTERS_PER_BLOCK):
            await bench.cycle(due=(1, index, 2), free=0)
        assert len(bench.queues[1]) == COUNTERS_PER_BLOCK
        await bench.cycle(due=(3, 7, 1), free=0)
        assert await bench.cycle(free=0b1101) is None
        assert await bench.cycle(free=0b1101) == (3, 7)
        order = []
        for number in range(3 * COUNTERS_PER_BLOCK):
            # The look-up of the page takes a cycle.
            assert await bench.cycle() is None
            order.append(await bench.cycle(requeue=number < 2 * COUNTERS_PER_BLOCK))
        assert order == [(1, index) for index in range(COUNTERS_PER_BLOCK)] * 3

    _run(body)


def test_blocks_in_turn():
    async def body(bench):
        for index in range(8):
            for block in range(CONFIG.blocks):
                await bench.cycle(due=(block, index, 0), ready=False)
        for _ in range(8 * CONFIG.blocks):
            assert await bench.cycle()
        assert all(len(set(bench.served[at:at + 4])) == 4 for at in range(len(bench.served) - 3))

    _run(body)


def test_a_counter_that_is_due_while_the_reset_begins():
    async def body(bench):
        await bench.cycle(due=(2, 5, 1), ready=False)
        await bench.cycle(due=(2, 6, 1), ready=False)
        assert await bench.cycle(resetting=0b0100) is None
        assert await bench.cycle() is None
        await bench.cycle(due=(2, 9, 1))
        assert await bench.cycle() == (2, 9)

    _run(body)
