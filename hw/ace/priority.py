# SPDX-License-Identifier: Apache-2.0
"""Priorities: arbitration among requesters, and a queue that is ordered by priority."""

from amaranth import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.stream import Queue, RoundRobin
from hw.stream.shapes import ShapeLike

from .communicators import PRIORITY_WIDTH

__all__ = ["RANK_WIDTH", "PriorityQueue", "PriorityRoundRobin", "above"]

RANK_WIDTH = (1 << PRIORITY_WIDTH) - 1


def above(priority):
    """Whether ``priority`` is higher than 0, than 1, ...: a bit for each but the highest."""
    return Cat(priority > level for level in range(RANK_WIDTH))



class PriorityRoundRobin(wiring.Component):
    """Grant a requester of the highest priority that has one; round robin among those of equal priority.

    Each priority has a pointer of its own, which only its own grants move: requests of one priority do not change the
    order in another. So a requester waits for at most one grant of each other of its priority, besides those of higher
    priorities. Latency: 0 from ``requests`` to ``grant``, 1 cycle from ``priorities``.

    Parameters
    ----------
    count : int
        Number of requesters, at least 2.

    Members
    -------
    requests : ``In(count)``, priorities : ``In(PRIORITY_WIDTH).array(count)``
    advance : ``In(1)``
        The grant is taken in this cycle. Ignored without a request.
    grant : ``Out(range(count))``, valid : ``Out(1)``
    """

    def __init__(self, count: int) -> None:
        self.count = count
        super().__init__({
            "requests": In(count), "priorities": In(PRIORITY_WIDTH).array(count), "advance": In(1),
            "grant": Out(range(count)), "valid": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        higher = Const(0, 1)
        for level in reversed(range(1 << PRIORITY_WIDTH)):
            m.submodules[f"turn_{level}"] = turn = RoundRobin(self.count)
            members = Signal(self.count, name=f"members_{level}", init=0 if level else -1)
            m.d.sync += members.eq(Cat(priority == level for priority in self.priorities))
            m.d.comb += [turn.requests.eq(self.requests & members), turn.advance.eq(self.advance & ~higher)]
            with m.If(turn.valid & ~higher):
                m.d.comb += self.grant.eq(turn.grant)
            higher = higher | turn.valid
        m.d.comb += self.valid.eq(higher)
        return m


class PriorityQueue(wiring.Component):
    """A queue for each priority; the highest priority with an item leaves first.

    Latency: 2 cycles.  Throughput: one per 2 cycles.

    Parameters
    ----------
    shape : shape-like
        Shape of an item.
    depth : int
        Entries for each priority.

    Members
    -------
    i : ``In(stream.Signature({priority, item}))``
    o : ``Out(stream.Signature(shape))``
        Registered.
    """

    def __init__(self, shape: ShapeLike, *, depth: int) -> None:
        self.shape, self.depth = shape, depth
        super().__init__({
            "i": In(stream.Signature(data.StructLayout({"priority": PRIORITY_WIDTH, "item": shape}))),
            "o": Out(stream.Signature(shape)),
        })

    def elaborate(self, platform):
        m = Module()
        earlier = Const(0, 1)
        with m.If(self.o.ready):
            m.d.sync += self.o.valid.eq(0)
        for level in reversed(range(1 << PRIORITY_WIDTH)):
            m.submodules[f"line_{level}"] = line = Queue(self.shape, depth=self.depth)
            m.d.comb += [
                line.i.payload.eq(self.i.payload.item),
                line.i.valid.eq(self.i.valid & (self.i.payload.priority == level)),
                line.o.ready.eq(~self.o.valid & ~earlier),
            ]
            with m.If(self.i.payload.priority == level):
                m.d.comb += self.i.ready.eq(line.i.ready)
            with m.If(line.o.valid & line.o.ready):
                m.d.sync += [self.o.valid.eq(1), self.o.payload.eq(line.o.payload)]
            earlier = earlier | line.o.valid
        return m
