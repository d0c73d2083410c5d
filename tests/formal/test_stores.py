# SPDX-License-Identifier: Apache-2.0
"""Queues that drop or replay items, by induction: they offer what their descriptions say, and nothing else."""

import pytest
from amaranth.hdl import Assert, Assume, Format, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In

from hw.stream import CommitQueue, ReplayQueue
from tests.formal.delivery import WIDTH, stable
from tests.harness.formal import prove
from tests.harness.internals import elaborated, internal

pytestmark = [pytest.mark.formal, pytest.mark.long]

DEPTH = 4
KINDS = [("lut", {}), ("block", {"ram": "block"})]


class Committed(wiring.Component):
    """Committed items leave in order, each once; dropped ones never do. One item of the solver's choice is watched."""

    def __init__(self, queue):
        self.queue = queue
        super().__init__({"valid": In(1), "payload": In(WIDTH), "ready": In(1), "first": In(1), "commit": In(1),
                          "watch": In(1)})

    def elaborate(self, platform):
        m = Module()
        queue = self.queue
        parts = elaborated(queue)
        i, o = queue.i, queue.o
        m.d.comb += [i.valid.eq(self.valid), i.payload.eq(self.payload), o.ready.eq(self.ready),
                     queue.first.eq(self.first), queue.commit.eq(self.commit)]
        stable(m, o, Assert, "output")
        # Committed items inside, and those of the group that is not committed yet.
        good, group, kept = (Signal(range(DEPTH + 1), name=name) for name in ("good_items", "group", "kept"))
        ahead = Signal(range(DEPTH + 1))
        watching = Signal()
        item = Signal(WIDTH)
        push, pop = (Signal(name=name) for name in ("push", "pop"))
        m.d.comb += [push.eq(i.valid & i.ready), pop.eq(o.valid & o.ready), kept.eq(Mux(self.first, 0, group))]
        m.d.sync += [good.eq(good + Mux(push & self.commit, kept + 1, 0) - pop)]
        with m.If(push):
            m.d.sync += group.eq(Mux(self.commit, 0, kept + 1))
        with m.If(watching & push & self.first & (ahead >= good)):
            m.d.sync += watching.eq(0)      # dropped
        with m.Elif(watching & pop):
            m.d.sync += [watching.eq(ahead != 0), ahead.eq(ahead - 1)]
            m.d.comb += Assert((ahead != 0) | (o.payload == item), Format("the watched item has changed"))
        with m.Elif(push & self.watch & ~watching):
            m.d.sync += [watching.eq(1), ahead.eq(good + kept - pop), item.eq(i.payload)]
        m.d.comb += [
            Assert(~o.valid | (good != 0), Format("an item that was not committed is offered")),
            Assert(good + group <= DEPTH, Format("more items than entries")),
            Assert(~watching | (ahead < good + group), Format("the watched item is not inside")),
            # Nothing else stalls the input.
            Assert(i.ready | (good + group == DEPTH) | (self.first & (good == DEPTH)), Format("not ready")),
        ]
        waited = Signal(range(4))
        m.d.sync += waited.eq(Mux((good != 0) & ~o.valid, waited + 1, 0))
        m.d.comb += Assert(waited < queue.latency, Format("a committed item is not offered"))

        # -- The invariant: the pointers agree with the counts, and the row of the watched item holds it.
        written, committed, taken = (internal(parts, name) for name in ("written", "good", "taken"))
        storage = parts.submodules.storage
        rows = storage.read_port(domain="comb")
        m.submodules.dut = parts
        m.d.comb += [rows.addr.eq(taken + ahead),
                     Assert((committed - taken)[:len(taken)] == good, Format("good")),
                     Assert((written - committed)[:len(taken)] == group, Format("written"))]
        with m.If(watching):
            m.d.comb += Assert(rows.data == item, Format("a row does not hold the watched item"))
        if queue.latency > 1:
            loaded, reading, shown = internal(parts, "loaded"), internal(parts, "reading"), storage.read_ports[0]
            m.d.comb += [Assert(reading == (taken + loaded)[:len(taken)], Format("reading")),
                         Assert(~loaded | (good != 0), Format("loaded"))]
            with m.If(watching & loaded & (ahead == 0)):
                m.d.comb += Assert(shown.data == item, Format("the read register does not hold the watched item"))
        return m


@pytest.mark.parametrize("name, kind", KINDS)
def test_commit_queue(name, kind):
    queue = CommitQueue(WIDTH, depth=DEPTH, **kind)
    prove(Committed(queue), name=f"commit-queue-{name}", depth=4, mode="prove")


