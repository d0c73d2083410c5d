# SPDX-License-Identifier: Apache-2.0
"""Arbitration by priority: requests of the highest priority, and queues in order within each."""

import random
from collections import deque

from amaranth import *
from amaranth.sim import Simulator

from hw.ace.priority import PriorityQueue, above, foremost


def test_foremost():
    m, requests = Module(), Signal(6)
    priorities = [Signal(2, name=f"priority_{number}") for number in range(6)]
    chosen = foremost(m, requests, [above(priority) for priority in priorities], name="chosen")
    rng = random.Random(1)

    async def live(ctx):
        for _ in range(500):
            given = [rng.randrange(4) for _ in priorities]
            requested = [number for number in range(6) if rng.random() < 0.4]
            for signal, value in zip(priorities, given, strict=True):
                ctx.set(signal, value)
            ctx.set(requests, sum(1 << number for number in requested))
            await ctx.delay(1e-6)
            highest = max((given[number] for number in requested), default=0)
            assert ctx.get(chosen) == sum(1 << number for number in requested if given[number] == highest)

    sim = Simulator(m)
    sim.add_testbench(live)
    sim.run()


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
