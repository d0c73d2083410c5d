# SPDX-License-Identifier: Apache-2.0
"""Sums and histograms alone: wide sums, clears and copies at any time, every bin."""

import random
from collections import Counter, deque

import pytest
from amaranth.lib import data

from hw.dma_engine.config import HISTOGRAM_BINS, TINY
from hw.dma_engine.instruments.counters import LOW_BITS, Tally
from hw.dma_engine.instruments.histogram import LatencyHistogram
from tests.harness.cell import run_cell


@pytest.mark.parametrize("load", [0.3, 0.9, 1.0])
def test_tally(load, seed):
    """Wide sums with additions in up to every cycle; a copy is consistent, and waits only for two idle cycles."""
    rng = random.Random(f"{seed} {load}")
    dut, sums, copies = Tally(data.StructLayout({"big": 20, "small": 5}), TINY), [[0, 0] for _ in range(4)], 0

    async def testbench(ctx):
        nonlocal copies
        added, wanted = False, 0
        # Some rows are used before they are cleared for the first time, others are not.
        for cycle in range(3000):
            add, queue = rng.random() < load and cycle < 2990, rng.randrange(4)
            clear, cleared = rng.random() < 0.05, rng.randrange(4)
            clear &= not (add and queue == cleared)
            amounts = rng.randint(0, 1 << LOW_BITS - 2), 1
            if not ctx.get(dut.busy) and rng.random() < 0.2:
                ctx.set(dut.take, 1)
                wanted = rng.randrange(4)
            ctx.set(dut.add, add)
            queue = queue if add else wanted
            ctx.set(dut.queue, queue)
            ctx.set(dut.amounts, {"big": amounts[0], "small": amounts[1]})
            ctx.set(dut.clear, clear)
            ctx.set(dut.clear_queue, cleared)
            copied = ctx.get(dut.busy) and not add and not added
            added = add
            before = list(sums[wanted])
            await ctx.tick()
            ctx.set(dut.take, 0)
            if copied:
                copies += 1
                assert not ctx.get(dut.busy)
                assert [ctx.get(dut.copy.big), ctx.get(dut.copy.small)] == before
            if clear:
                sums[cleared] = [0, 0]
            if add:
                sums[queue] = [(sums[queue][0] + amounts[0]) % (1 << 20), (sums[queue][1] + 1) % 32]

    run_cell(dut, testbench)
    assert copies > {0.3: 100, 0.9: 8, 1.0: 0}[load]


@pytest.mark.long
def test_histogram(seed):
    """Every bin, resets, and reads at any time, also of the bin that is being written."""
    rng = random.Random(seed)
    dut = LatencyHistogram(TINY)
    bins, posted = Counter(), [deque() for _ in range(4)]
    sample, reads = [None] * 4, 0

    async def testbench(ctx):
        nonlocal reads
        now, last_lookup, history = 0, -9, deque(maxlen=16)
        # Long holds of a queue cause long latencies.
        hold = [0] * 4
        while now < 86_000:
            busy = now < 4_000 or now > 80_000
            # Between long holds there are no events and no reads.
            over = min([80_000, *(hold[one] for one in range(4) if posted[one])])
            if not busy and over - now > 200:
                for strobe in (dut.posted.valid, dut.outcome.ended, dut.outcome.reset, dut.software.read):
                    ctx.set(strobe, 0)
                await ctx.tick().repeat(over - now)
                now = over
                history.extend([dict(bins)] * 16)
            post, queue = busy and rng.random() < 0.5, rng.randrange(4)
            for one in range(4):
                if rng.random() < 0.002 and hold[one] < now:
                    hold[one] = now + int(2 ** rng.uniform(0, 12))
            if now == 3_900:
                hold = [6_000 + 2 ** 14, 6_000 + 2 ** 13, 6_000 + 2 ** 15, 6_000 + 70_000]
            ready = [one for one in range(4) if posted[one] and hold[one] < now]
            end = rng.choice(ready) if ready and rng.random() < 0.5 else None
            if end is None and rng.random() < 0.002 and now < 4_000:
                reset = rng.randrange(4)
            else:
                reset = None
            post &= queue != reset and len(posted[queue]) < TINY.queue_depth
            ctx.set(dut.posted.valid, post)
            ctx.set(dut.posted.queue, queue)
            ctx.set(dut.outcome.ended, end is not None)
            ctx.set(dut.outcome.reset, reset is not None)
            ctx.set(dut.outcome.queue, end if end is not None else reset or 0)
            if post:
                posted[queue].append(now)
                if sample[queue] is None:
                    sample[queue] = now
            if end is not None and (start := posted[end].popleft()) == sample[end]:
                bins[end, min(HISTOGRAM_BINS - 1, (now - start).bit_length() - 1)] += 1
                sample[end] = None
            if reset is not None:
                posted[reset].clear()
                sample[reset] = None
                for number in range(HISTOGRAM_BINS):
                    bins[reset, number] = 0
            history.append(dict(bins))
            lookup = now - last_lookup > 3 and rng.random() < 0.3
            if lookup:
                last_lookup = now
                where = rng.randrange(4), rng.choice((rng.randrange(HISTOGRAM_BINS), 3, 4))
                ctx.set(dut.software.queue, where[0])
                ctx.set(dut.software.bin, where[1])
            ctx.set(dut.software.read, lookup)
            await ctx.tick()
            now += 1
            if now == last_lookup + 2:
                # Samples that ended within the last cycles may or may not be counted.
                allowed = {past.get(where, 0) for past in list(history)[-12:]}
                assert ctx.get(dut.software.count) in allowed
                reads += 1
        ctx.set(dut.posted.valid, 0)
        ctx.set(dut.outcome.ended, 0)
        ctx.set(dut.outcome.reset, 0)
        await ctx.tick().repeat(20)
        for queue in range(4):
            for number in range(HISTOGRAM_BINS):
                ctx.set(dut.software.read, 1)
                ctx.set(dut.software.queue, queue)
                ctx.set(dut.software.bin, number)
                await ctx.tick()
                ctx.set(dut.software.read, 0)
                await ctx.tick().repeat(2)
                assert ctx.get(dut.software.count) == bins[queue, number], (queue, number)

    run_cell(dut, testbench)
    seen = {number for (_, number), count in bins.items() if count}
    assert reads > 1000 and len(seen) >= 10
