# SPDX-License-Identifier: Apache-2.0
"""Containment, first block: the legalizer passes a segment on only if its queue has the right to its whole request, and
with addresses inside the request's part of both regions. By induction, for all requests, regions and pages.
"""

import pytest
from amaranth.hdl import Assert, Assume, Cat, Const, Format, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In

from hw.common.regions import RegionEntry
from hw.common.sizes import LARGE_PAGE_BITS, OFFSET_WIDTH, PAGE_BYTES, SMALL_PAGE_BITS
from hw.dma_engine.config import TINY
from hw.dma_engine.frontend.legalizer import Legalizer
from hw.dma_engine.layouts import Check, PageEntry, queue_settings_layout, scheduled_layout
from tests.harness.formal import prove
from tests.harness.internals import elaborated

pytestmark = [pytest.mark.formal, pytest.mark.long]

CONFIG = TINY
ENTRIES = ("src", "next", "dst")


class Contained(wiring.Component):
    """Each segment that leaves the pipeline, compared with the request from which it was made two cycles before.

    Assumed of the scheduler: the segments of a request have numbers from 0 to that of the last one, which contains the
    request's last byte; a segment is the first one if its number is 0. Of the region table: bases of paged regions are
    0.
    """

    def __init__(self):
        super().__init__({
            "valid": In(1), "segment": In(scheduled_layout(CONFIG)), "settings": In(queue_settings_layout(CONFIG)),
            "src": In(RegionEntry), "dst": In(RegionEntry), "ready": In(1),
            **{f"{name}_page": In(PageEntry) for name in ENTRIES},
        })

    def elaborate(self, platform):
        m = Module()
        dut, bits = Legalizer(CONFIG), CONFIG.segment_bits
        m.submodules.dut = parts = elaborated(dut)
        m.d.comb += [
            dut.scheduled.valid.eq(self.valid), dut.scheduled.segment.eq(self.segment), dut.settings.eq(self.settings),
            dut.regions.src.eq(self.src), dut.regions.dst.eq(self.dst), dut.o.ready.eq(self.ready),
            *(getattr(dut.pages, name).eq(getattr(self, f"{name}_page")) for name in ENTRIES),
        ]
        # -- The scheduler.
        scheduled, request = self.segment, self.segment.request
        end = Signal(len(request.length) + 1)
        m.d.comb += [
            end.eq(request.dst_offset[:bits] + request.length - 1),
            Assume(scheduled.first == (scheduled.number == 0)),
            Assume((request.check != Check.OK) | (
                (request.length != 0) & (request.last_segment == end >> bits) & (request.end_position == end[:bits])
                & (scheduled.number <= request.last_segment)
                & (scheduled.last == ((scheduled.number == request.last_segment) | scheduled.aborted)))),
            Assume((request.check == Check.OK) | (scheduled.number == 0)),
            Assume(request.check.as_value() <= max(check.value for check in Check)),
            *(Assume(~region.paged | (region.base_page == 0)) for region in (self.src, self.dst)),
        ]
        # -- The request, when its segment leaves, and the pages that were looked up.
        valid, s, settings, src, dst = self._delayed(m, 2, self.valid, scheduled, self.settings, self.src, self.dst)
        src_page, dst_page = self._delayed(m, 1, dut.pages.src_page, dut.pages.dst_page)
        queue = parts.submodules.segments
        o = queue.i.payload
        m.d.comb += Assert(queue.i.valid == valid, Format("a segment is lost"))
        self._compare(m, valid, s, settings, src, dst, src_page, dst_page, o)
        return m

    def _delayed(self, m, cycles, *values):
        results = []
        for value in values:
            for _ in range(cycles):
                after = Signal.like(value, name=f"{getattr(value, 'name', 'value')}_after")
                m.d.sync += after.eq(value)
                value = after
            results.append(value)
        return results

    def _compare(self, m, valid, s, settings, src, dst, src_page, dst_page, o):
        request, bits, wide = s.request, CONFIG.segment_bits, OFFSET_WIDTH + 2
        # Bytes of the request before this segment, and its own.
        before, size = Signal(wide), Signal(bits + 1)
        m.d.comb += [
            before.eq(Mux(s.number == 0, 0, (s.number << bits) - request.dst_offset[:bits])),
            size.eq(Mux(s.last, request.length - before,
                        (1 << bits) - Mux(s.number == 0, request.dst_offset[:bits], 0))),
        ]
        offsets, allowed = {}, [request.check == Check.OK, ~s.aborted, ~request.end.sc | settings.sc_enable,
                                ~request.end.rc | settings.rc_enable]
        for side, region, right, offset, number in (
                ("src", src, src.readable, request.src_offset, request.src_region),
                ("dst", dst, dst.writable, request.dst_offset, request.dst_region)):
            offsets[side] = Signal(wide, name=f"{side}_offset")
            m.d.comb += offsets[side].eq(offset + before)
            exempt = request.signal if side == "src" else Const(0)
            allowed.append(exempt | (
                region.valid & (number < CONFIG.regions) & right & (region.domain == settings.domain)
                & (offset + request.length <= region.length)))
        # The last byte of a source in the same page, or in the next one.
        src_last = offsets["src"] + size - 1
        changes = Mux(src.large, (src_last ^ offsets["src"])[LARGE_PAGE_BITS:].any(),
                      (src_last ^ offsets["src"])[SMALL_PAGE_BITS:].any())
        src_paged = src.paged & ~request.signal
        allowed += [
            ~src_paged | (self.src_page.present & (~changes | self.next_page.present)),
            ~dst.paged | self.dst_page.present,
        ]
        with m.If(valid):
            m.d.comb += Assert(o.bad == ~Cat(*allowed).all(), Format("the verdict is wrong"))
        with m.If(valid & ~o.bad):
            m.d.comb += [
                Assert(o.size == size - 1, Format("size")),
                Assert(before + size <= request.length, Format("a byte beyond the request")),
                Assert(o.queue == s.queue, Format("queue")),
                Assert(o.epoch == s.epoch, Format("epoch")),
                Assert(o.dst_addr == self._address(dst, offsets["dst"], dst_page, self.dst_page, m),
                       Format("a destination outside its region")),
                Assert(offsets["dst"] + size <= dst.length, Format("a destination beyond its region")),
                # It does not cross a page.
                Assert((offsets["dst"][:12] + size) <= PAGE_BYTES, Format("a destination crosses a page")),
            ]
            with m.If(~request.signal):
                m.d.comb += [
                    Assert(o.src_addr == self._address(src, offsets["src"], src_page, self.src_page, m),
                           Format("a source outside its region")),
                    Assert(offsets["src"] + size <= src.length, Format("a source beyond its region")),
                    Assert(o.crosses == (src_last ^ offsets["src"])[12:].any(), Format("crosses")),
                    Assert(o.jumps == (src.paged & changes), Format("jumps")),
                    Assert(~o.jumps | (o.next_frame == Mux(src.large, self.next_page.frame & ~Const(31, 48),
                                                           self.next_page.frame)), Format("next frame")),
                    Assert(o.src_beats == ((offsets["src"][:CONFIG.lane_bits] + size - 1) >> CONFIG.lane_bits) + 1,
                           Format("beats")),
                    Assert(~o.crosses | (o.first_beats == (PAGE_BYTES >> CONFIG.lane_bits)
                                         - offsets["src"][CONFIG.lane_bits:12]), Format("first beats")),
                ]

    def _address(self, region, offset, page, entry, m):
        """Address of an offset in a region; in a paged one, the page looked up is that of the offset."""
        index = Mux(region.large, offset[LARGE_PAGE_BITS:], offset[SMALL_PAGE_BITS:])
        m.d.comb += Assert(~region.paged | (page == (region.first_page + index)[:len(page)]), Format("another page"))
        small = Cat(offset[:SMALL_PAGE_BITS], entry.frame)
        large = Cat(offset[:LARGE_PAGE_BITS], entry.frame[LARGE_PAGE_BITS - SMALL_PAGE_BITS:])
        return Mux(region.paged, Mux(region.large, large, small), ((region.base_page << 12) + offset)[:64])


def test_legalizer():
    prove(Contained(), name="legalizer", depth=4, mode="prove")
