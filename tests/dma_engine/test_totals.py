# SPDX-License-Identifier: Apache-2.0
"""Totals: nothing is lost, however often events come."""

import random
import re
from itertools import pairwise

import pytest

from hw.dma_engine.config import TINY
from hw.dma_engine.control.totals import Totals
from tests.harness.cell import run_cell

EVENTS = {"often": (3, 1), "twice": (0, 2), "last": (7, 1)}
DELAY = 8 + 1
"""Cycles after which the total of 8 rows has everything."""


@pytest.mark.parametrize("share", [1, 0.5, 0.02])
def test_counts_everything(share, seed):
    rng = random.Random(seed)
    dut = Totals(TINY, EVENTS)

    async def testbench(ctx):
        ctx.set(dut.init.active, 1)
        for address in range(8):
            ctx.set(dut.init.address, address)
            await ctx.tick()
        ctx.set(dut.init.active, 0)
        sums = [dict.fromkeys(EVENTS, 0)]
        for cycle in range(300):
            now = dict(sums[-1])
            for name, (_, most) in EVENTS.items():
                times = rng.randint(1, most) if rng.random() < share and cycle < 280 else 0
                ctx.set(dut.happened[name], times)
                now[name] += times
            await ctx.tick()
            sums.append(now)
            for name, (row, _) in EVENTS.items():
                ctx.set(dut.row, row)
                total = ctx.get(dut.total)
                assert sums[max(0, len(sums) - 1 - DELAY)][name] <= total <= now[name]
        assert all(before[name] <= after[name] for before, after in pairwise(sums) for name in EVENTS)
        for name, (row, _) in EVENTS.items():
            ctx.set(dut.row, row)
            assert ctx.get(dut.total) == sums[-1][name] > 0

    run_cell(dut, testbench)


def test_two_events_in_one_row():
    with pytest.raises(ValueError, match=f"^{re.escape('Each total must have a row of its own, not [2, 2]')}$"):
        Totals(TINY, {"one": (2, 1), "other": (2, 1)})
