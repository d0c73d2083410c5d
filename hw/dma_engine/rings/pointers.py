# SPDX-License-Identifier: Apache-2.0
"""Pointers of descriptor rings: the tail that software has posted, and the head of descriptors already requested.

Doorbell -> RingPointers -> AR.  Latency: 3 cycles for a doorbell, and 4 from there to ``bursts``.  Throughput: a
doorbell or a burst per 3 cycles.
"""

from amaranth import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.common.doorbell import TailSignature
from hw.common.sizes import ADDR_WIDTH
from hw.common.table import Table
from hw.dma_engine.config import DESCRIPTOR_BYTES, DmaConfig
from hw.dma_engine.descriptors import RING_SIZE_BITS
from hw.dma_engine.layouts import RingSettings, event_layout, fetch_layout
from hw.dma_engine.strobes import QueueStrobeSignature
from hw.dma_engine.words import Status
from hw.stream import Queue, RoundRobin

from .buffer import AwaitedSignature, RequestedSignature, RingStatesSignature

__all__ = ["RingPointers", "RingWriteSignature", "entry_address", "ring_mask"]

POINTER_WIDTH = 32
ENTRY_WIDTH = RING_SIZE_BITS[1]


def ring_mask(size):
    """Low bits of a count, which number an entry in a ring of ``2**size`` descriptors."""
    low, high = RING_SIZE_BITS
    return Cat((size > bit) | (bit < low) for bit in range(high))


def entry_address(page, mask, number, *, entry_bytes):
    """Address of an entry of a ring at ``page``, a multiple of the ring's length: no adder is needed."""
    low = (entry_bytes - 1).bit_length()
    base = Cat(C(0, 12), page)
    inside = (Mux(mask[bit], number[bit], base[low + bit]) for bit in range(len(mask)))
    return Cat(C(0, low), inside, base[low + len(mask):])


class RingWriteSignature(wiring.Signature):
    """Software commits the location of a ring. Always taken."""

    def __init__(self, config: DmaConfig) -> None:
        super().__init__({"valid": Out(1), "ring": Out(config.extended_bits), "settings": Out(RingSettings)})


