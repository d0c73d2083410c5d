# SPDX-License-Identifier: Apache-2.0
"""Retirement alone: random traffic of all kinds, each combination of results, latency, throughput and the sweep."""

import random
from itertools import product

import pytest
from amaranth import Module, Signal

from hw.common.sizes import COUNT_WIDTH
from hw.dma_engine.completion.retire import Retire
from hw.dma_engine.layouts import OpKind
from hw.dma_engine.words import Status
from tests.dma_engine.completion.retire_bench import (
    BOTH,
    CHECKS,
    EXTENDED,
    QUEUES,
    SEGMENT_STATUSES,
    Segment,
)
from tests.dma_engine.completion.retire_traffic import end_all, run
from tests.dma_engine.frontend.sizes import SMALL, SMALL_REGISTERED
from tests.harness.cell import run_cell

CONFIGS = pytest.mark.parametrize("config", [
    pytest.param(SMALL, id="direct"), pytest.param(SMALL_REGISTERED, id="registered", marks=pytest.mark.long)])


@CONFIGS
def test_random(config, seed):
    """Requests of all kinds, operations, resets that abandon segments, and each kind of back-pressure, for long."""
    rng = random.Random(f"{seed} retire")
    seen = run(config, rng, lambda bench: bench.traffic(3000))
    assert min(seen[name] for name in ("completes", "skips", "event", "clear", "notice", "retired")) > 20, seen
    assert min(seen[name] for name in ("holds", "reset", "dropped", "abandoned", "outdated", "clear counts")) > 0, seen


def test_results(seed):
    """Each pair of results of a request's segments, and many sets of three: it reports the most significant one."""
    rng = random.Random(f"{seed} results")
    cases = [*product(SEGMENT_STATUSES, repeat=2), *rng.sample(list(product(SEGMENT_STATUSES, repeat=3)), 60),
             *((status,) for status in Status), *((check, check) for check in CHECKS)]

    async def body(bench):
        for queue in range(QUEUES):
            bench.configure(queue, skip_errors=1)
        for number, statuses in enumerate(cases):
            queue = number % QUEUES
            await end_all(bench, [Segment(queue, status=status, last=False) for status in statuses[:-1]]
                          + [Segment(queue, status=statuses[-1])], shuffled=True)

    seen = run(SMALL, rng, body)
    assert seen["completes"] + seen["skips"] == len(cases)


def test_order():
    """Each segment of a full window but the oldest ends while nothing else does; then the oldest ends, and all retire.
    """
    async def body(bench):
        for queue in (*range(QUEUES), *range(QUEUES)):
            oldest, *others = segments = [Segment(queue) for _ in range(2 * SMALL.window)]
            for segment in segments:
                await bench.step(schedule=segment)
            bench.rng.shuffle(others)
            for segment in (*others, oldest):
                assert len(bench.queues[queue].segments) == len(segments)
                for _ in range(8):
                    await bench.step()
                bench.flying.remove(segment)
                await bench.step(done=segment)
            for _ in range(len(segments) + 4):
                await bench.step()
            assert not bench.queues[queue].segments

    run(SMALL, random.Random("order"), body)


@CONFIGS
@pytest.mark.parametrize("queue", range(QUEUES))
def test_latency(config, queue):
    """A queue's oldest segment retires one cycle after its end, or two later if an operation is in the first stage."""
    rng = random.Random(f"{queue} latency")

    async def body(bench):
        for busy in (False, True, False):
            segment = Segment(queue, flags=BOTH)
            await bench.step(schedule=segment)
            await bench.step(op=(OpKind.EVENT, 0, Status.DISABLED) if busy else None)
            start, bench.flying, bench.retirements = bench.cycle, [], []
            await bench.step(done=segment)
            for _ in range(12):
                await bench.step()
            assert bench.retirements == [(start + (3 if busy else 1), queue)]

    run(config, rng, body)


@CONFIGS
@pytest.mark.parametrize("queues", [(0,), (3,), (1, 2), (0, 1, 2, 3)])
def test_throughput(config, queues, seed):
    """One segment per cycle, as they end in their order and from full windows."""
    rng = random.Random(f"{seed} throughput")

    async def body(bench):
        for op in ((OpKind.EVENT, 0, Status.DISABLED), None) * 3:
            segments = [Segment(queue, flags=BOTH) for _ in range(config.window) for queue in queues]
            bench.retirements = []
            # Operations in all cycles keep the segments from retiring.
            await end_all(bench, segments, op=op, shuffled=op is not None)
            ended = bench.cycle
            for _ in range(len(segments) + 8):
                await bench.step()
            cycles = [at - ended for at, _ in bench.retirements]
            if op is None:
                assert len(cycles) == len(segments) and cycles[-1] <= 3
            else:
                assert cycles == list(range(2, 2 + len(segments)))

    run(config, rng, body)


