# SPDX-License-Identifier: Apache-2.0
"""One FSM: executes the program of a chunk, phase by phase and packet by packet.

Chunker -> Fsm -> Transmit, and back from Receive.  Throughput: a packet per 2 cycles; 8 more cycles for each send,
which other FSMs use.

::

    IDLE -> NEXT -> PHASE -> PHASE_WAIT -> ENTER -> SEND -> SEND_WAIT -> SENDING -> (SETTLE) -> SEND ... -> ENDING
            ENDING -> PART -> ENDING
            NEXT -> ... -> NEXT -> FINISH -> IDLE
            (stopped, from any of them) -> LEAVING -> FINISH -> IDLE
"""

from itertools import product

from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.ace.config import MAX_RANKS, STEP_WIDTH, AceConfig
from hw.ace.fill import FillMarked
from hw.ace.layouts import PHASE_WIDTH, PacketKind, chunk_layout, signal_layout
from hw.ace.words import Waits

from .fsm_ports import (
    BeatsLanded,
    FsmChunk,
    FsmCommunicator,
    FsmFilled,
    FsmStart,
    PacketOffer,
    PhaseGrants,
    StepKind,
    StepPort,
    fetched_layout,
    state_layout,
)
from .received import Received

__all__ = ["Fsm"]

UNREAD_WIDTH = 4
"""Bits of the count of packets that are issued and not yet read from the SRAM: Transmit holds only a few."""

LOOPED = 32
"""Most packets in flight through the loopback besides those that wait there: a few in Transmit, and one in each stage
of Receive."""


