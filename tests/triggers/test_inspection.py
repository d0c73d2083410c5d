# SPDX-License-Identifier: Apache-2.0
"""TriggerInspection: the counter last selected, and every refusal in the count."""

import random
from collections import deque

import pytest
from amaranth import Shape

from hw.triggers.config import TriggerConfig
from hw.triggers.inspection import TriggerInspection
from hw.triggers.layouts import RowLayout
from tests.harness.cell import CellBench, run_bench

CONFIG = TriggerConfig(blocks=2, dma_pages=1, ace_pages=1)
FIELDS = "block", "index", "code"
MOST_READS = 3
"""Reads in flight in ``OperationMerge``."""


class _Bench(CellBench):
    """Reads rows after a random time; a row is the number of the read and the counter."""

    def __init__(self, ctx, dut, rng, rate):
        super().__init__(ctx, rng)
        self.dut, self.rate = dut, rate
        self.reads = deque()
        self.selected = None            # and the cycle of the selection
        self.rows = {}                  # row -> counter and the cycle of its read
        self.now = 0

    async def cycle(self, *, select=None):
        ctx, dut, rng = self.ctx, self.dut, self.rng
        settings, status = dut.settings, dut.status
        ctx.set(settings.select_valid, select is not None)
        ctx.set(settings.select_counter, select or 0)
        ctx.set(dut.read.ready, len(self.reads) < MOST_READS and self.chance(self.rate))
        done = bool(self.reads) and self.chance(self.rate)
        ctx.set(dut.done_read, done)
        if done:
            counter = self.reads.popleft()
            row = rng.getrandbits(Shape.cast(RowLayout).width)
            self.rows[row] = counter, self.now
            ctx.set(dut.read_row.as_value(), row)
        refusals = [tuple(rng.getrandbits(width) for width in (1, 6, 3)) if self.chance(0.3) else None
                    for _ in range(2)]
        for port, refusal in zip(dut.refusals, refusals, strict=True):
            ctx.set(port.valid, refusal is not None)
            for name, value in zip(FIELDS, refusal or (0, 0, 0), strict=True):
                ctx.set(getattr(port, name), value)
        busy, ticked, fired = rng.getrandbits(2), rng.getrandbits(1), rng.getrandbits(1)
        ctx.set(dut.busy, busy), ctx.set(dut.ticked, ticked), ctx.set(dut.fired, fired)

        valid = [refusal for refusal in refusals if refusal]
        assert ctx.get(status.counts.refused) == len(valid) and ctx.get(status.refusal.valid) == bool(valid)
        if valid:
            assert tuple(ctx.get(getattr(status.refusal, name)) for name in FIELDS) == valid[0]
            self.seen["refusals", len(valid)] += 1
        assert (ctx.get(status.busy), ctx.get(status.counts.ticked), ctx.get(status.counts.fired)) == (
            busy, ticked, fired)
        if ctx.get(status.row_valid):
            counter, read = self.rows[ctx.get(status.row.as_value())]
            assert counter == self.selected[0] and read > self.selected[1]
            self.seen["row"] += 1
        if ctx.get(dut.read.valid) and ctx.get(dut.read.ready):
            self.reads.append(ctx.get(dut.read.payload))
        await ctx.tick()
        if select is not None:
            self.selected = select, self.now
            assert not ctx.get(status.row_valid)
        self.now += 1

    async def drain(self):
        """The last selection always becomes visible."""
        for _ in range(200):
            await self.cycle()
        assert self.ctx.get(self.dut.status.row_valid) == (self.selected is not None)


@pytest.mark.parametrize(("rate", "selects"), [(1.0, 0.02), (0.3, 0.2), (0.5, 0.9), (0.1, 0.03)])
def test_random(rate, selects, seed):
    async def body(bench):
        for _ in range(1000):
            await bench.cycle(select=bench.rng.randrange(CONFIG.counters) if bench.chance(selects) else None)

    dut = TriggerInspection(CONFIG)
    seen = run_bench(dut, lambda ctx: _Bench(ctx, dut, random.Random(f"{seed} {rate} {selects}"), rate), body)
    assert seen["row"] and seen["refusals", 1] and seen["refusals", 2]
