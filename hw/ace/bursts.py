# SPDX-License-Identifier: Apache-2.0
"""Bursts: cuts moves into bursts on ``m_axi``.

Move -> Bursts -> Fill, Drain.  Latency: 2 cycles.  Throughput: one burst per cycle, also for moves of one burst.
"""

from amaranth import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.stream import Skid

from .config import AceConfig
from .layouts import move_layout
from .numerics.formats import TYPE_WIDTH

__all__ = ["Bursts", "burst_bytes", "burst_layout"]


def burst_bytes(config):
    """Bursts end where an address is a multiple of this: only the first and the last burst of a move are shorter.

    A power of two below 4 KiB, so that no burst crosses 4 KiB; at most 32 beats, because Fill reserves a buffer entry
    for each beat of a burst before it issues the burst.
    """
    return min(1024, 32 * config.beat_bytes)


def burst_layout(config):
    """A burst, with the properties of its move.

    ``address``: first byte. ``len``: beats, less one. ``first``, ``last``: in its move. ``empty``: no beats, for the
    last move of a chunk if it has no bytes. ``lane``, ``end_lane``: of the move's first and last byte. ``extra``: the
    move has one beat more in memory than if it started in lane 0. ``quarter``: quarter of the last beat that would hold
    the last byte then. ``sram``, ``slot``, ``part``, ``dtype``, ``widen``: as in the move. ``ends``: last burst of the
    job's last move. ``mark``: last burst of a move with a mark.
    """
    lane_bits = (config.beat_bytes - 1).bit_length()
    return data.StructLayout({
        "address": config.address_width, "len": range(burst_bytes(config) // config.beat_bytes),
        "first": 1, "last": 1, "empty": 1, "lane": lane_bits, "end_lane": lane_bits, "extra": 1, "quarter": 2,
        "sram": config.sram_bits, "slot": config.slot_bits, "dtype": TYPE_WIDTH, "widen": 1, "ends": 1,
        "part": 1, "mark": 1,
    })


class Bursts(wiring.Component):
    """Cut moves where the address is a multiple of :func:`burst_bytes`.

    A move without bytes becomes an empty burst if it is the last of its chunk; otherwise it is dropped.

    Parameters
    ----------
    config : AceConfig

    Members
    -------
    i : ``In(stream.Signature(move_layout))``
    o : ``Out(stream.Signature(burst_layout))``
        Registered.
    count : ``Out(range(chunk_bytes + 1))``
        Bytes of the move accepted in the previous cycle, otherwise 0.
    """

    def __init__(self, config: AceConfig) -> None:
        self.config = config
        super().__init__({
            "i": In(stream.Signature(move_layout(config))),
            "o": Out(stream.Signature(burst_layout(config))),
            "count": Out(range(config.chunk_bytes + 1)),
        })

    def elaborate(self, platform):
        m = Module()
        config, move, burst = self.config, self.i.payload, self.o.payload
        longest = burst_bytes(config)
        page_bits, lane_bits = (longest - 1).bit_length(), (config.beat_bytes - 1).bit_length()

        # -- Stage 1: where the move ends, counted from the page in which it starts.
        remaining = Signal(data.StructLayout({
            "page": config.address_width - page_bits, "offset": page_bits, "end": page_bits,
            "pages": range((config.chunk_bytes + longest - 2 >> page_bits) + 1), "fixed": burst_layout(config),
        }), reset_less=True)
        valid, advance, last = Signal(), Signal(), Signal()
        m.d.comb += [last.eq(remaining.pages == 0), self.i.ready.eq(~valid | (advance & last))]
        m.d.sync += self.count.eq(Mux(self.i.valid & self.i.ready, move.bytes, 0))
        with m.If(self.i.ready):
            end, end_lane = move.bytes - 1 + move.address[:page_bits], Signal(lane_bits + 1)
            m.d.comb += end_lane.eq(move.address[:lane_bits] + (move.bytes - 1)[:lane_bits])
            m.d.sync += [
                valid.eq(self.i.valid & (move.last | (move.bytes != 0))),
                Cat(remaining.offset, remaining.page).eq(move.address),
                Cat(remaining.end, remaining.pages).eq(end),
                remaining.fixed.lane.eq(move.address), Cat(remaining.fixed.end_lane,
                                                           remaining.fixed.extra).eq(end_lane),
                remaining.fixed.quarter.eq((move.bytes - 1)[lane_bits - 2:lane_bits]),
                remaining.fixed.empty.eq(move.bytes == 0), remaining.fixed.first.eq(1),
                remaining.fixed.ends.eq(move.last), remaining.fixed.mark.eq(move.mark),
            ]
            m.d.sync += [remaining.fixed[name].eq(move[name]) for name in ("sram", "slot", "part", "dtype", "widen")]
            with m.If(move.bytes == 0):
                m.d.sync += remaining.pages.eq(0)
        with m.Elif(advance):
            m.d.sync += [remaining.page.eq(remaining.page + 1), remaining.offset.eq(0),
                         remaining.pages.eq(remaining.pages - 1),
                         remaining.fixed.first.eq(0)]

        # -- Stage 2: the burst.
        cut = Signal(burst_layout(config))
        m.d.comb += [
            cut.eq(remaining.fixed), cut.address.eq(Cat(remaining.offset, remaining.page)),
            cut.len.eq(Mux(last, remaining.end, longest - 1)[lane_bits:] - remaining.offset[lane_bits:]),
            cut.last.eq(last), cut.ends.eq(remaining.fixed.ends & last),
            cut.mark.eq(remaining.fixed.mark & last),
        ]
        if config.timing.burst_skid:
            # The user's ready depends on its free entries and arrives late: the skid buffer keeps it out of the path to
            # ``i.ready``.
            m.submodules.out = out = Skid(burst_layout(config))
            wiring.connect(m, out.o, wiring.flipped(self.o))
            m.d.comb += [out.i.valid.eq(valid), out.i.payload.eq(cut), advance.eq(out.i.ready)]
        else:
            m.d.comb += advance.eq(~self.o.valid | self.o.ready)
            with m.If(advance):
                m.d.sync += [self.o.valid.eq(valid), burst.eq(cut)]
        return m
