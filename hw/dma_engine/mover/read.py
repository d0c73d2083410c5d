# SPDX-License-Identifier: Apache-2.0
"""Read issue: reserves buffer slots, then issues AR.

Legalizer -> ReadIssue -> AR.  A launch reports each issued segment to the beat buffer, the write sequencer and the
responses; a segment that failed its checks goes to retirement.  Latency: 1 cycle from a segment to ARVALID.
Throughput: one burst per cycle.
"""

from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.common.layouts import Attributes
from hw.common.sizes import ADDR_WIDTH, SMALL_PAGE_BITS
from hw.dma_engine.config import DmaConfig
from hw.dma_engine.configuration import AblationSignature
from hw.dma_engine.layouts import (
    address_layout,
    completion_write_layout,
    done_layout,
    fetch_layout,
    origin_fields,
    segment_layout,
)
from hw.dma_engine.strobes import LaunchSignature, RejectionSignature
from hw.stream import CreditCounter, Skid

__all__ = ["ReadIssue"]


class ReadIssue(wiring.Component):
    """Assign a tag to each segment and reserve a buffer slot for each of its beats before its read is issued.

    Because of the reservation, R never stalls. A source that crosses 4 KiB is read in two bursts of the same ID. The
    tag is the AXI ID, so the data of segments may return in any order.

    A burst of descriptors has priority over segments. While segments can be issued, the next burst of descriptors waits
    until they have read the same number of beats, so descriptors take at most half of the beats.

    Parameters
    ----------
    config : DmaConfig

    Members
    -------
    i : ``In(stream.Signature(segment_layout))``
    tags : ``In(stream.Signature(tag))``
        Free tags.
    slot_freed : ``In(1)``
        A buffer slot was freed.
    ablation : ``In(AblationSignature)``
    burst_read : ``In(1)``
        The last beat of a segment's read burst arrives.
    launch : ``Out(LaunchSignature)``
    signals : ``Out(stream.Signature(completion_write_layout))``
        Memory words that signal requests write.
    rejected : ``Out(stream.Signature(done_layout))``, rejection : ``Out(RejectionSignature)``
        Segments that failed their checks; the strobe is one cycle ahead of the stream.
    fetch : ``In(stream.Signature(fetch_layout))``
        Reads of descriptors. The top bit of their AXI IDs is set.
    ar : ``Out(stream.Signature(address_layout))``
        Registered.
    """

    def __init__(self, config: DmaConfig) -> None:
        self.config = config
        super().__init__({
            "i": In(stream.Signature(segment_layout(config))),
            "tags": In(stream.Signature(unsigned(config.tag_bits))),
            "slot_freed": In(1), "burst_read": In(1), "ablation": In(AblationSignature()),
            "launch": Out(LaunchSignature(config)),
            "signals": Out(stream.Signature(completion_write_layout(config))),
            "rejected": Out(stream.Signature(done_layout(config))), "rejection": Out(RejectionSignature(config)),
            "fetch": In(stream.Signature(fetch_layout(config))),
            "ar": Out(stream.Signature(address_layout(config))),
        })

    def elaborate(self, platform):
        m = Module()
        config, segment = self.config, self.i.payload
        beats = config.segment_beats + 1

        # The free list offers a freed slot again after 3 cycles, so its credit is returned with the same delay.
        m.submodules.credit = credit = CreditCounter(config.buffer_beats, max_take=beats)
        release = Signal(3)
        m.d.sync += release.eq(Cat(self.slot_freed, release))
        m.d.comb += credit.give.eq(release[-1])

        bad, begin, can_send = segment.bad, Signal(), Signal()
        second = Signal()               # the next burst is the part of the source after the 4 KiB boundary
        second_tag = Signal(config.tag_bits)
        enough, alone, signal = Signal(), Signal(), Signal()
        can_go, fetches = Signal(), Signal()
        # Beats that segments may read before the next burst of descriptors.
        due = Signal(range(config.fetch_burst * config.descriptor_beats + 1))
        m.d.comb += [
            can_send.eq(~self.ar.valid | self.ar.ready),
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
            self.launch.signal.eq(signal & self.signals.ready),
            self.tags.ready.eq(begin | self.launch.signal),
            credit.take.eq(segment.src_beats),
            credit.take_stb.eq(begin),
            self.launch.read.eq(begin),
            self.launch.payload.tag.eq(self.tags.payload),
            self.launch.payload.segment.eq(segment),
        ]
        # A register slice: the results of the checks are late-arriving, and retirement starts with a long timing path.
        m.submodules.rejects = rejects = Skid(done_layout(config))
        wiring.connect(m, rejects.o, wiring.flipped(self.rejected))
        rejected = rejects.i.payload
        m.d.comb += [
            rejects.i.valid.eq(self.i.valid & bad),
            self.rejection.valid.eq(rejects.i.valid & rejects.i.ready), self.rejection.queue.eq(rejected.queue),
            self.rejection.index.eq(rejected.index), self.rejection.status.eq(rejected.status),
            self.i.ready.eq(Mux(bad, rejects.i.ready, self.launch.signal | (begin & ~segment.crosses)
                                 | (second & can_send))),
        ]
        m.d.comb += [rejected[name].eq(segment[name]) for name in (*origin_fields(config), "status")]

        # The output register.
        burst_id, addr, length = Signal(config.axi_id_width), Signal(ADDR_WIDTH), Signal(8)
        attributes = Signal(Attributes)
        m.d.comb += [self.ar.payload.id.eq(burst_id), self.ar.payload.addr.eq(addr), self.ar.payload.len.eq(length),
                     self.ar.payload.attributes.eq(attributes)]

        # Outstanding bursts of the current segment. With ``single_read`` the next segment waits for them.
        outstanding = Signal(range(3))
        m.d.comb += alone.eq(~self.ablation.single_read | (outstanding == 0))
        with m.If(begin):
            m.d.sync += outstanding.eq(1 + segment.crosses)
        with m.Elif(self.burst_read & (outstanding != 0)):
            m.d.sync += outstanding.eq(outstanding - 1)

        with m.If(fetches):
            m.d.sync += due.eq(self.fetch.payload.len + 1)
        with m.Elif(begin):
            m.d.sync += due.eq(Mux(due > segment.src_beats, due - segment.src_beats, 0))

        with m.If(begin):
            m.d.sync += [
                second.eq(segment.crosses),
                second_tag.eq(self.tags.payload),
                self.ar.valid.eq(1),
                burst_id.eq(self.tags.payload),
                addr.eq(segment.src_addr),
                attributes.eq(segment.src_attributes),
                length.eq(Mux(segment.crosses, segment.first_beats, segment.src_beats) - 1),
            ]
        with m.Elif(second & can_send):
            m.d.sync += [
                second.eq(0),
                self.ar.valid.eq(1),
                burst_id.eq(second_tag),
                addr.eq(Mux(segment.jumps, Cat(C(0, SMALL_PAGE_BITS), segment.next_frame),
                            Cat(C(0, 12), (addr[12:] + 1)[:ADDR_WIDTH - 12]))),
                length.eq(segment.src_beats - segment.first_beats - 1),
            ]
        with m.Elif(fetches):
            m.d.sync += [
                self.ar.valid.eq(1),
                burst_id.eq(self.fetch.payload.ring | 1 << (config.axi_id_width - 1)),
                addr.eq(self.fetch.payload.addr),
                length.eq(self.fetch.payload.len),
                attributes.eq(0),
            ]
        with m.Elif(self.ar.ready):
            m.d.sync += self.ar.valid.eq(0)
        return m
