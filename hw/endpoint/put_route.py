# SPDX-License-Identifier: Apache-2.0
"""Routing between the sender and the ports: PUT packets to their port, PUT_DONEs of all ports to the sender.

PutSender -> PutRoute -> PutPort of each link, and back.  Latency: 0, combinational.  Throughput: one beat, and one
PUT_DONE, per cycle.
"""

from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from hw.ace.layouts import flit_layout
from hw.stream import Merge

from .config import EndpointConfig
from .layouts import done_layout
from .put_sender import PutPackets, report_layout

__all__ = ["PutRoute"]


class PutRoute(wiring.Component):
    """
    Parameters
    ----------
    config : EndpointConfig

    Members
    -------
    packets : ``In(PutPackets)``, puts : ``Out(stream.Signature(flit_layout)).array(ports)``
        PUT packets, each to the port that it names.
    done : ``In(stream.Signature(done_layout)).array(ports)``, report : ``Out(stream.Signature(report_layout))``
        Received PUT_DONEs, merged round robin.
    """

    def __init__(self, config: EndpointConfig) -> None:
        self.config = config
        super().__init__({
            "packets": In(PutPackets(config)),
            "puts": Out(stream.Signature(flit_layout(config.ace))).array(config.ports),
            "done": In(stream.Signature(done_layout(config))).array(config.ports),
            "report": Out(stream.Signature(report_layout(config))),
        })

    def elaborate(self, platform):
        m = Module()
        packets = self.packets
        m.submodules.merge = merge = Merge(report_layout(self.config), self.config.ports)
        connect(m, merge.o, flipped(self.report))
        for number, (port, done, report) in enumerate(zip(self.puts, self.done, merge.i, strict=True)):
            m.d.comb += [
                port.payload.eq(packets.payload), port.valid.eq(packets.valid & (packets.port == number)),
                report.valid.eq(done.valid), done.ready.eq(report.ready), report.payload.port.eq(number),
                *(report.payload[name].eq(done.payload[name]) for name in ("puts", "failed")),
            ]
            with m.If(packets.port == number):
                m.d.comb += packets.ready.eq(port.ready)
        return m
