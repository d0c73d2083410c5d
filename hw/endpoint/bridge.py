# SPDX-License-Identifier: Apache-2.0
"""Bus of an engine as streams: read bursts, and write beats that carry their address.

DmaEngine, AceEngine -> Bridge -> MemoryPort.  Latency: 0, combinational.  Throughput: one beat per cycle.
"""

from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.axi import AxiSignature

from .config import ADDR_WIDTH, EndpointConfig
from .layouts import read_beat_layout, read_layout, response_layout, write_layout

__all__ = ["Bridge"]


class Bridge(wiring.Component):
    """Join the address of a write burst with its first beat of data, so that a burst without data is never granted.

    Bursts are INCR and use the full data width.

    Parameters
    ----------
    config : EndpointConfig
    id_width : int
        ID bits of the manager.

    Members
    -------
    bus : ``In(AxiSignature)``
    reads : ``Out(stream.Signature(read_layout))``, beats : ``In(stream.Signature(read_beat_layout))``
    writes : ``Out(stream.Signature(write_layout))``, responses : ``In(stream.Signature(response_layout))``
    """

    def __init__(self, config: EndpointConfig, *, id_width: int) -> None:
        self.config = config
        super().__init__({
            "bus": In(AxiSignature(addr_width=ADDR_WIDTH, data_width=config.data_width, id_width=id_width)),
            "reads": Out(stream.Signature(read_layout(config))),
            "beats": In(stream.Signature(read_beat_layout(config))),
            "writes": Out(stream.Signature(write_layout(config))),
            "responses": In(stream.Signature(response_layout(config))),
        })

    def elaborate(self, platform):
        m = Module()
        bus, inside = self.bus, Signal()
        for channel, payload in (("ar", self.reads.payload), ("aw", self.writes.payload)):
            m.d.comb += [payload[name].eq(getattr(bus, channel + name))
                         for name in ("id", "addr", "len", "cache", "prot", "qos")]
        m.d.comb += [self.writes.payload[name].eq(getattr(bus, f"w{name}")) for name in ("data", "strb", "last")]
        m.d.comb += [
            self.reads.valid.eq(bus.arvalid), bus.arready.eq(self.reads.ready),
            self.writes.payload.first.eq(~inside),
            self.writes.valid.eq(bus.wvalid & (inside | bus.awvalid)),
            bus.wready.eq(self.writes.ready & (inside | bus.awvalid)),
            bus.awready.eq(self.writes.ready & bus.wvalid & ~inside),
            bus.rvalid.eq(self.beats.valid), self.beats.ready.eq(bus.rready),
            bus.bvalid.eq(self.responses.valid), self.responses.ready.eq(bus.bready),
        ]
        m.d.comb += [getattr(bus, f"r{name}").eq(self.beats.payload[name]) for name in ("id", "data", "resp", "last")]
        m.d.comb += [getattr(bus, f"b{name}").eq(self.responses.payload[name]) for name in ("id", "resp")]
        with m.If(self.writes.valid & self.writes.ready):
            m.d.sync += inside.eq(~bus.wlast)
        return m
