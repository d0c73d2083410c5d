# SPDX-License-Identifier: Apache-2.0
"""Containment and credits, second block: read issue reads the beats of segments that passed their checks and no others,
each in at most two bursts that do not cross 4 KiB, and only with a reserved buffer slot for each beat. By induction.
"""

import pytest
from amaranth.hdl import Assert, Assume, Format, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In

from hw.common.sizes import PAGE_BYTES
from hw.dma_engine.config import TINY
from hw.dma_engine.layouts import fetch_layout, segment_layout
from hw.dma_engine.mover.read import ReadIssue
from tests.formal.delivery import stable
from tests.harness.formal import prove
from tests.harness.internals import elaborated, internal

pytestmark = [pytest.mark.formal, pytest.mark.long]

CONFIG = TINY
LANES, PAGE_BEATS = CONFIG.lane_bits, PAGE_BYTES // CONFIG.beat_bytes
NONE, FIRST, SECOND, FETCH = range(4)


class Issued(wiring.Component):
    """Every burst on AR, compared with the segment or the fetch from which it was made.

    Assumed of the legalizer: what ``test_legalizer.py`` asserts of the numbers of beats. Of the beat buffer: a slot is
    freed only while one is reserved. Of the rings: a burst of descriptors does not cross 4 KiB. Of all streams: their
    rules.
    """

    def __init__(self):
        super().__init__({
            "valid": In(1), "segment": In(segment_layout(CONFIG)), "tag_valid": In(1), "tag": In(CONFIG.tag_bits),
            "fetch_valid": In(1), "fetch": In(fetch_layout(CONFIG)), "slot_freed": In(1), "burst_read": In(1),
            "single_read": In(1), "ar_ready": In(1), "rejected_ready": In(1), "signals_ready": In(1),
        })

    def elaborate(self, platform):
        m = Module()
        dut = ReadIssue(CONFIG)
        m.submodules.dut = parts = elaborated(dut)
        segment, ar, launch = self.segment, dut.ar, dut.launch
        m.d.comb += [
            dut.i.valid.eq(self.valid), dut.i.payload.eq(segment), dut.tags.valid.eq(self.tag_valid),
            dut.tags.payload.eq(self.tag), dut.fetch.valid.eq(self.fetch_valid), dut.fetch.payload.eq(self.fetch),
            dut.slot_freed.eq(self.slot_freed), dut.burst_read.eq(self.burst_read),
            dut.ablation.single_read.eq(self.single_read), ar.ready.eq(self.ar_ready),
            dut.rejected.ready.eq(self.rejected_ready), dut.signals.ready.eq(self.signals_ready),
        ]
        for name, source in (("segment", dut.i), ("tag", dut.tags), ("fetch", dut.fetch)):
            stable(m, source, Assume, name)
        stable(m, ar, Assert, "ar")
        stable(m, dut.signals, Assert, "signals")
        stable(m, dut.rejected, Assert, "rejected")

        # -- The legalizer and the rings.
        offset = segment.src_addr[:12]
        beats = ((segment.src_addr[:LANES] + segment.size) >> LANES) + 1
        crosses = offset + segment.size >= PAGE_BYTES
        m.d.comb += [
            Assume(segment.src_beats == Mux(segment.signal, 1, beats)),
            Assume(segment.crosses == (crosses & ~segment.signal)),
            Assume(~segment.crosses | (segment.first_beats == PAGE_BEATS - offset[LANES:])),
            Assume(~segment.jumps | segment.crosses),
            Assume(self.fetch.addr[LANES:12] + self.fetch.len + 1 <= PAGE_BEATS),
        ]

        # -- Credits: the beats of launched segments whose slots are not free.
        reserved = Signal(range(CONFIG.buffer_beats + 1))
        m.d.sync += reserved.eq(reserved + Mux(launch.read, segment.src_beats, 0) - self.slot_freed)
        release, available = internal(parts, "release"), parts.submodules.credit.available
        m.d.comb += [
            Assume(~self.slot_freed | (reserved != 0)),
            Assert(available + reserved + sum(release) == CONFIG.buffer_beats, Format("credits do not add up")),
            Assert(reserved <= CONFIG.buffer_beats, Format("more beats reserved than slots")),
            Assert(~launch.read | (segment.src_beats <= available), Format("a read without reserved slots")),
        ]

        # -- Segments: each launched once, or rejected.
        launched = Signal()
        accepted = dut.i.valid & dut.i.ready
        signalled = launch.signal & dut.i.ready
        m.d.sync += launched.eq((launched | launch.read) & ~accepted)
        m.d.comb += [
            Assert(~launch.read | ~launched, Format("a segment is launched twice")),
            Assert(~(launch.read | launch.signal) | (dut.i.valid & ~segment.bad & dut.tags.valid & dut.tags.ready),
                   Format("a segment that failed is launched")),
            Assert(~accepted | segment.bad | launched | launch.read | signalled, Format("a segment is lost")),
            Assert(~(launch.read & launch.signal), Format("read and signal")),
            Assert(dut.tags.ready == (launch.read | launch.signal), Format("a tag is lost")),
        ]

        # -- Bursts.
        kind = Signal(2)            # of the burst that is offered
        pending = Signal()          # the second one of a segment is to come
        held = Signal.like(segment, name="held")
        held_tag = Signal.like(self.tag, name="held_tag")
        held_fetch = Signal.like(self.fetch, name="held_fetch")
        with m.If(launch.read):
            m.d.sync += [kind.eq(FIRST), pending.eq(segment.crosses), held.eq(segment), held_tag.eq(self.tag)]
        with m.Elif(pending & (~ar.valid | ar.ready)):
            m.d.sync += [kind.eq(SECOND), pending.eq(0)]
        with m.Elif(dut.fetch.valid & dut.fetch.ready):
            m.d.sync += [kind.eq(FETCH), held_fetch.eq(self.fetch)]
        with m.Elif(ar.ready):
            m.d.sync += kind.eq(NONE)
        held_offset = held.src_addr[:12]
        rest = ((held_offset + held.size - PAGE_BYTES) >> LANES) + 1
        next_page = ((held.src_addr >> 12) + 1) << 12
        burst = ar.payload
        m.d.comb += [
            Assert(ar.valid == (kind != NONE), Format("a burst that no segment needs, or a lost one")),
            Assert((kind != FIRST) & (kind != SECOND) | ((burst.id == held_tag)
                                                         & (burst.attributes == held.src_attributes)), Format("id")),
            Assert((kind != FIRST) | (burst.addr == held.src_addr), Format("the first burst's address")),
            Assert((kind != FIRST) | (burst.len + 1 == Mux(held.crosses, held.first_beats, held.src_beats)),
                   Format("the first burst's length")),
            Assert((kind != SECOND) | (burst.addr == Mux(held.jumps, held.next_frame << 16, next_page[:64])),
                   Format("the second burst's address")),
            Assert((kind != SECOND) | (burst.len + 1 == rest), Format("the second burst's length")),
            Assert((kind != FETCH) | ((burst.addr == held_fetch.addr) & (burst.len == held_fetch.len)
                                      & burst.id[-1]), Format("a burst of descriptors")),
            Assert(~ar.valid | (burst.addr[LANES:12] + burst.len + 1 <= PAGE_BEATS), Format("a burst crosses 4 KiB")),
        ]
        # -- The invariant.
        second = internal(parts, "second")
        m.d.comb += [
            Assert(second == pending, Format("second")),
            Assert(launched == pending, Format("launched")),
            Assert(~pending | ((kind == FIRST) & (internal(parts, "second_tag") == held_tag)), Format("second tag")),
            Assert(~pending | (self.valid & (held == segment)), Format("the segment waits for its second burst")),
            Assert(~held.crosses | (held.first_beats == PAGE_BEATS - held_offset[LANES:]), Format("first beats")),
            Assert(held.signal | (held.src_beats == ((held.src_addr[:LANES] + held.size) >> LANES) + 1)
                   | (kind == NONE) | (kind == FETCH), Format("beats")),
            Assert((kind == NONE) | (kind == FETCH) | (~held.signal & (
                held.crosses == (held_offset + held.size >= PAGE_BYTES))), Format("crosses")),
            Assert(~pending | (~held.bad & ~held.signal), Format("a second burst of a segment that failed")),
            Assert(~pending | held.crosses, Format("a second burst of a segment that crosses nothing")),
            Assert((kind != SECOND) | held.crosses, Format("the second burst of a segment that crosses nothing")),
            Assert((kind != FETCH) | (held_fetch.addr[LANES:12] + held_fetch.len + 1 <= PAGE_BEATS), Format("fetch")),
        ]
        return m


def test_read_issue():
    prove(Issued(), name="read-issue", depth=2, mode="prove")
