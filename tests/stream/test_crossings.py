# SPDX-License-Identifier: Apache-2.0
"""Levels, values and pulses between two clock domains."""

import random

import pytest
from amaranth.lib import data

from hw.stream import AsyncQueue, LevelCrossing, PulseCrossing, ValueCrossing
from tests.stream.two_domains import CLOCKS, TwoDomains, late_crossings, repeat, simulate_two

DOMAINS = {"i_domain": "write", "o_domain": "read"}
FEW = [CLOCKS[1], CLOCKS[3], CLOCKS[4], CLOCKS[7]]
PAIR = data.StructLayout({"a": 5, "b": 5})


def _run(dut, clocks, seed, *testbenches, background=()):
    top = TwoDomains(dut)
    with late_crossings(seed):
        simulate_two(top, clocks, *(bench(top) for bench in testbenches),
                     background=[bench(top) for bench in background])


@pytest.mark.parametrize("stages", [2, 3])
def test_level(stages):
    """A level arrives after ``stages`` edges, and after one more if it changed at the edge."""
    dut, seen = LevelCrossing(2, stages=stages, **DOMAINS), []

    def testbench(top):
        async def run(ctx):
            await ctx.tick("write")
            ctx.set(dut.i, 2)
            await ctx.tick("write")
            ctx.set(top.write_reset, 1)
            ctx.set(top.read_reset, 1)
            for _ in range(stages + 1):
                seen.append(ctx.get(dut.o))
                await ctx.tick("read")
            seen.append(ctx.get(dut.o))
        return run

    simulate_two(top := TwoDomains(dut), (4, 4, 1), testbench(top))
    assert seen == [0] * stages + [2, 2]


@pytest.mark.parametrize("clocks", FEW, ids=str)
def test_pulses(clocks, seed):
    """Each pulse of a burst that fits arrives once, whatever is reset."""
    dut, rng, arrived = PulseCrossing(**DOMAINS), random.Random(f"{seed}"), 0

    def testbench(top):
        async def send(ctx):
            sent = 0
            slower = "write" if clocks[0] > clocks[1] else "read"
            for _ in range(15):
                for _ in range(rng.randrange(15)):
                    pulse = rng.random() < 0.7
                    ctx.set(dut.i, pulse)
                    ctx.set(top.write_reset, rng.random() < 0.1)
                    ctx.set(top.read_reset, rng.random() < 0.1)
                    sent += pulse
                    await ctx.tick("write")
                ctx.set(dut.i, 0)
                await repeat(ctx, slower, 22)
                assert arrived == sent
            assert sent > 40
        return send

    def receiver(top):
        async def count(ctx):
            nonlocal arrived
            while True:
                *_, pulse = await ctx.tick("read").sample(dut.o)
                arrived += pulse
        return count

    _run(dut, clocks, seed, testbench, background=[receiver])


@pytest.mark.parametrize("clocks", FEW, ids=str)
def test_value(clocks, seed):
    """Values are always those of one cycle, in order, and the newest arrives; a reset of the reader shows 0."""
    dut, rng = ValueCrossing(PAIR, **DOMAINS), random.Random(f"{seed}")

    def testbench(top):
        async def send(ctx):
            value, slower = 0, "write" if clocks[0] > clocks[1] else "read"
            for _ in range(8):
                for _ in range(rng.randrange(60)):
                    value = (value + 1) % 32
                    ctx.set(dut.i, {"a": value, "b": value ^ 31 if value else 0})
                    await repeat(ctx, "write", rng.choice((1, 1, 4)))
                await repeat(ctx, slower, 16)
                assert ctx.get(dut.o.a) == value
                reset = rng.choice((top.write_reset, top.read_reset))
                ctx.set(reset, 1)
                await repeat(ctx, "read", 2)
                await repeat(ctx, "write", 2)
                ctx.set(reset, 0)
                assert ctx.get(dut.o.a) == (0 if reset is top.read_reset else value)
                await repeat(ctx, slower, 30)
                assert ctx.get(dut.o.a) == value
        return send

    def receiver(top):
        async def watch(ctx):
            last = 0
            while True:
                _, reset, both = await ctx.tick("read").sample(dut.o)
                assert both.b == (both.a ^ 31 if both.a else 0)
                if not reset:
                    assert (both.a - last) % 32 < 12 or both.a == 0 or last == 0
                    last = both.a
        return watch

    _run(dut, clocks, seed, testbench, background=[receiver])


@pytest.mark.parametrize("make, sentence", [
    (lambda: AsyncQueue(8, depth=12), "AsyncQueue depth must be a power of two from 4 to 64, not 12"),
    (lambda: AsyncQueue(0), "AsyncQueue payload must have at least one bit"),
    (lambda: LevelCrossing(1, stages=1, **DOMAINS), "Stages of a synchroniser must be 2 or 3, not 1"),
    (lambda: PulseCrossing(count_width=1, **DOMAINS), "PulseCrossing counters must have 2 to 16 bits, not 1"),
])
def test_rejected(make, sentence):
    with pytest.raises(ValueError) as raised:
        make()
    assert str(raised.value) == sentence
