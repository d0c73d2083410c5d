"""Quiesce: when has everything ended that was looked up before now?

Scheduler, Retire -> Quiesce -> registers.  Segments are scheduled in one of two phases. To quiesce is to change the
phase and to wait until no segment of the old one is under way; nothing stops meanwhile.
"""

from amaranth import *
from amaranth.hdl import Assert, Format
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .epochs import outside_bits

__all__ = ["Quiesce"]


class Quiesce(wiring.Component):
    """Count the segments of each phase.

    Parameters
    ----------
    config : DmaConfig

    Members
    -------
    start : ``In(1)``
        Also while busy: then ``busy`` lasts until what was scheduled before this start has ended as well.
    given_up : ``In(1)``
        Memory has not answered all words and reads of descriptors of queues that were given up.
    busy : ``Out(1)``
        From the cycle after ``start``, and with ``given_up``.
    phase : ``Out(1)``
        Of the segments whose regions are looked up in this cycle.
    scheduled, scheduled_phase, returned, returned_phase : ``In(1)``
        A segment enters the pipeline, at most one cycle after its lookup; one leaves it, whatever its epoch.
    """

    def __init__(self, config):
        self.config = config
        super().__init__({
            "start": In(1), "given_up": In(1), "busy": Out(1), "phase": Out(1),
            "scheduled": In(1), "scheduled_phase": In(1), "returned": In(1), "returned_phase": In(1),
        })

    def elaborate(self, platform):
        m = Module()
        counts = [Signal(outside_bits(self.config), name=f"count_{phase}") for phase in range(2)]
        for phase, count in enumerate(counts):
            comes, goes = Signal(name=f"comes_{phase}"), Signal(name=f"goes_{phase}")
            m.d.comb += [
                comes.eq(self.scheduled & (self.scheduled_phase == phase)),
                goes.eq(self.returned & (self.returned_phase == phase)),
            ]
            with m.If(comes & ~goes):
                m.d.sync += [count.eq(count + 1), Assert(~count.all(), Format("more segments are under way than fit"))]
            with m.If(goes & ~comes):
                m.d.sync += count.eq(count - 1)

        # Right after a change, the last segments of the old phase are not counted yet.
        asked, changed, draining = Signal(), Signal(2), Signal()
        m.d.comb += [
            draining.eq(changed.any() | (Mux(self.phase, counts[0], counts[1]) != 0)),
            self.busy.eq(asked | draining | self.given_up),
        ]
        m.d.sync += changed.eq(changed << 1)
        with m.If(asked & ~draining):
            m.d.sync += [self.phase.eq(~self.phase), changed.eq(1), asked.eq(0)]
        with m.If(self.start):
            m.d.sync += asked.eq(1)
        return m
