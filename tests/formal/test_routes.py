# SPDX-License-Identifier: Apache-2.0
"""Fork, join, merge, demultiplexer and arbiter, by induction: each item reaches its receivers once, unchanged, and no
input starves."""

import pytest
from amaranth.hdl import Assert, Assume, Cat, Format, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In

from hw.stream import Demux, Fork, Join, Merge, RoundRobin
from tests.formal.delivery import WIDTH, stable
from tests.harness.formal import prove
from tests.harness.internals import elaborated, internal, opened

pytestmark = [pytest.mark.formal, pytest.mark.long]


class Forked(wiring.Component):
    """Every output takes each item of the input once, and the input takes the next one after all of them."""

    def __init__(self, n):
        self.n = n
        super().__init__({"valid": In(1), "payload": In(WIDTH), "ready": In(n)})

    def elaborate(self, platform):
        m = Module()
        dut = Fork(WIDTH, self.n)
        m.submodules.dut = parts = elaborated(dut)
        m.d.comb += [dut.i.valid.eq(self.valid), dut.i.payload.eq(self.payload)]
        stable(m, dut.i, Assume, "input")
        push = dut.i.valid & dut.i.ready
        for index, o in enumerate(dut.o):
            m.d.comb += o.ready.eq(self.ready[index])
            stable(m, o, Assert, f"output_{index}")
            taken, pop = Signal(name=f"taken_{index}"), o.valid & o.ready
            m.d.sync += taken.eq((taken | pop) & ~push)
            m.d.comb += [
                Assert(~pop | ~taken, Format("an item is duplicated")),
                Assert(~push | taken | pop, Format("an item is lost")),
                Assert(~pop | (dut.i.valid & (o.payload == dut.i.payload)), Format("an item has changed")),
                Assert(~dut.i.valid | taken | o.valid, Format("an item is not offered")),
                Assert(taken == internal(parts, "done")[index], Format("done")),
            ]
        return m


def test_fork():
    prove(Forked(3), name="fork", depth=2, mode="prove")


class Joined(wiring.Component):
    """One item of each input makes one of the output."""

    valid: In(2)
    a: In(WIDTH)
    b: In(WIDTH)
    ready: In(1)

    def elaborate(self, platform):
        m = Module()
        m.submodules.dut = dut = Join({"a": WIDTH, "b": WIDTH})
        m.d.comb += dut.o.ready.eq(self.ready)
        pop = dut.o.valid & dut.o.ready
        for index, name in enumerate("ab"):
            i = getattr(dut, f"i_{name}")
            m.d.comb += [i.valid.eq(self.valid[index]), i.payload.eq(getattr(self, name))]
            stable(m, i, Assume, f"input_{name}")
            m.d.comb += [
                Assert((i.valid & i.ready) == pop, Format("an item is lost or duplicated")),
                Assert(~pop | (dut.o.payload[name] == i.payload), Format("an item has changed")),
            ]
        m.d.comb += Assert(dut.o.valid == self.valid.all(), Format("not offered"))
        stable(m, dut.o, Assert, "output")
        return m


def test_join():
    prove(Joined(), name="join", depth=2, mode="prove")


class Routed(wiring.Component):
    """Each item goes to the output that it names."""

    valid: In(1)
    payload: In(WIDTH)
    ready: In(3)

    def elaborate(self, platform):
        m = Module()
        m.submodules.dut = dut = Demux(WIDTH, 3, select=lambda payload: payload[:2])
        m.d.comb += [dut.i.valid.eq(self.valid), dut.i.payload.eq(self.payload)]
        stable(m, dut.i, Assume, "input")
        push, pops = dut.i.valid & dut.i.ready, []
        for index, o in enumerate(dut.o):
            m.d.comb += o.ready.eq(self.ready[index])
            stable(m, o, Assert, f"output_{index}")
            named = Mux(self.payload[:2] == 3, 2, self.payload[:2]) == index
            m.d.comb += [
                Assert(o.valid == (dut.i.valid & named), Format("offered to another")),
                Assert(~o.valid | (o.payload == self.payload), Format("an item has changed")),
            ]
            pops.append(o.valid & o.ready)
        m.d.comb += Assert(push == Cat(*pops).any(), Format("an item is lost or duplicated"))
        return m


def test_demux():
    prove(Routed(), name="demux", depth=2, mode="prove")


