# SPDX-License-Identifier: Apache-2.0
"""Free entries of the peer's buffer: each beat counts once, and reports of beats that were never sent are noticed."""

import random

import pytest

from hw.ace.config import LINK_CREDIT_WIDTH, TINY
from hw.ace.link.credits import PeerCredits
from tests.harness.cell import run_cell

LIMIT, PACKET = TINY.link_beats, TINY.packet_beats


def _report(ctx, dut, read):
    ctx.set(dut.valid, read is not None)
    ctx.set(dut.credits, (read or 0) % (1 << LINK_CREDIT_WIDTH))


@pytest.mark.parametrize("spare", [0.02, 0.98])
def test_free_entries(seed, spare):
    """``spare``: how often the peer reads a beat, so that the buffer is nearly full, or nearly empty."""
    rng, dut = random.Random(seed), PeerCredits(TINY)
    seen = set()

    async def live(ctx):
        # Beats sent; those that the peer has read; those that it has reported; those that ``free`` includes.
        sent = read = reported = counted = 0
        coming, left = [], 0
        for _ in range(12_000):
            free = LIMIT - sent + counted
            assert (ctx.get(dut.free), ctx.get(dut.fits)) == (free, free >= PACKET)
            assert not ctx.get(dut.violated)
            seen.add(free)
            if not left and free >= PACKET and rng.random() < 0.9:
                left = rng.randint(1, PACKET)
            take = left > 0 and rng.random() < 0.95
            ctx.set(dut.take, take)
            report = None
            if rng.random() < 0.3:
                # Sometimes an earlier one.
                report = read if rng.random() < 0.8 else rng.randint(max(0, read - LIMIT + 1), read)
            _report(ctx, dut, report)
            await ctx.tick()
            counted = coming.pop(0) if coming else counted
            if report is not None and report > reported:
                reported = report
            coming.append(reported)
            sent, left = sent + take, left - take
            while read < sent and rng.random() < spare:
                read += 1
        assert sent > 1 << LINK_CREDIT_WIDTH if spare > 0.5 else sent > 200

    run_cell(dut, live)
    assert min(seen) < PACKET if spare < 0.5 else max(seen) >= LIMIT - 3


def test_reports_of_beats_that_were_never_sent():
    dut = PeerCredits(TINY)

    async def live(ctx):
        for read, violated in ((0, 0), (1, 1), (LIMIT, 1), (LIMIT + 1, 1), (3 * LIMIT, 1)):
            ctx.set(dut.reset, 1)
            await ctx.tick()
            ctx.set(dut.reset, 0)
            assert (ctx.get(dut.free), ctx.get(dut.fits), ctx.get(dut.violated)) == (LIMIT, 1, 0)
            _report(ctx, dut, read)
            await ctx.tick()
            _report(ctx, dut, None)
            found = 0
            for _ in range(3):
                found |= ctx.get(dut.violated)
                await ctx.tick()
            assert found == violated, read

    run_cell(dut, live)


def test_reset():
    """All entries are free at once, whatever was sent and reported before."""
    dut = PeerCredits(TINY)

    async def live(ctx):
        ctx.set(dut.take, 1)
        await ctx.tick().repeat(LIMIT - 1)
        assert (ctx.get(dut.free), ctx.get(dut.fits)) == (1, 0)
        _report(ctx, dut, 5)
        ctx.set(dut.reset, 1)
        await ctx.tick()
        for signal in (dut.take, dut.reset, dut.valid):
            ctx.set(signal, 0)
        assert (ctx.get(dut.free), ctx.get(dut.fits)) == (LIMIT, 1)
        ctx.set(dut.take, 1)
        await ctx.tick().repeat(3)
        ctx.set(dut.take, 0)
        _report(ctx, dut, 3)
        await ctx.tick()
        _report(ctx, dut, None)
        await ctx.tick().repeat(2)
        assert ctx.get(dut.free) == LIMIT

    run_cell(dut, live)
