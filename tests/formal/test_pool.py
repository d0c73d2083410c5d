# SPDX-License-Identifier: Apache-2.0
"""The arbiters of the FSM pool serve each FSM within a bound, once and unchanged, in the documented order: those of
DATA packets, of GRANTs, and of words of programs. By induction, for any requests.

An FSM waits only for what these deliver or for a neighbour (``test_fsm.py``), so none is stuck in the pool.
"""

from dataclasses import replace
from itertools import pairwise

import pytest
from amaranth.hdl import Array, Assert, Assume, C, Cat, Format, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In

from hw.ace.communicators import PRIORITY_WIDTH
from hw.ace.layouts import PhaseLayout, SendLayout, packet_layout, send_layout, signal_layout
from hw.ace.pool.communicators import FsmCommunicators
from hw.ace.pool.fsm_ports import StepKind
from hw.ace.pool.sends import SendArbiter
from hw.ace.pool.signals import SignalArbiter
from hw.ace.pool.steps import ProgramSteps
from hw.ace.words import PROGRAM_WIDTH
from hw.stream import selected
from tests.formal.delivery import stable
from tests.formal.small import ACE, assume_constant
from tests.harness.formal import prove
from tests.harness.internals import elaborated, internal, opened

pytestmark = [pytest.mark.formal, pytest.mark.long]

POOL = replace(ACE, fsms=4, slots=4, message_bytes=2 * ACE.packet_bytes)
"""Four FSMs of two communicators."""

SETTLED = 3
"""Cycles from the start of a chunk to its first packet, at least: an FSM takes more, as it reads its program first."""


def one_hot(bits):
    """Whether at most one of ``bits`` is set."""
    return (bits & (bits - 1))[:len(bits)] == 0