class Replayed(wiring.Component):
    """Items are offered in order, from the oldest again after ``rewind``, and are held until they are released."""

    def __init__(self, queue):
        self.queue = queue
        super().__init__({"valid": In(1), "payload": In(WIDTH), "ready": In(1), "release": In(range(DEPTH + 1)),
                          "rewind": In(1), "clear": In(1), "watch": In(1)})

    def elaborate(self, platform):
        m = Module()
        queue = self.queue
        parts = elaborated(queue)
        i, o = queue.i, queue.o
        m.d.comb += [i.valid.eq(self.valid), i.payload.eq(self.payload), o.ready.eq(self.ready),
                     queue.release.eq(self.release), queue.rewind.eq(self.rewind), queue.clear.eq(self.clear)]
        # Items held; those before the next one to be taken; the most that were ever taken.
        held, position, known = (Signal(range(DEPTH + 1), name=name) for name in ("held", "position", "known_items"))
        # The watched item, counted from the oldest one.
        index = Signal(range(DEPTH + 1))
        watching = Signal()
        item = Signal(WIDTH)
        push, pop, late = (Signal(name=name) for name in ("push", "pop", "late"))
        m.d.comb += [push.eq(i.valid & i.ready), pop.eq(o.valid & o.ready)]
        # The user: releases what it took, and rewinds before it takes again if it released what it will not take.
        m.d.comb += [
            Assume(self.release <= known), Assume(~self.rewind | (~pop & (self.release == 0))),
            Assume(~late | ~pop), Assume(~(pop & (self.release > position))),
        ]
        m.d.sync += late.eq((late | (self.release > position)) & ~self.rewind & ~self.clear)
        ahead = Signal(range(DEPTH + 1))
        m.d.comb += ahead.eq(Mux(self.release > position, 0, position - self.release))
        m.d.sync += [
            held.eq(held + push - self.release), position.eq(ahead + pop),
            known.eq(Mux(pop & (position == known), known + 1, known) - self.release),
            index.eq(index - self.release),
        ]
        with m.If(self.rewind):
            m.d.sync += position.eq(0)
        with m.If(watching & (index < self.release)):
            m.d.sync += watching.eq(0)
        with m.If(push & self.watch & ~watching):
            m.d.sync += [watching.eq(1), index.eq(held - self.release), item.eq(i.payload)]
        with m.If(self.clear):
            m.d.sync += [held.eq(0), position.eq(0), known.eq(0), watching.eq(0)]
        with m.If(~late):
            m.d.comb += [
                Assert(~o.valid | (position < held), Format("an item that is not held is offered")),
                Assert(~(o.valid & watching & (position == index)) | (o.payload == item),
                       Format("the watched item is not offered")),
            ]
        m.d.comb += [
            Assert(queue.level == held, Format("level")), Assert(queue.fresh == held - known, Format("fresh")),
            Assert(i.ready == (held != DEPTH), Format("ready")),
            Assert((held <= DEPTH) & (known <= held) & (late | (position <= known)), Format("counts")),
            Assert(~watching | (index < held), Format("the watched item is not held")),
        ]
        # -- The invariant: pointers and rows.
        written, taken, oldest = (internal(parts, name) for name in ("written", "taken", "oldest"))
        storage = parts.submodules.storage
        rows = storage.read_port(domain="comb")
        m.submodules.dut = parts
        m.d.comb += [rows.addr.eq(oldest + index),
                     Assert((written - oldest)[:len(oldest)] == held, Format("written"))]
        with m.If(~late):
            m.d.comb += Assert((taken - oldest)[:len(oldest)] == position, Format("taken"))
        with m.If(watching):
            m.d.comb += Assert(rows.data == item, Format("a row does not hold the watched item"))
        if queue.latency > 1:
            loaded, reading, shown = internal(parts, "loaded"), internal(parts, "reading"), storage.read_ports[0]
            m.d.comb += Assert(late | (reading == (taken + loaded)[:len(taken)]), Format("reading"))
            with m.If(~late & loaded):
                m.d.comb += Assert(position < held, Format("loaded"))
                with m.If(watching & (index == position)):
                    m.d.comb += Assert(shown.data == item, Format("the read register does not hold the watched item"))
        return m


@pytest.mark.parametrize("name, kind", KINDS)
def test_replay_queue(name, kind):
    prove(Replayed(ReplayQueue(WIDTH, depth=DEPTH, **kind)), name=f"replay-queue-{name}", depth=4, mode="prove")
