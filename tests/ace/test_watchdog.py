"""The watchdog tells of those that have work and no progress, between once and twice its time, and of nobody else."""

import pytest
from amaranth.sim import Simulator

from hw.ace.config import TINY
from hw.ace.watchdog import Watchdog


def _run(body):
    dut = Watchdog(TINY)

    async def live(ctx):
        await body(ctx, dut)

    sim = Simulator(dut)
    sim.add_clock(1e-6)
    sim.add_testbench(live)
    sim.run()


@pytest.mark.parametrize("cycles", [1, 7, 100])
@pytest.mark.parametrize("begin", [0, 3])
def test_time(cycles, begin):
    async def body(ctx, dut):
        ctx.set(dut.cycles, cycles)
        for _ in range(begin):
            await ctx.tick()
        ctx.set(dut.work, 0b0110)
        waited = 0
        while not ctx.get(dut.late):
            # The first has progress now and then.
            ctx.set(dut.progress, 0b0010 if cycles == 1 or waited % cycles == 0 else 0)
            await ctx.tick()
            waited += 1
        assert ctx.get(dut.late) == 0b0100
        assert cycles <= waited <= 2 * cycles + 2
        ctx.set(dut.progress, 0b0110)
        await ctx.tick()
        assert not ctx.get(dut.late)

    _run(body)


def test_off():
    async def body(ctx, dut):
        ctx.set(dut.work, 0b1111)
        for _ in range(300):
            await ctx.tick()
            assert not ctx.get(dut.late)

    _run(body)