class Sent(wiring.Component):
    """SendArbiter with the FSMs' priorities; chunks start, offer packets and end as the solver likes.

    In each pipe, a packet is taken in each cycle in which one may be. It is that of the oldest chunk of the highest
    priority that may send, or of the FSM of the packet before, until its message ends or, in the second cycle after
    that packet, a chunk of a higher priority may send. So the first FSM in the order that may send waits for less than
    a message; the first one that has credit, for at most a message in all, if the FSMs keep the ports of their offers.

    Assumed: an FSM starts with a chunk while it has none, at most every two cycles, and offers nothing for some cycles;
    the priority of a communicator does not change while it has chunks.
    """

    def __init__(self, config):
        self.config = config
        super().__init__({
            "start": In(config.fsms), "communicator": In(config.communicator_bits), "end": In(config.fsms),
            "priorities": In(data.ArrayLayout(PRIORITY_WIDTH, config.communicators)), "offered": In(config.fsms),
            "offers": In(data.StructLayout({
                "port": range(config.ports + 1), "address": config.sram_bits, "header": packet_layout(config),
            })).array(config.fsms),
            "free": In(config.ports + 1), "ready": In(config.pipes), "watched": In(range(config.fsms)),
        })

    def elaborate(self, platform):
        m = Module()
        config, numbers = self.config, range(self.config.fsms)
        dut, known = SendArbiter(config), FsmCommunicators(config)
        m.submodules.dut = parts = elaborated(dut)
        m.submodules.known = known
        # -- Chunks: their communicators, the order of their starts, and cycles since.
        busy, began = Signal(config.fsms), Signal()
        communicators = [Signal(config.communicator_bits, name=f"communicator_{number}") for number in numbers]
        positions = [Signal(range(config.fsms), name=f"position_{number}", init=number) for number in numbers]
        before = Signal.like(self.priorities)
        m.d.sync += [busy.eq((busy | self.start) & ~self.end), began.eq(self.start.any()), before.eq(self.priorities)]
        m.d.comb += [Assume(one_hot(self.start)), Assume((self.start & (busy | self.end)) == 0),
                     Assume(~began | ~self.start.any())]
        for number, (communicator, position) in enumerate(zip(communicators, positions, strict=True)):
            age, offer = Signal(range(SETTLED + 1), name=f"age_{number}"), dut.offers[number]
            with m.If(self.start[number]):
                m.d.sync += [communicator.eq(self.communicator), age.eq(0), position.eq(config.fsms - 1), *(
                    other.eq(other - (other > position)) for other in positions if other is not position)]
            with m.Elif(age != SETTLED):
                m.d.sync += age.eq(age + 1)
            m.d.comb += [
                Assume(~busy[number] | (self.priorities[communicator] == before[communicator])),
                Assume(~self.offered[number] | (busy[number] & (age == SETTLED))),
                Assume(self.offers[number].port <= config.local_port),
                *(Assert(position != other, Format("position")) for other in positions[:number]),
                Assert(~busy[number] | (age == 0) | (known.priorities[number] == self.priorities[communicator]),
                       Format("priority")),
                dut.starts[number].valid.eq(self.start[number]),
                dut.starts[number].payload.communicator.eq(self.communicator),
                dut.priorities[number].eq(known.priorities[number]), offer.valid.eq(self.offered[number]),
                *(getattr(offer, name).eq(self.offers[number][name]) for name in ("port", "address", "header")),
                *(state[number].communicator.eq(communicator) for state in (dut.states, known.states)),
                *(state[number].busy.eq(busy[number]) for state in (dut.states, known.states)),
                *(status.priorities.eq(self.priorities)
                  for status in (dut.communicator_status, known.communicator_status)),
            ]
        # -- The documented order.
        ranks = [self.priorities[communicator] for communicator in communicators]
        precedes = {(one, other): (ranks[one] > ranks[other]) | (
            (ranks[one] == ranks[other]) & (positions[one] < positions[other]))
            for one in numbers for other in numbers if one != other}
        assume_constant(m, self.watched)
        may = 0
        for number in range(config.pipes):
            turn = opened(parts, f"turn_{number}")
            m.d.comb += [
                Assert(~(busy[one] & busy[other]) | (internal(turn, f"older_{one}_{other}") == first),
                       Format("order of {} and {}", one, other))
                for (one, other), first in precedes.items() if one < other]
            may |= self._pipe(m, number, dut, parts, ranks, precedes)
        taken = Cat(offer.taken for offer in dut.offers)
        m.d.comb += Assert((taken & ~may) == 0, Format("taken without credit"))
        return m

    def _pipe(self, m, number, dut, parts, ranks, precedes):
        """The packets of a pipe. Return the FSMs that may send there."""
        config, o, offers, message = self.config, dut.o[number], self.offers, self.config.message_packets

        def signal(name, shape=1):
            return Signal(shape, name=f"{name}_{number}")

        def first(some, name):
            """The first one of ``some`` in the documented order."""
            chosen, numbers = signal(name, config.fsms), range(config.fsms)
            m.d.comb += chosen.eq(Cat(
                some[one] & ~Cat(some[other] & precedes[other, one] for other in numbers if other != one).any()
                for one in numbers))
            return chosen

        m.d.comb += [o.free.eq(self.free & sum(1 << port for port in config.pipe_ports[number])),
                     o.ready.eq(self.ready[number])]
        credited, may, taken = (signal(name, config.fsms) for name in ("credited", "may", "taken"))
        waiting, some = o.valid & ~o.ready, taken.any()
        m.d.comb += [
            credited.eq(self.offered & Cat(o.free.bit_select(offer.port, 1) for offer in offers)),
            may.eq(credited & ~Cat(o.valid & (offer.port == o.payload.port) for offer in offers)),
            taken.eq(credited & Cat(offer.taken for offer in dut.offers)),
        ]
        # -- A packet is taken, and leaves once and unchanged.
        expected, full, idle = signal("expected", send_layout(config)), signal("full"), signal("idle", range(3))
        stable(m, o, Assert, f"packet_{number}")
        m.d.sync += [full.eq(some | waiting), idle.eq(Mux(credited.any() & o.ready & ~o.valid, idle + 1, 0))]
        with m.If(some):
            m.d.sync += expected.eq(selected(send_layout(config), taken, [
                Cat(offer.port, C(fsm, config.fsm_bits), offer.address, offer.header)
                for fsm, offer in enumerate(offers)]))
        m.d.comb += [
            Assert(some == (may.any() & ~waiting), Format("nothing leaves")), Assert(one_hot(taken), Format("several")),
            Assert(o.valid == full, Format("a packet is lost or duplicated")),
            Assert(~o.valid | (Value.cast(o.payload) == Value.cast(expected)), Format("a packet has changed")),
            Assert(idle < 2, Format("no packet leaves")),
        ]
        # -- The order.
        best, leads, recent = first(may, "best"), first(credited, "leads"), signal("recent")
        last, packets = internal(parts, f"last_{number}"), internal(parts, f"packets_{number}")
        rank = Array(ranks)
        m.d.sync += recent.eq(some)
        higher = Cat(may[fsm] & (rank[fsm] > rank[o.payload.fsm]) for fsm in range(config.fsms)).any()
        m.d.comb += [
            Assert(~some | (taken == best) | ((taken == last) & (packets != message) & (recent | ~higher)),
                   Format("a packet out of order")),
            Assert((last == 0) | (last == 1 << o.payload.fsm), Format("last")),
            Assert((packets <= message) & ((packets == 0) == (last == 0)), Format("packets")),
        ]
        # -- Packets of others, while the watched FSM is the first one that may send, or the first one with credit.
        others, passed = signal("others", range(message + 2)), signal("passed", range(message + 2))
        ports, ports_before = Cat(offer.port for offer in offers), [
            Signal.like(offer.port, name=f"port_{number}_{fsm}") for fsm, offer in enumerate(offers)]
        m.d.sync += Cat(ports_before).eq(ports)
        watched = 1 << self.watched
        other = some & ~(taken & watched).any()
        m.d.sync += [
            others.eq(Mux((best & ~taken & watched).any(), others + other, 0)),
            passed.eq(Mux((leads & ~taken & watched).any() & (ports == Cat(ports_before)), passed + other, 0)),
        ]
        port = Array(ports_before)
        m.d.comb += [
            Assert(others < message, Format("{} starves", self.watched)),
            Assert(passed <= message, Format("{} starves for its port", self.watched)),
            Assert((others == 0) | (others < packets), Format("a longer message")),
            Assert((passed == 0) | (port[o.payload.fsm] == o.payload.port) & Mux(
                o.payload.port == port[self.watched], passed < packets, o.valid), Format("packets that passed")),
        ]
        return may


