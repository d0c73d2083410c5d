# SPDX-License-Identifier: Apache-2.0
"""One doorbell space: pages of the DMA engine, of the accelerator, of the trigger counters.

s_axi_db -> DoorbellSplit -> DmaEngine, AceEngine, TriggerUnit.  Latency: 0 on AW and W, whose ``valid`` and
``ready`` pass through up to 5 levels of logic; 1 cycle on B.  Throughput: one beat per cycle.
"""

from amaranth import *
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from hw.axi import AxiSignature, Burst, Resp
from hw.stream import Queue

from .config import EndpointConfig

__all__ = ["DoorbellSplit"]

DEPTH = 4
"""Bursts whose data may be outstanding."""

RESPONSES = 16
"""Bursts that may wait for their response."""

PAGE_BITS, WORD_BITS = 12, 128


class DoorbellSplit(wiring.Component):
    """Route each burst to the part that owns its page; responses return in the order of the bursts.

    A store to an unmapped page gets DECERR. Reads of any page return zero. A part sees the data of a burst when it
    accepts the address, so it must not wait for data there.

    Parameters
    ----------
    config : EndpointConfig

    Members
    -------
    bus : ``In(AxiSignature)``
    dma, ace, triggers : ``Out(AxiSignature)``
    """

    def __init__(self, config: EndpointConfig) -> None:
        self.config = config
        super().__init__({
            "bus": In(_signature(config)), "dma": Out(_signature(config.dma)), "ace": Out(_signature(config.ace)),
            "triggers": Out(_signature(config.triggers)),
        })

    def elaborate(self, platform):
        m = Module()
        self._write(m)
        self._read(m)
        return m

    def _write(self, m):
        bus, parts = self.bus, (self.dma, self.ace, self.triggers)
        unmapped, owners = len(parts), range(len(parts) + 1)
        id_width = self.config.doorbell_id_width
        m.submodules.data = owned = Queue(owners, depth=DEPTH)
        m.submodules.responses = responses = Queue(
            data.StructLayout({"owner": owners, "id": id_width}), depth=RESPONSES)
        owner, free, taken, page = Signal(owners), Signal(), Signal(), bus.awaddr[PAGE_BITS:]
        # First page of each part, and of no part.
        dma, triggers = self.config.dma.queues, self.config.triggers
        firsts = 0, dma, triggers.pages, triggers.pages + 2 * triggers.blocks
        m.d.comb += [
            owner.eq(Mux(page < firsts[1], 0, Mux(page < firsts[2], 1, Mux(page < firsts[3], 2, unmapped)))),
            free.eq(owned.i.ready & responses.i.ready),
            bus.awready.eq(free & _owner_ready(owner, [part.awready for part in parts])),
            taken.eq(bus.awvalid & bus.awready),
            responses.i.valid.eq(taken), responses.i.payload.owner.eq(owner), responses.i.payload.id.eq(bus.awid),
        ]

        # Data is of the oldest burst whose data has not ended, else of the one that is accepted in this cycle.
        current, some, ends = Signal(owners), Signal(), Signal()
        m.d.comb += [
            current.eq(Mux(owned.o.valid, owned.o.payload, owner)), some.eq(owned.o.valid | taken),
            bus.wready.eq(some & _owner_ready(current, [part.wready for part in parts])),
            ends.eq(bus.wvalid & bus.wready & bus.wlast), owned.o.ready.eq(ends),
            owned.i.payload.eq(owner), owned.i.valid.eq(taken & (owned.o.valid | ~ends)),
        ]

        # The data of a burst to an unmapped page is dropped; the burst is counted until its DECERR.
        dropped, drop, report = Signal(range(RESPONSES + 1)), Signal(), Signal()
        m.d.comb += drop.eq(ends & (current == unmapped))
        m.d.sync += dropped.eq(dropped + drop - report)
        response, ready = Signal(data.StructLayout({"id": id_width, "resp": Resp}), reset_less=True), Signal()
        arrived, resp = Signal(), Signal(Resp)
        m.d.comb += [ready.eq(~bus.bvalid | bus.bready), responses.o.ready.eq(arrived & ready)]
        for number, part in enumerate(parts):
            m.d.comb += [getattr(part, f"aw{name}").eq(getattr(bus, f"aw{name}")) for name in ("id", "len", "size")]
            m.d.comb += [getattr(part, f"aw{name}").eq(0) for name in ("cache", "prot", "qos")]
            m.d.comb += [
                part.awaddr.eq(bus.awaddr - (firsts[number] << PAGE_BITS)), part.awburst.eq(Burst.INCR),
                part.awvalid.eq(bus.awvalid & free & (owner == number)),
                part.wdata.eq(bus.wdata), part.wstrb.eq(bus.wstrb), part.wlast.eq(bus.wlast),
                part.wvalid.eq(bus.wvalid & some & (current == number)),
            ]
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
        m.d.comb += [getattr(other, name).eq(0) for other in (self.ace, self.triggers) for name in (*address, "rready")]
        m.d.comb += [getattr(bus, f"r{name}").eq(getattr(part, f"r{name}"))
                     for name in ("id", "data", "resp", "last", "valid")]
        m.d.comb += [bus.arready.eq(part.arready), part.rready.eq(bus.rready)]


def _owner_ready(owner, ready):
    """The owner's ready; 1 without an owner."""
    return (Cat(*ready) | ~Cat(owner == number for number in range(len(ready)))).all()


def _signature(config):
    return AxiSignature(addr_width=config.doorbell_addr_width, data_width=WORD_BITS,
                        id_width=config.doorbell_id_width)
