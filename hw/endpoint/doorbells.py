# SPDX-License-Identifier: Apache-2.0
"""One doorbell space: the DMA engine's pages, followed by the accelerator's.

s_axi_db -> DoorbellSplit -> DmaEngine, AceEngine.  Latency: 1 cycle on AW and W, and on B.  Throughput: one beat per
cycle.
"""

from amaranth import *
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from hw.axi import AxiSignature, Burst, Resp
from hw.stream import Queue

from .config import EndpointConfig

__all__ = ["DoorbellSplit"]

DEPTH = 4
"""Bursts that may wait for their data."""

RESPONSES = 16
"""Bursts that may wait for their response."""

PAGE_BITS, WORD_BITS = 12, 128


class DoorbellSplit(wiring.Component):
    """Route each burst to the engine that owns its page; responses return in the order of the bursts.

    A store to an unmapped page gets DECERR. Reads of any page return zero.

    Parameters
    ----------
    config : EndpointConfig

    Members
    -------
    bus : ``In(AxiSignature)``
    dma, ace : ``Out(AxiSignature)``
    """

    def __init__(self, config: EndpointConfig) -> None:
        self.config = config
        super().__init__({
            "bus": In(_signature(config)), "dma": Out(_signature(config.dma)), "ace": Out(_signature(config.ace)),
        })

    def elaborate(self, platform):
        m = Module()
        self._write(m)
        self._read(m)
        return m

    def _write(self, m):
        bus, parts = self.bus, (self.dma, self.ace)
        owners, unmapped = range(len(parts) + 1), len(parts)
        id_width = self.config.doorbell_id_width
        m.submodules.addresses = addresses = Queue(data.StructLayout({
            "owner": range(3), "id": id_width, "addr": len(bus.awaddr), "len": 8, "size": 3}), depth=DEPTH)
        m.submodules.data = owned = Queue(range(3), depth=DEPTH)
        m.submodules.responses = responses = Queue(
            data.StructLayout({"owner": range(3), "id": id_width}), depth=RESPONSES)
        owner, taken, page = Signal(range(3)), Signal(), bus.awaddr[PAGE_BITS:]
        first = self.config.dma.queues
        m.d.comb += [
            owner.eq(Mux(page < first, 0, Mux(page < first + self.config.ace.queues, 1, unmapped))),
            bus.awready.eq(addresses.i.ready & owned.i.ready & responses.i.ready),
            taken.eq(bus.awvalid & bus.awready),
            owned.i.payload.eq(owner), responses.i.payload.owner.eq(owner), responses.i.payload.id.eq(bus.awid),
            addresses.i.payload.owner.eq(owner), addresses.i.payload.id.eq(bus.awid),
            addresses.i.payload.addr.eq(bus.awaddr - Mux(owner == 1, first << PAGE_BITS, 0)),
            addresses.i.payload.len.eq(bus.awlen), addresses.i.payload.size.eq(bus.awsize),
            *(queue.i.valid.eq(taken) for queue in (addresses, owned, responses)),
        ]

        # The data of a burst to an unmapped page is dropped; the burst is counted until its DECERR.
        dropped, drop, report = Signal(range(RESPONSES + 1)), Signal(), Signal()
        address, beat_valid = addresses.o.payload, Signal()
        m.d.comb += addresses.o.ready.eq(1)
        m.d.comb += beat_valid.eq(bus.wvalid & owned.o.valid)
        m.d.comb += [bus.wready.eq(owned.o.valid), owned.o.ready.eq(bus.wvalid & bus.wready & bus.wlast)]
        m.d.comb += drop.eq(beat_valid & bus.wlast & (owned.o.payload == unmapped))
        m.d.sync += dropped.eq(dropped + drop - report)
        response, ready = Signal(data.StructLayout({"id": id_width, "resp": Resp}), reset_less=True), Signal()
        arrived, resp = Signal(), Signal(Resp)
        m.d.comb += [ready.eq(~bus.bvalid | bus.bready), responses.o.ready.eq(arrived & ready)]
        for number, part in zip(owners, parts, strict=False):
            m.d.comb += [getattr(part, f"aw{name}").eq(address[name]) for name in ("id", "addr", "len", "size")]
            m.d.comb += [part[0].eq(part[1]) for part in (
                (part.awburst, Burst.INCR), (part.awvalid, addresses.o.valid & (address.owner == number)),
                (part.wdata, bus.wdata), (part.wstrb, bus.wstrb), (part.wlast, bus.wlast),
                (part.wvalid, beat_valid & (owned.o.payload == number)))]
            m.d.comb += [getattr(part, f"aw{name}").eq(0) for name in ("cache", "prot", "qos")]
            with m.If(address.owner == number):
                m.d.comb += addresses.o.ready.eq(part.awready)
            with m.If(owned.o.payload == number):
                m.d.comb += bus.wready.eq(owned.o.valid & part.wready)
            with m.If(responses.o.payload.owner == number):
                m.d.comb += [arrived.eq(responses.o.valid & part.bvalid), resp.eq(part.bresp),
                             part.bready.eq(responses.o.valid & ready)]
        with m.If(responses.o.payload.owner == unmapped):
            m.d.comb += [arrived.eq(responses.o.valid & (dropped != 0)), resp.eq(Resp.DECERR),
                         report.eq(arrived & ready)]
        with m.If(ready):
            m.d.sync += [bus.bvalid.eq(arrived), response.id.eq(responses.o.payload.id), response.resp.eq(resp)]
        m.d.comb += [bus.bid.eq(response.id), bus.bresp.eq(response.resp)]

    def _read(self, m):
        """Reads of all pages go to the DMA engine, which responds to any address."""
        bus, part = self.bus, self.dma
        address = [f"ar{name}" for name in ("id", "addr", "len", "size", "burst", "cache", "prot", "qos", "valid")]
        m.d.comb += [getattr(part, name).eq(getattr(bus, name)) for name in address]
        m.d.comb += [getattr(self.ace, name).eq(0) for name in (*address, "rready")]
        m.d.comb += [getattr(bus, f"r{name}").eq(getattr(part, f"r{name}"))
                     for name in ("id", "data", "resp", "last", "valid")]
        m.d.comb += [bus.arready.eq(part.arready), part.rready.eq(bus.rready)]


def _signature(config):
    return AxiSignature(addr_width=config.doorbell_addr_width, data_width=WORD_BITS,
                        id_width=config.doorbell_id_width)