@pytest.mark.parametrize("pipes", [1, 2])
def test_sends(pipes):
    prove(Sent(replace(POOL, pipes=pipes)), name=f"pool-sends-{pipes}", depth=4, mode="prove")


def waits_in_turn(m, arbiter, requests, granted, watched):
    """Assert: while the request ``watched``, which the solver chooses, stays set, less than ``count`` others are
    granted."""
    count = len(requests)
    others, pointer, number = Signal(range(count + 1)), internal(arbiter, "first"), Signal(range(count))
    m.d.comb += number.eq(watched)
    assume_constant(m, number)
    with m.If(~requests.bit_select(number, 1) | granted.bit_select(number, 1)):
        m.d.sync += others.eq(0)
    with m.Else():
        m.d.sync += others.eq(others + granted.any())
    # A power of two, so the distance wraps.
    m.d.comb += [Assert(others < count, Format("{} starves", number)),
                 Assert(others + (number - pointer)[:len(number)] < count, Format("order"))]


class Granted(wiring.Component):
    """SignalArbiter: a GRANT is taken in each cycle in which one has credit and the port accepts; in turn."""

    def __init__(self):
        super().__init__({
            "valid": In(POOL.fsms), "signals": In(signal_layout(POOL)).array(POOL.fsms), "free": In(POOL.ports),
            "ready": In(1), "watched": In(range(POOL.fsms))})

    def elaborate(self, platform):
        m = Module()
        dut = SignalArbiter(POOL)
        m.submodules.dut = parts = elaborated(dut)
        o, may, taken = dut.o, Signal(POOL.fsms), Signal(POOL.fsms)
        m.d.comb += [
            o.free.eq(self.free), o.ready.eq(self.ready),
            may.eq(self.valid & Cat(self.free.bit_select(signal.port, 1) for signal in self.signals)),
            taken.eq(Cat(i.ready for i in dut.i)),
        ]
        for i, valid, signal in zip(dut.i, self.valid, self.signals, strict=True):
            m.d.comb += [i.valid.eq(valid), i.payload.eq(signal)]
        stable(m, o, Assert, "output")
        expected, full, idle = Signal(signal_layout(POOL)), Signal(), Signal(range(3))
        waiting, some = o.valid & ~o.ready, taken.any()
        m.d.sync += [full.eq(some | waiting), idle.eq(Mux(may.any() & o.ready & ~o.valid, idle + 1, 0))]
        with m.If(some):
            m.d.sync += expected.eq(selected(signal_layout(POOL), taken, self.signals))
        m.d.comb += [
            Assert((taken & ~may) == 0, Format("taken without credit")), Assert(one_hot(taken), Format("several")),
            Assert(some == (may.any() & ~waiting), Format("nothing leaves")),
            Assert(o.valid == full, Format("a GRANT is lost or duplicated")),
            Assert(~o.valid | (Value.cast(o.payload) == Value.cast(expected)), Format("a GRANT has changed")),
            Assert(idle < 2, Format("no GRANT leaves")),
        ]
        waits_in_turn(m, opened(parts, "turn"), may, taken, self.watched)
        return m


def test_signals():
    prove(Granted(), name="pool-signals", depth=2, mode="prove")


