# SPDX-License-Identifier: Apache-2.0
"""Words of notices without a response: their count is limited, and no more words are generated than can be counted."""

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

    simulator = Simulator(dut)
    simulator.add_clock(1e-8)
    simulator.add_testbench(testbench)
    simulator.run()
