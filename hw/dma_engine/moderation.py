"""Interrupt moderation: one interrupt for several requests.

Retire -> InterruptModeration -> IRQ_STATUS.  Latency: none if nothing is moderated.  Throughput: one request per cycle.
"""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .config import MODERATION_WIDTH

__all__ = ["InterruptModeration"]


class InterruptModeration(wiring.Component):
    """Raise an interrupt when enough requests want one, or when the first of them has waited long enough.

    Members
    -------
    i : ``In(1)``
        A request wants an interrupt.
    count, cycles : ``In``
        Raise at so many, or so many cycles after the first; 0 for neither. If both are 0, at once.
    o : ``Out(1)``
        Combinational.
    """

    def __init__(self):
        super().__init__({"i": In(1), "count": In(MODERATION_WIDTH), "cycles": In(MODERATION_WIDTH), "o": Out(1)})

    def elaborate(self, platform):
        m = Module()
        waiting, waited = Signal(MODERATION_WIDTH), Signal(MODERATION_WIDTH)
        wanted, enough, late = Signal(), Signal(), Signal()
        m.d.comb += [
            wanted.eq(self.i | waiting.any()),
            enough.eq(self.count.any() & (waiting + self.i >= self.count)),
            late.eq(self.cycles.any() & waiting.any() & (waited >= self.cycles)),
            self.o.eq(wanted & (enough | late | ~(self.count.any() | self.cycles.any()))),
        ]
        with m.If(self.o):
            m.d.sync += [waiting.eq(0), waited.eq(0)]
        with m.Else():
            m.d.sync += waiting.eq(waiting + (self.i & ~waiting.all()))
            # A first request has waited for a cycle when it is seen to wait.
            m.d.sync += waited.eq(Mux(wanted, waited + ~waited.all(), 0))
        return m
