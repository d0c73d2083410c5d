# SPDX-License-Identifier: Apache-2.0
"""Doorbell port: AXI4 writes in, stores to queues out.

GPU stores -> Doorbell -> QueueStore.  Latency: 1 cycle from the W handshake to ``o``.
Throughput: one word per cycle, from single beats as well as from bursts.
"""

from amaranth import *
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from hw.axi import AxiSignature, Resp
from hw.stream import Queue, Skid

from .posts import WORD_BITS, PostPortSignature
from .refusable import RefusableSignature
from .sizes import EngineSizes
from .sweep import SweepSignature

__all__ = ["WORD_BITS", "Doorbell", "StoreSignature", "TailPortSignature", "TailSignature", "is_extended",
           "store_layout", "tail_layout"]

def is_extended(config: EngineSizes, queue: Value) -> Value:
    """Whether a queue's number is one of an extended queue."""
    return (queue >> config.extended_bits) == 0


def store_layout(config: EngineSizes) -> data.StructLayout:
    """A store to a queue's page. For each half: ``some`` or ``whole`` if some or all bytes have their strobe, and
    ``words`` if it is not empty."""
    return data.StructLayout({"queue": config.queue_bits, "data": 128, "some": 2, "whole": 2, "words": 2})


def tail_layout(config: EngineSizes) -> data.StructLayout:
    """A doorbell of a descriptor ring; ``whole`` is 0 if the store lacks bytes of the tail."""
    return data.StructLayout({"ring": config.extended_bits, "tail": 32, "whole": 1})


class StoreSignature(RefusableSignature):
    """Stores to queues. ``refused``: a word of the store is refused."""

    def __init__(self, config: EngineSizes) -> None:
        super().__init__(store_layout(config))


class TailSignature(RefusableSignature):
    """Doorbells of descriptor rings."""

    def __init__(self, config: EngineSizes) -> None:
        super().__init__(tail_layout(config))


class TailPortSignature(wiring.Signature):
    """Between the doorbell port and the descriptor rings.

    Members
    -------
    doorbells : ``Out(TailSignature)``
    driven : ``In(extended)``
        Queues driven by their ring: a store to their pages is a doorbell of the ring.
    """

    def __init__(self, config: EngineSizes) -> None:
        super().__init__({"doorbells": Out(TailSignature(config)), "driven": In(config.extended)})


