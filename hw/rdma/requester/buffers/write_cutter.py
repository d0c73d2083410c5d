# SPDX-License-Identifier: Apache-2.0
"""Cuts write bursts into pieces of a packet each, and stores their beats.

DMA engine -> WriteCutter -> WriteMessages, PayloadStore.  Latency: 2 cycles from a beat to its piece.  Throughput: one
beat per cycle.
"""

from amaranth import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.axi import Resp
from hw.common.sweep import SweepSignature
from hw.rdma.config import ADDR_WIDTH, RdmaConfig
from hw.rdma.layouts import RemoteAddress, write_layout
from hw.stream import index_of

from .packets import PAGE_BITS, PIECES, burst_layout, piece_layout
from .payload_store import PayloadWriteSignature
from .remote_table import RemoteLookup

__all__ = ["WriteCutter"]

_MTU_LSB = 8
"""Log2 of the smallest MTU."""


class WriteCutter(wiring.Component):
    """Look up the remote memory, drop beats without strobes, and store the others in free blocks.

    A burst that starts at lane 0, and whose queue pair repeats by go-back-N, is cut after each MTU; all others where
    the address crosses a multiple of it. A burst with an empty beat between two others with strobes is refused.

    Parameters
    ----------
    config : RdmaConfig

    Members
    -------
    init : ``In(SweepSignature)``
        No beat is accepted during the sweep.
    writes : ``In(stream.Signature(write_layout))``
    lookup : ``Out(RemoteLookup)``
    blocks : ``In(stream.Signature(block))``, write : ``Out(PayloadWriteSignature)``
    pieces : ``Out(stream.Signature(piece_layout))``, bursts : ``Out(stream.Signature(burst_layout))``
        A burst is offered in the cycle of its last piece, and both are taken together. Both must be ready
        independently of ``valid``.
    stalled : ``Out(1)``
        A beat waits for a free block.
    """

    def __init__(self, config: RdmaConfig) -> None:
        self.config = config
        super().__init__({
            "init": In(SweepSignature(config)),
            "writes": In(stream.Signature(write_layout(config))), "lookup": Out(RemoteLookup(config)),
            "blocks": In(stream.Signature(unsigned((config.blocks - 1).bit_length()))),
            "write": Out(PayloadWriteSignature(config)),
            "pieces": Out(stream.Signature(piece_layout(config))),
            "bursts": Out(stream.Signature(burst_layout(config))),
            "stalled": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        config, lanes = self.config, self.config.lane_bits
        self._context = data.StructLayout({
            "id": config.id_width, "qp": config.qp_bits, "rkey": 32, "page_va": ADDR_WIDTH,
            "mask": PAGE_BITS - _MTU_LSB,       # bits of an offset above the MTU
            "beyond": 1, "same": 1,             # the 4 KiB are beyond the memory's end; they contain it
            "limit": PAGE_BITS,                 # bits of its length within 4 KiB
            "selective": 1, "resp": Resp})
        # Stage 1: the beat whose target is being looked up.
        looked, beat = Signal(), Signal(write_layout(config), reset_less=True)
        # Stage 2: the beat to be stored.
        valid, some, first, last = Signal(), Signal(), Signal(), Signal()
        low, high, at = Signal(lanes), Signal(lanes), Signal(PAGE_BITS - lanes)
        content = Signal(config.data_width, reset_less=True)
        # Beats of a burst whose first beat was before a reset are dropped.
        context = Signal(self._context, init={"resp": Resp.DECERR})
        go, move = Signal(), Signal()
        address = data.View(RemoteAddress, beat.addr)
        m.d.comb += [
            move.eq(~valid | go),
            self.writes.ready.eq((~looked | move) & ~self.init.active),
            self.lookup.en.eq(self.writes.valid & self.writes.ready & self.writes.payload.first),
            self.lookup.number.eq(data.View(RemoteAddress, self.writes.payload.addr).number),
        ]
        with m.If(~looked | move):
            m.d.sync += [looked.eq(self.writes.valid & self.writes.ready), beat.eq(self.writes.payload)]
        with m.If(move):
            m.d.sync += [
                valid.eq(looked), some.eq(beat.strb.any()), first.eq(beat.first), last.eq(beat.last),
                low.eq(_lowest(beat.strb, lanes)), high.eq(_highest(beat.strb, lanes)), content.eq(beat.data),
            ]
            with m.If(looked):
                m.d.sync += at.eq(Mux(beat.first, address.offset[lanes:PAGE_BITS], at + 1))
            with m.If(looked & beat.first):
                m.d.sync += context.eq(self._found(m, beat.id, address.offset))
        self._store(m, context, valid=valid, some=some, first=first, last=last, low=low, high=high, at=at,
                    content=content, go=go)
        return m

    def _found(self, m, burst_id, offset):
        """The context of a burst from its look-up."""
        target, found = self.lookup.target, Signal(self._context, name="found")
        page = offset[PAGE_BITS:]
        m.d.comb += [
            found.id.eq(burst_id), found.qp.eq(target.qp), found.rkey.eq(target.rkey),
            found.page_va.eq(target.va + Cat(C(0, PAGE_BITS), page)),
            found.mask.eq((C(-1, PAGE_BITS - _MTU_LSB) << target.mtu)[:PAGE_BITS - _MTU_LSB]),
            found.beyond.eq(target.length[PAGE_BITS:] < page), found.same.eq(target.length[PAGE_BITS:] == page),
            found.limit.eq(target.length[:PAGE_BITS]), found.selective.eq(target.selective),
            found.resp.eq(Mux(target.known, Mux(target.open, Resp.OKAY, Resp.SLVERR), Resp.DECERR)),
        ]
        return found

    def _store(self, m, context, *, valid, some, first, last, low, high, at, content, go):
        config, lanes = self.config, self.config.lane_bits
        piece, burst = self.pieces.payload, self.bursts.payload
        # State of the burst before this beat.
        started, gap, broken = Signal(), Signal(), Signal()
        origin, number = Signal(PAGE_BITS), Signal(range(PIECES + 1))
        aligned, position = Signal(), Signal(PAGE_BITS - lanes)
        # State of the piece before this beat: its first byte, its last one, its blocks.
        opened, start, end = Signal(), Signal(PAGE_BITS), Signal(PAGE_BITS)
        chain, block, beats = Signal.like(piece.chain), Signal(range(config.blocks)), Signal(range(config.block_beats))
        # With this beat.
        keep, full, close, need, more = Signal(), Signal(), Signal(), Signal(), Signal()
        is_first, is_aligned, here = Signal(), Signal(), Signal.like(position)
        was_gap, was_broken, was_number, outside = Signal(), Signal(), Signal.like(number), Signal()
        m.d.comb += [
            is_first.eq(first | ~started),                          # no beat before had strobes
            was_gap.eq(~first & gap), was_broken.eq((~first & broken) | (some & was_gap)),
            keep.eq(some & ~was_gap & (context.resp == Resp.OKAY)),
            is_aligned.eq(Mux(is_first, (low == 0) & ~context.selective, aligned)),
            here.eq(Mux(is_first, Mux(is_aligned, 0, at), position)),
            full.eq(here[:_MTU_LSB - lanes].all() & (here[_MTU_LSB - lanes:] | context.mask).all()),
            close.eq(Mux(keep, full | last, opened)),
            more.eq(opened & (beats == 0)), need.eq(keep & (~opened | more)),
            go.eq(valid & self.pieces.ready & self.bursts.ready & (~need | self.blocks.valid)),
            self.blocks.ready.eq(valid & need & self.pieces.ready & self.bursts.ready),
            self.stalled.eq(valid & need & ~self.blocks.valid),
            self.write.en.eq(go & keep), self.write.data.eq(content),
            self.write.block.eq(Mux(need, self.blocks.payload, block)),
            self.write.beat.eq(Mux(opened, beats, 0)),
            self.write.link.eq(go & keep & more), self.write.before.eq(block),
            # The piece.
            self.pieces.valid.eq(go & close),
            piece.start.eq(Mux(opened, start, Cat(low, at))), piece.end.eq(Mux(keep, Cat(high, at), end)),
            piece.chain.first.eq(Mux(opened, chain.first, self.blocks.payload)),
            piece.chain.more.eq(Mux(opened, chain.more + (keep & more), 0)),
            # The burst.
            self.bursts.valid.eq(go & last), was_number.eq(Mux(first, 0, number)),
            burst.id.eq(context.id), burst.qp.eq(context.qp), burst.rkey.eq(context.rkey),
            burst.page_va.eq(context.page_va), burst.pieces.eq(was_number + close),
            burst.total.eq(piece.end - Mux(is_first, Cat(low, at), origin) + 1), burst.aligned.eq(is_aligned),
            outside.eq(burst.pieces.any() & (context.beyond | (context.same & (piece.end >= context.limit)))),
            burst.resp.eq(Mux(was_broken | outside, Resp.SLVERR, context.resp)),
        ]
        with m.If(go):
            m.d.sync += [
                started.eq(~last & ((~first & started) | keep)), gap.eq(was_gap | (~keep & ~is_first)),
                broken.eq(was_broken), number.eq(burst.pieces),
                opened.eq(~close & (opened | keep)),
            ]
        with m.If(go & keep):
            m.d.sync += [
                aligned.eq(is_aligned), position.eq(here + 1), start.eq(piece.start), end.eq(piece.end),
                chain.eq(piece.chain), block.eq(self.write.block), beats.eq(self.write.beat + 1),
            ]
            with m.If(is_first):
                m.d.sync += origin.eq(Cat(low, at))


def _lowest(bits, width):
    """Index of the lowest set bit of contiguous ones."""
    return index_of(Cat(bits[0], (bits[index] & ~bits[index - 1] for index in range(1, len(bits)))), width)


def _highest(bits, width):
    """Index of the highest set bit of contiguous ones."""
    return index_of(Cat((bits[index] & ~bits[index + 1] for index in range(len(bits) - 1)), bits[-1]), width)
