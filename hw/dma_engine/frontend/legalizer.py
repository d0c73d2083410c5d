# SPDX-License-Identifier: Apache-2.0
"""The legalizer: turns a scheduled segment into two checked byte addresses and burst sizes.

Scheduler, RegionTable, PageTable -> Legalizer -> ReadIssue.  Latency: 2 cycles, 3 with ``legalizer_output_register``,
and the wait in the output queue until ReadIssue takes the segment.  Throughput: one segment per cycle.  The pipeline
never stalls: the scheduler issues a segment only when the output queue has a free entry for it.  Each stage has one
long carry chain.

A segment that fails a check passes through with its status and is never issued to memory.
"""

from amaranth import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.common.carry_save import carry_save
from hw.common.layouts import Attributes
from hw.common.regions import RegionEntriesSignature
from hw.common.sizes import (
    ADDR_WIDTH,
    DOMAIN_WIDTH,
    LARGE_PAGE_BITS,
    OFFSET_WIDTH,
    PAGE_BYTES,
    PAGE_ID_WIDTH,
    SMALL_PAGE_BITS,
)
from hw.dma_engine.config import REQUEST_LENGTH_WIDTH, TARGETS, DmaConfig
from hw.dma_engine.layouts import (
    EPOCH_WIDTH,
    STATUS_WIDTH,
    Check,
    EndFlags,
    queue_settings_layout,
    segment_layout,
)
from hw.dma_engine.strobes import ScheduledSignature
from hw.dma_engine.words import Status
from hw.stream import Queue

from .pages import PageLookupSignature
from .segment_credit import SEGMENT_CREDITS

__all__ = ["AbortSignature", "EnteredSignature", "Legalizer"]


class AbortSignature(wiring.Signature):
    """A segment of this queue and generation failed its checks: the scheduler ends its request with the next
    segment."""

    def __init__(self, config: DmaConfig) -> None:
        super().__init__({"valid": Out(1), "queue": Out(config.queue_bits), "generation": Out(1)})


class EnteredSignature(wiring.Signature):
    """A segment has entered the pipeline; it will return with this size in bytes, less one, and this target."""

    def __init__(self, config: DmaConfig) -> None:
        super().__init__({"valid": Out(1), "size": Out(config.segment_bits), "target": Out(range(TARGETS))})


