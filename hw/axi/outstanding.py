"""Answers that memory owes under one ID: R beats of the reads, or B responses of the writes, that were sent.

AR or AW -> Outstanding -> R or B.  Latency: combinational.  Throughput: one request and one answer per cycle.

After ``rst``, memory may still answer what was asked for before (the answers cannot be called back: IHI 0022, A3.2.1).
While nothing is owed, such an answer is known as a stray, and can be dropped.
"""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

__all__ = ["Outstanding"]


class Outstanding(wiring.Component):
    """Count what is owed; an answer while nothing is owed counts for nothing.

    Parameters
    ----------
    most : int
        Answers owed at most, at least 1.

    Members
    -------
    asked : ``In(range(most + 1))``
        So many answers are asked for in this cycle: 0 for none.
    answered : ``In(1)``
        One comes. None does in the cycle in which it is asked for.
    owed : ``Out(1)``
        Memory owes some. From a register.
    stray : ``Out(1)``
        One came in the cycle before that nobody had asked for.
    """

    def __init__(self, most: int) -> None:
        if not isinstance(most, int) or most < 1:
            raise ValueError(f"Outstanding answers must be a positive integer, not {most!r}")
        self.most = most
        super().__init__({"asked": In(range(most + 1)), "answered": In(1), "owed": Out(1), "stray": Out(1)})

    def elaborate(self, platform):
        m = Module()
        # One less than are owed: the sign says that none is.
        less = Signal(signed(self.most.bit_length() + 1), init=-1)
        m.d.comb += self.owed.eq(~less[-1])
        m.d.sync += [less.eq(less + self.asked - (self.answered & self.owed)),
                     self.stray.eq(self.answered & ~self.owed)]
        return m
