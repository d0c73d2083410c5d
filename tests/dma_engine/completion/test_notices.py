# SPDX-License-Identifier: Apache-2.0
"""Words of notices: those inside, those without a response, whose count is limited, and those that are discarded."""

from amaranth.sim import Simulator

from hw.dma_engine.completion.notices import COUNT_WIDTH, Notices
from hw.dma_engine.config import TINY
from hw.dma_engine.layouts import word_id_layout


def test_outstanding_words():
    """Retirement stalls while the count is at least half of its maximum; a response below that lets it continue."""
    dut, layout = Notices(TINY), word_id_layout(TINY)
    word = layout.const({"top": 1, "notice": 1, "queue": 1}).as_value().value
    stop = 1 << COUNT_WIDTH - 1

    async def testbench(ctx):
        ctx.set(dut.words.ready, 1)
        ctx.set(dut.writes[0].payload.id, word)
        ctx.set(dut.writes[0].valid, 1)
        for sent in range(stop):
            assert not ctx.get(dut.notice.crowded), sent
            while True:
                _, _, taken = await ctx.tick().sample(dut.writes[0].ready)
                if taken:
                    break
        ctx.set(dut.writes[0].valid, 0)
        # A word is counted in the cycle after its transfer, and the count is compared one cycle later.
        await ctx.tick().repeat(3)
        assert ctx.get(dut.notice.crowded)
        await ctx.tick().repeat(5)
        assert ctx.get(dut.notice.crowded)
        assert ctx.get(dut.pending) == 1 << 1
        ctx.set(dut.written.id, {"top": 1, "notice": 1, "queue": 1})
        ctx.set(dut.written.valid, 1)
        await ctx.tick()
        ctx.set(dut.written.valid, 0)
        await ctx.tick().repeat(2)
        assert not ctx.get(dut.notice.crowded)
        ctx.set(dut.written.valid, 1)
        await ctx.tick().repeat(stop - 2)
        ctx.set(dut.written.valid, 0)
        await ctx.tick().repeat(2)
        assert ctx.get(dut.pending) == 1 << 1
        ctx.set(dut.written.valid, 1)
        await ctx.tick()
        ctx.set(dut.written.valid, 0)
        await ctx.tick().repeat(2)
        assert ctx.get(dut.pending) == 0

    _run(dut, testbench)


def test_inside_and_discard():
    """A word at one of the inputs is inside; a discard ends the wait for the words of its queue alone."""
    dut, layout = Notices(TINY), word_id_layout(TINY)

    async def testbench(ctx):
        ctx.set(dut.words.ready, 1)
        for queue in range(TINY.extended):
            for write in dut.writes:
                ctx.set(write.payload.id, layout.const({"top": 1, "notice": 1, "queue": queue}).as_value().value)
                ctx.set(write.valid, 1)
                assert ctx.get(dut.inside) == ctx.get(dut.pending) == 1 << queue
                _, _, taken = await ctx.tick().sample(write.ready)
                while not taken:
                    _, _, taken = await ctx.tick().sample(write.ready)
                ctx.set(write.valid, 0)
                await ctx.tick().repeat(4)
                assert ctx.get(dut.inside) == 0
                for other in (*range(TINY.extended, TINY.queues), 1 - queue, queue):
                    assert ctx.get(dut.pending) == 1 << queue
                    ctx.set(dut.discard.queue, other)
                    ctx.set(dut.discard.valid, 1)
                    await ctx.tick()
                    ctx.set(dut.discard.valid, 0)
                assert ctx.get(dut.pending) == 0

    _run(dut, testbench)


def _run(dut, testbench):
    simulator = Simulator(dut)
    simulator.add_clock(1e-8)
    simulator.add_testbench(testbench)
    simulator.run()
