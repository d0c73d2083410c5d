# SPDX-License-Identifier: Apache-2.0
"""Outstanding responses under one ID: R beats of reads, or B responses of writes.

AR or AW -> Outstanding -> R or B.  Latency: combinational.  Throughput: one request and one response per cycle.

After ``rst``, memory may still respond to earlier requests, which cannot be cancelled (IHI 0022, A3.2.1). A response
that arrives while none is outstanding is reported as unexpected, so that its receiver can drop it.
"""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

__all__ = ["Outstanding"]


class Outstanding(wiring.Component):
    """Count outstanding responses; an unexpected response does not change the count.

    Parameters
    ----------
    depth : int
        Most outstanding responses, at least 1.

    Members
    -------
    issued : ``In(range(depth + 1))``
        Responses requested in this cycle; 0 for none.
    response : ``In(1)``
        A response arrives; never in the cycle of its request.
    outstanding : ``Out(1)``
        At least one response is outstanding. Registered.
    unexpected : ``Out(1)``
        A response arrived in the cycle before while none was outstanding.
    """

    def __init__(self, depth: int) -> None:
        if not isinstance(depth, int) or depth < 1:
            raise ValueError(f"Outstanding responses must be a positive integer, not {depth!r}")
        self.depth = depth
        super().__init__({"issued": In(range(depth + 1)), "response": In(1), "outstanding": Out(1),
                          "unexpected": Out(1)})

    def elaborate(self, platform):
        m = Module()
        # The count minus one: it is negative while none is outstanding.
        less = Signal(signed(self.depth.bit_length() + 1), init=-1)
        m.d.comb += self.outstanding.eq(~less[-1])
        m.d.sync += [less.eq(less + self.issued - (self.response & self.outstanding)),
                     self.unexpected.eq(self.response & ~self.outstanding)]
        return m
