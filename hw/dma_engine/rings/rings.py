"""Descriptor rings: from a tail told by a doorbell to the words of the queue that the ring drives.

Doorbell -> RingPointers -> AR, R -> RingBuffer -> RingExpand -> QueueStore.
"""

from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from hw.axi import Resp
from hw.common.doorbell import tail_layout
from hw.dma_engine.layouts import RingSettings, event_layout, fetch_layout, ring_word_layout

from .buffer import RingBuffer
from .expand import RingExpand
from .pointers import RingPointers

__all__ = ["Rings"]


class Rings(wiring.Component):
    """The rings of all extended queues; ring r drives queue r.

    Parameters
    ----------
    config : DmaConfig

    Members
    -------
    configure, configure_ring, settings, drives : ``In``
        Where a ring is, and whether it drives its queue.
    tails : ``In(stream.Signature(tail_layout))``, refused : ``Out(1)``
        Doorbells; whether the one transferred is refused.
    enabled, resetting : ``In(extended)``
        Queues that take doorbells; that forget what they were told.
    driven : ``Out(extended)``
        Queues that are driven by their ring.
    give_up : ``In(1)``, give_up_queue : ``In``
        Wait for descriptors of that queue's ring no more. It fetches none before those asked for have come after all.
    clear, clear_queue : ``In``, refusing : ``Out(extended)``, events : ``Out(stream.Signature(event_layout))``
        As in the queue store.
    bursts : ``Out(stream.Signature(fetch_layout))``
    valid, id, beat, resp : ``In``
        A beat of a descriptor, whose ID but for its top bit is the ring.
    unexpected : ``Out(1)``
        Nothing of that ring was asked for: it is dropped.
    fetching : ``Out(extended)``
        Rings with descriptors asked for and not here yet.
    owed : ``Out(1)``
        Some ring that was given up has descriptors that have not come.
    forgotten : ``Out(extended)``
        Rings that start anew.
    consume, consume_queue : ``In``
        A queue has scheduled one of its words wholly.
    o : ``Out(stream.Signature(ring_word_layout))``
    """

    def __init__(self, config):
        self.config = config
        rings, ring = config.extended, config.extended_bits
        super().__init__({
            "configure": In(1), "drives": In(1), "configure_ring": In(ring), "settings": In(RingSettings),
            "tails": In(stream.Signature(tail_layout(config))), "refused": Out(1),
            "enabled": In(rings), "resetting": In(rings), "driven": Out(rings),
            "give_up": In(1), "give_up_queue": In(config.queue_bits),
            "clear": In(1), "clear_queue": In(config.queue_bits), "refusing": Out(rings),
            "events": Out(stream.Signature(event_layout(config))),
            "bursts": Out(stream.Signature(fetch_layout(config))),
            "valid": In(1), "id": In(config.axi_id_width), "beat": In(config.data_width), "resp": In(Resp),
            "unexpected": Out(1), "fetching": Out(rings), "owed": Out(1), "forgotten": Out(rings),
            "consume": In(1), "consume_queue": In(config.queue_bits),
            "o": Out(stream.Signature(ring_word_layout(config))),
        })

    def elaborate(self, platform):
        m = Module()
        config, rings = self.config, self.config.extended
        m.submodules.pointers = pointers = RingPointers(config)
        m.submodules.buffer = buffer = RingBuffer(config)
        m.submodules.expand = expand = RingExpand(config)
        connect(m, flipped(self.tails), pointers.i)
        connect(m, pointers.events, flipped(self.events))
        connect(m, pointers.bursts, flipped(self.bursts))
        connect(m, expand.o, flipped(self.o))

        forget, records, expected = Signal(rings), Signal(rings), Signal()
        ring = self.id[:config.extended_bits]
        m.d.comb += [
            expected.eq((self.fetching | buffer.owed).bit_select(ring, 1) & ~self.id[config.extended_bits:-1].any()),
            self.unexpected.eq(self.valid & ~expected),
            self.fetching.eq(Cat(reserved != count for reserved, count
                                 in zip(pointers.reserved, buffer.count, strict=True))),
            # What is under way comes to its place first.
            forget.eq((self.resetting & ~self.fetching) | buffer.give_up),
            pointers.owed.eq(buffer.owed), self.owed.eq(buffer.owed.any()),
            self.forgotten.eq(forget),
            self.refused.eq(pointers.refused), self.refusing.eq(pointers.refusing),
            pointers.clear.eq(self.clear), pointers.clear_queue.eq(self.clear_queue),
            pointers.configure.eq(self.configure), pointers.configure_ring.eq(self.configure_ring),
            pointers.settings.eq(self.settings),
            pointers.consumed.eq(Cat(expand.take & (expand.take_ring == index) for index in range(rings))),
            buffer.valid.eq(self.valid & expected), buffer.ring.eq(ring), buffer.beat.eq(self.beat),
            buffer.resp.eq(self.resp),
            buffer.read.eq(expand.read), buffer.read_ring.eq(expand.read_ring), buffer.behind.eq(expand.behind),
            buffer.take.eq(expand.take), buffer.take_ring.eq(expand.take_ring),
            expand.row.eq(buffer.row), expand.some.eq(buffer.some), expand.several.eq(buffer.several),
            expand.records.eq(records),
            expand.consume.eq(self.consume), expand.consume_queue.eq(self.consume_queue),
        ]
        for part in (pointers, expand):
            m.d.comb += [part.enabled.eq(self.enabled), part.forget.eq(forget)]
        m.d.comb += buffer.forget.eq(forget)
        for index in range(rings):
            with m.If(self.configure & (self.configure_ring == index)):
                m.d.sync += [records[index].eq(self.settings.records), self.driven[index].eq(self.drives)]
            m.d.comb += [buffer.reserved[index].eq(pointers.reserved[index]),
                         buffer.give_up[index].eq(self.give_up & (self.give_up_queue == index))]
        return m
