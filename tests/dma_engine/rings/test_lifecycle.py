# SPDX-License-Identifier: Apache-2.0
"""Which rings drive their queues, which beats are theirs, and when they restart."""

from dataclasses import replace

from amaranth.hdl import ResetInserter, Signal

from hw.dma_engine.config import TINY
from hw.dma_engine.rings.lifecycle import RingLifecycle
from hw.dma_engine.words import QueueMode
from tests.harness.cell import run_cell

CONFIG = replace(TINY, queues=8, extended=4, entries=128)
RINGS = CONFIG.extended


async def _configure(ctx, dut, queue, mode, *, records=0, pair=0):
    ctx.set(dut.configure.valid, 1)
    ctx.set(dut.configure.queue, queue)
    ctx.set(dut.configure.settings.mode, mode)
    ctx.set(dut.configure.ring.records, records)
    ctx.set(dut.configure.ring.pair, pair)
    await ctx.tick()
    ctx.set(dut.configure.valid, 0)


def test_beats_of_expected_descriptors_pass():
    """Others, of rings that expect none and with IDs of other reads, are unexpected."""
    dut = RingLifecycle(CONFIG)
    ids = 1 << len(dut.descriptors.id) - 1

    async def testbench(ctx):
        for some in (0, 0b0101, 0b1010, 0b1111):
            ctx.set(dut.awaited.some, some)
            for number in range(ids):
                ctx.set(dut.descriptors.id, number | ids)
                for valid in (0, 1):
                    ctx.set(dut.descriptors.valid, valid)
                    mine = number < RINGS and some >> number & 1
                    assert ctx.get(dut.beats.valid) == (valid and mine), (some, number)
                    assert ctx.get(dut.unexpected) == (valid and not mine), (some, number)
                    assert not mine or ctx.get(dut.beats.ring) == number

    run_cell(dut, testbench)


def test_a_ring_waits_for_its_descriptors_before_it_restarts():
    """Unless its queue was abandoned: then it restarts at once, and is not counted as fetching."""
    dut = RingLifecycle(CONFIG)

    async def testbench(ctx):
        for ring in range(RINGS):
            for some in (0, 1):
                for outstanding in (0, 1):
                    ctx.set(dut.awaited.some, some << ring)
                    ctx.set(dut.awaited.outstanding, outstanding << ring)
                    ctx.set(dut.queues.resetting, 1 << ring)
                    fetching = some and not outstanding
                    assert ctx.get(dut.status.fetching) == fetching << ring
                    assert ctx.get(dut.status.outstanding) == outstanding
                    assert ctx.get(dut.restarted) == (not fetching) << ring
                    assert ctx.get(dut.states.abandon) == 0
                    ctx.set(dut.queues.resetting, 0)
                    assert ctx.get(dut.restarted) == 0
                    ctx.set(dut.abandon.valid, 1)
                    ctx.set(dut.abandon.queue, ring)
                    assert ctx.get(dut.restarted) == ctx.get(dut.states.abandon) == 1 << ring
                    ctx.set(dut.abandon.queue, RINGS + ring)
                    assert ctx.get(dut.restarted) == 0
                    ctx.set(dut.abandon.valid, 0)

    run_cell(dut, testbench)


def test_a_ring_drives_its_queue_until_reset():
    """Or until it is configured otherwise; it has its rows until it restarts."""
    rst = Signal()
    dut = RingLifecycle(CONFIG)

    async def testbench(ctx):
        await _configure(ctx, dut, RINGS, QueueMode.RING)         # no extended queue
        assert ctx.get(dut.driven) == ctx.get(dut.parts.used) == 0
        for ring in range(RINGS):
            await _configure(ctx, dut, ring, QueueMode.RING, records=ring & 1, pair=ring >> 1)
            assert ctx.get(dut.driven) == ctx.get(dut.parts.used) == (2 << ring) - 1
        assert (ctx.get(dut.states.records), ctx.get(dut.parts.pair)) == (0b1010, 0b1100)
        ctx.set(dut.queues.enabled, 1)
        for ring in (0, 1):
            await _configure(ctx, dut, ring, QueueMode.NATIVE)
        assert (ctx.get(dut.driven), ctx.get(dut.parts.used)) == (0b1100, 0b1101)
        ctx.set(dut.queues.resetting, 1)
        await ctx.tick()
        assert ctx.get(dut.parts.used) == 0b1100
        ctx.set(dut.queues.resetting, 0)
        ctx.set(rst, 1)
        await ctx.tick()
        ctx.set(rst, 0)
        assert ctx.get(dut.driven) == ctx.get(dut.parts.used) == 0

    run_cell(ResetInserter(rst)(dut), testbench)
