# SPDX-License-Identifier: Apache-2.0
"""PortDrain counts the beats and addresses that can no longer be disabled, and waits for them."""

from hw.dma_engine.config import TINY
from hw.dma_engine.mover.aligner import OUTPUT_DEPTH, Aligner
from hw.dma_engine.mover.port_drain import PortDrain
from tests.harness.cell import run_cell


def test_waits_for_both_channels():
    """PortDrain is busy until both channels have transferred the items present one cycle after the start."""
    for addresses in range(4):
        for beats in range(4):
            for which in range(2):
                dut = PortDrain(addresses=8, beats=5)

                async def testbench(ctx, dut=dut, levels=(addresses, beats), which=which):
                    taken = (dut.aw.taken, dut.w.taken)
                    assert not ctx.get(dut.drain.busy)
                    ctx.set(dut.drain.start, 1)
                    ctx.set(taken[which], 1)        # before the levels are sampled
                    await ctx.tick()
                    ctx.set(dut.drain.start, 0)
                    ctx.set(taken[which], 0)
                    ctx.set(dut.aw.level, levels[0])
                    ctx.set(dut.w.level, levels[1])
                    assert ctx.get(dut.drain.busy)
                    # One item leaves in the cycle in which the levels are sampled.
                    ctx.set(taken[which], int(levels[which] > 0))
                    await ctx.tick()
                    left = [level - (index == which and level > 0) for index, level in enumerate(levels)]
                    for index in (which, 1 - which):
                        ctx.set(taken[which], 0)
                        while left[index]:
                            assert ctx.get(dut.drain.busy)
                            ctx.set(taken[index], 1)
                            await ctx.tick()
                            ctx.set(taken[index], 0)
                            left[index] -= 1
                    assert not ctx.get(dut.drain.busy)
                    ctx.set(taken[which], 1)
                    await ctx.tick()
                    assert not ctx.get(dut.drain.busy)

                run_cell(dut, testbench)


def test_every_beat_with_strobes_is_counted():
    """Steps continue until W stalls; then all beats except the one in the first stage keep their strobes."""
    dut = Aligner(TINY)

    async def testbench(ctx):
        ctx.set(dut.w.ready, 0)
        for name in ("emit", "first", "starts", "ends", "completion"):
            ctx.set(getattr(dut.steps.payload, name), 1)
        ctx.set(dut.steps.payload.end_lane, 7)
        ctx.set(dut.steps.valid, 1)
        accepted = 0
        for _ in range(20):
            accepted += ctx.get(dut.steps.ready)
            await ctx.tick()
        assert accepted == OUTPUT_DEPTH + 2
        assert ctx.get(dut.w_level.level) == OUTPUT_DEPTH + 1
        # The queue is abandoned: the beat in the first stage leaves without strobes, earlier ones with them.
        ctx.set(dut.steps.valid, 0)
        ctx.set(dut.epoch.epoch, 1)
        ctx.set(dut.w.ready, 1)
        strobes = []
        for _ in range(20):
            if ctx.get(dut.w.valid):
                strobes.append(ctx.get(dut.w.payload.strb))
            await ctx.tick()
        assert strobes == [0xFF] * (OUTPUT_DEPTH + 1) + [0]
        assert ctx.get(dut.w_level.level) == 0

    run_cell(dut, testbench)
