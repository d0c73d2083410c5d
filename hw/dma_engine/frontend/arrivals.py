# SPDX-License-Identifier: Apache-2.0
"""Arrivals: merges the words of doorbells and of descriptor rings, in turn.

ArkWords, RingExpand -> Arrivals -> QueueStore.  Latency: none; up to 1 cycle with ``registered_arrivals``.
Throughput: one word per cycle.
"""

from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.dma_engine.config import DmaConfig
from hw.dma_engine.layouts import arrival_layout, ring_word_layout
from hw.stream import Merge

from .queues import ArrivalSignature

__all__ = ["Arrivals"]


class Arrivals(wiring.Component):
    """Merge two sources. A ring's words are never refused: it has a credit for each.

    Parameters
    ----------
    config : DmaConfig

    Members
    -------
    doorbells : ``In(ArrivalSignature)``
    rings : ``In(stream.Signature(ring_word_layout))``
    o : ``Out(ArrivalSignature)``
    """

    def __init__(self, config: DmaConfig) -> None:
        self.config = config
        super().__init__({
            "doorbells": In(ArrivalSignature(config)),
            "rings": In(stream.Signature(ring_word_layout(config))),
            "o": Out(ArrivalSignature(config)),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.merge = merge = Merge(
            arrival_layout(self.config), 2, registered_choice=self.config.timing.registered_arrivals)
        doorbells, rings = self.doorbells, self.rings
        stored, made = merge.i
        m.d.comb += [
            stored.valid.eq(doorbells.valid), stored.payload.eq(doorbells.payload), doorbells.ready.eq(stored.ready),
            doorbells.refused.eq(self.o.refused),
            made.valid.eq(rings.valid), rings.ready.eq(made.ready),
            made.payload.queue.eq(rings.payload.ring), made.payload.check.eq(rings.payload.check),
            made.payload.word.eq(rings.payload.word), made.payload.note.eq(rings.payload.note),
            self.o.valid.eq(merge.o.valid), self.o.payload.eq(merge.o.payload), merge.o.ready.eq(self.o.ready),
        ]
        return m
