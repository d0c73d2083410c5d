"""A link port: flits go over the link only as far as the other side has room for them.

Transmit -> LinkSender -> link -> LinkReceiver -> Receive.  Latency: 1 cycle from ``i`` to ``tx``; from ``rx`` to ``o``
1 cycle with a receive buffer in LUT RAM and 2 in block RAM.  Throughput: 1 beat per cycle, as long as the receive
buffer covers the way there and back, a packet, and a quarter of itself.
"""

from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from hw.stream import Queue

from .layouts import PacketKind, flit_layout, link_layout

__all__ = ["LinkPort", "LinkReceiver", "LinkSender"]

CREDIT_WIDTH = 16

PATIENCE = 256
"""Cycles after which even one beat of room is told, where nothing else goes over the link."""


class LinkSender(wiring.Component):
    """Begin a packet when the peer has room for the longest one; tell the peer on each what was taken out here.

    What was taken out is cumulative, so that one telling makes up for all before. With no packet that may begin, a
    CREDIT packet tells it, as soon as a quarter of the buffer has not been told. The peer, which has been
    told of three quarters, can then begin another packet: two ports never wait for each other.

    Parameters
    ----------
    config : AceConfig

    Members
    -------
    i : ``In(stream.Signature(flit_layout))``
    tx : ``Out(stream.Signature(link_layout))``
        From registers.
    taken : ``In(16)``
        Beats taken out of the own receive buffer since reset, modulo 2 ** 16.
    credit_valid : ``In(1)``, credit : ``In(16)``
        The peer tells how many it has taken out of its own.
    """

    def __init__(self, config):
        self.config = config
        super().__init__({
            "i": In(stream.Signature(flit_layout(config))), "tx": Out(stream.Signature(link_layout(config))),
            "taken": In(CREDIT_WIDTH), "credit_valid": In(1), "credit": In(CREDIT_WIDTH),
        })

    def elaborate(self, platform):
        m = Module()
        limit, packet_beats = self.config.link_beats, self.config.packet_beats
        flit, beat = self.i.payload, self.tx.payload

        # Room at the peer: numbers of beats are taken modulo twice the buffer.
        free = Signal(range(limit + 1), init=limit)
        known, gain = Signal.like(free, init=0), Signal.like(free, init=0)
        with m.If(self.credit_valid):
            m.d.sync += known.eq(self.credit)
        m.d.sync += gain.eq(Mux(self.credit_valid, (self.credit - known)[:len(gain)], 0))
        m.d.sync += free.eq(free + gain - (self.i.valid & self.i.ready))

        # What the peer was not told.
        told, untold = Signal.like(free, init=0), Signal.like(free, init=0)
        waited = Signal(range(PATIENCE))
        due = Signal()
        m.d.comb += [untold.eq(self.taken - told), due.eq((untold >= limit // 4) | (waited == PATIENCE - 1))]

        inside, may, empty, tell = Signal(), Signal(), Signal(), Signal()
        m.d.comb += [
            may.eq(inside | (free >= packet_beats)),
            empty.eq(~self.tx.valid | self.tx.ready),
            self.i.ready.eq(empty & may),
            tell.eq(due & ~inside & ~(self.i.valid & may)),
        ]
        with m.If(empty):
            m.d.sync += [self.tx.valid.eq((self.i.valid & may) | tell), beat.flit.eq(flit), beat.credit.eq(self.taken)]
            with m.If(tell):
                m.d.sync += [beat.flit.header.kind.eq(PacketKind.CREDIT), beat.flit.first.eq(1), beat.flit.last.eq(1)]
            with m.Elif(self.i.valid & may):
                m.d.sync += inside.eq(~flit.last)
        with m.If(empty & (tell | (self.i.valid & may & ~inside))):
            m.d.sync += [told.eq(self.taken), waited.eq(0)]
        with m.Elif((untold != 0) & (waited != PATIENCE - 1)):
            m.d.sync += waited.eq(waited + 1)
        return m


class LinkReceiver(wiring.Component):
    """Keep what comes until it is taken; of CREDIT packets, nothing.

    Parameters
    ----------
    config : AceConfig

    Members
    -------
    rx : ``In(stream.Signature(link_layout))``
        Always ready: the peer's sender sees to it that there is room.
    o : ``Out(stream.Signature(flit_layout))``
    taken : ``Out(16)``
        Beats taken out since reset, modulo 2 ** 16.
    credit_valid : ``Out(1)``, credit : ``Out(16)``
        The peer tells how many it has taken out.
    """

    def __init__(self, config):
        self.config = config
        super().__init__({
            "rx": In(stream.Signature(link_layout(config))), "o": Out(stream.Signature(flit_layout(config))),
            "taken": Out(CREDIT_WIDTH), "credit_valid": Out(1), "credit": Out(CREDIT_WIDTH),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.buffer = buffer = Queue(flit_layout(self.config), depth=self.config.link_beats)
        connect(m, buffer.o, flipped(self.o))
        flit = self.rx.payload.flit
        m.d.comb += [
            self.rx.ready.eq(1),
            buffer.i.valid.eq(self.rx.valid & ~(flit.first & (flit.header.kind == PacketKind.CREDIT))),
            buffer.i.payload.eq(flit),
            self.credit_valid.eq(self.rx.valid & flit.first), self.credit.eq(self.rx.payload.credit),
        ]
        m.d.sync += self.taken.eq(self.taken + (self.o.valid & self.o.ready))
        return m


class LinkPort(wiring.Component):
    """Both directions of a link. Both of its ends come out of reset together.

    Parameters
    ----------
    config : AceConfig

    Members
    -------
    i : ``In(stream.Signature(flit_layout))``, o : ``Out(stream.Signature(flit_layout))``
        Packets to and from the peer, whole and in order.
    tx : ``Out(stream.Signature(link_layout))``, rx : ``In(stream.Signature(link_layout))``
        The link. ``rx.ready`` is constant.
    """

    def __init__(self, config):
        self.config = config
        flits, link = stream.Signature(flit_layout(config)), stream.Signature(link_layout(config))
        super().__init__({"i": In(flits), "o": Out(flits), "tx": Out(link), "rx": In(link)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.sender = sender = LinkSender(self.config)
        m.submodules.receiver = receiver = LinkReceiver(self.config)
        connect(m, flipped(self.i), sender.i)
        connect(m, sender.tx, flipped(self.tx))
        connect(m, flipped(self.rx), receiver.rx)
        connect(m, receiver.o, flipped(self.o))
        m.d.comb += [
            sender.taken.eq(receiver.taken),
            sender.credit_valid.eq(receiver.credit_valid), sender.credit.eq(receiver.credit),
        ]
        return m
