# SPDX-License-Identifier: Apache-2.0
"""Completion words of an abandoned queue carry the epoch in which they were published."""

from hw.dma_engine.completion.writer import CompletionWriter
from hw.dma_engine.config import TINY
from tests.harness.cell import run_cell

OTHER, QUEUE, THIRD = 0, 1, 2
OPENED = 12
"""First cycle in which words are accepted."""


def run(abandoned, published, crowded):
    """Words at the output, and whether a word of the queue is outstanding; ``published`` and ``abandoned`` are cycles.

    A word of another queue is being offered; if ``crowded``, a word of a third queue has been granted as well.
    """
    dut = CompletionWriter(TINY)
    words, flying = [], []

    async def testbench(ctx):
        epoch = 0
        for cycle in range(30):
            ctx.set(dut.publish.rc, cycle in (0, published) or (crowded and cycle == 1))
            ctx.set(dut.publish.queue, QUEUE if cycle == published else THIRD if cycle == 1 else OTHER)
            ctx.set(dut.abandon.valid, cycle == abandoned)
            ctx.set(dut.abandon.queue, QUEUE)
            ctx.set(dut.discard.queue, QUEUE)
            ctx.set(dut.o.ready, cycle >= OPENED)
            ctx.set(dut.epoch.epoch, epoch if ctx.get(dut.epoch.queue) == QUEUE else 0)
            if ctx.get(dut.o.valid & dut.o.ready):
                words.append((ctx.get(dut.o.payload.queue), ctx.get(dut.o.payload.epoch)))
            await ctx.tick()
            epoch += cycle == abandoned
            flying.append(ctx.get(dut.outstanding.rc) >> QUEUE & 1)
        ctx.set(dut.discard.valid, 1)
        await ctx.tick()
        assert not ctx.get(dut.outstanding.rc) >> QUEUE & 1
        assert ctx.get(dut.outstanding.rc) >> OTHER & 1

    run_cell(dut, testbench)
    return words, flying[-1]


def test_no_word_outlives_its_epoch():
    came = discarded = 0
    for published, crowded in ((1, False), (2, True), (5, False), (6, True)):
        for abandoned in range(published + 1, OPENED + 6):
            words, waited = run(abandoned, published, crowded)
            mine = [epoch for queue, epoch in words if queue == QUEUE]
            what = f"published in {published}, abandoned in {abandoned}, crowded: {crowded}"
            assert mine in ([], [0]), f"{what}: {words}"
            assert waited == len(mine), what
            came, discarded = came + len(mine), discarded + (not mine)
    assert came and discarded
