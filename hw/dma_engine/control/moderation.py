# SPDX-License-Identifier: Apache-2.0
"""Interrupt moderation: one interrupt for several requests.

Retire -> InterruptModeration -> IRQ_STATUS.  Latency: 1 cycle if nothing is moderated.  Throughput: one request per
cycle.
"""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.dma_engine.config import MODERATION_WIDTH

__all__ = ["InterruptModeration"]


class InterruptModeration(wiring.Component):
    """Raise an interrupt after a number of requests with the IRQ flag, or a time after the first of them.

    Members
    -------
    i : ``In(1)``
        A request with the IRQ flag has completed.
    count, cycles : ``In``
        Raise after ``count`` requests, or ``cycles`` after the first; 0 disables a limit. If both are 0, immediately.
    o : ``Out(1)``
        Combinational.
    """

    def __init__(self) -> None:
        super().__init__({"i": In(1), "count": In(MODERATION_WIDTH), "cycles": In(MODERATION_WIDTH), "o": Out(1)})

    def elaborate(self, platform):
        m = Module()
        # Cycles since the first request, including the current one.
        waiting, waited = Signal(MODERATION_WIDTH), Signal(MODERATION_WIDTH, init=1)
        less = Signal(MODERATION_WIDTH)
        arrived, wanted, enough, expired, over = (Signal() for _ in range(5))
        m.d.sync += [arrived.eq(self.i), less.eq(-self.count), over.eq(self.cycles.any() & (waited >= self.cycles))]
        m.d.comb += [
            wanted.eq(arrived | waiting.any()),
            # ``waiting + arrived >= count`` as one carry chain.
            enough.eq(less.any() & (waiting + less + arrived)[MODERATION_WIDTH]),
            expired.eq(over & waiting.any()),
            self.o.eq(wanted & (enough | expired | ~(self.count.any() | self.cycles.any()))),
        ]
        with m.If(self.o):
            m.d.sync += [waiting.eq(0), waited.eq(1), over.eq(0)]
        with m.Else():
            m.d.sync += waiting.eq(waiting + (arrived & ~waiting.all()))
            # A first request has already waited for a cycle when it is counted.
            m.d.sync += waited.eq(Mux(wanted, waited + ~waited.all(), 1))
        return m
