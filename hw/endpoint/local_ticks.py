# SPDX-License-Identifier: Apache-2.0
"""Writes of the DMA engine to counter addresses: ticks of local trigger counters.

RemoteSplit -> LocalTicks -> TriggerUnit.  Latency: 0 to the tick, 1 cycle with ``config.pipelined``;
1 cycle from its verdict to the response.  Throughput: one beat per cycle.
"""

from amaranth import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.axi import Resp
from hw.stream import Queue, Skid
from hw.triggers.layouts import decode_tick, tick_layout
from hw.triggers.ports import TickSignature
from hw.triggers.words import Refusal

from .config import EndpointConfig
from .layouts import RemoteLayout, response_layout, write_layout

__all__ = ["LocalTicks"]

DEPTH = 8
"""Writes that may wait for their response."""

TICK_BYTES = 8


class LocalTicks(wiring.Component):
    """A write of one beat with the strobes of an aligned 8-byte word is a tick of a counter of the addressed block.

    Any other write is refused as a whole. A refused write gets SLVERR.

    Parameters
    ----------
    config : EndpointConfig

    Members
    -------
    writes : ``In(stream.Signature(write_layout))``, responses : ``Out(stream.Signature(response_layout))``
    ticks : ``Out(TickSignature)``
    """

    def __init__(self, config: EndpointConfig) -> None:
        self.config = config
        super().__init__({
            "writes": In(stream.Signature(write_layout(config))),
            "responses": Out(stream.Signature(response_layout(config))), "ticks": Out(TickSignature(config.triggers)),
        })

    def elaborate(self, platform):
        m = Module()
        config, beat, ticks = self.config, self.writes.payload, self.ticks
        if config.pipelined:
            m.submodules.skid = skid = Skid(tick_layout(config.triggers))
            m.d.comb += [ticks.valid.eq(skid.o.valid), ticks.payload.eq(skid.o.payload), skid.o.ready.eq(ticks.ready)]
            ticks = skid.i
        words = config.beat_bytes // TICK_BYTES
        address = data.View(RemoteLayout, beat.addr)
        # Writes in order: their ID, and whether a verdict decides.
        m.submodules.order = order = Queue(
            data.StructLayout({"id": config.source_id_width, "ticks": 1}), depth=DEPTH)
        m.submodules.verdicts = verdicts = Queue(1, depth=DEPTH)
        lane, word, is_tick = Signal(range(max(2, words))), Signal(8 * TICK_BYTES), Signal()
        taken, number, before = Signal(), Signal(config.source_id_width), Signal(config.source_id_width)
        m.d.sync += before.eq(number)
        m.d.comb += [
            # Only the first beat of a burst has its ID.
            number.eq(Mux(beat.first, beat.id, before)),
            lane.eq(beat.addr[3:config.lane_bits]), word.eq(beat.data.word_select(lane, 8 * TICK_BYTES)),
            is_tick.eq(beat.first & beat.last & (beat.strb == 0xFF << (lane << 3)) & ~beat.addr[:3].any()),
            *decode_tick(config.triggers, ticks.payload, word=word, block=address.export),
            ticks.valid.eq(self.writes.valid & is_tick & order.i.ready),
            self.writes.ready.eq(order.i.ready & (~is_tick | ticks.ready)),
            taken.eq(self.writes.valid & self.writes.ready),
            order.i.valid.eq(taken & beat.last), order.i.payload.id.eq(number), order.i.payload.ticks.eq(is_tick),
            verdicts.i.valid.eq(self.ticks.verdict.valid),
            verdicts.i.payload.eq(self.ticks.verdict.code != Refusal.NONE),
            self.responses.valid.eq(order.o.valid & (~order.o.payload.ticks | verdicts.o.valid)),
            self.responses.payload.id.eq(order.o.payload.id),
            self.responses.payload.resp.eq(Mux(
                order.o.payload.ticks & ~verdicts.o.payload, Resp.OKAY, Resp.SLVERR)),
            order.o.ready.eq(self.responses.valid & self.responses.ready),
            verdicts.o.ready.eq(order.o.ready & order.o.payload.ticks),
        ]
        return m
