# SPDX-License-Identifier: Apache-2.0
import random

import pytest
from amaranth.sim import Simulator

from hw.stream import CreditCounter


def simulate(dut, testbench):
    sim = Simulator(dut)
    sim.add_clock(1e-6)
    sim.add_testbench(testbench)
    sim.run()


@pytest.mark.parametrize("limit, max_take, max_give", [(1, 1, 1), (5, 3, 2), (16, 16, 16), (100, 8, 1)])
def test_count(limit, max_take, max_give):
    dut = CreditCounter(limit, max_take=max_take, max_give=max_give, checks=True)
    rng = random.Random(limit)

    async def testbench(ctx):
        available, lowest = limit, limit
        for _ in range(300):
            assert ctx.get(dut.available) == available
            take = rng.randint(0, min(available, max_take))
            give = rng.randint(0, min(limit - available, max_give)) if rng.randrange(3) == 0 else 0
            stb = rng.randrange(2)
            ctx.set(dut.take, take if stb else rng.randint(0, max_take))
            ctx.set(dut.take_stb, stb)
            ctx.set(dut.give, give)
            available += give - take * stb
            lowest = min(lowest, available)
            await ctx.tick()
        assert lowest == 0

    simulate(dut, testbench)


def test_take_and_give_in_one_cycle():
    dut = CreditCounter(2, max_take=2, max_give=2, checks=True)

    async def testbench(ctx):
        ctx.set(dut.take, 2)
        ctx.set(dut.take_stb, 1)
        await ctx.tick()
        assert ctx.get(dut.available) == 0
        ctx.set(dut.take, 0)
        ctx.set(dut.give, 2)
        await ctx.tick()
        assert ctx.get(dut.available) == 2
        ctx.set(dut.take, 2)
        ctx.set(dut.give, 2)
        await ctx.tick()
        assert ctx.get(dut.available) == 2

    simulate(dut, testbench)


def test_checks_take():
    dut = CreditCounter(4, max_take=3, checks=True)

    async def testbench(ctx):
        ctx.set(dut.take, 3)
        ctx.set(dut.take_stb, 1)
        await ctx.tick()
        await ctx.tick()

    message = r"^Assertion violated: CreditCounter: 3 credits taken with 1 available$"
    with pytest.raises(AssertionError, match=message):
        simulate(dut, testbench)


def test_checks_give():
    dut = CreditCounter(4, max_take=3, checks=True)

    async def testbench(ctx):
        ctx.set(dut.give, 1)
        await ctx.tick()

    message = r"^Assertion violated: CreditCounter: 1 credits given with 4 of 4 available$"
    with pytest.raises(AssertionError, match=message):
        simulate(dut, testbench)


@pytest.mark.parametrize("limit", [0, -3, 1.5])
def test_limit_wrong(limit):
    with pytest.raises(ValueError, match=rf"^CreditCounter limit must be a positive integer, not {limit}$"):
        CreditCounter(limit, max_take=1)


@pytest.mark.parametrize("name", ["max_take", "max_give"])
@pytest.mark.parametrize("value", [0, 5, None])
def test_step_wrong(name, value):
    message = rf"^CreditCounter {name} must be an integer from 1 to the limit of 4, not {value}$"
    with pytest.raises(ValueError, match=message):
        CreditCounter(4, **{"max_take": 1, name: value})
