# SPDX-License-Identifier: Apache-2.0
"""A credit counter: take credits before sending, give them back when the entries are free again.

Latency: 1 cycle from ``take`` or ``give`` to ``available``.  Throughput: ``max_take`` and ``max_give`` per cycle.
"""

from amaranth import *
from amaranth.hdl import Assert, Format
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

__all__ = ["CreditCounter"]


class CreditCounter(wiring.Component):
    """Count credits between 0 and ``limit``, starting full.

    The user takes at most ``available`` and gives back at most what was taken; then credits available and credits held
    always add up to ``limit``. Credits given in a cycle can be taken in the next.

    Parameters
    ----------
    limit : int
        Credits in all, at least 1.
    max_take : int
        Most credits taken in one cycle, from 1 to ``limit``.
    max_give : int
        Most credits given back in one cycle, from 1 to ``limit``.
    checks : bool
        Assert that the user keeps these rules.

    Members
    -------
    take : ``In(range(max_take + 1))``
        Credits to take with ``take_stb``; at most ``available``.
    take_stb : ``In(1)``
        Take ``take`` credits in this cycle.
    give : ``In(range(max_give + 1))``
        Credits given back in this cycle; 0 for none.
    available : ``Out(range(limit + 1))``
        Credits left. Registered.

    Raises
    ------
    ValueError
        If a number is out of its range.
    """

    def __init__(self, limit: int, *, max_take: int, max_give: int = 1, checks: bool = False) -> None:
        if not isinstance(limit, int) or limit < 1:
            raise ValueError(f"CreditCounter limit must be a positive integer, not {limit!r}")
        for name, value in (("max_take", max_take), ("max_give", max_give)):
            if not isinstance(value, int) or not 1 <= value <= limit:
                raise ValueError(f"CreditCounter {name} must be an integer from 1 to the limit of {limit}, "
                                 f"not {value!r}")
        self.limit = limit
        self.max_take = max_take
        self.max_give = max_give
        self.checks = checks
        super().__init__({
            "take": In(range(max_take + 1)),
            "take_stb": In(1),
            "give": In(range(max_give + 1)),
            "available": Out(range(limit + 1), init=limit),
        })

    def elaborate(self, platform):
        m = Module()

        # ``take_stb`` arrives late: it only selects between two sums.
        taken = Signal.like(self.take)
        m.d.comb += taken.eq(Mux(self.take_stb, self.take, 0))
        m.d.sync += self.available.eq(Mux(
            self.take_stb, self.available - self.take + self.give, self.available + self.give))

        if self.checks:
            with m.If(~ResetSignal(allow_reset_less=True)):
                m.d.sync += [
                    Assert(taken <= self.available,
                           Format("CreditCounter: {} credits taken with {} available",
                                  taken, self.available)),
                    Assert(self.available - taken + self.give <= self.limit,
                           Format("CreditCounter: {} credits given with {} of {} available",
                                  self.give, self.available, self.limit)),
                ]

        return m
