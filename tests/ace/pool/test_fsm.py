# SPDX-License-Identifier: Apache-2.0
"""An FSM of the pool alone: GRANTs that marks of fills permit."""

from hw.ace.config import TINY
from hw.ace.pool.fsm import Fsm
from tests.harness.cell import run_cell


def test_a_mark_before_the_start_grants_nothing():
    """It was kept for the next chunk, which sent a GRANT of no receives. Four-state simulation showed it: an FSM that
    had no chunk yet compared marks with a slot that was X."""
    dut, granted = Fsm(TINY), []

    async def testbench(ctx):
        async def steps(count=1):
            for _ in range(count):
                valid = ctx.get(dut.signals.valid)
                ctx.set(dut.signals.ready, valid)
                if valid:
                    granted.append(ctx.get(dut.signals.payload.header.granted))
                await ctx.tick()

        async def strobe(signal):
            ctx.set(signal, 1)
            await steps()
            ctx.set(signal, 0)

        ctx.set(dut.steps.ready, 1)
        await strobe(dut.marked.valid)                  # of the slot of its last chunk
        await steps(4)
        ctx.set(dut.start.payload.phases, 1)
        await strobe(dut.start.valid)
        await steps(2)
        for name in ("granted", "receives", "span"):
            ctx.set(dut.steps.fetched[name], 1)
        await strobe(dut.steps.phase_valid)
        await steps(8)
        assert granted == []
        await strobe(dut.marked.valid)
        await steps(4)
        assert granted == [1]

    run_cell(dut, testbench)
