# SPDX-License-Identifier: Apache-2.0
"""When a port reports received packets and freed beats: at once if they are many, otherwise after a time, and once."""

import pytest

from hw.ace.config import LINK_CREDIT_WIDTH, LINK_SEQUENCE_WIDTH, TINY
from hw.ace.link.credits import LINK_REPORT_CYCLES, LINK_REPORT_PACKETS, ReportedCredits
from tests.harness.cell import run_cell

BEATS = TINY.link_beats // 4
"""Freed beats that are reported at once."""

KINDS = {"packets": (LINK_REPORT_PACKETS, 1 << LINK_SEQUENCE_WIDTH), "beats": (BEATS, 1 << LINK_CREDIT_WIDTH)}


class _Bench:
    def __init__(self, ctx, dut, kind):
        self.ctx, self.dut = ctx, dut
        self.port = dut.expected if kind == "packets" else dut.taken[0]
        self.enough, self.modulus = KINDS[kind]
        self.count = 0

    def advance(self, by):
        self.count = (self.count + by) % self.modulus
        self.ctx.set(self.port, self.count)

    async def cycles_until_due(self, limit):
        """Cycles, or None if there is no report within the limit."""
        for cycle in range(limit):
            if self.ctx.get(self.dut.due):
                return cycle
            await self.ctx.tick()
        return None

    async def report(self):
        self.ctx.set(self.dut.report, 1)
        await self.ctx.tick()
        self.ctx.set(self.dut.report, 0)
        assert not self.ctx.get(self.dut.due)


def _run(kind, body):
    dut = ReportedCredits(TINY)

    async def live(ctx):
        await body(_Bench(ctx, dut, kind))

    run_cell(dut, live)


@pytest.mark.parametrize("kind", KINDS)
def test_many_are_reported_at_once(kind):
    async def body(bench):
        for more in (0, 0, 1, 5):
            bench.advance(bench.enough - 1)
            assert await bench.cycles_until_due(3) is None
            bench.advance(1 + more)
            assert await bench.cycles_until_due(3) == 1
            await bench.report()
            assert await bench.cycles_until_due(3) is None
        # Across the end of the numbers.
        for _ in range(bench.modulus // bench.enough + 2):
            bench.advance(bench.enough)
            assert await bench.cycles_until_due(3) == 1
            await bench.report()

    _run(kind, body)


@pytest.mark.parametrize("kind", KINDS)
def test_few_are_reported_after_a_time(kind):
    async def body(bench):
        assert await bench.cycles_until_due(3 * LINK_REPORT_CYCLES) is None
        for first, second in ((1, 0), (2, 1), (bench.enough - 2, 1)):
            bench.advance(first)
            await bench.ctx.tick().repeat(LINK_REPORT_CYCLES // 2)
            assert not bench.ctx.get(bench.dut.due)
            bench.advance(second)           # the time is that of the first
            assert await bench.cycles_until_due(LINK_REPORT_CYCLES) == (LINK_REPORT_CYCLES + 1) // 2
            await bench.ctx.tick().repeat(5)
            assert bench.ctx.get(bench.dut.due)
            await bench.report()
            assert await bench.cycles_until_due(3 * LINK_REPORT_CYCLES) is None

    _run(kind, body)


@pytest.mark.parametrize("kind", KINDS)
def test_reset(kind):
    """After a reset, both ends count from 0 again, and the time does, too."""
    async def body(bench):
        ctx, dut = bench.ctx, bench.dut
        bench.advance(bench.enough + 7)
        assert await bench.cycles_until_due(3) == 1
        bench.advance(-bench.count)
        ctx.set(dut.reset, 1)
        await ctx.tick().repeat(2)
        ctx.set(dut.reset, 0)
        assert await bench.cycles_until_due(3 * LINK_REPORT_CYCLES) is None
        bench.advance(bench.enough)
        assert await bench.cycles_until_due(3) == 1

    _run(kind, body)