class Fsm(wiring.Component):
    """Execute one program at a time.

    Parameters
    ----------
    config : AceConfig

    Members
    -------
    start : ``In(FsmStart)``, chunk : ``Out(FsmChunk)``, filled : ``In(FsmFilled)``, marked : ``In(FillMarked)``
        Until the chunk is filled, only what marks of its fills permit is sent and, without an ``early`` program,
        granted. Marks before the start are not known: then marks permit less.
    communicator : ``In(FsmCommunicator)``
    steps : ``Out(StepPort)``
    grants : ``Out(PhaseGrants)``
        GRANTs of its downstream neighbour.
    packets : ``Out(PacketOffer)``
    landed : ``In(BeatsLanded)``
        Of this phase, or of the next one if its receives were granted.
    signals : ``Out(stream.Signature(signal_layout))``
        GRANTs for its upstream neighbours, of this phase and of the next one.
    state : ``Out(state_layout)``
        A level, for software and for the arbiters of the pool.
    """

    def __init__(self, config: AceConfig) -> None:
        self.config = config
        super().__init__({
            "start": In(FsmStart(config)), "chunk": Out(FsmChunk(config)), "filled": In(FsmFilled(config)),
            "marked": In(FillMarked(config)),
            "communicator": In(FsmCommunicator()),
            "steps": Out(StepPort(config)), "grants": Out(PhaseGrants()), "packets": Out(PacketOffer(config)),
            "landed": In(BeatsLanded(config)), "signals": Out(stream.Signature(signal_layout(config))),
            "state": Out(state_layout(config)),
        })

    def elaborate(self, platform):
        m = Module()
        config = self.config
        chunk = Signal(chunk_layout(config), reset_less=True)
        phase = Signal(PHASE_WIDTH)
        phases_left = Signal.like(chunk.phases)
        address = Signal(config.program_bits)
        current = Signal(fetched_layout(config), reset_less=True)  # the phase, and the send
        sent = Signal(STEP_WIDTH)
        unread = Signal(UNREAD_WIDTH)
        looped = Signal(range(config.local_beats + LOOPED))     # packets in the loopback
        steps, packets, epoch, stopped = self.steps, self.packets, self.communicator.epoch, self.communicator.stopped
        m.d.comb += [self.chunk.slot.eq(chunk.slot), self.chunk.arithmetic.eq(chunk.arithmetic),
                     self.chunk.piece_beats.eq(chunk.piece_beats), steps.address.eq(address),
                     packets.port.eq(Mux(current.local, config.local_port, self.state.port)),
                     self.grants.odd.eq(current.port[0])]

        # -- The fill; a chunk with a read error stays until its communicator is stopped.
        with m.If(self.filled.valid & (self.filled.payload.slot == chunk.slot)):
            m.d.sync += [chunk.ended.eq(1), chunk.filled.eq(~self.filled.payload.error)]

        # Receives that marks permit to grant: ones below; and whether they permit sends.
        marks = Signal(range(MAX_RANKS))
        opened, parted = Signal(), Signal()
        more_marks, permits = Signal(), Signal()            # the next send may read what it needs
        m.d.comb += more_marks.eq(self.marked.valid & (self.marked.payload == chunk.slot) & ~(marks[0] & ~opened))
        with m.If(self.marked.valid & (self.marked.payload == chunk.slot)):
            m.d.sync += opened.eq(marks[0])
        with m.If(more_marks):
            m.d.sync += marks.eq(Cat(1, marks))
        with m.If(self.start.valid):
            m.d.sync += [marks.eq(0), opened.eq(0), parted.eq(0)]

        # -- Received data of this phase, and of the next one, which may be granted before it starts.
        passes = Signal()                           # to the next phase
        counts = [[Received(config) for _ in range(2)] for _ in range(2)]
        for odd_phase, odd in product(range(2), repeat=2):
            m.submodules[f"received_{odd_phase}_{odd}"] = count = counts[odd_phase][odd]
            m.d.comb += [
                count.clear.eq(self.start.valid | passes & (phase[0] == odd_phase)),
                *(getattr(count, name).eq(getattr(self.landed, name)[odd_phase][odd])
                  for name in ("valid", "beats", "final", "end")),
            ]
        # At the other side of the dimension, except for sends that go back.
        here = [Array(counts[odd_phase][odd ^ back] for odd_phase in range(2) for odd in (1, 0))[
            Cat(current.port[0], phase[0])] for back in range(2)]
        received, received_back = Signal(STEP_WIDTH), Signal(STEP_WIDTH)
        incoming = Signal()                         # more beats of a packet arrive
        m.d.comb += [received.eq(here[0].sends), received_back.eq(here[1].sends),
                     incoming.eq(here[0].incoming | here[1].incoming)]

        # -- The next packet of the send, and whether it may be sent.
        # Beats of the send up to the end of the next packet, if that has the full length.
        reach = Signal(config.chunk_beat_bits + 2)
        left = Signal(config.chunk_beat_bits + 1)
        last = Signal()                                    # it is the last packet
        length = Signal(range(config.packet_beats + 1))
        granted, granted_back, after = Signal(STEP_WIDTH), Signal(), Signal(STEP_WIDTH)
        sending, may, there = Signal(), Signal(), Signal()
        arrived, part, settled = Signal(STEP_WIDTH), Signal(config.chunk_beat_bits + 1), Signal()
        all_but_one = Signal(STEP_WIDTH)                    # of the receives that the send needs
        m.d.comb += [
            last.eq(left <= config.packet_beats),
            length.eq(Mux(last, left, config.packet_beats)),
            after.eq(sent + 1),
            may.eq(Mux(current.back, granted_back, sent < granted) | current.local),
            arrived.eq(Mux(current.back, received_back, received)),
            part.eq(Mux(current.back, here[1].part, here[0].part)),
            # Data for one packet: the last packet of a piece has arrived only when the whole piece counts as received.
            # Sums wait for all, so that no packet arrives any more once they are offered.
            there.eq((arrived >= current.need) & (~current.local | settled & ~incoming)
                     | ~(arrived ^ all_but_one).any() & (part >= reach)
                     & ~current.local),
            packets.address.eq(current.source),
            packets.header.kind.eq(PacketKind.DATA),
            packets.header.communicator.eq(chunk.communicator), packets.header.epoch.eq(epoch),
            packets.header.sequence.eq(chunk.sequence), packets.header.phase.eq(phase),
            packets.header.offset.eq(current.target), packets.header.beats.eq(length - 1),
            packets.header.reduce.eq(current.reduce), packets.header.final.eq(last),
        ]
        # In the loopback, sums may replace what was sent before.
        with m.If(sending & current.local & (unread == 0) & (received == current.receives)):
            m.d.sync += settled.eq(1)
        m.d.comb += permits.eq(chunk.filled | opened & ~(sent & ~marks).any())
        # A send without beats has no packet.
        m.d.sync += packets.valid.eq(
            sending & permits & may & there & (left != 0) & ~packets.taken)
        with m.If(self.grants.valid):
            m.d.sync += granted.eq(self.grants.granted)
        with m.If(self.grants.back):
            m.d.sync += granted_back.eq(1)
        # ``taken`` arrives late: it only selects between two sums.
        m.d.sync += looped.eq(Mux(packets.taken & current.local, looped + 1 - self.landed.local,
                                  looped - self.landed.local))
        m.d.sync += unread.eq(Mux(packets.taken, unread + 1 - packets.read, unread - packets.read))
        with m.If(packets.taken):
            m.d.sync += [current.source.eq(current.source + length), current.target.eq(current.target + length),
                         reach.eq(reach + length), left.eq(left - length)]

        # -- Grants to the upstream neighbour.
        safe = Signal(STEP_WIDTH)
        more, more_back = Signal(), Signal()               # than was reported to it; to the other neighbour
        whole, news = Signal(), Signal()                   # all may be granted; more may be, by a mark
        # Those of the next phase, after those of this one; this phase was granted so, or the next one is.
        ahead, ahead_back, promised = Signal(), Signal(), Signal()
        now = Signal()                                     # there are GRANTs of this phase to send
        later = Signal()                                   # of the next one
        m.d.comb += [whole.eq(chunk.filled | chunk.early), now.eq(more | more_back), later.eq(ahead | ahead_back)]
        # A mark before the start may be another chunk's, which has had this slot.
        m.d.sync += news.eq(Mux(self.start.valid, 0, more_marks | news & ~self.signals.ready))
        header = self.signals.payload.header
        m.d.comb += [
            self.signals.valid.eq(now & (whole | news) | later & whole),
            self.signals.payload.port.eq(Mux(now, current.port ^ more, Cat(current.port[0] ^ ahead, current.next))),
            header.kind.eq(PacketKind.GRANT),
            header.communicator.eq(chunk.communicator), header.epoch.eq(epoch),
            header.sequence.eq(chunk.sequence), header.phase.eq(phase + ~now),
            header.granted.eq(Mux(now, Mux(whole, safe, marks), ~C(0, STEP_WIDTH))),
        ]
        with m.If(self.signals.ready & now):
            m.d.sync += [more.eq(~whole), more_back.eq(more_back & more)]
        with m.If(self.signals.ready & ~now):
            m.d.sync += [ahead.eq(0), ahead_back.eq(ahead_back & ahead)]

        with m.FSM() as fsm:
            self._fsm = fsm
            with m.State("IDLE"):
                with m.If(self.start.valid):
                    m.d.sync += [chunk.eq(self.start.payload), address.eq(self.start.payload.program),
                                 phases_left.eq(self.start.payload.phases), phase.eq(0), looped.eq(0), promised.eq(0)]
                    m.next = "NEXT"
            with m.State("NEXT"):
                with m.If(stopped):
                    m.next = "LEAVING"
                with m.Elif(phases_left == 0):
                    with m.If(chunk.ended):
                        m.next = "FINISH"
                with m.Else():
                    m.next = "PHASE"
            with m.State("PHASE"):
                m.d.comb += [steps.valid.eq(1), steps.kind.eq(StepKind.PHASE)]
                with m.If(steps.ready):
                    m.d.sync += address.eq(address + 1)
                    m.next = "PHASE_WAIT"
                with m.Elif(stopped):
                    m.next = "LEAVING"
            with m.State("PHASE_WAIT"):
                with m.If(steps.phase_valid):
                    m.d.sync += [
                        current.eq(steps.fetched), safe.eq(steps.fetched.granted),
                        more.eq((steps.fetched.granted != 0) & ~promised), granted.eq(0), sent.eq(0),
                        more_back.eq(steps.fetched.both & ~promised), granted_back.eq(0), promised.eq(0),
                        settled.eq(0), current.back.eq(0), current.local.eq(0),
                    ]
                    m.next = "ENTER"
            with m.State("ENTER"):
                m.d.comb += self.grants.entered.eq(1)
                with m.If(current.sends == 0):
                    m.next = "ENDING"
                with m.Else():
                    m.next = "SEND"
            with m.State("SEND"):
                m.d.comb += [steps.valid.eq(1), steps.kind.eq(StepKind.SEND)]
                with m.If(steps.ready):
                    m.d.sync += address.eq(address + 1)
                    m.next = "SEND_WAIT"
                with m.Elif(stopped):
                    m.next = "LEAVING"
            with m.State("SEND_WAIT"):
                with m.If(steps.send_valid):
                    m.d.sync += [
                        current.source.eq(steps.fetched.source), current.target.eq(steps.fetched.target),
                        current.need.eq(steps.fetched.need), all_but_one.eq(steps.fetched.need - 1),
                        current.grants.eq(steps.fetched.grants),
                        current.reduce.eq(steps.fetched.reduce), reach.eq(config.packet_beats), left.eq(current.span),
                        current.back.eq(steps.fetched.back), current.local.eq(steps.fetched.local),
                    ]
                    with m.If(steps.fetched.ahead):
                        m.d.sync += [current.next.eq(steps.fetched.next), ahead.eq(1), promised.eq(1),
                                     ahead_back.eq(steps.fetched.next_both)]
                    m.next = "SENDING"
            with m.State("SENDING"):
                m.d.comb += sending.eq(1)
                with m.If(stopped):
                    m.next = "LEAVING"
                with m.Elif(packets.taken & last):
                    m.d.sync += sent.eq(after)
                    with m.If(current.grants != 0):
                        m.next = "SETTLE"
                    with m.Elif(after == current.sends):
                        m.next = "ENDING"
                    with m.Else():
                        m.next = "SEND"
            with m.State("SETTLE"):
                # The new grant permits overwriting sent data, so that data must have been read.
                with m.If(stopped):
                    m.next = "LEAVING"
                with m.Elif(unread == 0):
                    m.d.sync += [safe.eq(safe + current.grants), more.eq(1)]
                    with m.If(sent == current.sends):
                        m.next = "ENDING"
                    with m.Else():
                        m.next = "SEND"
            with m.State("ENDING"):
                with m.If(stopped):
                    m.next = "LEAVING"
                with m.Elif(chunk.parts & ~parted & (phases_left == 1)):
                    with m.If((received + 1 >= current.receives) & ~incoming):
                        m.next = "PART"
                with m.Elif((received == current.receives) & ~incoming & (unread == 0) & ~now & ~later
                            & (looped == 0)):
                    m.d.comb += passes.eq(1)
                    m.d.sync += [phases_left.eq(phases_left - 1), phase.eq(phase + 1)]
                    m.next = "NEXT"
            with m.State("PART"):
                # The drain of all but the last receive begins.
                m.d.comb += [steps.valid.eq(1), steps.kind.eq(StepKind.PART)]
                with m.If(steps.ready):
                    m.d.sync += parted.eq(1)
                    m.next = "ENDING"
                with m.Elif(stopped):
                    m.next = "LEAVING"
            with m.State("LEAVING"):
                m.d.sync += [more.eq(0), more_back.eq(0), ahead.eq(0), ahead_back.eq(0)]
                with m.If((unread == 0) & ~packets.valid & ~now & ~later & chunk.ended):
                    m.next = "FINISH"
            with m.State("FINISH"):
                m.d.comb += [steps.valid.eq(1), steps.kind.eq(StepKind.FINISH)]
                with m.If(steps.ready):
                    m.next = "IDLE"
        m.d.comb += [
            self.chunk.busy.eq(~fsm.ongoing("IDLE")),
            self.grants.inside.eq(Cat(fsm.ongoing(state) for state in (
                "ENTER", "SEND", "SEND_WAIT", "SENDING", "SETTLE", "ENDING", "PART")).any()),
        ]

        state, waits, shown = self.state, Signal(Waits), Signal(Waits)
        stepping = Cat(fsm.ongoing(name) for name in (
            "PHASE", "PHASE_WAIT", "SEND", "SEND_WAIT", "PART", "FINISH")).any()
        m.d.comb += waits.eq(Mux(~permits & ~stepping, Waits.MEMORY, Mux(
            sending, Mux(~may, Waits.GRANT, Mux(~there, Waits.DATA, Waits.PORT)), Mux(
                stepping, Waits.PROGRAM, Mux(now | later, Waits.PORT, Mux(
                    (unread != 0) | (looped != 0), Waits.SRAM, Mux(
                        fsm.ongoing("ENDING") & ((received != current.receives) | incoming), Waits.DATA,
                        Waits.NOTHING)))))))
        m.d.sync += shown.eq(waits)
        m.d.comb += [
            state.waits.eq(Mux(self.chunk.busy, shown, Waits.NOTHING)),
            state.busy.eq(self.chunk.busy), state.wants.eq(sending & permits), state.granted.eq(may),
            state.ready.eq(there), state.phase.eq(phase), state.port.eq(current.port ^ current.back),
            state.communicator.eq(chunk.communicator), state.sequence.eq(chunk.sequence), state.sent.eq(sent),
            state.received.eq(received),
        ]
        return m
