# SPDX-License-Identifier: Apache-2.0
"""Choice of the one who has been there longest, among those of the highest priority.

Latency: 0, ``requests`` to ``grant_onehot`` is combinational.  Throughput: one grant per cycle.
"""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

__all__ = ["Oldest"]


class Oldest(wiring.Component):
    """Of those who request, grant the one who started first, but for who outranked it.

    Who goes before whom is kept as a bit for each pair; four LUT6 deep for 32.

    Parameters
    ----------
    count : int
        How many there are.

    Members
    -------
    started : ``In(count)``
        Who starts anew, and is the youngest from the next cycle on; at most one at a time.
    outranked : ``In(count)``
        Before whom it goes all the same.
    requests : ``In(count)``
    grant_onehot : ``Out(count)``
        0 while nobody requests.
    """

    def __init__(self, count):
        self.count = count
        super().__init__({
            "started": In(count), "outranked": In(count), "requests": In(count), "grant_onehot": Out(count)})

    def elaborate(self, platform):
        m = Module()
        # Of each pair, whether the one with the lower number goes first.
        lower = {(one, other): Signal(init=1, name=f"older_{one}_{other}")
                 for other in range(self.count) for one in range(other)}
        for (one, other), older in lower.items():
            with m.If(self.started[one]):
                m.d.sync += older.eq(self.outranked[other])
            with m.Elif(self.started[other]):
                m.d.sync += older.eq(~self.outranked[one])
        for one in range(self.count):
            earlier = Cat(self.requests[other] & (lower[other, one] if other < one else ~lower[one, other])
                          for other in range(self.count) if other != one)
            m.d.comb += self.grant_onehot[one].eq(self.requests[one] & ~earlier.any())
        return m
