# SPDX-License-Identifier: Apache-2.0
"""The free tags: a tag returns when its request is delivered and no completion for it may arrive any more.

CompletionCheck, ReadDelivery -> TagPool -> ReadIssue.  Latency: 2 cycles from the later event to ``o``.  Throughput:
one tag per cycle.
"""

from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.common.sweep import SweepSignature
from hw.stream import Queue

from ..config import PcieConfig
from .event_pair import EventPair
from .read_layouts import TagEvent

__all__ = ["TagPool"]

FEW_BITS = 5
"""Bits of the tags that may be used without extended tags (PCI Express Base 2.2.6.2)."""


class TagPool(wiring.Component):
    """Two queues of free tags: tags below 32, and all others, which are preferred.

    The tag that has been free longest leaves its queue first. A tag whose completions end after its delivery, which
    takes an error, waits for a cycle in which no other one returns.

    Parameters
    ----------
    config : PcieConfig

    Members
    -------
    init : ``In(SweepSignature)``
        Fills the queues.
    completed : ``In(TagEvent)``, delivered : ``In(TagEvent)``
        No further completion may arrive; the last beat was delivered.
    extended : ``In(1)``
        All tags may be used.
    hold : ``In(1)``
        The tag on ``o`` must not change after this cycle.
    o : ``Out(stream.Signature(tag))``
    idle : ``Out(1)``
        All tags are free, and none is held. Registered.
    """

    def __init__(self, config: PcieConfig) -> None:
        self.config = config
        super().__init__({
            "init": In(SweepSignature(config)), "completed": In(TagEvent(config)), "delivered": In(TagEvent(config)),
            "extended": In(1), "hold": In(1), "o": Out(stream.Signature(config.tag_bits)), "idle": Out(1, init=1),
        })

    def elaborate(self, platform):
        m = Module()
        count, bits = self.config.tags, self.config.tag_bits
        m.submodules.pair = pair = EventPair(self.config)
        m.submodules.delayed = delayed = Queue(bits, depth=count, ram="lut", output_register=True)
        wiring.connect(m, wiring.flipped(self.init), pair.init)
        returned, tag = Signal(), Signal(bits)
        m.d.comb += [
            pair.events[0].tag.eq(self.delivered.tag), pair.events[0].valid.eq(self.delivered.valid),
            pair.events[1].tag.eq(self.completed.tag), pair.events[1].valid.eq(self.completed.valid),
            delayed.i.valid.eq(pair.later[1].valid), delayed.i.payload.eq(pair.later[1].tag),
            delayed.o.ready.eq(~pair.later[0].valid),
            returned.eq(pair.later[0].valid | delayed.o.valid),
            tag.eq(Mux(pair.later[0].valid, pair.later[0].tag, delayed.o.payload)),
        ]
        self._offer(m, returned, tag)

        used = Signal(range(count + 1))
        taken = self.o.valid & self.o.ready
        m.d.sync += [used.eq(used + taken - returned), self.idle.eq((used == 0) & ~taken & ~self.hold)]
        return m

    def _offer(self, m, returned, tag):
        count, bits, init = self.config.tags, self.config.tag_bits, self.init
        m.submodules.few = few = Queue(bits, depth=1 << FEW_BITS, ram="lut", output_register=True)
        free, free_tag = Signal(), Signal(bits)
        m.d.comb += [
            free.eq(Mux(init.active, init.address < count, returned)), free_tag.eq(Mux(init.active, init.address, tag)),
            few.i.payload.eq(free_tag), few.i.valid.eq(free), self.o.payload.eq(few.o.payload),
            self.o.valid.eq(few.o.valid & ~init.active), few.o.ready.eq(self.o.ready & ~init.active),
        ]
        if bits == FEW_BITS:
            return
        m.submodules.many = many = Queue(bits, depth=count, ram="lut", output_register=True)
        choice = Signal()
        m.d.comb += [
            few.i.valid.eq(free & ~free_tag[FEW_BITS:].any()), many.i.valid.eq(free & free_tag[FEW_BITS:].any()),
            many.i.payload.eq(free_tag),
        ]
        with m.If(~self.hold):
            m.d.sync += choice.eq(self.extended & many.o.valid)
        with m.If(choice):
            m.d.comb += [self.o.payload.eq(many.o.payload), self.o.valid.eq(many.o.valid & ~init.active),
                         few.o.ready.eq(0), many.o.ready.eq(self.o.ready & ~init.active)]
