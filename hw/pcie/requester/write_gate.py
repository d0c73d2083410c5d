# SPDX-License-Identifier: Apache-2.0
"""Whether the write path accepts another beat, and whether anything is left in it.

WriteBuffer, WriteQueue, WriteResponses -> WriteGate -> WriteIntake.  Latency: 0; of ``idle`` 1 cycle.
"""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

__all__ = ["WriteGate"]


class WriteGate(wiring.Component):
    """Parts work without back-pressure: a beat is accepted only if each has free entries for all that follows from it.

    Parameters
    ----------
    parts : int
        Parts that may be full.
    stages : int
        Parts that may be busy.

    Members
    -------
    opens : ``In(1).array(parts)``, open : ``Out(1)``
    idles : ``In(1).array(stages)``, idle : ``Out(1)``
        ``idle`` is registered.
    """

    def __init__(self, parts: int, stages: int) -> None:
        super().__init__({"opens": In(1).array(parts), "open": Out(1), "idles": In(1).array(stages), "idle": Out(1)})

    def elaborate(self, platform):
        m = Module()
        m.d.comb += self.open.eq(Cat(*self.opens).all())
        m.d.sync += self.idle.eq(Cat(*self.idles).all())
        return m
