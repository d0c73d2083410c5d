# SPDX-License-Identifier: Apache-2.0
"""Read issue alone, in Amaranth's simulator: arbitration between descriptors and segments."""

import pytest

from hw.common.free_list import FreeList
from hw.common.sweep import SweepSignature
from hw.dma_engine.config import BASE, TINY, WIDE
from hw.dma_engine.mover.read import ReadIssue
from tests.harness.cell import run_cell


def _beats(config, *, descriptors, beats, free, cycles=400):
    """Beats read for descriptors and for segments while bursts of both kinds always wait."""
    dut, read = ReadIssue(config), {True: [], False: []}

    async def testbench(ctx):
        ctx.set(dut.ar.ready, 1)
        ctx.set(dut.tags.valid, 1)
        ctx.set(dut.i.valid, beats > 0)
        ctx.set(dut.i.payload, {"src_beats": beats, "first_beats": beats})
        ctx.set(dut.fetch.valid, descriptors > 0)
        ctx.set(dut.fetch.payload.len, max(descriptors * config.descriptor_beats - 1, 0))
        for _ in range(cycles):
            # Slots of the buffer are freed one per cycle, or never.
            ctx.set(dut.slot_freed, free)
            if ctx.get(dut.ar.valid):
                burst = ctx.get(dut.ar.payload)
                read[burst.id >> (config.axi_id_width - 1) == 1].append(burst.len + 1)
            await ctx.tick()

    run_cell(dut, testbench)
    return read[True], read[False]


@pytest.mark.parametrize("config", [TINY, BASE, WIDE], ids=["tiny", "base", "wide"])
@pytest.mark.parametrize("beats", [1, 3, 16])
def test_descriptors_take_half(config, beats):
    descriptors, segments = _beats(config, descriptors=config.fetch_burst, beats=beats, free=False,
                                   cycles=config.buffer_beats // beats)
    burst = config.fetch_burst * config.descriptor_beats
    assert segments, "segments starve"
    # The first burst is issued immediately, each other one after the same number of beats of segments.
    assert sum(descriptors) - burst <= sum(segments)
    assert sum(descriptors) >= burst * (sum(segments) // (burst + beats))


@pytest.mark.parametrize("config", [TINY, BASE, WIDE], ids=["tiny", "base", "wide"])
def test_descriptors_use_what_segments_cannot(config):
    """Without a segment, or without free slots for one: a burst of descriptors in every cycle."""
    assert len(_beats(config, descriptors=1, beats=0, free=False)[0]) >= 398
    descriptors, segments = _beats(config, descriptors=1, beats=config.segment_beats, free=False)
    assert sum(segments) == config.buffer_beats
    assert len(descriptors) + len(segments) >= 398


def test_credit_waits_for_the_slot():
    """A segment takes a slot's credit when the slot is offered again, not earlier: the buffer returns its number to the
    free list one cycle after the release."""
    config = TINY
    free_list, found = FreeList(config.buffer_beats, init=SweepSignature(config)), []

    async def offered(ctx):
        ctx.set(free_list.o.ready, 1)
        assert not ctx.get(free_list.o.valid)
        ctx.set(free_list.free.valid, 1)
        cycles = 0
        while not ctx.get(free_list.o.valid):
            await ctx.tick()
            ctx.set(free_list.free.valid, 0)
            cycles += 1
        found.append(1 + cycles)

    issue = ReadIssue(config)

    async def taken(ctx):
        ctx.set(issue.ar.ready, 1)
        ctx.set(issue.tags.valid, 1)
        ctx.set(issue.i.valid, 1)
        ctx.set(issue.i.payload, {"src_beats": 1, "first_beats": 1})
        while ctx.get(issue.launch.read):
            await ctx.tick()
        ctx.set(issue.slot_freed, 1)
        cycles = 0
        while not ctx.get(issue.launch.read):
            await ctx.tick()
            ctx.set(issue.slot_freed, 0)
            cycles += 1
        found.append(cycles)

    for dut, testbench in ((free_list, offered), (issue, taken)):
        run_cell(dut, testbench)
    assert found[0] <= found[1], f"the slot is offered after {found[0]} cycles, its credit is taken after {found[1]}"
