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


@pytest.mark.parametrize("before, during", [(0, 0), (1, 0), (3, 0), (0, 2), (2, 1), (2, 4), (0, 6)])
@pytest.mark.parametrize("segments", [1, 3, 6])
def test_segments_end_one_after_the_other(segments, before, during):
    """Each segment ends after the one before has retired; some retire by themselves between the scan and the end."""
    most, before = 1 << TINY.flight_width, min(before, segments)

    async def body(bench):
        ctx, dut = bench.ctx, bench.dut
        oldest = most - 2

        async def cycle(retires, queue=QUEUE):
            nonlocal oldest
            ctx.set(dut.retired.valid, retires)
            ctx.set(dut.retired.queue, queue)
            ctx.set(dut.retired.number, oldest % most)
            oldest += retires and queue == QUEUE
            if retires and queue == QUEUE:
                assert not ctx.get(dut.ends.valid)
            await ctx.tick()
            ctx.set(dut.retired.valid, 0)

        ctx.set(dut.window.head, oldest)
        ctx.set(dut.window.tail, (oldest + segments) % most)
        ctx.set(dut.window.queue, QUEUE)
        ctx.set(dut.window.valid, 1)
        for number in range(3):         # the first one in the cycle of the scan
            await cycle(number < before)
            ctx.set(dut.window.valid, 0)
        await bench.pulse(dut.request)
        for number in range(before, segments):
            assert ctx.get(dut.abandon.busy)
            if number < before + during:        # it had ended before
                await cycle(True)
                continue
            # Retirements of other queues do not matter.
            for _ in range(number):
                assert ctx.get(dut.ends.valid)
                await cycle(True, QUEUE + 1)
            assert ctx.get(dut.ends.valid) and ctx.get(dut.ends.payload.queue) == QUEUE
            await bench.pulse(dut.ends.ready)
            for _ in range(3):
                assert not ctx.get(dut.ends.valid)
                await cycle(True, QUEUE + 1)
            await cycle(True)
        assert not ctx.get(dut.abandon.busy) and not ctx.get(dut.ends.valid)

    _simulate(body)


@pytest.mark.parametrize("source", ["words", "drain"])
def test_a_scan_meanwhile_has_no_effect(source):
    """A queue that is scanned while one is being abandoned, which ends before the request, is not abandoned."""
    async def body(bench):
        ctx, dut = bench.ctx, bench.dut
        busy = getattr(dut, source).busy
        assert await bench.abandoned()
        before = ctx.get(dut.lookups[0].epoch)
        for queue in (QUEUE, QUEUE + 1):
            ctx.set(busy, 1)
            await bench.pulse(dut.window.valid, dut.window.queue, queue)
            ctx.set(busy, 0)
            await ctx.tick()
            await bench.pulse(dut.request)
            for looked_up in (QUEUE, QUEUE + 1):
                ctx.set(dut.lookups[0].queue, looked_up)
                assert ctx.get(dut.lookups[0].epoch) == (before if looked_up == QUEUE else 0)

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
