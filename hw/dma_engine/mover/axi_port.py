# SPDX-License-Identifier: Apache-2.0
"""The memory port: the engine's channels on the pins of ``m_axi``.

ReadIssue (AR), WriteSequencer (AW), Aligner (W) -> AxiPort -> m_axi -> AxiPort -> BeatBuffer (R), Responses (B).
Latency: none.  Throughput: one transfer per cycle on each channel.
"""

from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.axi import AxiSignature, Burst
from hw.common.sizes import ADDR_WIDTH
from hw.dma_engine.config import DmaConfig
from hw.dma_engine.layouts import address_layout, read_beat_layout, write_beat_layout, write_response_layout

__all__ = ["AxiPort", "BusActivitySignature"]


class BusActivitySignature(wiring.Signature):
    """Events on ``m_axi`` in this cycle, for counters and traces.

    Members
    -------
    read_beat, write_beat : ``Out(1)``
        A transfer on R, on W.
    read_stall, write_stall : ``Out(1)``
        AR, W stalls.
    """

    def __init__(self) -> None:
        super().__init__({"read_beat": Out(1), "write_beat": Out(1), "read_stall": Out(1), "write_stall": Out(1)})


class AxiPort(wiring.Component):
    """Bursts of full-width beats with incrementing addresses.

    Parameters
    ----------
    config : DmaConfig

    Members
    -------
    ar, aw : ``In(stream.Signature(address_layout))``
    w : ``In(stream.Signature(write_beat_layout))``
    r : ``Out(stream.Signature(read_beat_layout))``
    b : ``Out(stream.Signature(write_response_layout))``
    bus : ``Out(AxiSignature)``
    burst_read : ``Out(1)``
        The last beat of a segment's burst arrives on R.
    activity : ``Out(BusActivitySignature)``
    """

    def __init__(self, config: DmaConfig) -> None:
        self.config = config
        address = stream.Signature(address_layout(config))
        super().__init__({
            "ar": In(address), "aw": In(address),
            "w": In(stream.Signature(write_beat_layout(config))),
            "r": Out(stream.Signature(read_beat_layout(config))),
            "b": Out(stream.Signature(write_response_layout(config))),
            "bus": Out(AxiSignature(addr_width=ADDR_WIDTH, data_width=config.data_width,
                                    id_width=config.axi_id_width)),
            "burst_read": Out(1),
            "activity": Out(BusActivitySignature()),
        })

    def elaborate(self, platform):
        m = Module()
        bus, r, w, b = self.bus, self.r, self.w, self.b
        for name, channel in (("ar", self.ar), ("aw", self.aw)):
            attributes = channel.payload.attributes
            for pin, value in (("id", channel.payload.id), ("addr", channel.payload.addr),
                               ("len", channel.payload.len), ("size", self.config.lane_bits), ("burst", Burst.INCR),
                               ("cache", attributes.cache), ("prot", attributes.prot), ("qos", attributes.qos),
                               ("valid", channel.valid)):
                m.d.comb += getattr(bus, f"{name}{pin}").eq(value)
            m.d.comb += channel.ready.eq(getattr(bus, f"{name}ready"))
        m.d.comb += [
            bus.wdata.eq(w.payload.data), bus.wstrb.eq(w.payload.strb), bus.wlast.eq(w.payload.last),
            bus.wvalid.eq(w.valid), w.ready.eq(bus.wready),
            r.payload.id.eq(bus.rid), r.payload.data.eq(bus.rdata), r.payload.resp.eq(bus.rresp),
            r.payload.last.eq(bus.rlast), r.valid.eq(bus.rvalid), bus.rready.eq(r.ready),
            b.payload.id.eq(bus.bid), b.payload.resp.eq(bus.bresp), b.valid.eq(bus.bvalid), bus.bready.eq(b.ready),
            self.burst_read.eq(bus.rvalid & bus.rready & bus.rlast & ~bus.rid[-1]),
            self.activity.read_beat.eq(bus.rvalid & bus.rready),
            self.activity.write_beat.eq(bus.wvalid & bus.wready),
            self.activity.read_stall.eq(bus.arvalid & ~bus.arready),
            self.activity.write_stall.eq(bus.wvalid & ~bus.wready),
        ]
        return m
