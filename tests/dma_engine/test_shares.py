# SPDX-License-Identifier: Apache-2.0
"""Shares and the scheduler's costs alone, in Amaranth's simulator."""

import random

import pytest

from hw.dma_engine.config import BASE, TINY, WIDE
from hw.dma_engine.frontend.scheduler import Scheduler
from hw.dma_engine.frontend.shares import CHARGE_DELAY, Shares
from hw.dma_engine.layouts import Check
from hw.dma_engine.words import QueueMode
from tests.harness.cell import run_cell


@pytest.mark.parametrize("config", [TINY, BASE, WIDE], ids=["tiny", "base", "wide"])
def test_cost_of_segments(config, seed):
    """Beats of the destination, and whether the source has one more, of every segment of random requests."""
    rng, dut = random.Random(f"{seed} cost"), Scheduler(config)
    beat, segment = config.beat_bytes, config.segment_bytes
    longer = 0

    def segments(request):
        src, dst, length, check, signal = request
        if check is not Check.OK or signal:
            return [(0, 0)]
        costs, end = [], dst + length
        while dst < end:
            size = min(end, (dst // segment + 1) * segment) - dst
            beats = [(start % beat + size - 1) // beat for start in (src, dst)]
            costs.append((beats[1], int(beats[0] > beats[1])))
            src, dst = src + size, dst + size
        return costs

    async def testbench(ctx):
        nonlocal longer
        ctx.set(dut.queues.running, -1)
        ctx.set(dut.credit.available, 1)
        ctx.set(dut.queue_heads.ready, 1)
        ctx.set(dut.queue_heads.more, 1)
        ctx.set(dut.shares.candidates, 1)
        ctx.set(dut.pool.valid, 1)
        expected, begun = [], False
        for _ in range(3000):
            if not begun:
                signal, check = rng.random() < 0.05, rng.choice([Check.OK] * 9 + [Check.MALFORMED])
                length = 8 if signal else rng.choice((1, 2, beat - 1, beat, beat + 1, rng.randint(1, 3 * segment)))
                dst = rng.getrandbits(20) & ~7 if signal else rng.getrandbits(20) * beat + rng.choice(
                    (0, 0, rng.randrange(beat)))
                request = rng.getrandbits(36), dst % (1 << 35), length, check, signal
                src, dst = request[:2]
                last = dst % segment + length - 1
                ctx.set(dut.queue_heads.request, {
                    "check": check, "signal": signal, "src_offset": src, "dst_offset": dst, "length": length,
                    "last_segment": last // segment, "single": last < segment, "end_position": last % segment})
                expected += segments(request)
                begun = True
            # Each segment leaves its window immediately.
            ctx.set(dut.retired.valid, 1)
            ctx.set(dut.head.head, ctx.get(dut.lookup.tail))
            begun = not ctx.get(dut.queue_heads.consume)
            if ctx.get(dut.scheduled.valid):
                cost = ctx.get(dut.scheduled.beats), ctx.get(dut.scheduled.beyond)
                assert cost == expected.pop(0)
                longer += cost[1]
            await ctx.tick()

    run_cell(dut, testbench)
    assert longer > 50


class _Picker:
    """Picks queues in turn, and charges each pick two cycles later, as the scheduler does."""

    def __init__(self, ctx, dut):
        self.ctx, self.dut, self.turn, self.delayed = ctx, dut, 0, [None, None]
        self.moved = [0] * dut.config.queues
        self.rng = random.Random(dut.config.queues)

    async def step(self, costs):
        """``costs``: requesting queue -> (beats, beyond, descriptor, weight)."""
        ctx, dut = self.ctx, self.dut
        arriving = self.rng.choice([*costs, None])      # one of them arrives in this cycle
        ctx.set(dut.scheduler.requesting, sum(1 << queue for queue in costs if queue != arriving))
        ctx.set(dut.scheduler.arriving, arriving is not None)
        ctx.set(dut.scheduler.arriving_queue, arriving or 0)
        charge = self.delayed.pop(0)
        ctx.set(dut.scheduled.valid, charge is not None)
        if charge is not None:
            queue, (beats, beyond, descriptor, weight) = charge
            ctx.set(dut.scheduled.segment, {"queue": queue, "first": 1,
                                            "request": {"note": {"ring": {"closes": descriptor}}}})
            ctx.set(dut.scheduled.beats, beats - 1)
            ctx.set(dut.scheduled.beyond, beyond)
            ctx.set(dut.settings, {"weight": weight, "mode": QueueMode.RING})
            self.moved[queue] += beats + beyond + descriptor * dut.config.descriptor_beats
        candidates = [queue for queue in costs if ctx.get(dut.scheduler.candidates) >> queue & 1]
        pick = min(candidates, key=lambda queue: (queue <= self.turn, queue), default=None)
        if pick is not None:
            self.turn = pick
        self.delayed.append(None if pick is None else (pick, costs[pick]))
        await ctx.tick()


@pytest.mark.parametrize("config", [
    pytest.param(TINY, id="tiny"), pytest.param(BASE, id="base", marks=pytest.mark.long)])
def test_every_cost_counts(config):
    """Queues of weights 1, 0, 3 and 2 with different kinds of costs: their beats are proportional to the weights."""
    dut, most = Shares(config), config.segment_beats

    async def testbench(ctx):
        picker = _Picker(ctx, dut)
        for _ in range(12_000):
            await picker.step({0: (1, 0, 1, 1), 1: (most, 1, 0, 0), 2: (2, 1, 1, 3), 3: (3, 0, 0, 2)})
        fair = sum(picker.moved) / 7
        assert picker.moved[:4] == pytest.approx([fair, fair, 3 * fair, 2 * fair], rel=0.02)

    run_cell(dut, testbench)


@pytest.mark.parametrize("rounds", [
    58, 300, *(pytest.param(rounds, marks=pytest.mark.long) for rounds in (20, 57, 59, 120))])
def test_negative_deficit_ends(rounds):
    """A queue with segments of maximum cost, picked as fast as possible: late charges count in the next round, so its
    deficit stays within a few rounds' quantum, and it never gains."""
    config, most = TINY, TINY.segment_beats
    dut = Shares(config)

    async def testbench(ctx):
        picker = _Picker(ctx, dut)
        for _ in range(rounds * (CHARGE_DELAY + 1)):
            await picker.step({0: (most, 1, 1, 1)})
        picker.moved = [0] * config.queues
        costs = {queue: (most, 0, 0, 1) for queue in (0, 1)}
        quantum = CHARGE_DELAY * most
        while picker.moved[1] < 20 * quantum:
            await picker.step(costs)
            assert picker.moved[0] <= picker.moved[1] + 3 * quantum
        assert picker.moved[0] >= 8 * quantum
        before = list(picker.moved)
        for _ in range(2000):
            await picker.step(costs)
        mine, other = (now - then for now, then in zip(picker.moved[:2], before[:2], strict=True))
        assert mine == pytest.approx(other, rel=0.05)

    run_cell(dut, testbench)
