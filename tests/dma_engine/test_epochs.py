# SPDX-License-Identifier: Apache-2.0
"""Limit on abandoned epochs of a queue, so that responses of an earlier epoch are never accepted for a new one."""

import pytest

from hw.dma_engine.config import TINY
from hw.dma_engine.control.epochs import Epochs
from hw.dma_engine.layouts import EPOCH_WIDTH
from tests.harness.cell import run_cell

QUEUE = 1
MOST = 2**EPOCH_WIDTH - 1
"""Maximum of earlier epochs with outstanding responses."""


class _Bench:
    def __init__(self, ctx, dut):
        self.ctx, self.dut = ctx, dut

    async def begin(self):
        ctx, dut = self.ctx, self.dut
        for row in range(TINY.queues):
            ctx.set(dut.init.active, 1)
            ctx.set(dut.init.address, row)
            await ctx.tick()
        ctx.set(dut.init.active, 0)
        ctx.set(dut.lookups[0].queue, QUEUE)

    async def pulse(self, strobe, number=None, queue=None):
        """Set a strobe for one cycle, with the queue's number in ``number``."""
        if number is not None:
            self.ctx.set(number, queue)
        self.ctx.set(strobe, 1)
        await self.ctx.tick()
        self.ctx.set(strobe, 0)

    async def abandoned(self):
        """Try to abandon the queue; return whether that was possible."""
        ctx, dut = self.ctx, self.dut
        await self.pulse(dut.window.valid, dut.window.queue, QUEUE)
        await ctx.tick().repeat(2)
        before = ctx.get(dut.lookups[0].epoch)
        await self.pulse(dut.request)
        while ctx.get(dut.abandon.busy):
            await ctx.tick()
        assert (ctx.get(dut.lookups[0].epoch) - before) % 2**EPOCH_WIDTH in (0, 1)
        return ctx.get(dut.lookups[0].epoch) != before


def _simulate(body):
    dut = Epochs(TINY)

    async def testbench(ctx):
        bench = _Bench(ctx, dut)
        await bench.begin()
        await body(bench)

    run_cell(dut, testbench)


@pytest.mark.parametrize("holder", ["a segment", "a word"])
def test_epochs_are_not_used_twice(holder):
    """The number of an earlier epoch with outstanding responses is not reused; afterwards all numbers are."""
    async def body(bench):
        ctx, dut = bench.ctx, bench.dut
        if holder == "a segment":
            await bench.pulse(dut.scheduled.valid, dut.scheduled.segment.queue, QUEUE)
        else:
            ctx.set(dut.words.abandoned, 1)
        for times in range(MOST):
            assert await bench.abandoned(), f"after {times} times"
        for _ in range(3):
            assert not await bench.abandoned()
        # A segment of another queue has no effect.
        await bench.pulse(dut.returned.valid, dut.returned.queue, QUEUE + 1)
        assert not await bench.abandoned()
        if holder == "a segment":
            await bench.pulse(dut.returned.valid, dut.returned.queue, QUEUE)
        else:
            ctx.set(dut.words.abandoned, 0)
        for times in range(3 * MOST):
            assert await bench.abandoned(), f"with nothing outstanding, after {times} times"

    _simulate(body)


def test_notices_inside():
    """A queue with notices inside is never abandoned, even after repeated requests."""
    async def body(bench):
        bench.ctx.set(bench.dut.inside, 1 << QUEUE)
        for _ in range(3):
            assert not await bench.abandoned()
        bench.ctx.set(bench.dut.inside, 0)
        assert await bench.abandoned()

    _simulate(body)
