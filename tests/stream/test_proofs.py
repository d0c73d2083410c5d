# SPDX-License-Identifier: Apache-2.0
"""Formal proofs for every input: within a number of cycles, or by induction without a bound."""

import pytest
from amaranth.hdl import Assert, Assume, Format, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.stream import CreditCounter, Queue, RoundRobin, Skid, StreamChecker
from tests.harness.formal import ProofFailed, prove

pytestmark = [pytest.mark.formal, pytest.mark.long]


class Order(wiring.Component):
    """Send 0, 1, 2, ... through ``dut`` with free handshakes: items leave in order and hold when stalled.

    ``stall_limit`` bounds the length of the output's stalls, so that every entry leaves within the induction.
    ``empty_when_idle`` states that ``dut`` holds no item while ``o.valid`` is low.
    """

    valid: In(1)
    ready: In(1)

    def __init__(self, dut, *, stall_limit=None, empty_when_idle=False):
        self.dut = dut
        self.stall_limit = stall_limit
        self.empty_when_idle = empty_when_idle
        super().__init__()

    def elaborate(self, platform):
        m = Module()
        m.submodules.dut = dut = self.dut
        m.submodules.checker = checker = StreamChecker(3)

        sent = Signal(3)
        received = Signal(3)
        m.d.comb += [
            dut.i.valid.eq(self.valid),
            dut.i.payload.eq(sent),
            dut.o.ready.eq(self.ready),
            *checker.observe(dut.o),
        ]
        with m.If(dut.i.valid & dut.i.ready):
            m.d.sync += sent.eq(sent + 1)
        with m.If(dut.o.valid & dut.o.ready):
            m.d.sync += received.eq(received + 1)

        with m.If(dut.o.valid):
            m.d.sync += Assert(dut.o.payload == received, Format("item {} is not next", dut.o.payload))
        if self.empty_when_idle:
            with m.Else():
                m.d.sync += Assert(sent == received, Format("an item is hidden inside"))
        if self.stall_limit is not None:
            stalled = Signal(range(self.stall_limit + 1))
            m.d.sync += stalled.eq(0)
            with m.If(~self.ready):
                m.d.sync += [stalled.eq(stalled + 1), Assume(stalled < self.stall_limit)]
        return m


def test_skid_order():
    prove(Order(Skid(3), stall_limit=2, empty_when_idle=True), name="skid", depth=10, mode="prove")


@pytest.mark.parametrize("name, kind", [
    ("lut", {}), ("block", {"ram": "block"}), ("register", {"output_register": True}),
    ("bypass", {"ram": "block", "empty_bypass": True})])
def test_queue_order(name, kind):
    prove(Order(Queue(3, depth=3, **kind)), name=f"queue-{name}", depth=9)


class Leaky(wiring.Component):
    """A register that accepts items while it is stalled, and loses them."""

    i: In(stream.Signature(3))
    o: Out(stream.Signature(3))

    def elaborate(self, platform):
        m = Module()
        m.d.comb += self.i.ready.eq(1)
        with m.If(self.o.ready | ~self.o.valid):
            m.d.sync += [self.o.valid.eq(self.i.valid), self.o.payload.eq(self.i.payload)]
        return m


def test_order_is_not_vacuous():
    message = r"^leaky failed in mode bmc within 6 cycles:\n(.*\n)*.*Assert failed"
    with pytest.raises(ProofFailed, match=message):
        prove(Order(Leaky()), name="leaky", depth=6)


class Fair(wiring.Component):
    """Only requesters are granted, and none waits for ``count`` grants of others."""

    def __init__(self, count):
        self.count = count
        super().__init__({"requests": In(count), "advance": In(1), "watched": In(range(count))})

    def elaborate(self, platform):
        m = Module()
        m.submodules.dut = dut = RoundRobin(self.count)
        m.d.comb += [dut.requests.eq(self.requests), dut.advance.eq(self.advance)]

        m.d.sync += Assert(dut.valid == self.requests.any(), Format("valid is wrong"))
        with m.If(dut.valid):
            m.d.sync += [
                Assert((self.requests >> dut.grant)[0], Format("{} did not request", dut.grant)),
                Assert(dut.grant_onehot == 1 << dut.grant, Format("grant and grant_onehot differ")),
            ]
        with m.Else():
            m.d.sync += Assert(dut.grant_onehot == 0, Format("a grant without a request"))

        # The solver watches one requester of its choice.
        first = Signal(init=1)
        watched_before = Signal.like(self.watched)
        others = Signal(range(self.count + 1))
        m.d.sync += [
            first.eq(0),
            watched_before.eq(self.watched),
            Assume(self.watched < self.count),
            Assume(first | (self.watched == watched_before)),
            Assert(others < self.count, Format("{} starves", self.watched)),
        ]
        with m.If(~(self.requests >> self.watched)[0] | (self.advance & (dut.grant == self.watched))):
            m.d.sync += others.eq(0)
        with m.Elif(self.advance):
            m.d.sync += others.eq(others + 1)
        return m


@pytest.mark.parametrize("count", [1, 3, 9])
def test_round_robin_is_fair(count):
    prove(Fair(count), name=f"round-robin-{count}", depth=count + 4)


class Credits(wiring.Component):
    """A user that observes the contract and counts the credits that it holds."""

    def __init__(self, limit, max_take, max_give):
        self.dut = CreditCounter(limit, max_take=max_take, max_give=max_give, checks=True)
        super().__init__({
            "take": In(range(max_take + 1)),
            "take_stb": In(1),
            "give": In(range(max_give + 1)),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.dut = dut = self.dut
        held = Signal(range(dut.limit + 1))
        m.d.comb += [dut.take.eq(self.take), dut.take_stb.eq(self.take_stb), dut.give.eq(self.give)]
        m.d.sync += [
            Assume(~self.take_stb | (self.take <= dut.available)),
            Assume(self.give <= held),
            held.eq(held + Mux(self.take_stb, self.take, 0) - self.give),
            Assert(dut.available <= dut.limit, Format("{} is above the limit", dut.available)),
            Assert(dut.available + held == dut.limit, Format("{} and {} do not add up", dut.available, held)),
        ]
        return m


@pytest.mark.parametrize("limit, max_take, max_give", [(5, 3, 2), (1, 1, 1), (8, 8, 8)])
def test_credits_add_up(limit, max_take, max_give):
    prove(Credits(limit, max_take, max_give), name=f"credits-{limit}", depth=3, mode="prove")
