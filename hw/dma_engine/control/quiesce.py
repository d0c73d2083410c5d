# SPDX-License-Identifier: Apache-2.0
"""Quiesce: detects when all segments scheduled before a start have ended.

Scheduler, Retire -> Quiesce -> registers.  Segments are scheduled in one of two phases. To quiesce is to change the
phase and to wait until no segment of the old phase is in flight; the engine keeps running.
"""

from amaranth import *
from amaranth.hdl import Assert, Format
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.dma_engine.config import DmaConfig
from hw.dma_engine.rings.lifecycle import RingStatusSignature
from hw.dma_engine.strobes import ReturnedSignature, ScheduledSignature

from .epochs import WordStatusSignature, outstanding_bits

__all__ = ["Quiesce", "QuiesceSignature"]


class QuiesceSignature(wiring.Signature):
    """Software waits until every segment looked up before the start has ended.

    Members
    -------
    start : ``Out(1)``
        Also accepted while busy: ``busy`` then lasts until segments scheduled before this start have ended as well.
    busy : ``In(1)``
        From the cycle after ``start``; also while abandoned queues have responses outstanding.
    """

    def __init__(self) -> None:
        super().__init__({"start": Out(1), "busy": In(1)})


class Quiesce(wiring.Component):
    """Count the segments of each phase.

    Parameters
    ----------
    config : DmaConfig

    Members
    -------
    software : ``In(QuiesceSignature)``
    words : ``In(WordStatusSignature)``, rings : ``In(RingStatusSignature)``
        Outstanding responses to words and descriptor reads of abandoned queues.
    phase : ``Out(1)``
        Phase of the segments whose regions are looked up in this cycle.
    scheduled : ``In(ScheduledSignature)``, returned : ``In(ReturnedSignature)``
        A segment is scheduled at most one cycle after its lookup.
    """

    def __init__(self, config: DmaConfig) -> None:
        self.config = config
        super().__init__({
            "software": In(QuiesceSignature()), "phase": Out(1),
            "words": In(WordStatusSignature()), "rings": In(RingStatusSignature(config)),
            "scheduled": In(ScheduledSignature(config)), "returned": In(ReturnedSignature(config)),
        })

    def elaborate(self, platform):
        m = Module()
        counts = [Signal(outstanding_bits(self.config), name=f"count_{phase}") for phase in range(2)]
        for phase, count in enumerate(counts):
            comes, leaves = Signal(name=f"comes_{phase}"), Signal(name=f"leaves_{phase}")
            m.d.comb += [
                comes.eq(self.scheduled.valid & (self.scheduled.segment.phase == phase)),
                leaves.eq(self.returned.valid & (self.returned.phase == phase)),
            ]
            with m.If(comes & ~leaves):
                m.d.sync += [count.eq(count + 1), Assert(~count.all(), Format("too many segments are in flight"))]
            with m.If(leaves & ~comes):
                m.d.sync += count.eq(count - 1)

        # Directly after a change, the last segments of the old phase are not counted yet.
        requested, changed, draining = Signal(), Signal(2), Signal()
        m.d.comb += [
            draining.eq(changed.any() | (Mux(self.phase, counts[0], counts[1]) != 0)),
            self.software.busy.eq(requested | draining | (self.words.outstanding | self.rings.outstanding)),
        ]
        m.d.sync += changed.eq(changed << 1)
        with m.If(requested & ~draining):
            m.d.sync += [self.phase.eq(~self.phase), changed.eq(1), requested.eq(0)]
        with m.If(self.software.start):
            m.d.sync += requested.eq(1)
        return m
