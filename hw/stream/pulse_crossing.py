# SPDX-License-Identifier: Apache-2.0
"""Pulses of one cycle from one clock domain to another, none lost.

Any logic of ``i_domain`` -> PulseCrossing -> any logic of ``o_domain``.  Latency: 1 cycle of ``i_domain``, then
``stages + 1`` to ``stages + 2`` of ``o_domain``, and one for each pulse ahead.  Throughput: a pulse per cycle of
``o_domain``.
"""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .level_crossing import LevelCrossing

__all__ = ["PulseCrossing"]


class PulseCrossing(wiring.Component):
    """Count the pulses of ``i`` in gray code, and repeat them on ``o`` until its count is equal.

    Resets neither lose nor add pulses: both counters are without reset. Pulses also appear while ``o_domain`` is in
    reset.

    Parameters
    ----------
    i_domain, o_domain : str
        Clock domains.
    count_width : int
        Bits of the counters, 2 to 16. Pulses may be ahead of ``o`` by at most ``2**count_width - 1``; choose more bits
        where ``i_domain`` is faster and pulses may follow each other.
    stages : int
        Flip-flops of the synchroniser, 2 or 3.

    Members
    -------
    i : ``In(1)``, o : ``Out(1)``
        A pulse in each cycle in which it is 1. ``o`` is registered.

    Raises
    ------
    ValueError
        If ``count_width`` or ``stages`` is out of its range.
    """

    i: In(1)
    o: Out(1)

    def __init__(self, *, i_domain: str, o_domain: str, count_width: int = 4, stages: int = 2) -> None:
        if not isinstance(count_width, int) or not 2 <= count_width <= 16:
            raise ValueError(f"PulseCrossing counters must have 2 to 16 bits, not {count_width!r}")
        self.i_domain, self.o_domain, self.count_width, self.stages = i_domain, o_domain, count_width, stages
        super().__init__()

    def elaborate(self, platform):
        m = Module()
        m.submodules.counted = counted = LevelCrossing(
            self.count_width, i_domain=self.i_domain, o_domain=self.o_domain, stages=self.stages)
        count = Signal(self.count_width, reset_less=True)
        after = Signal(self.count_width)
        m.d.comb += [after.eq(count + self.i), counted.i.eq(after ^ after[1:])]
        m.d[self.i_domain] += count.eq(after)

        repeated, pulse = Signal(self.count_width, reset_less=True), Signal(reset_less=True)
        more = counted.o != (repeated ^ repeated[1:])
        m.d.comb += self.o.eq(pulse)
        m.d[self.o_domain] += [pulse.eq(more), repeated.eq(repeated + more)]
        return m