class RingPointers(wiring.Component):
    """Keep the furthest tail of each ring, and request the descriptors before it.

    A tail is a free-running count, so doorbells may be repeated, merged or reordered: one that is not ahead of the
    latest changes nothing. One that is ahead of the requested descriptors by more than the ring's length, or behind by
    a whole ring, is refused, and so are all later ones until the queue is cleared.

    A burst ends before the next multiple of ``config.fetch_burst`` descriptors: so it crosses neither 4 KiB nor the
    end of the ring. It is issued when the descriptor buffer has free rows for all of it.

    Parameters
    ----------
    config : DmaConfig

    Members
    -------
    write : ``In(RingWriteSignature)``, states : ``In(RingStatesSignature)``
    tails : ``In(TailSignature)``
    tail_refused : ``Out(1)``
        A doorbell is transferred and refused.
    clear : ``In(QueueStrobeSignature)``
        Accept doorbells of the queue again.
    refusing : ``Out(extended)``
    events : ``Out(stream.Signature(event_layout))``
        RING_RANGE or DISABLED, once per ring until it is cleared.
    awaited : ``In(AwaitedSignature)``
        No descriptors are read for rings with ``outstanding`` ones.
    rows_freed : ``In(extended)``
        A row of the descriptor buffer was freed.
    requested : ``Out(RequestedSignature)``, bursts : ``Out(stream.Signature(fetch_layout))``
        Each burst, one cycle earlier in ``requested``.
    """

    def __init__(self, config: DmaConfig) -> None:
        self.config = config
        rings = config.extended
        super().__init__({
            "write": In(RingWriteSignature(config)), "states": In(RingStatesSignature(config)),
            "tails": In(TailSignature(config)), "tail_refused": Out(1),
            "clear": In(QueueStrobeSignature(config)),
            "refusing": Out(rings),
            "events": Out(stream.Signature(event_layout(config))),
            "rows_freed": In(rings), "awaited": In(AwaitedSignature(config)),
            "requested": Out(RequestedSignature(config)),
            "bursts": Out(stream.Signature(fetch_layout(config))),
        })

    def elaborate(self, platform):
        m = Module()
        config, rings = self.config, self.config.extended
        most, low = config.fetch_burst, (config.fetch_burst - 1).bit_length()
        m.submodules.tails = tails = Table(POINTER_WIDTH, depth=rings, reads=1, init=None)
        m.submodules.heads = heads = Table(POINTER_WIDTH, depth=rings, reads=1, init=None)
        location_layout = data.StructLayout({"page": ADDR_WIDTH - 12, "size": RingSettings.as_shape()["size"].width})
        m.submodules.locations = locations = Table(location_layout, depth=rings, reads=1, init=None)
        m.submodules.events = events = Queue(event_layout(config), depth=4)
        wiring.connect(m, events.o, wiring.flipped(self.events))

        # -- Select a doorbell or a ring to fetch for, in turn.
        ring, is_bell, was_bell = Signal(config.extended_bits), Signal(), Signal()
        lookup, weigh, act = Signal(), Signal(), Signal()
        pending, fits = Signal(rings), Signal(rings)
        m.submodules.choice = choice = RoundRobin(rings)
        bell, fetch, event_fits = Signal(), Signal(), Signal()
        m.d.comb += [
            event_fits.eq(events.level + events.i.valid < events.depth),        # one may be in flight to it
            choice.requests.eq(pending & fits & self.states.enabled & ~self.awaited.outstanding
                               & (~self.bursts.valid & ~(act & ~is_bell)).replicate(rings)),
            bell.eq(~lookup & ~weigh & self.tails.valid & event_fits & ~(act & is_bell) & ~(was_bell & choice.valid)),
            fetch.eq(~lookup & ~weigh & choice.valid & ~bell),
            choice.advance.eq(fetch),
        ]
        m.d.sync += [lookup.eq(bell | fetch), weigh.eq(lookup), act.eq(weigh)]
        with m.If(bell | fetch):
            m.d.sync += [ring.eq(Mux(bell, self.tails.payload.ring, choice.grant)), is_bell.eq(bell), was_bell.eq(bell)]

        # -- Look-up: the tables are valid only if written since the ring restarted.
        tail, head, mask = Signal(POINTER_WIDTH), Signal(POINTER_WIDTH), Signal(ENTRY_WIDTH)
        tail_valid, head_valid = Signal(rings), Signal(rings)
        location = locations.read[0].data
        for table in (tails, heads, locations):
            m.d.comb += table.read[0].addr.eq(ring)
        with m.If(lookup):
            m.d.sync += [
                tail.eq(Mux(tail_valid.bit_select(ring, 1), tails.read[0].data, 0)),
                head.eq(Mux(head_valid.bit_select(ring, 1), heads.read[0].data, 0)),
                mask.eq(ring_mask(location.size)),
            ]

        # -- Compute the distances, and what a fetch takes: up to the tail or the next multiple of a burst.
        distance, left = Signal(ENTRY_WIDTH + 1), Signal(ENTRY_WIDTH + 1)
        beyond = Signal(POINTER_WIDTH)  # new tail minus head, less one
        upto, is_all, all_, count = Signal(low + 1), Signal(), Signal(), Signal.like(self.requested.count)
        m.d.comb += [
            distance.eq(tail - head), upto.eq(most - head[:low]),
            is_all.eq((distance[low + 1:] == 0) & (distance[:low + 1] <= upto)),
        ]
        m.d.sync += [
            left.eq(distance), beyond.eq(self.tails.payload.tail + ~head),
            all_.eq(is_all), count.eq(Mux(is_all, distance[:low + 1], upto)),
        ]

        # -- Handle a doorbell.
        refused, enabled, refusing, ahead, behind, newer, accept = (Signal() for _ in range(7))
        m.d.comb += [
            enabled.eq(self.states.enabled.bit_select(ring, 1)), refusing.eq(self.refusing.bit_select(ring, 1)),
            ahead.eq(~(beyond[ENTRY_WIDTH:].any() | (beyond[:ENTRY_WIDTH] & ~mask).any())),
            behind.eq(beyond[ENTRY_WIDTH:].all() & (beyond[:ENTRY_WIDTH] | mask).all()),
            refused.eq(~enabled | refusing | ~self.tails.payload.whole | ~(ahead | behind)),
            newer.eq(ahead & (beyond[:ENTRY_WIDTH] >= left)),
            accept.eq(act & is_bell & newer & ~refused),
            self.tails.ready.eq(act & is_bell),
            self.tails.refused.eq(refused), self.tail_refused.eq(self.tails.valid & self.tails.ready & refused),
            tails.write.en.eq(accept), tails.write.addr.eq(ring), tails.write.data.eq(self.tails.payload.tail),
            locations.write.en.eq(self.write.valid), locations.write.addr.eq(self.write.ring),
            locations.write.data.page.eq(self.write.settings.page),
            locations.write.data.size.eq(self.write.settings.size),
        ]

        # Refusals are late-arriving.
        m.d.sync += [
            events.i.valid.eq(act & is_bell & refused & ~refusing),
            events.i.payload.queue.eq(ring),
            events.i.payload.status.eq(Mux(enabled, Status.RING_RANGE, Status.DISABLED)),
        ]

        # -- Handle a fetch.
        issues, burst = self.requested.valid, self.bursts.payload
        m.d.comb += [
            # A ring that is being reset issues no more: it would otherwise restart with descriptors in flight.
            issues.eq(act & ~is_bell & enabled),
            self.requested.count.eq(count), self.requested.ring.eq(ring),
            # Up to the tail: head + left; up to the burst's end: head + upto. Neither depends on the choice.
            heads.write.addr.eq(ring), heads.write.en.eq(issues),
            heads.write.data.eq(Mux(all_, tail, Cat(C(0, low), head[low:] + 1))),
        ]
        with m.If(self.bursts.ready):
            m.d.sync += self.bursts.valid.eq(0)
        with m.If(issues):
            m.d.sync += [
                self.bursts.valid.eq(1),
                burst.ring.eq(ring),
                burst.addr.eq(entry_address(location.page, mask, head, entry_bytes=DESCRIPTOR_BYTES)),
                burst.len.eq((count << (config.descriptor_beats - 1).bit_length()) - 1),
            ]

        for number in range(rings):
            here = ring == number
            # Rows in use or requested; and after a burst more.
            reserved, then = (Signal(range(2 * config.ring_depth + most), name=f"{name}_{number}")
                              for name in ("reserved", "then"))
            m.d.comb += then.eq(reserved + (most - 1))
            m.d.sync += fits[number].eq(~(then[-1] | (then[-2] & ~self.states.pair[number])))
            with m.If(self.states.discard[number]):
                m.d.sync += [reserved.eq(0), tail_valid[number].eq(0), head_valid[number].eq(0), pending[number].eq(0)]
            with m.Else():
                growth = Mux(issues & here, count, 0)
                m.d.sync += reserved.eq(Mux(self.rows_freed[number], (reserved - 1) + growth, reserved + growth))
                with m.If(accept & here):
                    m.d.sync += [tail_valid[number].eq(1), pending[number].eq(1)]
                with m.If(issues & here):
                    m.d.sync += head_valid[number].eq(1)
                    with m.If(all_):
                        m.d.sync += pending[number].eq(0)
            with m.If(self.clear.valid & (self.clear.queue == number)):
                m.d.sync += self.refusing[number].eq(0)
            with m.Elif(act & is_bell & refused & here):
                m.d.sync += self.refusing[number].eq(1)
        return m
