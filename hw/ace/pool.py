# SPDX-License-Identifier: Apache-2.0
"""The pool of FSMs and their shared logic: access to programs, received GRANTs, and arbitration of the ports.

Chunker -> FsmPool -> Transmit, and Receive -> FsmPool.  Latency: 4 cycles from the request of a step to its word, 2
from an offer to the packet.  Throughput: one step, one packet and one GRANT per cycle; per port, a packet per two.
"""

from amaranth import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.common.sweep import SweepSignature
from hw.common.table import Table
from hw.stream import RoundRobin

from .age_arbiter import AgeArbiter
from .communicator_status import CommunicatorStatusSignature
from .communicators import PRIORITY_WIDTH, CommunicatorWrite, ShareRead, own
from .config import SEQUENCE_WIDTH, STEP_WIDTH
from .fsm import Fsm, FsmLookup, FsmsBusy, StepKind, fetched_layout
from .layouts import (
    PHASE_WIDTH,
    PhaseLayout,
    SendLayout,
    chunk_layout,
    grant_layout,
    send_layout,
    signal_layout,
)
from .programs.store import ProgramRead
from .receive import ChunkLookup, DataLanded, GrantReceived
from .transmit import GrantPort, SendPort
from .watchdog import PortTurns

__all__ = ["FsmPool", "PoolCounts"]


class PoolCounts(wiring.Signature):
    """Counts of the pool, a strobe per cycle: ``starved_cycles``, an FSM has data to send and none may send."""

    def __init__(self):
        super().__init__({"starved_cycles": Out(1)})


