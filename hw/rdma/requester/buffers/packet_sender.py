# SPDX-License-Identifier: Apache-2.0
"""Reads stored packets and sends them.

transport -> PacketSender -> frame builder.  Latency: 3 cycles.  Throughput: one beat per cycle, also across packets of
one beat.
"""

from amaranth import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, Signature

from hw.rdma.config import RdmaConfig
from hw.rdma.layouts import send_layout, transmit_layout
from hw.stream import Skid

from .packet_table import EntryLookup
from .packets import sent_layout
from .payload_store import PayloadReadSignature

__all__ = ["PacketSender", "SendingLookup"]


class SendingLookup(Signature):
    """Whether packet ``index`` is still to be read: combinational."""

    def __init__(self, config: RdmaConfig) -> None:
        super().__init__({"index": Out(config.packet_bits), "sending": In(1)})


class PacketSender(wiring.Component):
    """Look up a packet's fields while the packet before it is read.

    Parameters
    ----------
    config : RdmaConfig

    Members
    -------
    send : ``In(stream.Signature(send_layout))``
    lookup : ``Out(EntryLookup)``, read : ``Out(PayloadReadSignature)``
    sending : ``In(SendingLookup)``
        Includes a packet that waits on ``send``.
    packets : ``Out(stream.Signature(transmit_layout))``
        Registered.
    """

    def __init__(self, config: RdmaConfig) -> None:
        self.config = config
        super().__init__({
            "send": In(stream.Signature(send_layout(config))),
            "lookup": Out(EntryLookup(config, sent_layout(config))), "read": Out(PayloadReadSignature(config)),
            "sending": In(SendingLookup(config)),
            "packets": Out(stream.Signature(transmit_layout(config))),
        })

    def elaborate(self, platform):
        m = Module()
        config = self.config
        m.submodules.out = out = Skid(transmit_layout(config))
        wiring.connect(m, out.o, wiring.flipped(self.packets))

        # Stage 1: the next packet, looked up.
        waits, begin = Signal(), Signal()
        sent, entry = Signal(send_layout(config)), self.lookup.entry
        m.d.comb += [
            self.send.ready.eq(~waits | begin),
            self.lookup.en.eq(self.send.valid & self.send.ready), self.lookup.index.eq(self.send.payload.index),
        ]
        with m.If(self.send.ready):
            m.d.sync += [waits.eq(self.send.valid), sent.eq(self.send.payload)]

        # Stage 2: the packet being read. ``left``: beats still to be read after the first.
        active, current = Signal(), Signal(config.packet_bits)
        left, beat, block = Signal.like(entry.beats), Signal(range(config.block_beats)), Signal(range(config.blocks))
        step, final, advance = Signal(), Signal(), Signal()
        m.d.comb += [
            begin.eq(waits & ~active & advance), step.eq((waits | active) & advance),
            final.eq(Mux(active, left == 1, entry.beats == 0)),
            self.read.en.eq(step), self.read.beat.eq(beat),
            self.read.block.eq(Mux(active, Mux(beat == 0, self.read.next, block), entry.chain.first)),
            self.read.follow.eq(step & (beat == 0)),
            self.sending.sending.eq(
                (self.send.valid & (self.send.payload.index == self.sending.index))
                | (waits & (sent.index == self.sending.index)) | (active & (current == self.sending.index))),
        ]
        with m.If(step):
            m.d.sync += [
                active.eq(~final), left.eq(Mux(active, left - 1, entry.beats)), block.eq(self.read.block),
                beat.eq(Mux(final, 0, beat + 1)),
            ]
        with m.If(begin):
            m.d.sync += current.eq(sent.index)

        # Stage 3: the beat, with the header.
        valid = Signal()
        packet = Signal(data.StructLayout({"header": transmit_layout(config)["header"].shape, "first": 1, "last": 1}))
        m.d.comb += [
            advance.eq(~valid | out.i.ready), out.i.valid.eq(valid), out.i.payload.header.eq(packet.header),
            out.i.payload.first.eq(packet.first), out.i.payload.last.eq(packet.last),
            out.i.payload.data.eq(self.read.data),
        ]
        with m.If(advance):
            m.d.sync += [valid.eq(step), packet.first.eq(~active), packet.last.eq(final)]
        header = packet.header
        with m.If(begin):
            m.d.sync += [header.psn.eq(sent.psn), header.ackreq.eq(sent.ackreq)]
            m.d.sync += [header[name].eq(entry[name])
                         for name in ("qp", "opcode", "va", "rkey", "dma_length", "length", "lane")]
        return m
