# SPDX-License-Identifier: Apache-2.0
"""Writes to neighbours: cut into packets; the neighbour's PUT_DONEs become write responses.

RemoteSplit -> PutSender -> PutPort; PutPort -> PutSender -> RemoteSplit.  Latency: 1 cycle from a packet's last beat to
its first flit, 2 if the buffer is block RAM; 0 from a PUT_DONE to its first response.  Throughput: one beat per cycle,
one response per cycle.
"""

from amaranth import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from hw.ace.layouts import PacketKind, flit_layout
from hw.axi import Resp
from hw.stream import Merge, Queue, Skid, index_of

from .config import EXPORT_WIDTH, REMOTE_OFFSET_WIDTH, EndpointConfig
from .layouts import DONE_WIDTH, RemoteLayout, header_view, put_layout, response_layout, write_layout

__all__ = ["PutPackets", "PutSender", "PutSenderCounts", "report_layout"]

PACKETS = 8
"""Complete packets that can wait to be sent."""

PACKETS_OF_BEATS = 4
"""Packets of maximum length that fit in the buffer of beats."""


def report_layout(config):
    """A received PUT_DONE: its port and its contents."""
    return data.StructLayout({"port": range(config.ports), "puts": DONE_WIDTH, "failed": 1})


class PutPackets(wiring.Signature):
    """PUT packets to neighbours: a stream of ``flit_layout`` with back-pressure, and ``port``, its destination."""

    def __init__(self, config: EndpointConfig) -> None:
        super().__init__({**stream.Signature(flit_layout(config.ace)).members, "port": Out(range(config.ports))})


class PutSenderCounts(wiring.Signature):
    """Event strobe of PutSender: ``sent``, the last beat of a packet was sent in the cycle before."""

    def __init__(self) -> None:
        super().__init__({"sent": Out(1)})


