# SPDX-License-Identifier: Apache-2.0
"""An AXI4 bus as streams: read bursts, and write beats that carry their address.

Latency: 0, combinational.  Throughput: one beat per cycle.
"""

from amaranth import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.axi.signature import AxiSignature, Resp

__all__ = ["AxiStreams", "read_beat_layout", "read_burst_layout", "write_beat_layout", "write_response_layout"]

_ATTRIBUTES = {"cache": 4, "prot": 3, "qos": 4}


def read_burst_layout(*, addr_width: int, id_width: int) -> data.StructLayout:
    """AR: an INCR burst of full beats; ``len`` is beats, less one."""
    return data.StructLayout({"id": id_width, "addr": addr_width, "len": 8, **_ATTRIBUTES})


def read_beat_layout(*, data_width: int, id_width: int) -> data.StructLayout:
    """A beat of R."""
    return data.StructLayout({"id": id_width, "data": data_width, "resp": Resp, "last": 1})


def write_beat_layout(*, addr_width: int, data_width: int, id_width: int) -> data.StructLayout:
    """A beat of W; the first of a burst carries AW as well."""
    return data.StructLayout({
        "id": id_width, "addr": addr_width, "len": 8, **_ATTRIBUTES,
        "data": data_width, "strb": data_width // 8, "first": 1, "last": 1,
    })


def write_response_layout(*, id_width: int) -> data.StructLayout:
    """B."""
    return data.StructLayout({"id": id_width, "resp": Resp})


class AxiStreams(wiring.Component):
    """Join the address of a write burst with its first beat of data, so that a burst without data is never granted.

    Bursts are INCR and use the full data width.

    Parameters
    ----------
    addr_width, data_width : int
        As in :class:`AxiSignature`.
    bus_id_width : int
        ID bits on the bus.
    id_width : int
        ID bits in the streams, at least ``bus_id_width``.

    Members
    -------
    bus : ``In(AxiSignature)``
    reads : ``Out(stream.Signature(read_burst_layout))``, beats : ``In(stream.Signature(read_beat_layout))``
    writes : ``Out(stream.Signature(write_beat_layout))``, responses : ``In(stream.Signature(write_response_layout))``
    """

    def __init__(self, *, addr_width: int, data_width: int, bus_id_width: int, id_width: int) -> None:
        super().__init__({
            "bus": In(AxiSignature(addr_width=addr_width, data_width=data_width, id_width=bus_id_width)),
            "reads": Out(stream.Signature(read_burst_layout(addr_width=addr_width, id_width=id_width))),
            "beats": In(stream.Signature(read_beat_layout(data_width=data_width, id_width=id_width))),
            "writes": Out(stream.Signature(write_beat_layout(
                addr_width=addr_width, data_width=data_width, id_width=id_width))),
            "responses": In(stream.Signature(write_response_layout(id_width=id_width))),
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
