# SPDX-License-Identifier: Apache-2.0
"""Specification of a block that passes a stream on: nothing is lost, duplicated, changed or reordered."""

from amaranth.hdl import Assert, Assume, Format, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In

from tests.harness.internals import elaborated

__all__ = ["WIDTH", "Delivery", "StableInput", "stable"]

WIDTH = 4
"""Bits of a payload. The solver chooses each; the blocks do not look at them."""


class StableInput(wiring.Component):
    """A stream from the solver, which keeps the stream rules."""

    def __init__(self, width=WIDTH):
        super().__init__({"valid": In(1), "payload": In(width), "ready": In(1)})

    def elaborate(self, platform):
        m = Module()
        stable(m, self, Assume, "input")
        return m


def stable(m, watched, check, name):
    """Assert or assume that ``watched`` offers an item until it is accepted."""
    stalled = Signal(name=f"{name}_stalled")
    before = Signal.like(Value.cast(watched.payload), name=f"{name}_before")
    m.d.sync += [stalled.eq(watched.valid & ~watched.ready), before.eq(Value.cast(watched.payload))]
    m.d.comb += check(~stalled | (watched.valid & (Value.cast(watched.payload) == before)),
                      Format("{} changed before the transfer", name))
    return stalled, before


class Delivery(wiring.Component):
    """One item of the solver's choice is watched while it passes ``dut``; all others are counted.

    Asserted, for any inputs, stalls and choice: an offered item is stable; there is never an item on ``o`` that did not
    come from ``i``; the watched item comes out once, unchanged, after exactly those that went in before; the oldest
    item is offered within ``wait`` cycles.

    Parameters
    ----------
    dut : component with streams ``i`` and ``o``
    capacity : int
        Most items inside.
    wait : int
        Cycles until the oldest item is offered.
    invariant : callable or None
        None for a bounded search.
        ``invariant(parts, ahead)`` of the elaborated block gives the stages from the output on, as pairs of whether one
        holds an item, and which, then the memory's rows: a value for the item at a position among them, and how many
        hold items; and further conditions. These are asserted, which makes the induction close.
    """

    def __init__(self, dut, *, capacity, wait, invariant):
        self.dut, self.capacity, self.wait, self.invariant = dut, capacity, wait, invariant
        super().__init__({"valid": In(1), "payload": In(WIDTH), "ready": In(1), "watch": In(1)})

    def elaborate(self, platform):
        m = Module()
        dut = self.dut
        parts = elaborated(dut)
        i, o = dut.i, dut.o
        m.d.comb += [i.valid.eq(self.valid), i.payload.eq(self.payload), o.ready.eq(self.ready)]
        stable(m, i, Assume, "input")
        stalled, before = stable(m, o, Assert, "output")

        push, pop = (Signal(name=name) for name in ("push", "pop"))
        inside, ahead = (Signal(range(self.capacity + 2), name=name) for name in ("inside", "ahead"))
        watching = Signal()
        item = Signal(WIDTH)
        m.d.comb += [push.eq(i.valid & i.ready), pop.eq(o.valid & o.ready)]
        m.d.sync += inside.eq(inside + push - pop)
        through = push & pop & (inside == 0)
        with m.If(watching & pop):
            m.d.sync += [watching.eq(ahead != 0), ahead.eq(ahead - 1)]
            m.d.comb += Assert((ahead != 0) | (o.payload == item), Format("the watched item has changed"))
        with m.Elif(push & self.watch & ~watching & ~through):
            m.d.sync += [watching.eq(1), ahead.eq(inside - pop), item.eq(i.payload)]
        with m.If(through):
            m.d.comb += Assert(o.payload == i.payload, Format("an item has changed"))
        waited = Signal(range(self.wait + 2))
        m.d.sync += waited.eq(Mux((inside != 0) & ~o.valid, waited + 1, 0))
        m.d.comb += [
            Assert(inside <= self.capacity, Format("more items than entries")),
            Assert(~o.valid | (inside != 0) | i.valid, Format("an item is from nowhere")),
            Assert(~pop | (inside != 0) | push, Format("an item is from nowhere")),
            Assert(waited <= self.wait, Format("the oldest item is not offered")),
            Assert(~watching | (ahead < inside), Format("the watched item is not inside")),
        ]

        if self.invariant is None:
            m.submodules.dut = parts
        else:
            self._assert_invariant(m, parts, watching, ahead, item, inside)
        # The output that was stalled is the one that is shown.
        m.d.comb += Assert(~stalled | (o.payload == before), Format("the offered item has changed"))
        return m

    def _assert_invariant(self, m, parts, watching, ahead, item, inside):
        position = Signal.like(ahead)
        stages, rows, level, others = self.invariant(parts, position)
        m.submodules.dut = parts
        count = 0
        for present, value in stages:
            with m.If(watching & present & (ahead == count)):
                m.d.comb += Assert(value == item, Format("a stage does not hold the watched item"))
            count = count + present
        m.d.comb += [position.eq(ahead - count), Assert(inside == count + level, Format("the stages do not hold all"))]
        if rows is not None:
            with m.If(watching & (ahead >= count)):
                m.d.comb += Assert(rows == item, Format("a row does not hold the watched item"))
        m.d.comb += [Assert(condition, Format("invariant {}", index)) for index, condition in enumerate(others)]
