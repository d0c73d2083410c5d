# SPDX-License-Identifier: Apache-2.0
"""The table of stored packets.

WriteMessages, ReadCutter -> PacketTable -> transport.  Latency: 0 from a packet to its posting; look-ups 1 cycle.
Throughput: one packet per cycle.
"""

from amaranth import *
from amaranth.lib import memory, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.common.free_list import FreeList, FreeSignature
from hw.common.sweep import SweepSignature
from hw.common.table import BLOCK_RAM
from hw.rdma.config import RdmaConfig
from hw.rdma.layouts import posted_layout, retire_layout
from hw.stream.shapes import ShapeLike

from .packets import packet_layout, retired_layout, returned_entry_layout, sent_layout

__all__ = ["HEADER_BEATS", "EntryLookup", "PacketTable"]

HEADER_BEATS = 2
"""Beats of a frame beside its payload, in the cost of a packet."""


class EntryLookup(wiring.Signature):
    """Look up packet ``index``: ``entry`` is valid from the cycle after ``en`` until the next ``en``."""

    def __init__(self, config: RdmaConfig, shape: ShapeLike) -> None:
        super().__init__({"en": Out(1), "index": Out(config.packet_bits), "entry": In(shape)})


class PacketTable(wiring.Component):
    """Give each packet a free entry, write its fields, and post it.

    Packets of a burst are consecutive. Write and read bursts alternate if both wait. The fields are in three memories
    in block RAM, each with the fields of its reader.

    Parameters
    ----------
    config : RdmaConfig

    Members
    -------
    init : ``In(SweepSignature)``
    writes, reads : ``In(stream.Signature(packet_layout))``
    posted : ``Out(stream.Signature(posted_layout))``
    refused : ``Out(stream.Signature(retire_layout))``
        Packets that are not posted. As for ``posted``, an entry may be looked up from the cycle after the transfer.
    free : ``In(FreeSignature)``
        The packet has retired.
    sent, retired, returned : ``In(EntryLookup)``
    level : ``Out(range(packets + 1))``
        Free entries, counted from the cycle after their return.
    """

    def __init__(self, config: RdmaConfig) -> None:
        self.config = config
        packets = stream.Signature(packet_layout(config))
        super().__init__({
            "init": In(SweepSignature(config)), "writes": In(packets), "reads": In(packets),
            "posted": Out(stream.Signature(posted_layout(config))),
            "refused": Out(stream.Signature(retire_layout(config))),
            "free": In(FreeSignature(config.packets)),
            "sent": In(EntryLookup(config, sent_layout(config))),
            "retired": In(EntryLookup(config, retired_layout(config))),
            "returned": In(EntryLookup(config, returned_entry_layout(config))),
            "level": Out(range(config.packets + 1), init=config.packets),
        })

    def elaborate(self, platform):
        m = Module()
        config = self.config
        m.submodules.numbers = numbers = FreeList(config.packets, init=SweepSignature(config))
        wiring.connect(m, wiring.flipped(self.init), numbers.init)
        wiring.connect(m, wiring.flipped(self.free), numbers.free)

        # Within a burst the choice is fixed; between bursts, the kind that was not served last goes first.
        packet = Signal(packet_layout(config))
        reading, inside, latest = Signal(), Signal(), Signal()
        valid, ready, store = Signal(), Signal(), Signal()
        m.d.comb += [
            reading.eq(Mux(inside, latest, Mux(latest, ~self.writes.valid, self.reads.valid))),
            packet.eq(Mux(reading, self.reads.payload, self.writes.payload)),
            valid.eq(Mux(reading, self.reads.valid, self.writes.valid) & numbers.o.valid),
            ready.eq(Mux(packet.refused, self.refused.ready, self.posted.ready)),
            store.eq(valid & ready), numbers.o.ready.eq(store),
            self.reads.ready.eq(reading & ready & numbers.o.valid),
            self.writes.ready.eq(~reading & ready & numbers.o.valid),
            self.posted.valid.eq(valid & ~packet.refused), self.refused.valid.eq(valid & packet.refused),
            self.posted.payload.index.eq(numbers.o.payload), self.posted.payload.qp.eq(packet.qp),
            self.posted.payload.read.eq(packet.read),
            self.posted.payload.length.eq(Mux(packet.read, packet.length, 0)),
            self.posted.payload.cost.eq(Mux(packet.read, 0, packet.beats + 1) + HEADER_BEATS),
            self.refused.payload.index.eq(numbers.o.payload), self.refused.payload.failed.eq(1),
        ]
        with m.If(store):
            m.d.sync += [inside.eq(~packet.ends), latest.eq(reading)]
        with m.Elif(valid):
            # An offered packet stays: the other kind must not take its turn.
            m.d.sync += [inside.eq(1), latest.eq(reading)]
        m.d.sync += self.level.eq(self.level + self.free.valid - store)

        for name in ("sent", "retired", "returned"):
            lookup = getattr(self, name)
            m.submodules[name] = rows = memory.Memory(
                shape=lookup.signature.members["entry"].shape, depth=config.packets, init=[], attrs=BLOCK_RAM)
            write, read = rows.write_port(), rows.read_port()
            m.d.comb += [
                write.en.eq(store), write.addr.eq(numbers.o.payload),
                read.en.eq(lookup.en), read.addr.eq(lookup.index), lookup.entry.eq(read.data),
            ]
            m.d.comb += [write.data[field].eq(packet[field]) for field, _ in lookup.signature.members["entry"].shape]
            if name == "sent":
                with m.If(packet.read):
                    m.d.comb += [write.data.length.eq(0), write.data.lane.eq(0), write.data.beats.eq(0)]
        return m
