# SPDX-License-Identifier: Apache-2.0
"""The split of requests: doorbells continue while registers are read.

RequestFilter -> RequestSplit -> DoorbellWriter, RegisterAccess.  Latency: 0 to doorbells, 1 cycle to registers.
Throughput: one word of payload per cycle, and one request per cycle (with 128 bits, one per 2 cycles).
Source of the order: PCI Express Base 2.4.1.
"""

from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.stream import Queue

from ..config import PcieConfig
from ..tlp import CompleterRequest
from .layouts import (
    WORD_WIDTH,
    RegisterRequest,
    RequestKind,
    doorbell_word_layout,
    request_beat_layout,
)

__all__ = ["RequestSplit"]

REQUESTS = 16
"""Requests that may wait for registers while doorbells pass them."""

WORDS = 32
"""Words of payload that may wait for registers."""

WRITES_WIDTH = 5


class RequestSplit(wiring.Component):
    """Cut requests into words, and send each to its subordinate.

    *Order*: a request that is no doorbell write leaves once all earlier doorbell writes have their response. A doorbell
    write leaves once all earlier register writes have theirs; it passes register reads. So a read sees all writes
    before it, and no write passes another.

    Parameters
    ----------
    config : PcieConfig

    Members
    -------
    i : ``In(stream.Signature(request_beat_layout))``
    doorbells : ``Out(stream.Signature(doorbell_word_layout))``
    requests : ``Out(stream.Signature(RegisterRequest))``, words : ``Out(stream.Signature(128))``
        Requests for :class:`RegisterAccess`, and the payload of register writes.
    doorbells_idle : ``In(1)``
        All doorbell writes have their response.
    written : ``In(1)``
        Strobe: a register write has its last response.
    idle : ``Out(1)``
    """

    def __init__(self, config: PcieConfig) -> None:
        self.config = config
        super().__init__({
            "i": In(stream.Signature(request_beat_layout(config))),
            "doorbells": Out(stream.Signature(doorbell_word_layout(config))),
            "requests": Out(stream.Signature(RegisterRequest)), "words": Out(stream.Signature(WORD_WIDTH)),
            "doorbells_idle": In(1), "written": In(1), "idle": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        count = self.config.data_width // WORD_WIDTH
        beat = self.i.payload
        m.submodules.requests = requests = Queue(RegisterRequest, depth=REQUESTS)
        m.submodules.words = words = Queue(WORD_WIDTH, depth=WORDS)
        wiring.connect(m, requests.o, wiring.flipped(self.requests))
        wiring.connect(m, words.o, wiring.flipped(self.words))

        # -- The request's fields: of this beat, or of the packet's first.
        fields = {"descriptor": CompleterRequest, "first_be": 4, "last_be": 4, "kind": RequestKind}
        now, kept = Signal(RegisterRequest), Signal(RegisterRequest, reset_less=True)
        m.d.comb += now.eq(kept)
        with m.If(beat.first):
            m.d.comb += [now.descriptor.eq(beat.data[:WORD_WIDTH]),
                         *(now[name].eq(beat[name]) for name in fields if name != "descriptor")]
        with m.If(self.i.valid & beat.first):
            m.d.sync += kept.eq(now)

        # -- The word: behind the descriptor in a first beat. With 128 bits, a first beat has none.
        position, started = Signal(range(max(2, count)), init=count > 1), Signal()
        word, payload, last = Signal(WORD_WIDTH), Signal(), Signal()
        first, end = Signal(), Signal()                 # first word of the request, last word of the beat
        writes = (now.kind == RequestKind.DOORBELL_WRITE) | (now.kind == RequestKind.REGISTER_WRITE)
        m.d.comb += [
            word.eq(beat.data.word_select(position, WORD_WIDTH) if count > 1 else beat.data),
            payload.eq(writes & (~beat.first if count == 1 else 1)),
            end.eq((position == beat.last_word) if count > 1 else 1),
            last.eq(beat.last & end), first.eq(~started),
        ]

        # -- The path.
        to_doorbells, to_registers, accepted = Signal(), Signal(), Signal()
        pending = Signal(WRITES_WIDTH)                  # register writes without their last response
        m.d.comb += [
            to_doorbells.eq(now.kind == RequestKind.DOORBELL_WRITE),
            to_registers.eq(self.i.valid & ~to_doorbells & (started | self.doorbells_idle & ~pending[-1])),
            self.doorbells.valid.eq(self.i.valid & to_doorbells & payload & (started | (pending == 0))),
            requests.i.payload.eq(now), words.i.payload.eq(word),
            requests.i.valid.eq(to_registers & ~started & (payload | ~writes) & (words.i.ready | ~writes)),
            words.i.valid.eq(to_registers & payload & (requests.i.ready | started)),
        ]
        with m.If(writes & ~payload):
            m.d.comb += accepted.eq(self.i.valid)
        with m.Elif(to_doorbells):
            m.d.comb += accepted.eq(self.doorbells.valid & self.doorbells.ready)
        with m.Elif(writes):
            m.d.comb += accepted.eq(words.i.valid & words.i.ready)
        with m.Else():
            m.d.comb += accepted.eq(requests.i.valid & requests.i.ready)
        m.d.comb += self.i.ready.eq(accepted & (end | ~writes))
        with m.If(accepted & payload):
            m.d.sync += started.eq(~last)
        if count > 1:
            with m.If(accepted & writes):
                m.d.sync += position.eq(Mux(end, beat.last, position + 1))

        door = self.doorbells.payload
        m.d.comb += [
            door.address.eq(now.descriptor.address), door.dwords.eq(now.descriptor.dwords),
            door.first_be.eq(now.first_be), door.last_be.eq(now.last_be),
            door.data.eq(word), door.first.eq(first), door.last.eq(last),
        ]
        queued = requests.i.valid & requests.i.ready & writes
        m.d.sync += pending.eq(pending + queued - self.written)
        m.d.comb += self.idle.eq(~self.i.valid & (requests.level == 0))
        return m
