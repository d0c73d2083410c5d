# SPDX-License-Identifier: Apache-2.0
"""Second channel of a link: PUT packets and PUT_DONE packets in both directions.

PutSender, PutReceiver -> PutPort -> LinkPort -> link -> LinkPort -> PutPort -> PutReceiver, PutSender.
Latency: 0 for packets, 2 cycles for results.  Throughput: one beat per cycle.
"""

from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from hw.ace.layouts import PacketKind, flit_layout

from .config import EndpointConfig
from .layouts import DONE_WIDTH, done_layout, header_view
from .packet_merge import PacketMerge
from .put_receiver import PutResults

__all__ = ["PutPort"]


class PutPort(wiring.Component):
    """Send PUTs and, between them, PUT_DONEs that combine as many results as possible; split received packets by kind.

    Parameters
    ----------
    config : EndpointConfig

    Members
    -------
    puts : ``In(stream.Signature(flit_layout))``, received : ``Out(stream.Signature(flit_layout))``
        PUT packets to the neighbour, and from it.
    results : ``In(PutResults)``
    report : ``Out(stream.Signature(done_layout))``
        Received PUT_DONEs.
    tx : ``Out(stream.Signature(flit_layout))``, rx : ``In(stream.Signature(flit_layout))``
        The link's second channel.
    """

    def __init__(self, config: EndpointConfig) -> None:
        self.config = config
        flits = stream.Signature(flit_layout(config.ace))
        super().__init__({
            "puts": In(flits), "received": Out(flits), "results": In(PutResults()),
            "report": Out(stream.Signature(done_layout(config))), "tx": Out(flits), "rx": In(flits),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.merge = merge = PacketMerge(flit_layout(self.config.ace), 2)
        connect(m, merge.o, flipped(self.tx))
        connect(m, flipped(self.puts), merge.i[1])

        # Results accumulate until they are offered in a PUT_DONE or until one is an error.
        puts, failed, taken, moves = Signal(DONE_WIDTH), Signal(), Signal(), Signal()
        offered, offered_puts, offered_failed = Signal(), Signal(DONE_WIDTH), Signal()
        done = merge.i[0]
        header = header_view(done_layout(self.config), done.payload)
        m.d.comb += [
            self.results.ready.eq(~failed & ~puts.all()), taken.eq(self.results.valid & self.results.ready),
            done.valid.eq(offered), moves.eq(~offered | done.ready),
            done.payload.first.eq(1), done.payload.last.eq(1),
            header.kind.eq(PacketKind.PUT_DONE), header.puts.eq(offered_puts), header.failed.eq(offered_failed),
        ]
        m.d.sync += [
            puts.eq(Mux(self.results.discard, 0, Mux(moves, 0, puts) + taken)),
            failed.eq(~self.results.discard & ((failed & ~moves) | (taken & self.results.payload))),
        ]
        with m.If(moves):
            m.d.sync += [offered.eq((puts != 0) & ~self.results.discard), offered_puts.eq(puts),
                         offered_failed.eq(failed)]

        # The first flit of a received packet decides its destination.
        flit, report = self.rx.payload, header_view(done_layout(self.config), self.rx.payload)
        is_put, before = Signal(), Signal()
        m.d.comb += [
            is_put.eq(Mux(flit.first, report.kind == PacketKind.PUT, before)),
            self.received.payload.eq(flit), self.received.valid.eq(self.rx.valid & is_put),
            self.report.payload.eq(report), self.rx.ready.eq(1),
        ]
        with m.If(is_put):
            m.d.comb += self.rx.ready.eq(self.received.ready)
        with m.Elif(flit.first & (report.kind == PacketKind.PUT_DONE)):
            m.d.comb += [self.report.valid.eq(self.rx.valid), self.rx.ready.eq(self.report.ready)]
        m.d.sync += before.eq(is_put)
        return m