class Legalizer(wiring.Component):
    """Check a segment's request against regions, rights, bounds and domain, and compute its addresses.

    Checks cover the whole request, so that every segment of a bad request fails, and before any of its bytes moves.
    Only pages are looked up per segment: an offset in a paged region counts from the start of ``first_page``, and page
    numbers are consecutive.

    Parameters
    ----------
    config : DmaConfig

    Members
    -------
    scheduled : ``In(ScheduledSignature)``
        A segment, together with its regions' entries and its queue's settings.
    regions : ``In(RegionEntriesSignature)``, settings : ``In(queue_settings_layout)``
    pages : ``Out(PageLookupSignature)``
    o : ``Out(stream.Signature(segment_layout))``, issued : ``Out(1)``
        Checked segments; one leaves.
    abort : ``Out(AbortSignature)``, entered : ``Out(EnteredSignature)``
    """

    def __init__(self, config: DmaConfig) -> None:
        self.config = config
        super().__init__({
            "scheduled": In(ScheduledSignature(config)),
            "regions": In(RegionEntriesSignature()), "settings": In(queue_settings_layout(config)),
            "pages": Out(PageLookupSignature()),
            "o": Out(stream.Signature(segment_layout(config))), "issued": Out(1),
            "abort": Out(AbortSignature(config)), "entered": Out(EnteredSignature(config)),
        })

    def elaborate(self, platform):
        m = Module()
        config = self.config
        passed = {"queue": config.queue_bits, "index": config.index_width, "generation": 1, "last": 1,
                  "epoch": EPOCH_WIDTH, "end": EndFlags, "aborted": 1, "size": config.segment_bits,
                  "target": range(TARGETS), "src_attributes": Attributes, "dst_attributes": Attributes,
                  "signal": 1, "phase": 1, "src_paged": 1, "src_large": 1, "dst_paged": 1, "dst_large": 1}
        checked = data.StructLayout(passed | {
            "bad": data.ArrayLayout(1, len(CHECKS)),
            "src_offset": OFFSET_WIDTH, "src_advance": REQUEST_LENGTH_WIDTH, "dst_position": OFFSET_WIDTH + 1,
            "src_first": OFFSET_WIDTH + 1 - SMALL_PAGE_BITS, "dst_first": PAGE_ID_WIDTH,
            "src_start": 12,                            # source position in its 4 KiB page
            "src_end": OFFSET_WIDTH + 1, "dst_end": OFFSET_WIDTH + 1,
            "src_length": OFFSET_WIDTH + 1, "dst_length": OFFSET_WIDTH + 1,
            "src_differs": DOMAIN_WIDTH // 2, "dst_differs": DOMAIN_WIDTH // 2,     # pairs of bits, of domains
            "src_base": ADDR_WIDTH - 12, "dst_base": ADDR_WIDTH - 12,
        })
        placed = data.StructLayout(passed | {
            "bad": data.ArrayLayout(1, len(CHECKS)), "src_position": OFFSET_WIDTH + 1,
            "src_beats": config.beat_count_width, "first_beats": config.beat_count_width, "crosses": 1,
            "src_base": ADDR_WIDTH - 12, "dst_addr": ADDR_WIDTH,
        })
        a, b = Signal(checked, reset_less=True), Signal(placed, reset_less=True)
        a_valid, b_valid = Signal(), Signal()
        m.d.sync += [a_valid.eq(self.scheduled.valid), b_valid.eq(a_valid)]

        self._check(m, a)
        m.d.sync += [b[name].eq(a[name]) for name in passed]
        m.d.comb += [
            self.entered.valid.eq(a_valid), self.entered.size.eq(a.size), self.entered.target.eq(a.target),
            self.issued.eq(self.o.valid & self.o.ready),
        ]
        self._locate(m, a, b)
        self._emit(m, b, b_valid)
        return m

    def _check(self, m, a):
        """Stage 1: flags, rights and domain; where the segment starts and the request ends."""
        i, request, bits = self.scheduled.segment, self.scheduled.segment.request, self.config.segment_bits
        regions = self.regions
        start = Signal(bits)
        m.d.comb += start.eq(Mux(i.first, request.dst_offset[:bits], 0))
        bad = {
            "MALFORMED": ((request.check == Check.MALFORMED) | (request.end.sc & ~self.settings.sc_enable)
                          | (request.end.rc & ~self.settings.rc_enable)),
            "ZERO_LENGTH": request.check == Check.ZERO_LENGTH,
            "RING_FETCH": request.check == Check.FETCH_ERROR,
            "CONNECTION": request.check == Check.CONNECTION,
        }
        for side, right, region_id in (("src", regions.src.readable, request.src_region),
                                       ("dst", regions.dst.writable, request.dst_region)):
            entry = getattr(regions, side)
            bad |= {
                f"{side.upper()}_REGION": ~entry.valid | (region_id >> self.config.region_bits).any(),
                f"{side.upper()}_DOMAIN": 0,
                f"{side.upper()}_RIGHTS": ~right,
                f"{side.upper()}_BOUNDS": 0,
            }
            differs = entry.domain ^ self.settings.domain
            m.d.sync += [
                a[f"{side}_differs"].eq(Cat(differs[at:at + 2].any() for at in range(0, DOMAIN_WIDTH, 2))
                                        & ~(request.signal & (side == "src")).replicate(DOMAIN_WIDTH // 2)),
                a[f"{side}_end"].eq(request[f"{side}_offset"] + request.length),
                a[f"{side}_length"].eq(entry.length),
                a[f"{side}_base"].eq(entry.base_page),
                a[f"{side}_attributes"].eq(entry.attributes),
                a[f"{side}_paged"].eq(entry.paged), a[f"{side}_large"].eq(entry.large),
            ]
        # The page number is part of a source position; a large page counts as 32 small ones.
        src_paged = Signal()
        m.d.comb += src_paged.eq(regions.src.paged & ~request.signal)
        first = Mux(src_paged, Mux(regions.src.large, regions.src.first_page << (LARGE_PAGE_BITS - SMALL_PAGE_BITS),
                                   regions.src.first_page), 0)
        # A signal has no source: its value uses the source address's registers.
        m.d.sync += [a.bad[index].eq(bad[status.name] & ~(request.signal & status.name.startswith("SRC")))
                     for index, status in enumerate(CHECKS)]
        m.d.sync += a.src_paged.eq(src_paged)
        with m.If(request.signal):
            m.d.sync += a.src_base.eq(request.src_region << (OFFSET_WIDTH - 12))
        m.d.sync += [
            a.signal.eq(request.signal),
            a.queue.eq(i.queue), a.index.eq(i.index), a.generation.eq(i.generation), a.last.eq(i.last),
            a.end.eq(request.end), a.aborted.eq(i.aborted), a.epoch.eq(i.epoch), a.phase.eq(i.phase),
            a.target.eq(self.settings.target),
            a.size.eq(Mux(i.last, request.end_position, -1) - start),
            a.src_offset.eq(request.src_offset), a.src_first.eq(first),
            a.dst_first.eq(regions.dst.first_page),
            a.src_advance.eq(Mux(i.first, 0, (i.number << bits) - request.dst_offset[:bits])),
            a.src_start.eq(Mux(i.first, request.src_offset,
                               request.src_offset[:12] - request.dst_offset[:bits] + (i.number << bits))),
            a.dst_position.eq(Cat(start, request.dst_offset[bits:] + i.number)),
        ]

    def _locate(self, m, a, b):
        """Stage 2: bounds, destination address, position in the source region, page numbers."""
        lanes = self.config.lane_bits
        position = Signal(OFFSET_WIDTH + 1)
        partial, carries = carry_save(a.src_offset, a.src_advance, a.src_first << SMALL_PAGE_BITS)
        m.d.comb += [
            position.eq(partial + carries),
            self.pages.src_page.eq(_page(position, a.src_large)),
            self.pages.dst_page.eq(_page(a.dst_position, a.dst_large) + a.dst_first),
        ]
        m.d.sync += [b.bad[index].eq(a.bad[index]) for index in range(len(CHECKS))]
        m.d.sync += [
            b.bad[CHECKS.index(Status.SRC_DOMAIN)].eq(a.src_differs.any()),
            b.bad[CHECKS.index(Status.DST_DOMAIN)].eq(a.dst_differs.any()),
            b.bad[CHECKS.index(Status.SRC_BOUNDS)].eq((a.src_end > a.src_length) & ~a.signal),
            b.bad[CHECKS.index(Status.DST_BOUNDS)].eq(a.dst_end > a.dst_length),
            b.src_position.eq(position),
            b.src_beats.eq(((a.src_start[:lanes] + a.size) >> lanes) + 1),
            b.first_beats.eq(PAGE_BYTES // self.config.beat_bytes - a.src_start[lanes:]),
            b.crosses.eq((a.src_start + a.size >= PAGE_BYTES) & ~a.signal),
            b.src_base.eq(a.src_base),
            b.dst_addr.eq(Cat(a.dst_position[:12], a.dst_base + a.dst_position[12:])),
        ]

    def _emit(self, m, b, b_valid):
        """Stage 3: source address, pages to frames, burst sizes, status."""
        config = self.config
        m.submodules.segments = segments = Queue(
            segment_layout(config), depth=SEGMENT_CREDITS, output_register=config.timing.legalizer_output_register)
        segment, status, pages = segments.i.payload, Signal(STATUS_WIDTH), self.pages

        in_page = b.src_position[12:SMALL_PAGE_BITS], b.src_position[SMALL_PAGE_BITS:LARGE_PAGE_BITS]
        missing = {Status.SRC_PAGE: Signal(), Status.DST_PAGE: Signal()}
        m.d.comb += [
            segment.jumps.eq(b.src_paged & b.crosses & in_page[0].all() & (~b.src_large | in_page[1].all())),
            segment.next_frame.eq(Cat(Mux(b.src_large, 0, pages.next.frame[:len(in_page[1])]),
                                      pages.next.frame[len(in_page[1]):])),
            missing[Status.SRC_PAGE].eq(b.src_paged & (~pages.src.present
                                                       | (segment.jumps & ~pages.next.present))),
            missing[Status.DST_PAGE].eq(b.dst_paged & ~pages.dst.present),
        ]

        # An aborted request reports the status of its first failing segment; this segment must not move data.
        m.d.comb += status.eq(Mux(b.aborted, Status.MALFORMED, Status.OK))
        found = [*((code, b.bad[index]) for index, code in enumerate(CHECKS)), *missing.items()]
        for code, wrong in reversed(found):
            with m.If(wrong):
                m.d.comb += status.eq(code)

        if not config.timing.legalizer_output_register:
            m.d.comb += [
                self.o.valid.eq(segments.o.valid | b_valid),
                self.o.payload.eq(Mux(segments.o.valid, segments.o.payload, segment)),
                segments.o.ready.eq(self.o.ready),
                segments.i.valid.eq(b_valid & (segments.o.valid | ~self.o.ready)),
            ]
        else:
            wiring.connect(m, segments.o, wiring.flipped(self.o))
            m.d.comb += segments.i.valid.eq(b_valid)
        m.d.comb += [
            segment.queue.eq(b.queue), segment.index.eq(b.index), segment.last.eq(b.last),
            segment.epoch.eq(b.epoch), segment.phase.eq(b.phase), segment.target.eq(b.target),
            segment.signal.eq(b.signal),
            segment.end.eq(b.end), segment.status.eq(status), segment.size.eq(b.size),
            segment.dst_addr.eq(_in_frame(b.dst_addr, b.dst_paged, b.dst_large, pages.dst)),
            segment.src_attributes.eq(b.src_attributes), segment.dst_attributes.eq(b.dst_attributes),
            segment.src_addr.eq(_in_frame(
                Cat(b.src_position[:12], (b.src_base + b.src_position[12:])[:ADDR_WIDTH - 12]),
                b.src_paged, b.src_large, pages.src)),
            segment.src_beats.eq(b.src_beats),
            segment.first_beats.eq(b.first_beats), segment.crosses.eq(b.crosses),
        ]
        # DST_PAGE does not end the request: SRC_PAGE of a later segment takes precedence.
        m.d.comb += [
            segment.bad.eq(b.aborted | b.bad.as_value().any() | Cat(missing.values()).any()),
            self.abort.valid.eq(b_valid & (b.bad.as_value().any() | missing[Status.SRC_PAGE]) & ~b.last),
            self.abort.queue.eq(b.queue),
            self.abort.generation.eq(b.generation),
        ]


CHECKS = [
    Status.RING_FETCH, Status.MALFORMED, Status.ZERO_LENGTH, Status.CONNECTION,
    Status.SRC_REGION, Status.SRC_DOMAIN, Status.SRC_RIGHTS, Status.SRC_BOUNDS,
    Status.DST_REGION, Status.DST_DOMAIN, Status.DST_RIGHTS, Status.DST_BOUNDS,
]
"""Checks in order of precedence; missing pages come last."""


def _page(position, large):
    """Number of the page, of either size, that contains a position."""
    return Mux(large, position[LARGE_PAGE_BITS:], position[SMALL_PAGE_BITS:])


def _in_frame(address, paged, large, entry):
    """``address``, or if ``paged``, its offset in the page at the entry's frame."""
    small, shared = LARGE_PAGE_BITS - SMALL_PAGE_BITS, address[SMALL_PAGE_BITS:LARGE_PAGE_BITS]
    return Cat(address[:SMALL_PAGE_BITS], Mux(paged & ~large, entry.frame[:small], shared),
               Mux(paged, entry.frame[small:], address[LARGE_PAGE_BITS:]))
