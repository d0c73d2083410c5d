"""Quiesce: when has everything ended that was looked up before now?

Scheduler, Retire -> Quiesce -> registers.  Segments are scheduled in one of two phases. To quiesce is to change the
phase and to wait until no segment of the old one is under way; nothing stops meanwhile.
"""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .epochs import COUNT_BITS

__all__ = ["Quiesce"]


class Quiesce(wiring.Component):
    """Count the segments of each phase.

    Members
    -------
    start : ``In(1)``
        Also while busy: then ``busy`` lasts until what was scheduled before this start has ended as well.
    busy : ``Out(1)``
        From the cycle after ``start``.
    phase : ``Out(1)``
        Of the segments whose regions are looked up in this cycle.
    scheduled, scheduled_phase, returned, returned_phase : ``In(1)``
        A segment enters the pipeline, at most one cycle after its lookup; one leaves it, whatever its epoch.
    """

    start: In(1)
    busy: Out(1)
    phase: Out(1)
    scheduled: In(1)
    scheduled_phase: In(1)
    returned: In(1)
    returned_phase: In(1)

    def elaborate(self, platform):
        m = Module()
        counts = [Signal(COUNT_BITS, name=f"count_{phase}") for phase in range(2)]
        for phase, count in enumerate(counts):
            comes, goes = Signal(name=f"comes_{phase}"), Signal(name=f"goes_{phase}")
            m.d.comb += [
                comes.eq(self.scheduled & (self.scheduled_phase == phase)),
                goes.eq(self.returned & (self.returned_phase == phase)),
            ]
            with m.If(comes & ~goes):
                m.d.sync += count.eq(count + 1)
            with m.If(goes & ~comes):
                m.d.sync += count.eq(count - 1)

        # Right after a change, the last segments of the old phase are not counted yet.
        asked, changed, draining = Signal(), Signal(2), Signal()
        m.d.comb += [
            draining.eq(changed.any() | (Mux(self.phase, counts[0], counts[1]) != 0)),
            self.busy.eq(asked | draining),
        ]
        m.d.sync += changed.eq(changed << 1)
        with m.If(asked & ~draining):
            m.d.sync += [self.phase.eq(~self.phase), changed.eq(1), asked.eq(0)]
        with m.If(self.start):
            m.d.sync += asked.eq(1)
        return m
