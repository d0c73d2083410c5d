# SPDX-License-Identifier: Apache-2.0
"""Queues between two clock domains: order, rates, latency, and resets of either side or both at any time."""

import random

import pytest
from amaranth.hdl import DomainRenamer, Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from hw.stream import AsyncQueue, StreamChecker
from tests.stream.two_domains import CLOCKS, TwoDomains, late_crossings, repeat, simulate_two

WIDTH = 12
SETTLED = 30
"""Cycles of the slower clock after a reset in which the queue starts again."""


class _Checked(wiring.Component):
    def __init__(self, queue):
        self.queue = queue
        super().__init__({"i": In(stream.Signature(WIDTH)), "o": Out(stream.Signature(WIDTH))})

    def elaborate(self, platform):
        m = Module()
        m.submodules.queue = self.queue
        checker = StreamChecker(WIDTH, name="o")
        m.submodules.checker = DomainRenamer("read")(checker)
        connect(m, flipped(self.i), self.queue.i)
        connect(m, self.queue.o, flipped(self.o))
        m.d.comb += checker.observe(self.o)
        return m


class _Traffic:
    """Numbers 0, 1, 2, ... through a queue, and times at which they were accepted and delivered."""

    def __init__(self, clocks, *, depth=16, stages=2, stalls=(0.0, 0.0), seed=0):
        self.clocks, self.stalls, self.rng = clocks, stalls, random.Random(f"{seed} {clocks} {stalls}")
        self.dut = _Checked(AsyncQueue(WIDTH, depth=depth, stages=stages))
        self.top = TwoDomains(self.dut)
        self.edges = {"write": 0, "read": 0}
        self.accepted, self.delivered = [], {}      # time of each number
        self.shown = {}                             # first time on `o`
        self.last, self.floor, self.stopped = -1, 0, False

    def time(self, domain):
        """Time of the latest edge, in ns."""
        period, phase = (self.clocks[0], 0) if domain == "write" else self.clocks[1:]
        return phase + (self.edges[domain] - 1) * period

    @property
    def now(self):
        return max(self.time("write"), self.time("read"))

    async def _tick(self, ctx, domain, *signals):
        """Values before the next edge."""
        _, reset, *values = await ctx.tick(domain).sample(*signals)
        self.edges[domain] += 1
        return [reset, *values]

    async def send(self, ctx):
        port, valid = self.dut.i, False
        while True:
            if not valid:
                valid = not self.stopped and self.rng.random() >= self.stalls[0]
                ctx.set(port.valid, valid)
                ctx.set(port.payload, len(self.accepted) % (1 << WIDTH))
            reset, ready = await self._tick(ctx, "write", port.ready)
            if valid and ready:
                self.accepted.append(self.time("write"))
            if ready or reset:
                valid = False

    async def receive(self, ctx):
        port = self.dut.o
        while True:
            ready = self.rng.random() >= self.stalls[1]
            ctx.set(port.ready, ready)
            reset, valid, payload = await self._tick(ctx, "read", port.valid, port.payload)
            if not valid or reset:
                continue
            number = self.last + 1 + (payload - self.last - 1) % (1 << WIDTH)
            assert self.floor <= number < len(self.accepted), \
                f"item {payload} after {self.last} of {len(self.accepted)}, {self.floor} were before the reset"
            self.shown.setdefault(number, self.time("read"))
            if ready:
                self.delivered[number], self.last = self.time("read"), number

    async def wait(self, ctx, cycles):
        """Cycles of the slower clock."""
        await repeat(ctx, "write" if self.clocks[0] > self.clocks[1] else "read", cycles)

    async def send_for(self, ctx, cycles):
        await self.wait(ctx, cycles)
        self.stopped = True
        for _ in range(200):
            await self.wait(ctx, 2)     # an item may still be offered
            if len(self.accepted) == self.last + 1:
                return

    def run(self, testbench, *others, late=True):
        def run():
            simulate_two(self.top, self.clocks, testbench, *others, background=(self.send, self.receive))
        if late:
            with late_crossings(self.rng.random()):
                run()
        else:
            run()
        return self


@pytest.mark.parametrize("stalls", [(0.1, 0.6), (0.5, 0.1)])
@pytest.mark.parametrize("clocks", CLOCKS, ids=str)
def test_order(clocks, stalls, seed):
    traffic = _Traffic(clocks, stalls=stalls, depth=random.Random(f"{seed}").choice((4, 8, 16)), seed=seed)

    async def testbench(ctx):
        await traffic.send_for(ctx, 100)

    traffic.run(testbench)
    assert list(traffic.delivered) == list(range(len(traffic.accepted)))
    assert len(traffic.accepted) > 15


