# SPDX-License-Identifier: Apache-2.0
"""Interrupts of records: each follows the write responses of all records up to that of its request.

RingRecords, Notices, WordResponses -> RecordInterrupts -> QueueInterrupts.  Latency: 2 cycles.  Throughput: one record
and one response per cycle.

Memory responds to the records of a ring in order, so it suffices to count.
"""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.dma_engine.config import DmaConfig
from hw.dma_engine.strobes import QueueStrobeSignature, WrittenSignature

from .notices import COUNT_WIDTH, OutstandingNoticesSignature

__all__ = ["RecordInterrupts"]


class RecordInterrupts(wiring.Component):
    """For each ring, wait for one record with an interrupt at a time; later ones coalesce.

    A record with an interrupt that leaves while one is awaited is awaited next, with all that have left by then.

    Parameters
    ----------
    config : DmaConfig

    Members
    -------
    sent : ``In(QueueStrobeSignature)``
        A record with an interrupt leaves for memory.
    counts : ``In(OutstandingNoticesSignature)``
        Records without a response, two cycles late.
    written : ``In(WrittenSignature)``
        Expected responses only.
    discard : ``In(QueueStrobeSignature)``
        Stop waiting for the responses to the queue's records.
    o : ``Out(1)``
        Strobe: the response two cycles ago was awaited.
    """

    def __init__(self, config: DmaConfig) -> None:
        self.config = config
        super().__init__({
            "sent": In(QueueStrobeSignature(config)), "counts": In(OutstandingNoticesSignature(config)),
            "written": In(WrittenSignature(config)), "discard": In(QueueStrobeSignature(config)), "o": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        strobes = []
        for queue, count in enumerate(self.counts.count):
            sent, ends = Signal(2, name=f"sent_{queue}"), Signal(2, name=f"ends_{queue}")
            awaited, again = Signal(name=f"awaited_{queue}"), Signal(name=f"again_{queue}")
            left, last = Signal(COUNT_WIDTH, name=f"left_{queue}"), Signal(name=f"last_{queue}")
            # ``count`` includes what both have seen two cycles ago.
            m.d.sync += [
                sent.eq(Cat(self.sent.valid & (self.sent.queue == queue), sent[0])),
                ends.eq(Cat(self.written.valid & self.written.id.notice & (self.written.id.queue == queue), ends[0])),
            ]
            m.d.comb += last.eq(awaited & ends[1] & (left == 1))
            strobes.append(last)
            with m.If(self.discard.valid & (self.discard.queue == queue)):
                m.d.sync += [awaited.eq(0), again.eq(0)]
            with m.Elif(last):
                m.d.sync += [awaited.eq(again | sent[1]), again.eq(0)]
            with m.Elif(sent[1]):
                m.d.sync += [awaited.eq(1), again.eq(awaited)]
            with m.If(last | ~awaited):
                m.d.sync += left.eq(count)
            with m.Elif(ends[1]):
                m.d.sync += left.eq(left - 1)
        m.d.comb += self.o.eq(Cat(strobes).any())
        return m