class PutSender(wiring.Component):
    """Send each packet when it is complete, so that a slow memory never blocks a link; respond once to each burst.

    The strobes of a burst are set without gaps, from the byte at its address to its last byte. A burst to an address
    that no packet can name gets DECERR, one whose link is down SLVERR; neither is sent.

    Parameters
    ----------
    config : EndpointConfig

    Members
    -------
    writes : ``In(stream.Signature(write_layout))``
    responses : ``Out(stream.Signature(response_layout))``
        In order per port.
    o : ``Out(PutPackets)``
    report : ``In(stream.Signature(report_layout))``
        PUT_DONEs. Accepted within bounded time, independently of stalls at the ports.
    down : ``In(ports)``
        Links that are down: all writes in flight over them fail.
    counts : ``Out(PutSenderCounts)``
    """

    def __init__(self, config: EndpointConfig) -> None:
        self.config = config
        super().__init__({
            "writes": In(stream.Signature(write_layout(config))),
            "responses": Out(stream.Signature(response_layout(config))),
            "o": Out(PutPackets(config)), "report": In(stream.Signature(report_layout(config))),
            "down": In(config.ports), "counts": Out(PutSenderCounts()),
        })

    def elaborate(self, platform):
        m = Module()
        config = self.config
        self._packet = data.StructLayout({
            "id": config.source_id_width, "port": range(config.ports), "bad": 1, "export": EXPORT_WIDTH,
            "offset": REMOTE_OFFSET_WIDTH, "end_lane": config.lane_bits, "ends": 1, "void": 1,
            "beats": range(config.packet_beats),
        })
        m.submodules.beats = beats = Queue(
            config.data_width, depth=max(Queue.LUT_RAM_DEPTH, PACKETS_OF_BEATS * config.packet_beats))
        m.submodules.packets = packets = Queue(self._packet, depth=PACKETS)
        m.submodules.merge = merge = Merge(response_layout(config), 3)
        connect(m, merge.o, flipped(self.responses))
        m.submodules.fly = fly = _InFlight(config)
        connect(m, flipped(self.report), fly.report)
        connect(m, fly.responses, merge.i[0])
        connect(m, fly.lost, merge.i[1])
        m.submodules.refused = refused = Skid(response_layout(config))
        connect(m, refused.o, merge.i[2])
        m.d.comb += fly.down.eq(self.down)
        self._gather(m, beats.i, packets.i)
        self._send(m, beats.o, packets.o, fly, refused.i)
        return m

    def _gather(self, m, beats, packets):
        """Store the beats with any strobe set; at the end of a packet, store its header fields."""
        config, beat, packet = self.config, self.writes.payload, packets.payload
        lanes, address = config.lane_bits, data.View(RemoteLayout, self.writes.payload.addr)
        known, origin = Signal(self._packet, reset_less=True), Signal(self._packet)
        beat_index, number, kept = Signal(range(config.packet_beats)), Signal(range(config.packet_beats)), Signal()
        some, full, go, top = Signal(), Signal(), Signal(), Signal(config.beat_bytes)
        m.d.comb += [
            origin.eq(known), some.eq(beat.strb.any() & ~origin.bad),
            full.eq((beat_index == config.packet_beats - 1) | beat.last),
            self.writes.ready.eq(beats.ready & packets.ready), go.eq(self.writes.valid & self.writes.ready),
            beats.valid.eq(go & some), beats.payload.eq(beat.data),
            packet.eq(origin), packet.ends.eq(beat.last), packet.void.eq(~some & ~kept),
            packet.beats.eq(Mux(some, number, number - 1)),
            top.eq(Cat(bit & ~beat.strb[index + 1:].any() for index, bit in enumerate(beat.strb))),
            packet.end_lane.eq(Mux(some, index_of(top, lanes), known.end_lane)),
            packets.valid.eq(go & full & (beat.last | some | kept)),
        ]
        with m.If(beat.first):
            m.d.comb += [
                origin.id.eq(beat.id), origin.port.eq(address.port), origin.export.eq(address.export),
                origin.offset.eq(address.offset),
                origin.bad.eq((address.port >= config.ports) | address.zero.any()
                              | (address.export >> EXPORT_WIDTH).any()),
            ]
        with m.If(go):
            m.d.sync += [
                known.eq(origin), known.end_lane.eq(packet.end_lane), beat_index.eq(Mux(full, 0, beat_index + 1)),
                number.eq(Mux(full, 0, number + some)), kept.eq(~full & (kept | some)),
            ]
            with m.If(full):
                m.d.sync += known.offset.eq(Cat(
                    C(0, lanes), (origin.offset[lanes:] + beat_index + 1)[:REMOTE_OFFSET_WIDTH - lanes]))

    def _send(self, m, beats, packets, fly, refused):
        """Send packet by packet; drop packets to a link that is down or to an invalid address."""
        packet, flit = packets.payload, self.o.payload
        header = header_view(put_layout(self.config), flit)
        number, final, silent, vacant = Signal.like(packet.beats), Signal(), Signal(), Signal()
        begun, was_silent, step = Signal(), Signal(), Signal()
        m.d.comb += [
            silent.eq(packet.bad | Mux(begun, was_silent, fly.failing.bit_select(packet.port, 1))),
            # The entry for the response is reserved before the packet starts.
            vacant.eq(Mux(packet.bad, refused.ready | ~packet.ends,
                          fly.vacant.bit_select(packet.port, 1) | ~packet.ends)),
            final.eq(packet.void | (number == packet.beats)),
            self.o.valid.eq(packets.valid & ~silent & (beats.valid | packet.void) & (vacant | begun)),
            self.o.port.eq(packet.port),
            step.eq(packets.valid & (beats.valid | packet.void) & (vacant | begun) & (silent | self.o.ready)),
            beats.ready.eq(step & ~packet.void), packets.ready.eq(step & final),
            flit.data.eq(beats.payload), flit.first.eq(number == 0), flit.last.eq(final),
            header.kind.eq(PacketKind.PUT), header.export.eq(packet.export), header.offset.eq(packet.offset),
            header.end_lane.eq(packet.end_lane), header.ends.eq(packet.ends), header.void.eq(packet.void),
            refused.valid.eq(packets.valid & packet.bad & packet.ends), refused.payload.id.eq(packet.id),
            refused.payload.resp.eq(Resp.DECERR),
            fly.push.eq(step & final & packet.ends & ~packet.bad), fly.head.eq(packets.valid),
            fly.id.eq(packet.id), fly.port.eq(packet.port),
        ]
        with m.If(step):
            m.d.sync += [number.eq(Mux(final, 0, number + 1)), begun.eq(~final), was_silent.eq(silent)]
        # If the link was down at a burst's start, the remaining packets of the burst are dropped, too.
        with m.If(step & final):
            m.d.sync += [fly.open.eq(~packet.ends & ~packet.bad), fly.open_port.eq(packet.port)]
        m.d.sync += self.counts.sent.eq(step & final & ~silent)