class Doorbell(wiring.Component):
    """Accept stores to the queues' pages.

    The 4 KiB page of the address selects the queue; the offset in the page has no meaning, so a bridge may merge stores
    into a burst. A beat without strobes is ignored. On a ring's page, a beat is a tail: the lower half of its first or
    of its second 8 bytes. Reads return zero.

    Parameters
    ----------
    config : DmaConfig
    posts : bool
        With ``posts`` and ``vacant``.

    Members
    -------
    init : ``In(SweepSignature)``
        No word is accepted during the sweep.
    bus : ``In(AxiSignature)``
        128-bit data. BRESP is SLVERR if any word of the burst was refused.
    o : ``Out(StoreSignature)``, tails : ``Out(TailPortSignature)``
    posts : ``In(PostPortSignature)``
        Words that are not stored by threads; they and the beats of ``bus`` leave in turn.
    vacant : ``In(queues)``
        Queues without words behind their head entry.
    """

    def __init__(self, config: EngineSizes, *, posts: bool = False) -> None:
        self.config, self.has_posts = config, posts
        own = {"posts": In(PostPortSignature(config.queues)), "vacant": In(config.queues)}
        super().__init__({
            "init": In(SweepSignature(config)),
            "bus": In(AxiSignature(addr_width=config.doorbell_addr_width, data_width=WORD_BITS,
                                   id_width=config.doorbell_id_width)),
            "o": Out(StoreSignature(config)), "tails": Out(TailPortSignature(config)), **(own if posts else {}),
        })

    def elaborate(self, platform):
        m = Module()
        self._write(m)
        self._read(m)
        return m

    def _write(self, m):
        bus, id_width = self.bus, self.config.doorbell_id_width
        m.submodules.addresses = addresses = Skid(data.StructLayout(
            {"queue": self.config.queue_bits, "id": id_width}))
        m.submodules.beats = beats = Skid(data.StructLayout(
            {"data": WORD_BITS, "some": 2, "whole": 2, "words": 2, "tail": 2, "last": 1}))
        m.submodules.responses = responses = Queue(data.StructLayout({"id": id_width, "refused": 1}), depth=4)
        halves = bus.wstrb[:WORD_BITS // 16], bus.wstrb[WORD_BITS // 16:]
        m.d.comb += [
            addresses.i.payload.queue.eq(bus.awaddr[12:]),
            addresses.i.payload.id.eq(bus.awid),
            addresses.i.valid.eq(bus.awvalid),
            bus.awready.eq(addresses.i.ready),
            beats.i.payload.data.eq(bus.wdata),
            # An ARK word of all ones is empty.
            beats.i.payload.words.eq(Cat(
                strobes.any() & ~(strobes.all() & bus.wdata.word_select(half, WORD_BITS // 2).all())
                for half, strobes in enumerate(halves))),
            beats.i.payload.some.eq(Cat(strobes.any() for strobes in halves)),
            beats.i.payload.whole.eq(Cat(strobes.all() for strobes in halves)),
            beats.i.payload.tail.eq(Cat(strobes[:4].all() for strobes in halves)),
            beats.i.payload.last.eq(bus.wlast),
            beats.i.valid.eq(bus.wvalid),
            bus.wready.eq(beats.i.ready),
            bus.bid.eq(responses.o.payload.id),
            bus.bresp.eq(Mux(responses.o.payload.refused, Resp.SLVERR, Resp.OKAY)),
            bus.bvalid.eq(responses.o.valid),
            responses.o.ready.eq(bus.bready),
        ]

        # A beat leaves when its address has arrived and the response queue has a free entry.
        beat, tails = beats.o.payload, self.tails.doorbells
        some, vacant, open_, is_tail = Signal(), Signal(), Signal(), Signal()
        queue = addresses.o.payload.queue
        burst_refused, refused, posted, offers = Signal(), Signal(), Signal(), Signal()
        store, tail = Signal(store_layout(self.config)), Signal(tail_layout(self.config))
        m.d.comb += [
            some.eq(beat.some.any()),
            # One response may be in the register in front of the queue.
            vacant.eq(responses.level + responses.i.valid < responses.depth),
            open_.eq(beats.o.valid & addresses.o.valid & vacant & ~self.init.active),
            is_tail.eq(is_extended(self.config, queue)
                       & self.tails.driven.bit_select(queue[:self.config.extended_bits], 1)),
            store.queue.eq(queue), store.data.eq(beat.data), store.words.eq(beat.words),
            store.some.eq(beat.some), store.whole.eq(beat.whole),
            tail.ring.eq(queue), tail.tail.eq(Mux(beat.some[0], beat.data[:32], beat.data[64:96])),
            tail.whole.eq(Mux(beat.some[0], beat.tail[0], beat.tail[1])),
            offers.eq(open_ & some),
            self.o.valid.eq(offers & ~is_tail), self.o.payload.eq(store),
            beats.o.ready.eq(addresses.o.valid & vacant & ~self.init.active
                             & (~some | (~posted & Mux(is_tail, tails.ready, self.o.ready)))),
            tails.valid.eq(offers & is_tail), tails.payload.eq(tail),
            addresses.o.ready.eq(beats.o.valid & beats.o.ready & beat.last),
            refused.eq(burst_refused | (some & Mux(is_tail, tails.refused, self.o.refused))),
        ]
        if self.has_posts:
            self._post(m, open_ & some, posted, offers, is_tail, store, tail)
        # ``refused`` is late-arriving, so the response is registered.
        m.d.sync += [
            responses.i.valid.eq(beats.o.valid & beats.o.ready & beat.last),
            responses.i.payload.id.eq(addresses.o.payload.id),
            responses.i.payload.refused.eq(refused),
        ]
        with m.If(beats.o.valid & beats.o.ready):
            m.d.sync += burst_refused.eq(refused & ~beat.last)

    def _post(self, m, stored, posted, offers, is_tail, store, tail):
        """Replace the beat by a posted word in turn. A choice that was not taken is kept: its receiver may be at work
        on it."""
        words, queue = self.posts.words, self.posts.words.payload.queue
        kept, before, taken = Signal(), Signal(), Signal()
        halves = [words.payload.data.word_select(half, WORD_BITS // 2) for half in range(2)]
        driven = Signal(self.config.queues)
        m.d.comb += [
            posted.eq(Mux(kept, before, words.valid & ~self.init.active & ~(before & stored))),
            taken.eq(offers & Mux(is_tail, self.tails.doorbells.ready, self.o.ready)),
            words.ready.eq(posted & taken),
            words.refused.eq(Mux(is_tail, self.tails.doorbells.refused, self.o.refused)),
            driven.eq(self.tails.driven), self.posts.free.eq(self.vacant | driven),
        ]
        m.d.sync += kept.eq(offers & ~taken)
        with m.If(offers):
            m.d.sync += before.eq(posted)
        with m.If(posted):
            m.d.comb += [
                offers.eq(words.valid & ~self.init.active),
                is_tail.eq(is_extended(self.config, queue)
                           & self.tails.driven.bit_select(queue[:self.config.extended_bits], 1)),
                store.queue.eq(queue), store.data.eq(words.payload.data), store.some.eq(-1), store.whole.eq(-1),
                store.words.eq(Cat(~half.all() for half in halves)),
                tail.ring.eq(queue), tail.tail.eq(words.payload.data), tail.whole.eq(1),
            ]

    def _read(self, m):
        bus = self.bus
        beats_left = Signal(8)
        m.d.comb += [
            bus.arready.eq(~bus.rvalid),
            bus.rlast.eq(beats_left == 0), bus.rdata.eq(0), bus.rresp.eq(Resp.OKAY),
        ]
        with m.If(bus.rvalid):
            with m.If(bus.rready):
                m.d.sync += [beats_left.eq(beats_left - 1), bus.rvalid.eq(~bus.rlast)]
        with m.Elif(bus.arvalid):
            m.d.sync += [bus.rvalid.eq(1), bus.rid.eq(bus.arid), beats_left.eq(bus.arlen)]
