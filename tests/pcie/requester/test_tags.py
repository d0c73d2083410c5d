# SPDX-License-Identifier: Apache-2.0
"""Flags, pairs of events and the pool of tags, against sets and lists."""

import random
from collections import Counter, deque

import pytest

from hw.pcie.requester.event_pair import EventPair
from hw.pcie.requester.tag_flags import TagFlags
from hw.pcie.requester.tag_pool import TagPool
from tests.harness.cell import run_cell
from tests.pcie.requester.read_bench import SMALL

pytestmark = pytest.mark.long

FEW = 4
"""Tags of the random events, so that they meet."""


async def _sweep(ctx, dut):
    """The sweep after reset, driven."""
    ctx.set(dut.init.active, 1)
    for row in range(SMALL.sweep_rows):
        ctx.set(dut.init.address, row)
        await ctx.tick()
    ctx.set(dut.init.active, 0)


def _event(ctx, rng, port, chance=0.5):
    """A random event; returns its tag or None."""
    valid, tag = rng.random() < chance, rng.randrange(FEW)
    ctx.set(port.valid, int(valid))
    ctx.set(port.tag, tag)
    return tag if valid else None


def test_flags(seed):
    dut, rng, seen = TagFlags(SMALL, reads=2), random.Random(seed), Counter()

    async def testbench(ctx):
        for _ in range(2):
            await _sweep(ctx, dut)
            flags = set()
            for _ in range(300):
                raised, lowered = _event(ctx, rng, dut.set), _event(ctx, rng, dut.clear)
                for query in dut.read:
                    ctx.set(query.tag, tag := rng.randrange(FEW))
                    assert ctx.get(query.value) == (tag in flags)
                if raised is not None and raised == lowered:
                    flags ^= {raised}
                    seen["both"] += 1
                else:
                    flags = flags - {lowered} | {raised} - {None}
                await ctx.tick()
            ctx.set(dut.set.valid, 0)
            ctx.set(dut.clear.valid, 0)

    run_cell(dut, testbench)
    assert seen["both"] > 20


def test_pairs(seed):
    """The later event of a pair is reported, exactly once."""
    dut, rng, seen = EventPair(SMALL), random.Random(seed), Counter()

    async def testbench(ctx):
        await _sweep(ctx, dut)
        waiting = {}
        for _ in range(800):
            tags = [_event(ctx, rng, port) for port in dut.events]
            for kind, tag in enumerate(tags):
                if waiting.get(tag) == kind:
                    # The second event of a kind is none.
                    ctx.set(dut.events[kind].valid, 0)
                    tags[kind] = None
            later = [None, None]
            if tags[0] is not None and tags[0] == tags[1]:
                later[0] = tags[0]
                seen["both"] += 1
            else:
                for kind, tag in enumerate(tags):
                    if tag in waiting:
                        del waiting[tag]
                        later[kind] = tag
                        seen[kind] += 1
                    elif tag is not None:
                        waiting[tag] = kind
            await ctx.tick()
            for port, tag in zip(dut.later, later, strict=True):
                assert ctx.get(port.valid) == (tag is not None)
                assert tag is None or ctx.get(port.tag) == tag

    run_cell(dut, testbench)
    assert all(seen[case] > 2 for case in (0, 1, "both")), seen


def test_pool(seed):
    """Tags return when both events have occurred, also those of two tags in one cycle; none is lost."""
    dut, rng, seen = TagPool(SMALL), random.Random(seed), Counter()

    async def testbench(ctx):
        ctx.set(dut.extended, 1)
        await _sweep(ctx, dut)
        used, ends = set(), (deque(), deque())
        for cycle in range(900):
            busy = cycle < 800
            ready = busy and rng.random() < (0.9 if cycle // 100 % 2 else 0.4)
            ctx.set(dut.o.ready, int(ready))
            if ready and ctx.get(dut.o.valid):
                tag = ctx.get(dut.o.payload)
                assert tag not in used
                used.add(tag)
                for waiting in ends:
                    waiting.insert(rng.randint(0, len(waiting)), tag)
            seen["empty"] += not ctx.get(dut.o.valid)
            for waiting, port in zip(ends, (dut.completed, dut.delivered), strict=True):
                valid = bool(waiting) and (not busy or rng.random() < 0.6)
                ctx.set(port.valid, int(valid))
                if valid:
                    tag = waiting.popleft()
                    ctx.set(port.tag, tag)
                    if not any(tag in other for other in ends):
                        used.discard(tag)
            assert not used or not ctx.get(dut.idle) or len(used) == 1
            await ctx.tick()
        assert not used and ctx.get(dut.idle)
        # All tags are offered again.
        ctx.set(dut.o.ready, 1)
        for _ in range(80):
            if ctx.get(dut.o.valid):
                used.add(ctx.get(dut.o.payload))
            await ctx.tick()
        assert len(used) == SMALL.tags and not ctx.get(dut.o.valid)

    run_cell(dut, testbench)
    assert seen["empty"] > 20
