# SPDX-License-Identifier: Apache-2.0
"""Segment credits: they bound the segments between the scheduler and AR, so that this pipeline never stalls.

Scheduler (picks), Legalizer (segments that leave) -> SegmentCredit -> Scheduler.  Latency: 1 cycle; 2 with
``registered_credits`` for a dropped pick.  Throughput: one credit taken and two returned per cycle.
"""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.dma_engine.config import DmaConfig
from hw.stream import CreditCounter

__all__ = ["SEGMENT_CREDITS", "SegmentCredit", "SegmentCreditSignature"]

SEGMENT_CREDITS = 8
"""Segments between the scheduler and AR: enough to cover the pipeline's own four stages."""


class SegmentCreditSignature(wiring.Signature):
    """The scheduler takes a credit with each pick.

    Members
    -------
    available : ``In(1)``
        There is a credit. The scheduler picks only while this is high.
    pick, drop : ``Out(1)``
        A credit is taken; a credit taken earlier is returned unused.
    """

    def __init__(self) -> None:
        super().__init__({"available": In(1), "pick": Out(1), "drop": Out(1)})


class SegmentCredit(wiring.Component):
    """Count the free entries of the legalizer's queue, less the segments in flight to it.

    Parameters
    ----------
    config : DmaConfig

    Members
    -------
    scheduler : ``In(SegmentCreditSignature)``
    issued : ``In(1)``
        A segment has left the queue.
    """

    def __init__(self, config: DmaConfig) -> None:
        self.config = config
        super().__init__({"scheduler": In(SegmentCreditSignature()), "issued": In(1)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.counter = counter = CreditCounter(SEGMENT_CREDITS, max_take=1, max_give=2)
        dropped = Signal()
        m.d["sync" if self.config.timing.registered_credits else "comb"] += dropped.eq(self.scheduler.drop)
        m.d.comb += [
            counter.take.eq(1), counter.take_stb.eq(self.scheduler.pick),
            counter.give.eq(dropped + self.issued),
            self.scheduler.available.eq(counter.available != 0),
        ]
        return m
