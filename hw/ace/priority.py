# SPDX-License-Identifier: Apache-2.0
"""Priorities: selection of the highest among requests, and a queue that is ordered by priority."""

from amaranth import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.stream import Queue
from hw.stream.shapes import ShapeLike

from .communicators import PRIORITY_WIDTH

__all__ = ["RANK_WIDTH", "PriorityQueue", "above", "foremost"]

RANK_WIDTH = (1 << PRIORITY_WIDTH) - 1


def above(priority):
    """Whether ``priority`` is higher than 0, than 1, ...: a bit for each but the highest."""
    return Cat(priority > level for level in range(RANK_WIDTH))


def foremost(m, requests, ranks, *, name):
    """``requests`` without those of lower priority than another; each rank is :func:`above` of a priority.

    Four LUT6 deep for 16 requests.
    """
    beaten, chosen = Signal(RANK_WIDTH, name=f"{name}_beaten"), Signal(len(requests), name=name)
    m.d.comb += beaten.eq(Cat(
        (requests & Cat(rank[level] for rank in ranks)).any() for level in range(RANK_WIDTH)))
    m.d.comb += chosen.eq(Cat(
        request & ~(beaten & ~rank).any() for request, rank in zip(requests, ranks, strict=True)))
    return chosen


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
