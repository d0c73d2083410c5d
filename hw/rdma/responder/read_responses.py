# SPDX-License-Identifier: Apache-2.0
"""READ responses wait in a buffer until all their data has arrived from memory.

memory, ReadIssue -> ReadResponses -> Replies.  Latency: 5 cycles from the last beat of a packet.  Throughput: one beat
per cycle.
"""

from amaranth import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.common.sweep import SweepSignature
from hw.stream import Queue

from ..config import RdmaConfig
from ..fault import Fault
from ..layouts import read_beat_layout
from ..ports import MarkSignature
from ..protocol import ACK, Nak, Opcode
from .layouts import read_packet_layout, reply_layout
from .order import nak, reads_width
from .rows import RowRead, RowTable
from .states import StateRead

__all__ = ["ReadResponses"]


class ReadResponses(wiring.Component):
    """Send packets in the order in which they were issued.

    A packet whose data has an error is replaced by a NAK; then, later packets wait until its queue pair has failed.

    Parameters
    ----------
    config : RdmaConfig

    Members
    -------
    init : ``In(SweepSignature)``
    packets : ``In(stream.Signature(read_packet_layout))``
    beats : ``In(stream.Signature(read_beat_layout))``
        ``ready`` is 1: the buffer has a free entry for each beat in flight. Beats without a read in flight are dropped.
    released : ``Out(1)``
        Strobe: a beat has left the buffer.
    replies : ``Out(stream.Signature(reply_layout))``
    departs : ``Out(MarkSignature)``
        A READ is complete.
    departed : ``In(RowRead).array(3)``
        READs that are complete, modulo twice the most that are held.
    active : ``Out(StateRead)``
    unexpected : ``Out(1)``
        Strobe: a beat was dropped.
    """

    def __init__(self, config: RdmaConfig) -> None:
        self.config = config
        super().__init__({
            "init": In(SweepSignature(config)), "packets": In(stream.Signature(read_packet_layout(config))),
            "beats": In(stream.Signature(read_beat_layout(config))), "released": Out(1),
            "replies": Out(stream.Signature(reply_layout(config))), "departs": Out(MarkSignature(config)),
            "departed": In(RowRead(reads_width(config), config.queue_pairs)).array(3),
            "active": Out(StateRead(config)), "unexpected": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        config = self.config
        depth = max(32, min(128, config.response_beats // 4))
        m.submodules.data = buffer = Queue(config.data_width, depth=config.response_beats)
        m.submodules.arriving = arriving = Queue(range(config.mtu_beats + 2), depth=depth, empty_bypass=True)
        m.submodules.departing = departing = Queue(read_packet_layout(config), depth=depth)
        m.submodules.complete = complete = Queue(1, depth=depth, empty_bypass=True)
        packet = self.packets.payload
        m.d.comb += [
            self.packets.ready.eq(arriving.i.ready & departing.i.ready),
            departing.i.valid.eq(self.packets.valid & arriving.i.ready), departing.i.payload.eq(packet),
            arriving.i.valid.eq(self.packets.valid & departing.i.ready & (packet.beats != 0)),
            arriving.i.payload.eq(packet.beats),
        ]

        # -- Beats arrive in the order of the packets.
        beat, flying, mine = self.beats.payload, Signal(range(config.response_beats + 1)), Signal()
        number, error, wrong, final = (Signal(range(config.mtu_beats + 1)), Signal(), Signal(), Signal())
        issued = self.packets.valid & self.packets.ready
        m.d.comb += [
            self.beats.ready.eq(1), mine.eq(self.beats.valid & (flying != 0) & (beat.id == 0)),
            buffer.i.valid.eq(mine), buffer.i.payload.eq(beat.data), wrong.eq(error | beat.resp.as_value()[1]),
            final.eq(mine & (number == arriving.o.payload - 1)), arriving.o.ready.eq(final),
            complete.i.valid.eq(final), complete.i.payload.eq(wrong),
        ]
        m.d.sync += [flying.eq(flying + Mux(issued, packet.beats, 0) - mine),
                     self.unexpected.eq(self.beats.valid & ~mine)]
        with m.If(mine):
            m.d.sync += [number.eq(Mux(final, 0, number + 1)), error.eq(~final & wrong)]
        self._depart(m, buffer.o, departing.o, complete.o)
        return m

    def _depart(self, m, buffer, departing, complete):
        config = self.config
        departure = data.StructLayout({"packet": read_packet_layout(config), "error": 1})
        # -- The next packet, whose queue pair's state is looked up.
        following, known, looked, sends = Signal(departure, reset_less=True), Signal(), Signal(), Signal()
        now, busy, send, begin, over = (Signal(departure, reset_less=True), Signal(), Signal(), Signal(), Signal())
        stale, take, first, bad = Signal(), Signal(), Signal(), Signal()
        m.d.comb += [
            take.eq(departing.valid & ((departing.payload.beats == 0) | complete.valid) & (~known | begin)),
            departing.ready.eq(take), complete.ready.eq(take & (departing.payload.beats != 0)),
            begin.eq(known & looked & (~busy | (over & ~(send & bad))) & ~stale),
            self.active.qp.eq(Mux(stale, now.packet.qp, following.packet.qp)),
        ]
        with m.If(take):
            m.d.sync += [known.eq(1), following.packet.eq(departing.payload),
                         following.error.eq((departing.payload.beats != 0) & complete.payload)]
        with m.Elif(begin):
            m.d.sync += known.eq(0)
        m.d.sync += [looked.eq(known & ~take & ~begin & ~stale), sends.eq(self.active.bit)]

        # -- The packet that is sent: its beats, or a NAK after them.
        left, silent, drained = Signal(range(config.mtu_beats + 2)), Signal(), Signal()
        reply, header = self.replies.payload, self.replies.payload.beat.header
        m.d.comb += [
            bad.eq(now.error | now.packet.refused), silent.eq(~send | bad), drained.eq(left == 0),
            reply.beat.data.eq(buffer.payload), reply.beat.first.eq(first),
            header.qp.eq(now.packet.qp), header.psn.eq(now.packet.psn), header.msn.eq(now.packet.msn),
        ]
        with m.If(silent):
            m.d.comb += [
                buffer.ready.eq(busy & ~drained), self.replies.valid.eq(busy & drained & send),
                header.opcode.eq(Opcode.ACKNOWLEDGE), reply.beat.last.eq(1), reply.beat.first.eq(1),
                header.syndrome.eq(Mux(now.packet.refused, nak(Nak.REMOTE_ACCESS), nak(Nak.REMOTE_OPERATION))),
                reply.fault.eq(Mux(now.packet.refused, Fault.LOCAL_ACCESS, Fault.LOCAL_OPERATION)),
                over.eq(busy & drained & (~send | self.replies.ready)),
            ]
        with m.Else():
            empty = now.packet.beats == 0
            m.d.comb += [
                header.opcode.eq(now.packet.opcode), header.syndrome.eq(ACK), header.length.eq(now.packet.length),
                header.lane.eq(now.packet.lane), reply.beat.last.eq(empty | (left == 1)),
                self.replies.valid.eq(busy & (empty | buffer.valid)),
                buffer.ready.eq(busy & ~empty & self.replies.ready),
                over.eq(self.replies.valid & self.replies.ready & reply.beat.last),
            ]
        m.d.sync += self.released.eq(buffer.valid & buffer.ready)
        with m.If(buffer.valid & buffer.ready):
            m.d.sync += left.eq(left - 1)
        with m.If(self.replies.valid & self.replies.ready):
            m.d.sync += first.eq(0)
        with m.If(over):
            m.d.sync += [busy.eq(0), stale.eq(send & bad)]
        with m.If(begin):
            m.d.sync += [now.eq(following), busy.eq(1), first.eq(1), left.eq(following.packet.beats),
                         send.eq(sends & ~following.packet.void)]
        with m.If(stale & ~busy & ~self.active.bit):
            m.d.sync += stale.eq(0)
        self._count(m, now.packet, over)

    def _count(self, m, packet, over):
        """Count a READ as complete. After an error, its queue pair has failed before the count is read."""
        config = self.config
        m.submodules.counts = counts = RowTable(config, unsigned(reads_width(config)), depth=config.queue_pairs,
                                                reads=4)
        wiring.connect(m, wiring.flipped(self.init), counts.init)
        for ours, port in zip(self.departed, counts.read[1:], strict=True):
            wiring.connect(m, wiring.flipped(ours), port)
        ends, qp, looked = Signal(), Signal(config.qp_bits), Signal()
        m.d.comb += [counts.read[0].addr.eq(packet.qp), counts.read[0].en.eq(ends)]
        m.d.sync += [looked.eq(ends), qp.eq(packet.qp)]
        m.d.comb += [
            ends.eq(over & packet.ends), counts.write.en.eq(looked), counts.write.addr.eq(qp),
            counts.write.data.eq(counts.read[0].data + 1), self.departs.valid.eq(looked), self.departs.qp.eq(qp),
        ]
