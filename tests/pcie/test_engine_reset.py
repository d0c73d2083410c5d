# SPDX-License-Identifier: Apache-2.0
"""EngineReset: every reset of either domain holds both in reset at the same time, and ends."""

import random
from itertools import groupby

import pytest
from amaranth import *

from hw.pcie.engine_reset import ENGINE_DOMAIN, EngineReset
from tests.stream.two_domains import CLOCKS, TwoDomains, late_crossings, repeat, simulate_two

NS = 1e-9
ROUND_TRIPS = 3
ROUND_TRIP_CYCLES = 10
"""Cycles of the slower clock: a level crosses in 1 and 3 to 4, in each direction."""


class _Bench:
    """``cause`` applies a reset; ``ends`` checks the levels of both domains, sampled every ns between clock edges."""

    def __init__(self, dut, top, clocks):
        self.dut, self.top, self.clocks = dut, top, clocks
        self.levels = []
        self.causes = []

    async def watch(self, ctx):
        await ctx.delay(NS / 2)
        while True:
            self.levels.append((ctx.get(self.dut.down), ctx.get(self.dut.engine_reset)))
            await ctx.delay(NS)

    async def cause(self, ctx, kind, cycles):
        signal, domain = {"request": (self.dut.reset, "write"), "adapter": (self.top.write_reset, "write"),
                          "engine": (self.top.read_reset, "read")}[kind]
        ctx.set(signal, 1)
        await repeat(ctx, domain, 1)
        self.causes.append(len(self.levels))
        await repeat(ctx, domain, cycles - 1)
        ctx.set(signal, 0)

    async def ends(self, ctx):
        limit = ROUND_TRIPS * ROUND_TRIP_CYCLES * max(self.clocks[:2])
        await ctx.delay(limit * NS)
        assert self.levels[-1] == (0, 0), f"no end in {limit} ns"
        for cause in self.causes:
            assert (1, 1) in self.levels[cause:], "a domain is not in reset while the other one is"
        for own in range(2):
            runs = [list(run) for one, run in groupby(self.levels, key=lambda level: level[own]) if one]
            assert all(any(level[1 - own] for level in run) for run in runs), "a reset ends before the other begins"
        quiet = len(self.levels)
        await ctx.delay(limit * NS)
        assert set(self.levels[quiet:]) == {(0, 0)}, "a reset without a cause"
        self.levels, self.causes = [], []


def _simulate(clocks, seed, body):
    with late_crossings(seed):
        dut = EngineReset()
        top = TwoDomains(DomainRenamer({"sync": "write", ENGINE_DOMAIN: "read"})(dut))
        bench = _Bench(dut, top, clocks)

        async def testbench(ctx):
            assert (ctx.get(dut.down), ctx.get(dut.engine_reset)) == (1, 1)
            await ctx.delay(NS)
            await bench.ends(ctx)
            await body(ctx, bench)

        simulate_two(top, clocks, testbench, background=[bench.watch])


@pytest.mark.parametrize("clocks", [*CLOCKS, (4, 200, 3), (200, 4, 3)])
def test_each_reset(clocks, seed):
    """The shortest reset, and long ones, of each kind."""

    async def body(ctx, bench):
        for kind in ("request", "adapter", "engine"):
            for cycles in (1, 2, 60):
                await bench.cause(ctx, kind, cycles)
                await bench.ends(ctx)

    _simulate(clocks, seed, body)


@pytest.mark.parametrize("case", range(2))
@pytest.mark.parametrize("clocks", CLOCKS)
def test_resets_amid_others(clocks, case, seed):
    rng = random.Random(f"{seed} {case}")

    async def body(ctx, bench):
        for _ in range(12):
            for _ in range(rng.randint(2, 4)):
                await bench.cause(ctx, rng.choice(("request", "adapter", "engine")), rng.choice((1, 1, 2, 7)))
                await ctx.delay(rng.randrange(60) * NS)
            await bench.ends(ctx)

    _simulate(clocks, rng.random(), body)
