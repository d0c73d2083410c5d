"""Collectives and puts on one link, each with credits and a receive buffer of its own.

AceEngine, PutPort -> ChannelMux -> link.  Latency: 1 cycle towards the link, 0 from it.  Throughput: one beat per
cycle.
"""

from amaranth import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from hw.ace.layouts import link_layout
from hw.stream import Skid

from .layouts import channel_layout
from .packet_merge import PacketMerge

__all__ = ["ChannelMux"]


class ChannelMux(wiring.Component):
    """Send packets of two link ports in turns, and tell those that come apart.

    Link ports take what comes at any time, so neither holds up the other.

    Parameters
    ----------
    config : EndpointConfig

    Members
    -------
    i : ``In(stream.Signature(link_layout)).array(2)``, o : ``Out(stream.Signature(link_layout)).array(2)``
        From and to the link ports: of collectives, of puts.
    tx : ``Out(stream.Signature(channel_layout))``, rx : ``In(stream.Signature(channel_layout))``
    """

    def __init__(self, config):
        self.config = config
        port, link = stream.Signature(link_layout(config.ace)), stream.Signature(channel_layout(config))
        super().__init__({"i": In(port).array(2), "o": Out(port).array(2), "tx": Out(link), "rx": In(link)})

    def elaborate(self, platform):
        m = Module()
        packet = data.StructLayout({"beat": link_layout(self.config.ace), "last": 1})
        m.submodules.merge = merge = PacketMerge(packet, 2)
        m.submodules.out = out = Skid(channel_layout(self.config))
        for i, port in zip(self.i, merge.i, strict=True):
            m.d.comb += [port.valid.eq(i.valid), i.ready.eq(port.ready), port.payload.beat.eq(i.payload),
                         port.payload.last.eq(i.payload.flit.last)]
        m.d.comb += [
            out.i.valid.eq(merge.o.valid), merge.o.ready.eq(out.i.ready),
            out.i.payload.beat.eq(merge.o.payload.beat), out.i.payload.channel.eq(merge.source),
        ]
        connect(m, out.o, flipped(self.tx))
        m.d.comb += self.rx.ready.eq(1)
        for number, o in enumerate(self.o):
            m.d.comb += [o.valid.eq(self.rx.valid & (self.rx.payload.channel == number)),
                         o.payload.eq(self.rx.payload.beat)]
        return m
