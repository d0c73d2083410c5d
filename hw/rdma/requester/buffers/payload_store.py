# SPDX-License-Identifier: Apache-2.0
"""Payload in block RAM, in blocks that are linked to the chains of the packets.

WriteCutter -> PayloadStore -> PacketSender; chains return from Retirement.  Latency: 1 cycle from a read to its data; 3
cycles from the return of a chain to the offer of its first block.  Throughput: one beat in and one out, one block and
one returned chain per cycle.
"""

from amaranth import *
from amaranth.lib import memory, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.common.table import BLOCK_RAM
from hw.rdma.config import RdmaConfig
from hw.stream import Queue

from .packets import chain_layout

__all__ = ["ChainSignature", "PayloadReadSignature", "PayloadStore", "PayloadWriteSignature"]


class PayloadWriteSignature(wiring.Signature):
    """Store a beat.

    Members
    -------
    en : ``Out(1)``, block : ``Out``, beat : ``Out``, data : ``Out(data_width)``
        Beat ``beat`` of ``block``.
    link : ``Out(1)``, before : ``Out``
        ``block`` follows block ``before`` of the same packet.
    """

    def __init__(self, config: RdmaConfig) -> None:
        block = range(config.blocks)
        super().__init__({"en": Out(1), "block": Out(block), "beat": Out(range(config.block_beats)),
                          "data": Out(config.data_width), "link": Out(1), "before": Out(block)})


class PayloadReadSignature(wiring.Signature):
    """Read a beat.

    Members
    -------
    en : ``Out(1)``, block : ``Out``, beat : ``Out``, data : ``In(data_width)``
        ``data`` is that beat from the next cycle until the next ``en``.
    follow : ``Out(1)``, next : ``In``
        Likewise the block that follows ``block``; undefined for the last one of a chain.
    """

    def __init__(self, config: RdmaConfig) -> None:
        block = range(config.blocks)
        super().__init__({"en": Out(1), "block": Out(block), "beat": Out(range(config.block_beats)),
                          "data": In(config.data_width), "follow": Out(1), "next": In(block)})


class ChainSignature(wiring.Signature):
    """All blocks of a chain are free: a strobe. They are not read any more."""

    def __init__(self, config: RdmaConfig) -> None:
        super().__init__({"valid": Out(1), "chain": Out(chain_layout(config))})


class PayloadStore(wiring.Component):
    """Offer free blocks, and keep beats and the order of blocks.

    A returned chain keeps its links: it waits as a whole in a queue, and its blocks are offered one after the other.
    After reset, all blocks are offered once by a counter, so that no table must be written.

    Parameters
    ----------
    config : RdmaConfig

    Members
    -------
    blocks : ``Out(stream.Signature(block))``
        Free blocks. Registered.
    write : ``In(PayloadWriteSignature)``, read : ``In(PayloadReadSignature)``
        Never the same beat in the same cycle, nor the same link.
    returned : ``In(ChainSignature)``
    level : ``Out(range(blocks + 1))``
        Free blocks, counted from the cycle after their return.
    """

    def __init__(self, config: RdmaConfig) -> None:
        self.config = config
        super().__init__({
            "blocks": Out(stream.Signature(unsigned((config.blocks - 1).bit_length()))),
            "write": In(PayloadWriteSignature(config)), "read": In(PayloadReadSignature(config)),
            "returned": In(ChainSignature(config)), "level": Out(range(config.blocks + 1), init=config.blocks),
        })

    def elaborate(self, platform):
        m = Module()
        config = self.config
        bits = (config.blocks - 1).bit_length()
        m.submodules.beats = beats = memory.Memory(
            shape=unsigned(config.data_width), depth=config.buffer_beats, init=[], attrs=BLOCK_RAM)
        put, get = beats.write_port(), beats.read_port()
        offset = (config.block_beats - 1).bit_length()
        m.d.comb += [
            put.en.eq(self.write.en), put.addr.eq(Cat(self.write.beat[:offset], self.write.block)),
            put.data.eq(self.write.data),
            get.en.eq(self.read.en), get.addr.eq(Cat(self.read.beat[:offset], self.read.block)),
            self.read.data.eq(get.data),
        ]

        # Two copies of the links: the sender follows the chain of a packet, the allocator that of free blocks.
        m.submodules.links = links = memory.Memory(
            shape=unsigned(bits), depth=config.blocks, init=[], attrs=BLOCK_RAM)
        link, sent, free = links.write_port(), links.read_port(), links.read_port()
        m.d.comb += [
            link.en.eq(self.write.link), link.addr.eq(self.write.before), link.data.eq(self.write.block),
            sent.en.eq(self.read.follow), sent.addr.eq(self.read.block), self.read.next.eq(sent.data),
        ]

        # -- The next free block: from the counter, then the rest of a chain, then the next chain.
        m.submodules.chains = chains = Queue(chain_layout(config), depth=config.blocks)
        fresh = Signal(bits + 1)
        more, load, found = Signal(range(config.packet_blocks)), Signal(), Signal()
        block = Signal(bits)
        m.d.comb += [
            chains.i.valid.eq(self.returned.valid), chains.i.payload.eq(self.returned.chain),
            load.eq(~self.blocks.valid | self.blocks.ready),
            found.eq(~fresh[-1] | more.any() | chains.o.valid),
            block.eq(Mux(~fresh[-1], fresh[:-1], Mux(more.any(), free.data, chains.o.payload.first))),
            chains.o.ready.eq(load & fresh[-1] & ~more.any()),
            free.en.eq(load & found), free.addr.eq(block),
        ]
        with m.If(load):
            m.d.sync += [self.blocks.valid.eq(found), self.blocks.payload.eq(block)]
            with m.If(~fresh[-1]):
                m.d.sync += fresh.eq(fresh + 1)
            with m.Elif(more.any()):
                m.d.sync += more.eq(more - 1)
            with m.Elif(chains.o.valid):
                m.d.sync += more.eq(chains.o.payload.more)

        count = Signal(range(config.packet_blocks + 1))
        with m.If(self.returned.valid):
            m.d.comb += count.eq(self.returned.chain.more + 1)
        m.d.sync += self.level.eq(self.level + count - (self.blocks.valid & self.blocks.ready))
        return m