@pytest.mark.parametrize("stages", [2, 3])
@pytest.mark.parametrize("clocks", CLOCKS, ids=str)
def test_latency(clocks, stages):
    """An item that finds the queue empty takes a cycle of the writer's clock, then 4 of the reader's."""
    traffic, gaps = _Traffic(clocks, stages=stages), []

    async def testbench(ctx):
        traffic.stopped = True
        await traffic.wait(ctx, SETTLED)
        for number in range(12):
            traffic.stopped = False
            while len(traffic.accepted) == number:
                await ctx.tick("write")
            traffic.stopped = True
            await traffic.wait(ctx, 9)

    traffic.run(testbench)
    for accepted, shown in zip(traffic.accepted, traffic.shown.values(), strict=False):
        # `shown` is the end of the item's first cycle.
        gaps.append(shown - clocks[1] - accepted)
    assert len(gaps) >= 12
    assert max(gaps) <= clocks[0] + (stages + 2) * clocks[1], gaps
    assert min(gaps) >= stages * clocks[1]


@pytest.mark.parametrize("clocks", [clocks for clocks in CLOCKS if clocks[0] == clocks[1]], ids=str)
@pytest.mark.parametrize("stages", [2, 3])
def test_throughput(clocks, stages):
    """With equal clocks, an item per cycle; once, a late bit costs a cycle."""
    traffic = _Traffic(clocks, stages=stages)

    async def testbench(ctx):
        await traffic.send_for(ctx, 150)

    traffic.run(testbench)
    for times in (traffic.accepted, list(traffic.delivered.values())):
        assert len(times) > 110
        assert times[-1] - times[0] <= (len(times) - (times is traffic.accepted)) * clocks[0]


async def _disturb(ctx, traffic, *, rounds):
    """Reset one or both sides, for a cycle or longer; what is accepted once the queue has started again arrives."""
    resets, rng = {"write": traffic.top.write_reset, "read": traffic.top.read_reset}, traffic.rng
    for _ in range(rounds):
        names = rng.choice((["write"], ["read"], ["write", "read"], ["read", "write"]))
        overlap = len(names) == 2 and rng.random() < 0.7
        for name in names:
            ctx.set(resets[name], 1)
            await repeat(ctx, name, rng.choice((1, 1, 2, 5, 20)))
            if not overlap:
                ctx.set(resets[name], 0)
                await repeat(ctx, rng.choice(names), rng.randrange(12))
        if overlap:
            traffic.floor = len(traffic.accepted)
        for name in rng.sample(names, len(names)):
            ctx.set(resets[name], 0)
            await repeat(ctx, name, rng.choice((0, 1, 3, 25)))
        if rng.random() < 0.6:
            await traffic.wait(ctx, SETTLED)
            first = len(traffic.accepted)
            await traffic.wait(ctx, rng.randrange(20))
            end = len(traffic.accepted)
            for _ in range(200):        # items ahead, and stalls
                if traffic.last >= end - 1:
                    break
                await traffic.wait(ctx, 1)
            assert len(traffic.accepted) > first
            missing = [number for number in range(first, end) if number not in traffic.delivered]
            assert not missing, f"{missing} of {first} to {end - 1} are missing"


@pytest.mark.parametrize("clocks", CLOCKS, ids=str)
def test_resets(clocks, seed, soak):
    rng = random.Random(f"{seed} {clocks}")
    traffic = _Traffic(clocks, stalls=rng.choice([(0.1, 0.1), (0.0, 0.6)]), stages=rng.choice((2, 3)), seed=seed)

    async def testbench(ctx):
        await _disturb(ctx, traffic, rounds=200 if soak else 7)

    traffic.run(testbench)
    assert len(traffic.delivered) > 10


@pytest.mark.parametrize("side", ["write", "read"])
@pytest.mark.parametrize("clocks", [CLOCKS[1], CLOCKS[3], CLOCKS[4]], ids=str)
def test_reset_amid_the_handshake_of_another(clocks, side, seed):
    traffic = _Traffic(clocks, seed=seed)

    async def testbench(ctx):
        reset = getattr(traffic.top, f"{side}_reset")
        for gap in range(1, 24):
            for cycles in (gap, SETTLED):
                ctx.set(reset, 1)
                await repeat(ctx, side, 1)
                ctx.set(reset, 0)
                await repeat(ctx, side, cycles)
            first = len(traffic.accepted)
            await traffic.wait(ctx, 20)
            assert traffic.last > first

    traffic.run(testbench)
