# SPDX-License-Identifier: Apache-2.0
"""An arbiter that grants the requester that started first, unless others outrank it.

Latency: 0, ``requests`` to ``grant_onehot`` is combinational.  Throughput: one grant per cycle.
"""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

__all__ = ["AgeArbiter"]


class AgeArbiter(wiring.Component):
    """Grant the requester that started first among those that request, subject to ``outranked``.

    The order is stored as one bit for each pair; four LUT6 deep for 32.

    Parameters
    ----------
    count : int
        Number of requesters.

    Members
    -------
    started : ``In(count)``
        Requester that starts now, and is the youngest from the next cycle on; at most one at a time.
    outranked : ``In(count)``
        Requesters before which the one that starts is placed nevertheless.
    requests : ``In(count)``
    grant_onehot : ``Out(count)``
        0 without a request.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        super().__init__({
            "started": In(count), "outranked": In(count), "requests": In(count), "grant_onehot": Out(count)})

    def elaborate(self, platform):
        m = Module()
        # For each pair: the one with the lower number is older.
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