class Stepped(wiring.Component):
    """ProgramSteps: a request is taken in each cycle in which the programs and the drain accept one; in turn. Three
    cycles later its FSM, and no other, receives the word that was read; an end of a chunk is that of its slot.
    """

    def __init__(self):
        super().__init__({
            "valid": In(POOL.fsms), "kinds": In(StepKind).array(POOL.fsms),
            "addresses": In(POOL.program_bits).array(POOL.fsms), "slots": In(POOL.slot_bits).array(POOL.fsms),
            "ready": In(1), "done_ready": In(1), "word": In(PROGRAM_WIDTH), "watched": In(range(POOL.fsms))})

    def elaborate(self, platform):
        m = Module()
        dut = ProgramSteps(POOL)
        m.submodules.dut = parts = elaborated(dut)
        program, done, requests, taken = dut.program, dut.done, dut.requests, Signal(POOL.fsms)
        m.d.comb += [program.ready.eq(self.ready), program.word.eq(self.word), done.ready.eq(self.done_ready),
                     taken.eq(Cat(request.ready for request in requests))]
        for request, held, valid, kind, address, slot in zip(
                requests, dut.held, self.valid, self.kinds, self.addresses, self.slots, strict=True):
            m.d.comb += [request.valid.eq(valid), request.kind.eq(kind), request.address.eq(address),
                         held.slot.eq(slot)]
        # -- Requests that are taken; words that arrive.
        ends = Cat((kind == StepKind.FINISH) | (kind == StepKind.PART) for kind in self.kinds)
        parted, sends = (Cat(kind == wanted for kind in self.kinds) for wanted in (StepKind.PART, StepKind.SEND))
        stages = [Signal(data.StructLayout({"phase": POOL.fsms, "send": POOL.fsms}), name=f"stage_{number}")
                  for number in range(3)]
        words = [Signal(PROGRAM_WIDTH, name=f"word_{number}") for number in range(2)]
        m.d.sync += [
            stages[0].phase.eq(taken & ~ends & ~sends), stages[0].send.eq(taken & ~ends & sends),
            *(after.eq(before) for before, after in pairwise(stages)),
            words[0].eq(self.word), words[1].eq(words[0]),
        ]
        fetched, last = requests[0].fetched, stages[-1]
        phase, send = (layout(words[1][:layout.size]) for layout in (PhaseLayout, SendLayout))
        arrives = Cat(request.phase_valid for request in requests)
        m.d.comb += [
            Assert((taken & ~self.valid) == 0, Format("not requested")), Assert(one_hot(taken), Format("several")),
            Assert(~(self.ready & self.done_ready & self.valid.any()) | taken.any(), Format("nothing is taken")),
            Assert((taken & ~ends).any() == (program.valid & program.ready), Format("a word without a request")),
            Assert((taken & ends).any() == (done.valid & done.ready), Format("an end is lost or duplicated")),
            Assert(~(taken & ~ends).any() | (program.address == selected(POOL.program_bits, taken, self.addresses)),
                   Format("address")),
            Assert(~(taken & ends).any() | (done.payload.slot == selected(POOL.slot_bits, taken, self.slots))
                   & (done.payload.part == (taken & parted).any()), Format("the end of another chunk")),
            Assert(arrives == last.phase, Format("a phase does not arrive, or elsewhere")),
            Assert(Cat(request.send_valid for request in requests) == last.send,
                   Format("a send does not arrive, or elsewhere")),
            *(Assert(Value.cast(request.fetched) == Value.cast(fetched)) for request in requests[1:]),
            *(Assert(fetched[name] == part[name][:len(fetched[name])], Format("{} of another word", name))
              for part, names in (
                  (phase, ("port", "sends", "receives", "granted", "both")),
                  (send, ("need", "grants", "reduce", "back", "local", "next_both"))) for name in names),
            Assert(Mux(fetched.ahead, fetched.next + 1, 0) == send.next, Format("next of another word")),
        ]
        # -- The FSM that enters a phase, in the cycle after its word.
        entered, port = Signal(POOL.fsms), Signal.like(fetched.port)
        m.d.sync += [entered.eq(arrives), port.eq(fetched.port)]
        m.d.comb += Assert(~entered.any() | (entered == 1 << dut.entered.fsm) & (dut.entered.port == port),
                           Format("entered"))
        # -- The stages of the block.
        valid = internal(parts, "valid")
        for number, (name, stage) in enumerate(zip(("first", "second", "third"), stages, strict=True)):
            query = data.StructLayout({"fsm": POOL.fsm_bits, "is_send": 1, "slot": POOL.slot_bits,
                                       "piece": POOL.chunk_beat_bits + 1})(internal(parts, name))
            m.d.comb += [
                Assert(valid[number] == (stage.phase | stage.send).any(), Format("stage {}", number)),
                Assert(~valid[number] | (Mux(query.is_send, stage.send, stage.phase) == 1 << query.fsm)
                       & (Mux(query.is_send, stage.phase, stage.send) == 0), Format("FSM in stage {}", number)),
            ]
        waits_in_turn(m, opened(parts, "turn"), self.valid, taken, self.watched)
        return m


def test_steps():
    prove(Stepped(), name="pool-steps", depth=4, mode="prove")
