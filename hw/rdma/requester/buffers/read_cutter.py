# SPDX-License-Identifier: Apache-2.0
"""Cuts read bursts into READ requests, or refuses them.

DMA engine -> ReadCutter -> PacketTable; refused ones -> Delivery.  Latency: 4 cycles.  Throughput: one READ request per
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
from hw.stream import Skid

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
        m.submodules.packets = packets = Skid(packet_layout(config))
        m.submodules.refused = refusals = Skid(failure_layout(config))
        wiring.connect(m, packets.o, wiring.flipped(self.packets))
        wiring.connect(m, refusals.o, wiring.flipped(self.refused))

        # Stage 1: the burst whose target is being looked up.
        looked, burst, move = Signal(), Signal(read_layout(config), reset_less=True), Signal()
        address, target = data.View(RemoteAddress, burst.addr), self.lookup.target
        offset, page = address.offset, address.offset[PAGE_BITS:]
        m.d.comb += [
            self.reads.ready.eq((~looked | move) & ~self.init.active),
            self.lookup.en.eq(self.reads.valid & self.reads.ready),
            self.lookup.number.eq(data.View(RemoteAddress, self.reads.payload.addr).number),
        ]
        with m.If(~looked | move):
            m.d.sync += [looked.eq(self.reads.valid & self.reads.ready), burst.eq(self.reads.payload)]

        # Stage 2: the bounds of the memory are being checked.
        common = {"id": config.id_width, "len": range(BURST_BEATS), "qp": config.qp_bits, "rkey": 32,
                  "page_va": ADDR_WIDTH, "mask": groups, "start": PAGE_BITS, "resp": Resp}
        checked, context, pass_on = Signal(), Signal(data.StructLayout({
            **common, "beyond": 1, "same": 1,   # the 4 KiB are beyond the memory's end; they contain it
            "limit": PAGE_BITS, "final": PAGE_BITS - lanes})), Signal()
        m.d.comb += move.eq(~checked | pass_on)
        with m.If(move):
            m.d.sync += [
                checked.eq(looked), context.start.eq(offset[:PAGE_BITS]), context.id.eq(burst.id),
                context.len.eq(burst.len), context.qp.eq(target.qp), context.rkey.eq(target.rkey),
                context.page_va.eq(target.va + Cat(C(0, PAGE_BITS), page)),
                context.mask.eq((C(-1, groups) << target.mtu)[:groups]),
                context.beyond.eq(target.length[PAGE_BITS:] < page),
                context.same.eq(target.length[PAGE_BITS:] == page), context.limit.eq(target.length[:PAGE_BITS]),
                context.final.eq(offset[lanes:PAGE_BITS] + burst.len),
                context.resp.eq(Mux(target.known, Mux(target.open, Resp.OKAY, Resp.SLVERR), Resp.DECERR)),
            ]
        whole, final_start = Signal(PAGE_BITS), Signal(PAGE_BITS)
        m.d.comb += [
            whole.eq(Cat(C(-1, lanes), context.final)),
            final_start.eq(Mux(context.len == 0, context.start, Cat(C(0, lanes), context.final))),
        ]

        # Stage 3: the burst being cut, from ``start`` to ``stop``.
        valid, go = Signal(), Signal()
        state = Signal(data.StructLayout({**common, "stop": PAGE_BITS}))
        start, stop, packet, refused = state.start, state.stop, packets.i.payload, refusals.i.payload
        end, length, refuse, ends = Signal(PAGE_BITS), Signal(range(config.max_mtu + 1)), Signal(), Signal()
        m.d.comb += pass_on.eq(~valid | go)
        with m.If(pass_on):
            m.d.sync += valid.eq(checked)
            m.d.sync += [state[name].eq(context[name]) for name in common]
            m.d.sync += stop.eq(Mux(context.same & (context.limit <= whole), context.limit - 1, whole))
            with m.If((context.resp == Resp.OKAY)
                      & (context.beyond | (context.same & (context.limit <= final_start)))):
                m.d.sync += state.resp.eq(Resp.SLVERR)
        m.d.comb += [
            refuse.eq(state.resp != Resp.OKAY),
            ends.eq(((start[_MTU_LSB:] ^ stop[_MTU_LSB:]) & state.mask) == 0),
            end.eq(Mux(ends, stop, Cat(C(-1, _MTU_LSB), start[_MTU_LSB:] | ~state.mask))),
            length.eq(end - start + 1),
            packets.i.valid.eq(valid & ~refuse), refusals.i.valid.eq(valid & refuse),
            go.eq(valid & Mux(refuse, refusals.i.ready, packets.i.ready & ends)),
            packet.read.eq(1), packet.qp.eq(state.qp), packet.opcode.eq(Opcode.READ_REQUEST),
            packet.va.eq(state.page_va + start), packet.rkey.eq(state.rkey), packet.dma_length.eq(length),
            packet.length.eq(length), packet.lane.eq(start[:lanes]), packet.end_lane.eq(end[:lanes]),
            packet.beats.eq(end[lanes:] - start[lanes:]), packet.id.eq(state.id),
            packet.ends.eq(ends),
            refused.id.eq(state.id), refused.beats.eq(state.len), refused.ends.eq(1), refused.resp.eq(state.resp),
        ]
        with m.If(packets.i.valid & packets.i.ready & ~ends):
            m.d.sync += start.eq(end + 1)
        return m
