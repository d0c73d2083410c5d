# SPDX-License-Identifier: Apache-2.0
"""Cuts read bursts into READ requests, or refuses them.

DMA engine -> ReadCutter -> PacketTable; refused ones -> Delivery.  Latency: 2 cycles.  Throughput: one READ request per
cycle.
"""

from amaranth import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.axi import Resp
from hw.common.sweep import SweepSignature
from hw.rdma.config import ADDR_WIDTH, RdmaConfig
from hw.rdma.layouts import RemoteAddress, read_layout
from hw.rdma.protocol import Opcode

from .packets import BURST_BEATS, PAGE_BITS, failure_layout, packet_layout
from .remote_table import RemoteLookup

__all__ = ["ReadCutter"]

_MTU_LSB = 8
"""Log2 of the smallest MTU."""


class ReadCutter(wiring.Component):
    """Look up the remote memory, and request the bytes from the burst's address to the end of its last beat, or to the
    end of the memory; one READ request for each multiple of the MTU that they touch.

    A burst whose last beat starts beyond the end of the memory is refused.

    Parameters
    ----------
    config : RdmaConfig

    Members
    -------
    init : ``In(SweepSignature)``
        No burst is accepted during the sweep.
    reads : ``In(stream.Signature(read_layout))``
    lookup : ``Out(RemoteLookup)``
    packets : ``Out(stream.Signature(packet_layout))``
    refused : ``Out(stream.Signature(failure_layout))``
    """

    def __init__(self, config: RdmaConfig) -> None:
        self.config = config
        super().__init__({
            "init": In(SweepSignature(config)),
            "reads": In(stream.Signature(read_layout(config))), "lookup": Out(RemoteLookup(config)),
            "packets": Out(stream.Signature(packet_layout(config))),
            "refused": Out(stream.Signature(failure_layout(config))),
        })

    def elaborate(self, platform):
        m = Module()
        config, lanes = self.config, self.config.lane_bits
        groups = PAGE_BITS - _MTU_LSB
        # Stage 1: the burst whose target is being looked up.
        looked, burst = Signal(), Signal(read_layout(config), reset_less=True)
        address, target = data.View(RemoteAddress, burst.addr), self.lookup.target
        offset = address.offset
        # Stage 2: the burst to be cut, from ``start``.
        valid, go, move = Signal(), Signal(), Signal()
        context = Signal(data.StructLayout({
            "id": config.id_width, "len": range(BURST_BEATS), "qp": config.qp_bits, "rkey": 32, "page_va": ADDR_WIDTH,
            "mask": groups, "beyond": 1, "same": 1, "limit": PAGE_BITS, "final": PAGE_BITS - lanes, "resp": Resp}))
        start, parted = Signal(PAGE_BITS), Signal()
        page = offset[PAGE_BITS:]
        m.d.comb += [
            move.eq(~valid | go),
            self.reads.ready.eq((~looked | move) & ~self.init.active),
            self.lookup.en.eq(self.reads.valid & self.reads.ready),
            self.lookup.number.eq(data.View(RemoteAddress, self.reads.payload.addr).number),
        ]
        with m.If(~looked | move):
            m.d.sync += [looked.eq(self.reads.valid & self.reads.ready), burst.eq(self.reads.payload)]
        with m.If(move):
            m.d.sync += [
                valid.eq(looked), start.eq(offset[:PAGE_BITS]), parted.eq(0), context.id.eq(burst.id),
                context.len.eq(burst.len), context.qp.eq(target.qp), context.rkey.eq(target.rkey),
                context.page_va.eq(target.va + Cat(C(0, PAGE_BITS), page)),
                context.mask.eq((C(-1, groups) << target.mtu)[:groups]),
                context.beyond.eq(target.length[PAGE_BITS:] < page),
                context.same.eq(target.length[PAGE_BITS:] == page), context.limit.eq(target.length[:PAGE_BITS]),
                context.final.eq(offset[lanes:PAGE_BITS] + burst.len),
                context.resp.eq(Mux(target.known, Mux(target.open, Resp.OKAY, Resp.SLVERR), Resp.DECERR)),
            ]

        # The last byte of the burst, and that of this part.
        packet, refused = self.packets.payload, self.refused.payload
        whole, clipped, refuse = Signal(PAGE_BITS), Signal(PAGE_BITS), Signal()
        first_of_final, end, length = Signal(PAGE_BITS), Signal(PAGE_BITS), Signal(range(config.max_mtu + 1))
        m.d.comb += [
            whole.eq(Cat(C(-1, lanes), context.final)),
            clipped.eq(Mux(context.same & (context.limit <= whole), context.limit - 1, whole)),
            first_of_final.eq(Mux(context.len == 0, start, Cat(C(0, lanes), context.final))),
            refuse.eq((context.resp != Resp.OKAY)
                      | (~parted & (context.beyond | (context.same & (context.limit <= first_of_final))))),
            packet.ends.eq(((start[_MTU_LSB:] ^ clipped[_MTU_LSB:]) & context.mask) == 0),
            end.eq(Mux(packet.ends, clipped, Cat(C(-1, _MTU_LSB), start[_MTU_LSB:] | ~context.mask))),
            length.eq(end - start + 1),
            self.packets.valid.eq(valid & ~refuse), self.refused.valid.eq(valid & refuse),
            go.eq(valid & Mux(refuse, self.refused.ready, self.packets.ready & packet.ends)),
            packet.read.eq(1), packet.qp.eq(context.qp), packet.opcode.eq(Opcode.READ_REQUEST),
            packet.va.eq(context.page_va + start), packet.rkey.eq(context.rkey), packet.dma_length.eq(length),
            packet.length.eq(length), packet.lane.eq(start[:lanes]), packet.end_lane.eq(end[:lanes]),
            packet.beats.eq(end[lanes:] - start[lanes:]), packet.id.eq(context.id),
            packet.alone.eq(packet.ends & ~parted),
            refused.id.eq(context.id), refused.beats.eq(context.len), refused.ends.eq(1),
            refused.resp.eq(Mux(context.resp == Resp.OKAY, Resp.SLVERR, context.resp)),
        ]
        with m.If(self.packets.valid & self.packets.ready & ~packet.ends):
            m.d.sync += [start.eq(end + 1), parted.eq(1)]
        return m
