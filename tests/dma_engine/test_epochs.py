"""How often a queue may be given up before what is outside could be taken for new."""

import pytest

from hw.dma_engine.config import TINY
from hw.dma_engine.epochs import Epochs
from hw.dma_engine.layouts import EPOCH_WIDTH
from tests.harness.cell import run_cell

QUEUE = 2
MOST = 2**EPOCH_WIDTH - 1
"""Lives of which some may be outside when another one begins."""


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
        ctx.set(dut.queue[0], QUEUE)

    async def pulse(self, name, queue=None):
        if queue is not None:
            self.ctx.set(getattr(self.dut, f"{name}_queue"), queue)
        self.ctx.set(getattr(self.dut, name), 1)
        await self.ctx.tick()
        self.ctx.set(getattr(self.dut, name), 0)

    async def given_up(self):
        """Whether the queue could be."""
        ctx, dut = self.ctx, self.dut
        await self.pulse("look", QUEUE)
        await ctx.tick().repeat(2)
        before = ctx.get(dut.epoch[0])
        await self.pulse("give_up")
        while ctx.get(dut.busy):
            await ctx.tick()
        assert (ctx.get(dut.epoch[0]) - before) % 2**EPOCH_WIDTH in (0, 1)
        return ctx.get(dut.epoch[0]) != before


def _simulate(body):
    dut = Epochs(TINY)

    async def testbench(ctx):
        bench = _Bench(ctx, dut)
        await bench.begin()
        await body(bench)

    run_cell(dut, testbench)


@pytest.mark.parametrize("outside", ["a segment", "a word"])
def test_epochs_are_not_used_twice(outside):
    """While something of an earlier life is outside, its epoch does not come round; then all may be used again."""
    async def body(bench):
        ctx, dut = bench.ctx, bench.dut
        if outside == "a segment":
            await bench.pulse("scheduled", QUEUE)
        else:
            ctx.set(dut.words_outside, 1)
        for times in range(MOST):
            assert await bench.given_up(), f"after {times} times"
        for _ in range(3):
            assert not await bench.given_up()
        # Something of another queue is no reason.
        await bench.pulse("returned", QUEUE + 1)
        assert not await bench.given_up()
        if outside == "a segment":
            await bench.pulse("returned", QUEUE)
        else:
            ctx.set(dut.words_outside, 0)
        for times in range(3 * MOST):
            assert await bench.given_up(), f"with nothing outside, after {times} times"

    _simulate(body)


def test_hold():
    """A queue that is held is not given up, however often that is asked for."""
    async def body(bench):
        bench.ctx.set(bench.dut.hold, 1)
        for _ in range(3):
            assert not await bench.given_up()
        bench.ctx.set(bench.dut.hold, 0)
        assert await bench.given_up()

    _simulate(body)