class FsmPool(wiring.Component):
    """``fsms`` FSMs.

    The FSM of the previous packet is served until its message ends, it has to wait, or a chunk of a higher priority may
    send; then the oldest chunk of the highest priority that may send is served. So chunks follow each other through
    their phases and all dimensions are busy; with round robin they would all be in the same phase at the same time.

    Parameters
    ----------
    config : AceConfig

    Members
    -------
    init : ``In(SweepSignature)``
    chunks : ``In(stream.Signature(chunk_layout))``
        Stalls while the chunk's FSM is busy.
    busy : ``Out(FsmsBusy)``
    done : ``Out(stream.Signature(slot))``
        Slots whose chunk has completed its phases.
    program : ``Out(ProgramRead)``
    lookup_share, grant_share : ``Out(ShareRead)``
    lookup : ``In(ChunkLookup)``, grant : ``In(GrantReceived)``, landed : ``In(DataLanded)``
    sends : ``Out(SendPort)``, signals : ``Out(GrantPort)``
    state : ``In(FsmLookup)``
    communicator_status : ``In(CommunicatorStatusSignature)``
        Chunks of a stopped communicator are dropped. Packets of higher priority go first.
    restart : ``In(CommunicatorWrite)``
        Clears the stored GRANTs for the FSMs of its share.
    turns : ``Out(PortTurns)``, counts : ``Out(PoolCounts)``
    """

    def __init__(self, config):
        self.config = config
        super().__init__({
            "init": In(SweepSignature(config)),
            "chunks": In(stream.Signature(chunk_layout(config))), "busy": Out(FsmsBusy(config)),
            "done": Out(stream.Signature(config.slot_bits)), "program": Out(ProgramRead(config)),
            "lookup_share": Out(ShareRead(config)), "grant_share": Out(ShareRead(config)),
            "lookup": In(ChunkLookup(config)), "grant": In(GrantReceived(config)), "landed": In(DataLanded(config)),
            "sends": Out(SendPort(config)), "signals": Out(GrantPort(config)), "state": In(FsmLookup(config)),
            "communicator_status": In(CommunicatorStatusSignature(config)), "restart": In(CommunicatorWrite(config)),
            "turns": Out(PortTurns(config)), "counts": Out(PoolCounts()),
        })

    def elaborate(self, platform):
        m = Module()
        fsms = [Fsm(self.config) for _ in range(self.config.fsms)]
        for number, fsm in enumerate(fsms):
            m.submodules[f"fsm_{number}"] = fsm
        self._chunks(m, fsms)
        priorities = self._communicator_status(m, fsms)
        self._grants(m, fsms, *self._steps(m, fsms))
        self._sends(m, fsms, priorities)
        self._signals(m, fsms)

        found = Signal(self.config.fsm_bits)
        slots, arithmetics, states = (
            Array(getattr(fsm, name) for fsm in fsms) for name in ("slot", "arithmetic", "state"))
        m.d.comb += [
            self.lookup_share.number.eq(self.lookup.chunk.communicator),
            found.eq(own(self.lookup_share.share, self.lookup.chunk.sequence)[0]),
            self.state.state.eq(states[self.state.fsm]),
            self.busy.fsms.eq(Cat(fsm.busy for fsm in fsms)),
        ]
        entry = self.lookup.destination
        m.d.sync += [entry.fsm.eq(found), entry.slot.eq(slots[found]), entry.arithmetic.eq(arithmetics[found])]
        return m

    def _communicator_status(self, m, fsms):
        """Distribute the communicators' state to the FSMs; returns the FSMs' priorities."""
        priorities = []
        for number, fsm in enumerate(fsms):
            priority, owner = Signal(PRIORITY_WIDTH, name=f"priority_{number}"), fsm.state.communicator
            m.d.sync += [
                priority.eq(self.communicator_status.priorities[owner]),
                fsm.epoch.eq(self.communicator_status.epochs[owner]),
                fsm.stopped.eq(self.communicator_status.stopped.bit_select(owner, 1) & fsm.busy),
            ]
            priorities.append(priority)
        return priorities

    def _chunks(self, m, fsms):
        m.d.comb += self.chunks.ready.eq(~self.busy.fsms.bit_select(self.chunks.payload.fsm, 1))
        for number, fsm in enumerate(fsms):
            m.d.comb += [
                fsm.chunk.eq(self.chunks.payload),
                fsm.start.eq(self.chunks.valid & ~fsm.busy & (self.chunks.payload.fsm == number)),
                fsm.landed.eq(self.landed.valid & (self.landed.payload.fsm == number)),
                fsm.beats.eq(self.landed.payload.beats),
                fsm.read.eq(self.sends.read & (self.sends.fsm == number)),
            ]

    def _steps(self, m, fsms):
        """Words of programs for the FSMs, positions converted to beats. Returns the FSM that enters a phase, and its
        port."""
        config = self.config
        m.submodules.step_turn = turn = RoundRobin(config.fsms)
        kinds, addresses, slots, pieces = (Array(values) for values in zip(
            *((fsm.step_kind, fsm.step_address, fsm.slot, fsm.piece_beats) for fsm in fsms), strict=True))
        finishing, taken = Signal(), Signal()
        m.d.comb += [
            turn.requests.eq(Cat(fsm.step for fsm in fsms)),
            finishing.eq(kinds[turn.grant] == StepKind.FINISH),
            self.program.valid.eq(turn.valid & ~finishing),
            self.program.address.eq(addresses[turn.grant]),
            self.done.valid.eq(turn.valid & finishing),
            self.done.payload.eq(slots[turn.grant]),
            taken.eq(Mux(finishing, self.done.valid & self.done.ready, self.program.valid & self.program.ready)),
            turn.advance.eq(taken),
        ]
        for number, fsm in enumerate(fsms):
            m.d.comb += fsm.step_taken.eq(taken & turn.grant_onehot[number])

        # Read; the word; products; delivered.
        query = data.StructLayout({
            "fsm": config.fsm_bits, "is_send": 1, "slot": config.slot_bits, "piece": config.chunk_beat_bits + 1})
        valid = Signal(3)
        first, second, third = (Signal(query, name=name, reset_less=True) for name in ("first", "second", "third"))
        word = Signal(PhaseLayout.size, reset_less=True)
        phase, send = data.View(PhaseLayout, word), data.View(SendLayout, word[:SendLayout.size])
        fetched = Signal(fetched_layout(config), reset_less=True)
        m.d.sync += [
            valid.eq(Cat(taken & ~finishing, valid[:-1])),
            first.fsm.eq(turn.grant), first.is_send.eq(kinds[turn.grant] == StepKind.SEND),
            first.slot.eq(slots[turn.grant]), first.piece.eq(pieces[turn.grant]),
            second.eq(first), third.eq(second),
            word.eq(self.program.word),
            fetched.port.eq(phase.port), fetched.sends.eq(phase.sends), fetched.receives.eq(phase.receives),
            fetched.granted.eq(phase.granted), fetched.span.eq(phase.span * second.piece),
            fetched.source.eq((second.slot << config.chunk_beat_bits) + send.source * second.piece),
            fetched.target.eq(send.target * second.piece),
            fetched.need.eq(send.need), fetched.grants.eq(send.grants), fetched.reduce.eq(send.reduce),
        ]
        for number, fsm in enumerate(fsms):
            arrived = valid[2] & (third.fsm == number)
            m.d.comb += [fsm.fetched.eq(fetched), fsm.send_valid.eq(arrived & third.is_send),
                         fsm.phase_valid.eq(arrived & ~third.is_send)]
        entered, port = Signal(config.fsm_bits), Signal(config.port_bits)
        m.d.sync += [entered.eq(third.fsm), port.eq(fetched.port)]
        return entered, port

    def _grants(self, m, fsms, entered, entered_port):
        """A GRANT for a phase that its FSM has not entered is stored until the FSM enters it; others are forwarded at
        once.

        There is a row for each port of an FSM. Before the neighbour at that port grants the same FSM receives of
        another phase or chunk, it has received all sends of the earlier phase, so no row is needed twice at a time. A
        row for each phase would not suffice: in another collective, whose dimensions have another order, a different
        neighbour may grant the same phase, and it does not know about the first one.
        """
        config, grant = self.config, self.grant.payload.grant
        port_bits = config.port_bits
        row_layout = data.StructLayout({"sequence": SEQUENCE_WIDTH, "phase": PHASE_WIDTH, "granted": STEP_WIDTH})
        m.submodules.grants = table = Table(
            row_layout, depth=config.fsms << port_bits, reads=1, init=SweepSignature(config))
        wiring.connect(m, wiring.flipped(self.init), table.init)
        came, valid = Signal(grant_layout(config), reset_less=True), Signal()
        number, port = Signal(config.fsm_bits, reset_less=True), Signal(port_bits, reset_less=True)
        m.d.comb += self.grant_share.number.eq(grant.communicator)
        m.d.sync += [valid.eq(self.grant.valid), came.eq(grant), port.eq(self.grant.payload.port),
                     number.eq(own(self.grant_share.share, grant.sequence)[0])]
        kept = Signal(config.fsms << port_bits)
        entry, granted_now = Signal(range(len(kept))), Signal(config.fsms)
        m.d.comb += [
            entry.eq(Cat(port, number)),
            table.write.en.eq(valid & ~granted_now.any()), table.write.addr.eq(entry),
            *(table.write.data[name].eq(came[name]) for name, _ in row_layout),
        ]
        phases, sequences = (Array(fsm.state[name] for fsm in fsms) for name in ("phase", "sequence"))
        row = table.read[0].data
        found = Signal(range(len(kept)))
        m.d.comb += [found.eq(Cat(entered_port, entered)), table.read[0].addr.eq(found)]
        with m.If(table.write.en):
            m.d.sync += kept.bit_select(entry, 1).eq(1)
        for index, fsm in enumerate(fsms):
            known = fsm.entered & kept.bit_select(found, 1) & (row.sequence == sequences[entered]) \
                & (row.phase == phases[entered])
            m.d.comb += [
                granted_now[index].eq(valid & fsm.inside & (number == index) & (came.phase == fsm.state.phase)
                                      & (came.sequence == fsm.state.sequence)),
                fsm.granted_valid.eq(granted_now[index] | known),
                fsm.granted.eq(Mux(granted_now[index], came.granted, row.granted)),
            ]
            with m.If(known):
                m.d.sync += kept.bit_select(found, 1).eq(0)
            share = self.restart.share
            with m.If(self.restart.valid & ~((index - share.fsm_first)[:config.fsm_bits] & ~share.fsm_mask).any()):
                m.d.sync += kept[index << port_bits:index + 1 << port_bits].eq(0)

    def _sends(self, m, fsms, priorities):
        config = self.config
        m.submodules.send_turn = turn = AgeArbiter(config.fsms)
        open_ = Signal(config.fsms)             # with an offer for a port with free entries
        last = Signal(config.fsms)              # FSM of the latest packet
        packets = Signal(range(config.message_packets + 1))
        stays, chosen = Signal(), Signal(config.fsms)
        send, valid, free = Signal(send_layout(config), reset_less=True), Signal(), Signal()
        # Chunks of a higher priority than that of the latest packet; than that of the starting chunk.
        latest, starting, higher = Signal(PRIORITY_WIDTH), Signal(PRIORITY_WIDTH), Signal(config.fsms)
        m.d.sync += latest.eq(Array(priorities)[send.fsm])
        m.d.comb += [
            higher.eq(Cat(priority > latest for priority in priorities)),
            starting.eq(self.communicator_status.priorities[self.chunks.payload.communicator]),
            turn.outranked.eq(Cat(starting > priority for priority in priorities)),
            # ``free`` does not yet include the packet that waits here.
            open_.eq(Cat(fsm.offer & self.sends.free.bit_select(fsm.port, 1) & ~(valid & (send.port == fsm.port))
                         for fsm in fsms)),
            turn.requests.eq(open_),
            stays.eq((open_ & last).any() & ~(open_ & higher).any() & (packets != config.message_packets)),
            chosen.eq(Mux(stays, last, turn.grant_onehot)),
            free.eq(~valid | self.sends.ready),
            turn.started.eq(Cat(fsm.start for fsm in fsms)),
            self.sends.valid.eq(valid), self.sends.payload.eq(send),
            self.counts.starved_cycles.eq(
                Cat(fsm.state.wants for fsm in fsms).any() & ~Cat(fsm.offer for fsm in fsms).any()),
        ]
        m.d.comb += self.turns.sent.eq(Mux(valid & self.sends.ready, 1 << send.header.communicator, 0))
        m.d.sync += self.turns.offering.eq(Cat(
            Cat(fsm.offer & (fsm.state.communicator == number) for fsm in fsms).any()
            for number in range(config.communicators)))
        with m.If(free):
            m.d.sync += valid.eq(open_.any())
            with m.If(open_.any()):
                m.d.sync += [last.eq(chosen), packets.eq(Mux(stays, packets, 0) + 1)]
        for number, fsm in enumerate(fsms):
            m.d.comb += fsm.taken.eq(free & chosen[number])
            with m.If(free & chosen[number]):
                m.d.sync += [send.port.eq(fsm.port), send.fsm.eq(number), send.address.eq(fsm.address),
                             send.header.eq(fsm.header)]

    def _signals(self, m, fsms):
        config = self.config
        m.submodules.signal_turn = turn = RoundRobin(config.fsms)
        signal, valid, free = Signal(signal_layout(config), reset_less=True), Signal(), Signal()
        m.d.comb += [
            turn.requests.eq(Cat(
                fsm.signal & self.signals.free.bit_select(fsm.signal_payload.port, 1) for fsm in fsms)),
            free.eq(~valid | self.signals.ready),
            turn.advance.eq(free),
            self.signals.valid.eq(valid), self.signals.payload.eq(signal),
        ]
        with m.If(free):
            m.d.sync += valid.eq(turn.valid)
        for number, fsm in enumerate(fsms):
            m.d.comb += fsm.signal_taken.eq(free & turn.grant_onehot[number])
            with m.If(free & turn.grant_onehot[number]):
                m.d.sync += signal.eq(fsm.signal_payload)
