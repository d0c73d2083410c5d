# SPDX-License-Identifier: Apache-2.0
"""A reset of one of two clock domains, made a reset of what they share.

Latency: both sides may run again 3 round trips after the last reset at most.
"""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .level_crossing import LevelCrossing

__all__ = ["ResetHandshake", "ResetSide"]


class ResetSide(wiring.Component):
    """One side: ``stop`` what it shares with the other, ``clear`` it once both have stopped.

    After a reset, a side sends ``request``. The other side stops, clears and acknowledges; now this side clears, too,
    and takes its request back. A further reset does not interrupt this handshake of four phases, whose registers are
    without reset, but makes it start again.

    Parameters
    ----------
    domain : str
        Its clock domain.

    Members
    -------
    stop : ``Out(1)``
        In the next cycle, the shared state must keep. Initially 1, and from the cycle after a reset.
    clear : ``Out(1)``
        The other side has stopped: the shared state returns to its initial value.
    request, acknowledge : ``Out(1)``
        To the other side. Registered.
    other_request, other_acknowledge : ``In(1)``
        From the other side, synchronised.
    """

    stop: Out(1)
    clear: Out(1)
    request: Out(1)
    acknowledge: Out(1)
    other_request: In(1)
    other_acknowledge: In(1)

    def __init__(self, domain: str) -> None:
        self.domain = domain
        super().__init__()

    def elaborate(self, platform):
        m = Module()
        pending = Signal(init=1)
        request, acknowledge = Signal(reset_less=True), Signal(reset_less=True)
        m.d.comb += [
            self.request.eq(request), self.acknowledge.eq(acknowledge),
            self.stop.eq(pending | request | self.other_acknowledge | self.other_request),
            self.clear.eq(self.other_request | request & self.other_acknowledge),
        ]
        m.d[self.domain] += acknowledge.eq(self.other_request)
        with m.If(request & self.other_acknowledge):
            m.d[self.domain] += pending.eq(0)
            with m.If(~pending):
                m.d[self.domain] += request.eq(0)
        with m.Elif(pending & ~self.other_acknowledge):
            m.d[self.domain] += request.eq(1)
        return m


class ResetHandshake(wiring.Component):
    """Both sides, connected.

    Parameters
    ----------
    domains : (str, str)
        The two clock domains.
    stages : int
        Flip-flops of each synchroniser, 2 or 3.

    Members
    -------
    stop, clear : ``Out(1).array(2)``
        Of :class:`ResetSide`, in each domain.
    """

    def __init__(self, domains: tuple[str, str], *, stages: int = 2) -> None:
        self.domains, self.stages = domains, stages
        super().__init__({"stop": Out(1).array(2), "clear": Out(1).array(2)})

    def elaborate(self, platform):
        m = Module()
        sides = [ResetSide(domain) for domain in self.domains]
        for number, (side, other) in enumerate(zip(sides, reversed(sides), strict=True)):
            crossing = LevelCrossing(2, i_domain=side.domain, o_domain=other.domain, stages=self.stages)
            m.submodules[f"side_{number}"], m.submodules[f"crossing_{number}"] = side, crossing
            m.d.comb += [
                crossing.i.eq(Cat(side.request, side.acknowledge)),
                Cat(other.other_request, other.other_acknowledge).eq(crossing.o),
                self.stop[number].eq(side.stop), self.clear[number].eq(side.clear),
            ]
        return m
