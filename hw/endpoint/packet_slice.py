# SPDX-License-Identifier: Apache-2.0
"""A register slice for PUT packets, in which none outlives a failure of its link.

PutSender -> PacketSlice -> PutPort of each link.  Latency: 1 cycle.  Throughput: one beat per cycle.
"""

from amaranth import *
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from hw.ace.layouts import flit_layout

from .config import EndpointConfig
from .put_sender import PutPackets

__all__ = ["PacketSlice"]


class PacketSlice(wiring.Component):
    """Two entries, between which all paths are cut, as in :class:`hw.stream.Skid`.

    While its link is down, a packet may wait here behind one of another link that stalls. Then it is dropped to its
    end, as the sender reports it as failed, and its link may be up again before it gets there. A link that is down
    accepts and drops beats itself, and the rest of a packet of which it has dropped one.

    Parameters
    ----------
    config : EndpointConfig

    Members
    -------
    i : ``In(PutPackets)``, o : ``Out(PutPackets)``
        ``o.valid`` falls without a transfer when a packet is dropped.
    down : ``In(ports)``
        Links that are down, for at least :data:`hw.ace.link.state.DOWN_CYCLES`.
    """

    def __init__(self, config: EndpointConfig) -> None:
        self.config = config
        super().__init__({"i": In(PutPackets(config)), "o": Out(PutPackets(config)), "down": In(config.ports)})

    def elaborate(self, platform):
        m = Module()
        layout = data.StructLayout({"flit": flit_layout(self.config.ace), "port": range(self.config.ports)})
        offered = Signal(layout)
        head, spare = Signal(layout, reset_less=True), Signal(layout, reset_less=True)
        some, spare_free = Signal(), Signal(init=1)
        # The link was down while the beat was in the spare entry.
        spare_failed, head_failed, dropping = Signal(), Signal(), Signal()
        drop, leaves = Signal(), Signal()
        m.d.comb += [
            offered.flit.eq(self.i.payload), offered.port.eq(self.i.port), self.i.ready.eq(spare_free),
            drop.eq(Mux(head.flit.first, head_failed, dropping)), leaves.eq(self.o.ready | drop),
            self.o.valid.eq(some & ~drop), self.o.payload.eq(head.flit), self.o.port.eq(head.port),
        ]
        with m.If(spare_free):
            m.d.sync += [spare.eq(offered), spare_failed.eq(0)]
        with m.Elif(self.down.bit_select(spare.port, 1)):
            m.d.sync += spare_failed.eq(1)
        with m.If(leaves | ~some):
            m.d.sync += [some.eq(self.i.valid | ~spare_free), spare_free.eq(1),
                         head_failed.eq(spare_failed & ~spare_free)]
            with m.If(spare_free):
                m.d.sync += head.eq(offered)
            with m.Else():
                m.d.sync += head.eq(spare)
        with m.Elif(self.i.valid):
            m.d.sync += spare_free.eq(0)
        with m.If(some & leaves):
            m.d.sync += dropping.eq(drop)
        return m
