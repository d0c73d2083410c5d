# SPDX-License-Identifier: Apache-2.0
"""The beat buffer alone, against the beats of each segment."""

import random
from dataclasses import replace
from itertools import product

import pytest

from hw.axi import Resp
from hw.dma_engine.config import DmaConfig
from tests.dma_engine.frontend.sizes import SIZES, SMALL
from tests.dma_engine.mover.buffer_bench import ERRORS, PATTERNS, Segment, Stalls, run

BLOCK_RAM = DmaConfig(**SIZES | {"tags": 512, "buffer_beats": 64})
"""The queue of announcements and the free slots are in block RAM."""
CONFIGS = pytest.mark.parametrize("config", [
    pytest.param(SMALL, id="small"), pytest.param(BLOCK_RAM, id="block_ram", marks=pytest.mark.long)])
LONGEST = SMALL.segment_beats + 1
SHAPES = [(beats,) for beats in range(1, LONGEST + 1)] + [
    (first, beats - first) for beats in range(2, LONGEST + 1) for first in range(1, beats)]
"""Beats of the read bursts: every length, and every position of a 4 KiB boundary."""


def random_segment(rng, shapes=SHAPES, slow=0.3, failing=0.3):
    bursts = rng.choice(shapes)
    resps = rng.choices((Resp.OKAY, Resp.EXOKAY), (4, 1), k=sum(bursts))
    if rng.random() < failing:
        resps = [rng.choice((resp, resp, *ERRORS)) for resp in resps]
    return Segment(bursts, rng.random() < slow, resps)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_shapes(pattern, seed):
    """Every length, boundary, kind of target and position of a read error, with each kind of stall."""
    rng, cases = random.Random(f"{seed} {pattern}"), []
    for bursts, slow in product(SHAPES, (False, True)):
        for failed in range(-1, sum(bursts)):
            resps = [Resp.OKAY] * sum(bursts)
            if failed >= 0:
                resps[failed] = rng.choice(ERRORS)
            cases.append(Segment(bursts, slow, resps))
    rng.shuffle(cases)

    async def body(bench):
        await bench.send(cases, PATTERNS[pattern])

    seen = run(SMALL, rng, body)
    assert (seen["cut through"] or pattern == "announcements") and seen["at last beat"] > 100, seen
    assert pattern != "releases" or seen["full"], seen
    assert pattern not in ("beats", "all") or seen["missing beat"] > 10, seen
    assert pattern != "all" or (seen["descriptors"] > 100 and seen["unexpected"] > 100), seen


@CONFIGS
def test_random(config, seed):
    """Random segments and random rates of all stalls, which change now and then; descriptors and unexpected beats."""
    rng = random.Random(f"{seed} random")

    async def body(bench):
        for number in range(10):
            rates = Stalls(*(rng.choice((0, 0, 0.2, 0.8)) for _ in range(6)), descriptor=0.3 * (number % 2),
                           unexpected=0.3 * (number // 2 % 2))
            await bench.send([random_segment(rng) for _ in range(25)], rates)

    seen = run(config, rng, body)
    assert all(seen[name] for name in ("cut through", "at last beat", "stalled", "missing beat", "descriptors",
                                       "unexpected")), seen


@CONFIGS
def test_full(config, seed):
    """The buffer takes as many beats as it has slots, in any mix of tags, and all of them again and again.

    A slot that is released is used as early as credits permit.
    """
    rng = random.Random(f"{seed} full")

    async def body(bench):
        for withheld in ("arrived", "follow", "take", "release") * 2:
            stalls = Stalls(**{withheld: 1})
            while bench.credits:
                shapes = [bursts for bursts in ((2,), (4,), (1, 3)) if sum(bursts) <= bench.credits]
                await bench.step(random_segment(rng, shapes), stalls)
            for _ in range(3 * config.buffer_beats):
                await bench.step(stalls=stalls)
            assert not bench.reading
            assert withheld in ("arrived", "follow") or len(bench.live) == config.buffer_beats
            await bench.send([random_segment(rng) for _ in range(20)], Stalls(release=0.5))
            await bench.drain()

    run(config, rng, body)


@CONFIGS
def test_reset(config, seed):
    """A reset in any state leaves nothing: no announcement, no tag that expects beats, and every slot is free."""
    rng = random.Random(f"{seed} reset")

    async def body(bench):
        for _ in range(12 if config is SMALL else 4):
            rates = replace(PATTERNS["all"], arrived=rng.choice((0, 0.5, 1)), release=rng.choice((0, 1)))
            for _ in range(rng.randrange(60)):
                await bench.step(random_segment(rng), rates)
            await bench.reset()
            for _ in range(2 * config.tags if config is SMALL else 50):
                await bench.step(stalls=Stalls(unexpected=1))
            await bench.send([random_segment(rng) for _ in range(12)], PATTERNS["all"])

    assert run(config, rng, body)["resets"] > 4


def test_throughput(seed):
    """A beat in and a beat out in each cycle, also of tags with one beat each."""
    rng = random.Random(f"{seed} throughput")

    async def body(bench):
        for shape in ((1,), (4,)):
            segments = [random_segment(rng, shapes=[shape], slow=0) for _ in range(400 // shape[0])]
            cycles = await bench.send(segments)
            assert cycles < 480, f"400 beats take {cycles} cycles"

    run(BLOCK_RAM, rng, body)