class Merged(wiring.Component):
    """Each item of the output is that of one input, which accepts it; an input waits for one item of each other one."""

    def __init__(self, n, *, registered_choice):
        self.n, self.registered_choice = n, registered_choice
        super().__init__({"valid": In(n), "payload": In(WIDTH).array(n), "ready": In(1), "watched": In(range(n))})

    def elaborate(self, platform):
        m = Module()
        n, dut = self.n, Merge(WIDTH, self.n, registered_choice=self.registered_choice)
        m.submodules.dut = parts = elaborated(dut)
        arbiter = opened(parts, "arbiter")
        m.d.comb += dut.o.ready.eq(self.ready)
        stalled, _ = stable(m, dut.o, Assert, "output")
        pop, pushes = dut.o.valid & dut.o.ready, []
        for index, i in enumerate(dut.i):
            m.d.comb += [i.valid.eq(self.valid[index]), i.payload.eq(self.payload[index])]
            stable(m, i, Assume, f"input_{index}")
            push = i.valid & i.ready
            pushes.append(push)
            m.d.comb += [
                Assert(~push | (pop & (dut.source == index) & (dut.o.payload == i.payload)), Format("an item is lost")),
                Assert(~dut.o.valid | (dut.source != index) | (i.valid & (dut.o.payload == i.payload)),
                       Format("an item is from nowhere")),
            ]
        m.d.comb += [Assert(sum(pushes) == pop, Format("an item is lost or duplicated")),
                     Assert(dut.source < n, Format("source"))]
        source = Signal(range(n), name="source_before")
        m.d.sync += source.eq(dut.source)
        m.d.comb += Assert(~stalled | (dut.source == source), Format("source has changed"))

        # -- No input starves: items of others while the watched input waits.
        watched = Signal(range(n))
        known = Signal()
        others = Signal(range(n + 2))
        m.d.sync += [watched.eq(self.watched), known.eq(1)]
        m.d.comb += [Assume(self.watched < n), Assume(~known | (self.watched == watched))]
        waits = self.valid.bit_select(self.watched, 1)
        with m.If(~waits | (pop & (dut.source == self.watched))):
            m.d.sync += others.eq(0)
        with m.Elif(pop):
            m.d.sync += others.eq(others + 1)
        m.d.comb += [Assert(others < n, Format("an input starves")), Assert(waits | (others == 0) | ~known)]

        # -- The invariant: the arbiter's pointer approaches the watched input.
        first = internal(arbiter, "first")

        def distance(number, start):
            return Mux(number >= start, number - start, number + n - start)

        m.d.comb += Assert(first < n, Format("pointer"))
        if self.registered_choice:
            choice, after = internal(parts, "choice"), Mux(dut.source == n - 1, 0, dut.source + 1)
            m.d.comb += [
                Assert(choice == 1 << dut.source, Format("choice")),
                Assert((first == after) | ((first == 0) & (dut.source == 0)), Format("the pointer follows the choice")),
                Assert((dut.source == self.watched) | (others + distance(self.watched, after) + 1 < n),
                       Format("order")),
            ]
        else:
            open_to = internal(parts, "open_to")
            m.d.comb += [
                Assert(open_to.all() | (stalled & (open_to == 1 << source)), Format("open_to")),
                Assert(others + distance(self.watched, first) < n, Format("order")),
                Assert(open_to.all() | (others == 0) | (distance(source, first) <= distance(self.watched, first)),
                       Format("a grant out of order")),
            ]
        return m


@pytest.mark.parametrize("registered_choice", [False, True])
@pytest.mark.parametrize("n", [2, 3])
def test_merge(n, registered_choice):
    prove(Merged(n, registered_choice=registered_choice), name=f"merge-{n}{'-registered' * registered_choice}",
          depth=2, mode="prove")


class Fair(wiring.Component):
    """Only requesters are granted, and none waits for ``count`` grants of others."""

    def __init__(self, count):
        self.count = count
        super().__init__({"requests": In(count), "advance": In(1), "watched": In(range(count))})

    def elaborate(self, platform):
        m = Module()
        dut = RoundRobin(self.count)
        m.submodules.dut = parts = elaborated(dut)
        m.d.comb += [dut.requests.eq(self.requests), dut.advance.eq(self.advance)]

        m.d.comb += Assert(dut.valid == self.requests.any(), Format("valid is wrong"))
        with m.If(dut.valid):
            m.d.comb += [
                Assert((self.requests >> dut.grant)[0], Format("{} did not request", dut.grant)),
                Assert(dut.grant_onehot == 1 << dut.grant, Format("grant and grant_onehot differ")),
            ]
        with m.Else():
            m.d.comb += Assert(dut.grant_onehot == 0, Format("a grant without a request"))

        # The solver watches one requester of its choice.
        first = Signal(init=1)
        watched_before = Signal.like(self.watched)
        others = Signal(range(self.count + 1))
        m.d.sync += [
            first.eq(0),
            watched_before.eq(self.watched),
        ]
        m.d.comb += [
            Assume(self.watched < self.count),
            Assume(first | (self.watched == watched_before)),
            Assert(others < self.count, Format("{} starves", self.watched)),
        ]
        with m.If(~(self.requests >> self.watched)[0] | (self.advance & (dut.grant == self.watched))):
            m.d.sync += others.eq(0)
        with m.Elif(self.advance):
            m.d.sync += others.eq(others + 1)
        # -- The invariant: the pointer approaches the watched requester.
        if self.count <= 4:
            pointer = internal(parts, "first")
            m.d.comb += Assert(pointer < self.count, Format("pointer"))
        else:
            mask = internal(parts, "mask")
            pointer = sum(~bit for bit in mask)
            m.d.comb += Assert(((mask | (mask << 1)) & ~mask & ((1 << self.count) - 1)) == 0, Format("mask"))
        pointer = Mux(pointer == self.count, 0, pointer)
        distance = Mux(self.watched >= pointer, self.watched - pointer, self.watched + self.count - pointer)
        m.d.comb += Assert(others + distance < self.count, Format("order"))
        return m


@pytest.mark.parametrize("count", [1, 3, 9, 20])
def test_round_robin(count):
    prove(Fair(count), name=f"round-robin-{count}", depth=2, mode="prove")
