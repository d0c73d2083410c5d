"""Read issue: reserve, then AR.

Legalizer -> ReadIssue -> AR; each segment issued is announced as a launch to the beat buffer, the write
sequencer and the responses.  Latency: 1 cycle from a segment to ARVALID.  Throughput: one burst per cycle.
"""

from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.common.layouts import Attributes
from hw.common.sizes import ADDR_WIDTH, SMALL_PAGE_BITS
from hw.stream import CreditCounter

from .layouts import completion_write_layout, done_layout, fetch_layout, launch_layout, origin_fields, segment_layout

__all__ = ["ReadIssue"]


class ReadIssue(wiring.Component):
    """Give each segment a tag, reserve a buffer slot for each of its beats, and only then read.

    So R never waits. A source that crosses 4 KiB is read in two bursts of the same ID. The tag is the
    AXI ID: segments may come back in any order.

    A burst of descriptors goes before segments, the next one behind those that can go until they have read as many
    beats: at most half of the beats while segments wait.

    Parameters
    ----------
    config : DmaConfig

    Members
    -------
    i : ``In(stream.Signature(segment_layout))``
    tags : ``In(stream.Signature(tag))``
        Free tags.
    release : ``In(1)``
        A buffer slot is free again.
    single : ``In(1)``, ended : ``In(1)``
        Issue a segment only when the bursts of the one before have been read; the last beat of a burst comes.
    launched : ``Out(1)``, launch : ``Out(launch_layout)``
    signals : ``Out(stream.Signature(completion_write_layout))``, signalled : ``Out(1)``
        Words of signals, and that ``launch`` is one, of which nothing is read.
    rejected : ``Out(stream.Signature(done_layout))``
        Segments that failed their checks.
    fetch : ``In(stream.Signature(fetch_layout))``
        Bursts of descriptors; the top bit of their IDs is set.
    arid, araddr, arlen, attributes, arvalid, arready
        AR of ``m_axi``; ARSIZE and ARBURST are constant.
    """

    def __init__(self, config):
        self.config = config
        super().__init__({
            "i": In(stream.Signature(segment_layout(config))),
            "tags": In(stream.Signature(unsigned(config.tag_bits))),
            "release": In(1), "single": In(1), "ended": In(1),
            "launched": Out(1), "launch": Out(launch_layout(config)),
            "signals": Out(stream.Signature(completion_write_layout(config))), "signalled": Out(1),
            "rejected": Out(stream.Signature(done_layout(config))),
            "fetch": In(stream.Signature(fetch_layout(config))),
            "arid": Out(config.axi_id_width), "araddr": Out(ADDR_WIDTH), "arlen": Out(8),
            "attributes": Out(Attributes), "arvalid": Out(1), "arready": In(1),
        })

    def elaborate(self, platform):
        m = Module()
        config, segment = self.config, self.i.payload
        beats = config.segment_beats + 1

        # A slot released now is offered again by the free list 3 cycles later; so is the credit.
        m.submodules.credit = credit = CreditCounter(config.buffer_beats, max_take=beats)
        release = Signal(3)
        m.d.sync += release.eq(Cat(self.release, release))
        m.d.comb += credit.give.eq(release[-1])

        bad, begin, can_send = segment.bad, Signal(), Signal()
        second = Signal()               # the burst behind the boundary comes now
        second_tag = Signal(config.tag_bits)
        enough, alone, signal = Signal(), Signal(), Signal()
        can_go, fetches = Signal(), Signal()
        # Beats that segments read before the next descriptors go first.
        due = Signal(range(config.fetch_burst * config.descriptor_beats + 1))
        m.d.comb += [
            can_send.eq(~self.arvalid | self.arready),
            enough.eq(credit.available >= segment.src_beats),
            can_go.eq(self.i.valid & ~bad & ~segment.signal & enough & alone & self.tags.valid),
            begin.eq(can_go & ~second & can_send & ~(self.fetch.valid & (due == 0))),
            self.fetch.ready.eq(~second & can_send & ((due == 0) | ~can_go)),
            fetches.eq(self.fetch.valid & self.fetch.ready),
            signal.eq(self.i.valid & ~bad & segment.signal & ~second & self.tags.valid),
            self.signals.valid.eq(signal), self.signals.payload.addr.eq(segment.dst_addr),
            self.signals.payload.word.eq(segment.src_addr), self.signals.payload.id.eq(self.tags.payload),
            self.signals.payload.attributes.eq(segment.dst_attributes),
            self.signals.payload.queue.eq(segment.queue), self.signals.payload.epoch.eq(segment.epoch),
            self.signalled.eq(signal & self.signals.ready),
            self.tags.ready.eq(begin | self.signalled),
            credit.take.eq(segment.src_beats),
            credit.take_stb.eq(begin),
            self.launched.eq(begin),
            self.launch.tag.eq(self.tags.payload),
            self.launch.segment.eq(segment),
        ]
        m.d.comb += [
            self.rejected.valid.eq(self.i.valid & bad),
            self.i.ready.eq(Mux(bad, self.rejected.ready, self.signalled | (begin & ~segment.crosses)
                                 | (second & can_send))),
        ]
        m.d.comb += [self.rejected.payload[name].eq(segment[name]) for name in (*origin_fields(config), "status")]

        # Bursts of the segment being read, where there may be only one.
        owed = Signal(range(3))
        m.d.comb += alone.eq(~self.single | (owed == 0))
        with m.If(begin):
            m.d.sync += owed.eq(1 + segment.crosses)
        with m.Elif(self.ended & (owed != 0)):
            m.d.sync += owed.eq(owed - 1)

        with m.If(fetches):
            m.d.sync += due.eq(self.fetch.payload.len + 1)
        with m.Elif(begin):
            m.d.sync += due.eq(Mux(due > segment.src_beats, due - segment.src_beats, 0))

        with m.If(begin):
            m.d.sync += [
                second.eq(segment.crosses),
                second_tag.eq(self.tags.payload),
                self.arvalid.eq(1),
                self.arid.eq(self.tags.payload),
                self.araddr.eq(segment.src_addr),
                self.attributes.eq(segment.src_attributes),
                self.arlen.eq(Mux(segment.crosses, segment.first_beats, segment.src_beats) - 1),
            ]
        with m.Elif(second & can_send):
            m.d.sync += [
                second.eq(0),
                self.arvalid.eq(1),
                self.arid.eq(second_tag),
                self.araddr.eq(Mux(segment.jumps, Cat(C(0, SMALL_PAGE_BITS), segment.next_frame),
                                    Cat(C(0, 12), (self.araddr[12:] + 1)[:ADDR_WIDTH - 12]))),
                self.arlen.eq(segment.src_beats - segment.first_beats - 1),
            ]
        with m.Elif(fetches):
            m.d.sync += [
                self.arvalid.eq(1),
                self.arid.eq(self.fetch.payload.ring | 1 << (config.axi_id_width - 1)),
                self.araddr.eq(self.fetch.payload.addr),
                self.arlen.eq(self.fetch.payload.len),
                self.attributes.eq(0),
            ]
        with m.Elif(self.arready):
            m.d.sync += self.arvalid.eq(0)
        return m
