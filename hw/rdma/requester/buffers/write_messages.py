# SPDX-License-Identifier: Apache-2.0
"""Write bursts as messages: packets with their opcodes and RETHs, once all beats of a burst are stored.

WriteCutter -> WriteMessages -> PacketTable; responses to bursts without packets.  Latency: 1 cycle.  Throughput: one
packet per cycle.
"""

from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.axi import Resp
from hw.rdma.config import RdmaConfig
from hw.rdma.layouts import response_layout
from hw.rdma.protocol import Opcode
from hw.stream import Queue

from .packets import PIECES, burst_layout, packet_layout, piece_layout

__all__ = ["WriteMessages"]

_BURSTS = 32
"""Bursts whose packets wait for free entries."""


class WriteMessages(wiring.Component):
    """Emit the pieces of each burst as packets, in order.

    An aligned burst of several packets is one message: WRITE First, Middle, Last. Each packet of any other is a WRITE
    Only. The queue of pieces has entries for two of the longest bursts, so the burst in progress always fits.

    Parameters
    ----------
    config : RdmaConfig

    Members
    -------
    pieces : ``In(stream.Signature(piece_layout))``, bursts : ``In(stream.Signature(burst_layout))``
        As in WriteCutter. ``ready`` is registered.
    packets : ``Out(stream.Signature(packet_layout))``
    responses : ``Out(stream.Signature(response_layout))``
        Of bursts without packets: nothing to write, or refused.
    refused : ``Out(1)``
        A burst is refused: a strobe.
    """

    def __init__(self, config: RdmaConfig) -> None:
        self.config = config
        super().__init__({
            "pieces": In(stream.Signature(piece_layout(config))), "bursts": In(stream.Signature(burst_layout(config))),
            "packets": Out(stream.Signature(packet_layout(config))),
            "responses": Out(stream.Signature(response_layout(config))), "refused": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        config, lanes = self.config, self.config.lane_bits
        m.submodules.pieces = pieces = Queue(piece_layout(config), depth=2 * PIECES)
        m.submodules.bursts = bursts = Queue(burst_layout(config), depth=_BURSTS)
        wiring.connect(m, wiring.flipped(self.pieces), pieces.i)
        wiring.connect(m, wiring.flipped(self.bursts), bursts.i)
        piece, burst, packet = pieces.o.payload, bursts.o.payload, self.packets.payload
        number, length = Signal(range(PIECES)), Signal(range(config.max_mtu + 1))
        empty, message, taken = Signal(), Signal(), Signal()
        m.d.comb += [
            empty.eq(burst.pieces == 0), message.eq(burst.aligned & (burst.pieces != 1)),
            length.eq(piece.end - piece.start + 1),
            self.packets.valid.eq(bursts.o.valid & ~empty),
            packet.refused.eq(burst.resp != Resp.OKAY), packet.qp.eq(burst.qp), packet.rkey.eq(burst.rkey),
            packet.va.eq(burst.page_va + piece.start), packet.length.eq(length),
            packet.dma_length.eq(Mux(message, burst.total, length)),
            packet.lane.eq(piece.start[:lanes]), packet.end_lane.eq(piece.end[:lanes]),
            packet.beats.eq(piece.end[lanes:] - piece.start[lanes:]), packet.chain.eq(piece.chain),
            packet.id.eq(burst.id), packet.ends.eq(burst.pieces == number + 1),
            packet.opcode.eq(Opcode.WRITE_ONLY),
            taken.eq(self.packets.valid & self.packets.ready), pieces.o.ready.eq(taken),
            self.responses.valid.eq(bursts.o.valid & empty),
            self.responses.payload.id.eq(burst.id), self.responses.payload.resp.eq(burst.resp),
            bursts.o.ready.eq(Mux(empty, self.responses.ready, self.packets.ready & packet.ends)),
            self.refused.eq(bursts.o.valid & bursts.o.ready & packet.refused),
        ]
        with m.If(message):
            m.d.comb += packet.opcode.eq(Mux(
                number == 0, Opcode.WRITE_FIRST, Mux(packet.ends, Opcode.WRITE_LAST, Opcode.WRITE_MIDDLE)))
        with m.If(taken):
            m.d.sync += number.eq(Mux(packet.ends, 0, number + 1))
        return m