@CONFIGS
def test_many_requests(config):
    """The count of one queue, through all carries up to bit 8."""
    async def body(bench):
        segments = [Segment(0) for _ in range(260)]
        for segment, done in zip([*segments, *[None] * 3], [*[None] * 3, *segments], strict=True):
            if done is not None:
                bench.flying.remove(done)
            await bench.step(schedule=segment, done=done)
            assert len(bench.queues[0].segments) <= 3 + 4

    assert run(config, random.Random("many"), body)["completes"] == 260


@CONFIGS
def test_next_count(config):
    """All carries of a count, which takes too long with requests."""
    count, after, retire = Signal(COUNT_WIDTH), Signal(COUNT_WIDTH), Retire(config)
    m = Module()
    m.submodules.retire = retire
    m.d.comb += after.eq(retire._next(count))
    values = [*((1 << bits) - offset for bits in range(COUNT_WIDTH + 1) for offset in (1, 2)),
              *(~(1 << bit) for bit in range(COUNT_WIDTH))]

    async def testbench(ctx):
        for value in values:
            ctx.set(count, value)
            assert ctx.get(after) == (value + 1) % (1 << COUNT_WIDTH)

    run_cell(m, testbench)


def test_turns(seed):
    """Operations in every second, third or fourth cycle: each queue still has its turn."""
    rng = random.Random(f"{seed} turns")

    async def body(bench):
        for period, queues in product((2, 3, 4), ((0, 1), (1, 3), (0, 1, 2), (0, 1, 2, 3))):
            event = OpKind.EVENT, 0, Status.DISABLED
            await end_all(bench, [Segment(queue) for _ in range(SMALL.window) for queue in queues], op=event)
            while any(queue.segments for queue in bench.queues):
                await bench.step(op=event if bench.cycle % period else None)

    run(SMALL, rng, body)


def test_marked_again(seed):
    """A segment is abandoned at any time after it has ended, while notices stall its queue in any pattern of cycles."""
    rng = random.Random(f"{seed} marked again")

    async def body(bench):
        for number, (pattern, delay) in enumerate(product(range(16), range(6))):
            queue = number % EXTENDED
            bench.crowded = 1
            await end_all(bench, [Segment(queue), Segment(queue, last=False)])
            bench.queues[queue].resetting = True
            for cycle in range(8):
                bench.crowded = pattern >> cycle & 1
                if cycle == delay:
                    bench.abandon(queue)
                await bench.step()
            await bench.drain()

    seen = run(SMALL, rng, body)
    assert seen["abandoned"] == 96


def test_a_run_stops(seed):
    """Segments of one queue retire one after the other; it holds or notices stall it in any cycle."""
    rng = random.Random(f"{seed} stops")

    async def body(bench):
        timeout, clear = (OpKind.EVENT, 0, Status.TIMEOUT), (OpKind.CLEAR, 0, Status.OK)
        for delay, crowds in product(range(10), (True, False)):
            bench.crowded = 1
            await end_all(bench, [Segment(0) for _ in range(SMALL.window)])
            bench.crowded = 0
            for cycle in range(20):
                bench.crowded = int(crowds and cycle >= delay)
                await bench.step(op=timeout if cycle == delay and not crowds else None)
            assert len(bench.queues[0].segments) > SMALL.window - delay - 4
            bench.crowded = 0
            await bench.step(op=None if crowds else clear)
            await bench.drain()

    run(SMALL, rng, body)


@CONFIGS
def test_sweep(config, seed):
    """A reset amid traffic and amid failed requests, and a sweep: queues are empty, words 0, and nothing is held."""
    rng = random.Random(f"{seed} sweep")

    async def body(bench):
        for _ in range(3):
            await bench.traffic(300)
            await bench.drain()
            # The first segment of a request fails and retires; a reset follows.
            await end_all(bench, [Segment(queue, status=Status.READ_DECERR, last=False) for queue in range(QUEUES)])
            for _ in range(12):
                await bench.step()
            assert not any(queue.segments for queue in bench.queues)
            await bench.reset()
            before = bench.seen["completes"]
            await end_all(bench, [Segment(queue, flags=BOTH) for queue in range(QUEUES)])
            await bench.drain()
            assert bench.seen["completes"] == before + QUEUES
            await bench.traffic(100)
            await bench.reset()
            await bench.drain()

    assert run(config, rng, body)["retired"] > 100