class _InFlight(wiring.Component):
    """Sent bursts, in order per port, until a PUT_DONE arrives or the link goes down.

    A port whose link went down is ``failing`` until all its bursts in flight have a response. ``head`` is set while a
    packet to ``port`` is being sent, ``open`` while a burst to ``open_port`` is incomplete.
    """

    def __init__(self, config: EndpointConfig) -> None:
        self.config = config
        response = stream.Signature(response_layout(config))
        super().__init__({
            "push": In(1), "id": In(config.source_id_width), "port": In(range(config.ports)), "head": In(1),
            "open": In(1), "open_port": In(range(config.ports)),
            "vacant": Out(config.ports), "failing": Out(config.ports),
            "report": In(stream.Signature(report_layout(config))), "responses": Out(response), "lost": Out(response),
            "down": In(config.ports),
        })

    def elaborate(self, platform):
        m = Module()
        config, report = self.config, self.report.payload
        count, over, taken, lost_id = Signal(DONE_WIDTH), Signal(), Signal(), Signal(config.source_id_width)
        m.d.comb += [
            over.eq(count == (report.puts - 1)[:DONE_WIDTH]), self.report.ready.eq(1),
            taken.eq(self.responses.valid & self.responses.ready),
            self.responses.payload.resp.eq(Mux(over & report.failed, Resp.SLVERR, Resp.OKAY)),
            self.lost.payload.resp.eq(Resp.SLVERR), self.lost.payload.id.eq(lost_id),
        ]
        with m.If(self.report.valid):
            m.d.sync += count.eq(Mux(self.report.ready, 0, count + taken))
        earlier = 0
        for port in range(config.ports):
            m.submodules[f"flying_{port}"] = flying = Queue(config.source_id_width, depth=config.puts)
            failing, named, loses = self.failing[port], Signal(name=f"named_{port}"), Signal(name=f"loses_{port}")
            m.d.comb += [
                flying.i.valid.eq(self.push & (self.port == port)), flying.i.payload.eq(self.id),
                self.vacant[port].eq(flying.i.ready), named.eq((report.port == port) & ~failing),
                loses.eq(failing & flying.o.valid & ~earlier),
                flying.o.ready.eq((loses & self.lost.ready) | (named & taken)),
            ]
            # A PUT_DONE is dropped while no burst is in flight.
            with m.If(named & (flying.level != 0)):
                m.d.comb += [
                    self.responses.valid.eq(self.report.valid & flying.o.valid),
                    self.responses.payload.id.eq(flying.o.payload),
                    self.report.ready.eq(taken & over),
                ]
            with m.If(loses):
                m.d.comb += [self.lost.valid.eq(1), lost_id.eq(flying.o.payload)]
            with m.If(self.down[port]):
                m.d.sync += failing.eq(1)
            with m.Elif((flying.level == 0) & ~(self.head & (self.port == port))
                        & ~(self.open & (self.open_port == port))):
                m.d.sync += failing.eq(0)
            earlier = earlier | loses
        return m
