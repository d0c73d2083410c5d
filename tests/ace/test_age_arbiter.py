# SPDX-License-Identifier: Apache-2.0
"""The arbiter by age, against a list ordered by priorities and starts."""

import random

import pytest
from amaranth.sim import Simulator

from hw.ace.age_arbiter import AgeArbiter


@pytest.mark.parametrize("count", [2, 4, 7])
def test_first_to_start_is_first_to_be_chosen(count, seed):
    rng = random.Random(seed)
    dut = AgeArbiter(count)

    async def testbench(ctx):
        # After reset, in order of their numbers.
        line, priorities = list(range(count)), [0] * count
        for _ in range(300):
            requests = {one for one in range(count) if rng.random() < 0.5}
            ctx.set(dut.requests, sum(1 << one for one in requests))
            await ctx.delay(1e-9)
            first = next((one for one in line if one in requests), None)
            assert ctx.get(dut.grant_onehot) == (0 if first is None else 1 << first)
            starts = rng.choice([None, *range(count)])
            ctx.set(dut.started, 0 if starts is None else 1 << starts)
            if starts is not None:
                priorities[starts] = rng.choice((0, 0, 0, 1, 2))
                ctx.set(dut.outranked, sum(1 << one for one in range(count) if priorities[starts] > priorities[one]))
                line.remove(starts)
                line.append(starts)
                line.sort(key=lambda one: -priorities[one])
            await ctx.tick()

    sim = Simulator(dut)
    sim.add_clock(1e-6)
    sim.add_testbench(testbench)
    sim.run()
