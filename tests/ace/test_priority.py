# SPDX-License-Identifier: Apache-2.0
"""Arbitration by priority: round robin within each, and queues in order within each."""

import random
from collections import Counter, deque

from amaranth.sim import Simulator

from hw.ace.priority import PriorityQueue, PriorityRoundRobin
from tests.harness.cell import run_cell


def test_grants():
    """Against lists in order of service, one for each priority: a grant moves the requester to the end of its list."""
    count = 6
    dut = PriorityRoundRobin(count)
    rng = random.Random(1)

    async def live(ctx):
        turns, given = {}, [0] * count
        for _ in range(2000):
            # The priorities are registered: they change while nothing is requested.
            if rng.random() < 0.02:
                given = [rng.randrange(4) for _ in range(count)]
                for port, value in zip(dut.priorities, given, strict=True):
                    ctx.set(port, value)
                ctx.set(dut.requests, 0)
                await ctx.tick()
            requested = [number for number in range(count) if rng.random() < rng.choice((0.2, 0.9))]
            advance = rng.random() < 0.8
            ctx.set(dut.requests, sum(1 << number for number in requested))
            ctx.set(dut.advance, advance)
            assert ctx.get(dut.valid) == bool(requested)
            if requested:
                highest = max(given[number] for number in requested)
                order = turns.setdefault(highest, list(range(count)))
                expected = next(number for number in order if number in requested and given[number] == highest)
                assert ctx.get(dut.grant) == expected
                if advance:
                    turns[highest] = [*range(expected + 1, count), *range(expected + 1)]
            await ctx.tick()

    run_cell(dut, live)


def test_starves_none_of_equal_priority():
    """One of the highest priority requests in every other turn; those of the lowest still alternate."""
    dut = PriorityRoundRobin(4)
    grants = Counter()

    async def live(ctx):
        ctx.set(dut.priorities[0], 3)
        ctx.set(dut.advance, 1)
        await ctx.tick()
        for turn in range(300):
            ctx.set(dut.requests, 0b1111 if turn % 2 else 0b1110)
            grants[ctx.get(dut.grant)] += 1
            await ctx.tick()

    run_cell(dut, live)
    assert grants == {0: 150, 1: 50, 2: 50, 3: 50}


def test_queue():
    """The output is the oldest item of the highest priority that was present two cycles before; nothing is lost."""
    dut = PriorityQueue(8, depth=64)
    rng = random.Random(2)

    async def live(ctx):
        waiting, here, count = [deque() for _ in range(4)], [], 0
        for cycle in range(2000):
            put = rng.random() < (0.4 if cycle < 1000 else 0) and sum(map(len, waiting)) < 50
            priority, item = rng.randrange(4), rng.getrandbits(8)
            ctx.set(dut.i.valid, put)
            ctx.set(dut.i.payload, {"priority": priority, "item": item})
            assert not put or ctx.get(dut.i.ready)
            ready = rng.random() < 0.3
            ctx.set(dut.o.ready, ready)
            if ctx.get(dut.o.valid) and ready:
                item_out = ctx.get(dut.o.payload)
                level = next(level for level in (3, 2, 1, 0) if waiting[level] and waiting[level][0] == item_out)
                # An item of higher priority may have arrived while this one was in the output register.
                assert all(not waiting[higher] or waiting[higher][0] in here for higher in range(level + 1, 4)) or here
                waiting[level].popleft()
                count += 1
            if put:
                waiting[priority].append(item)
            here = [item] if put else here
            await ctx.tick()
        assert count > 250 and not any(waiting)

    sim = Simulator(dut)
    sim.add_clock(1e-6)
    sim.add_testbench(live)
    sim.run()
