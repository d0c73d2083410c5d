# SPDX-License-Identifier: Apache-2.0
"""One FSM: executes the program of a chunk, phase by phase and packet by packet.

Chunker -> Fsm -> Transmit, and back from Receive.  Throughput: a packet per 2 cycles; 8 more cycles for each send,
which other FSMs use.

::

    IDLE -> NEXT -> PHASE -> PHASE_WAIT -> ENTER -> SEND -> SEND_WAIT -> SENDING -> (SETTLE) -> SEND ... -> ENDING
            NEXT -> ... -> NEXT -> FINISH -> IDLE
            (stopped, from any of them) -> LEAVING -> FINISH -> IDLE
"""

from amaranth import *
from amaranth.lib import data, enum, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.ace.communicators import EPOCH_WIDTH
from hw.ace.config import SEQUENCE_WIDTH, STEP_WIDTH, AceConfig
from hw.ace.layouts import (
    PHASE_WIDTH,
    PacketKind,
    arithmetic_layout,
    chunk_layout,
    done_layout,
    packet_layout,
    signal_layout,
)
from hw.ace.words import Waits
from hw.common.event import EventSignature

__all__ = [
    "BeatsLanded", "Fsm", "FsmChunk", "FsmCommunicator", "FsmFilled", "FsmLookup", "FsmStart", "FsmsBusy", "PacketOffer",
    "PhaseGrants", "StepKind", "StepPort", "fetched_layout", "state_layout",
]

UNREAD_WIDTH = 4
"""Bits of the count of packets that are issued and not yet read from the SRAM: Transmit holds only a few."""


class StepKind(enum.Enum, shape=2):
    """An FSM's requests to the pool."""

    PHASE = 0
    SEND = 1
    FINISH = 2
    """The chunk has completed all phases."""


def fetched_layout(config):
    """A phase or a send of the program, in beats: ``source`` is an address in the SRAM, ``target`` one in a slot."""
    return data.StructLayout({
        "port": range(config.ports), "span": config.chunk_beat_bits + 1, "sends": STEP_WIDTH, "receives": STEP_WIDTH,
        "granted": STEP_WIDTH,
        "source": config.sram_bits, "target": config.chunk_beat_bits, "need": STEP_WIDTH, "grants": STEP_WIDTH,
        "reduce": 1,
    })


def state_layout(config):
    """State of an FSM for software."""
    return data.StructLayout({
        "busy": 1, "wants": 1, "granted": 1, "ready": 1, "phase": PHASE_WIDTH, "port": 3, "waits": 3,
        "communicator": config.communicator_bits, "sequence": SEQUENCE_WIDTH, "sent": STEP_WIDTH,
        "received": STEP_WIDTH,
    })


class FsmLookup(wiring.Signature):
    """Debug look-up: the reader drives ``fsm``, and ``state`` follows.

    The pool responds to Faults in the same cycle; Faults responds to the registers two cycles later.
    """

    def __init__(self, config: AceConfig) -> None:
        super().__init__({"fsm": Out(config.fsm_bits), "state": In(state_layout(config))})


class FsmsBusy(wiring.Signature):
    """FSMs that have a chunk, one bit each: levels, driven by the pool for Chunker."""

    def __init__(self, config: AceConfig) -> None:
        super().__init__({"fsms": Out(config.fsms)})


class FsmStart(EventSignature):
    """An FSM that is not busy starts with the chunk ``payload``."""

    def __init__(self, config: AceConfig) -> None:
        super().__init__(chunk_layout(config))


class FsmFilled(EventSignature):
    """The fill of the chunk in the slot ``payload.slot`` has ended. Driven by Fill, of any chunk, for those that have
    started before."""

    def __init__(self, config: AceConfig) -> None:
        super().__init__(done_layout(config))


class FsmChunk(wiring.Signature):
    """The chunk of an FSM, and whether it has one: levels. The other members are undefined unless ``busy``."""

    def __init__(self, config: AceConfig) -> None:
        super().__init__({"busy": Out(1), "slot": Out(config.slot_bits), "arithmetic": Out(arithmetic_layout()),
                          "piece_beats": Out(config.chunk_beat_bits + 1)})


class FsmCommunicator(wiring.Signature):
    """The communicator of the FSM's chunk: levels, registered.

    Members
    -------
    stopped : ``Out(1)``
        The chunk is dropped: its offer and its GRANT are withdrawn unless they were taken; packets already taken are
        still read; nothing else happens.
    epoch : ``Out``
    """

    def __init__(self) -> None:
        super().__init__({"stopped": Out(1), "epoch": Out(EPOCH_WIDTH)})


class StepPort(wiring.Signature):
    """Access of an FSM to its program.

    Members
    -------
    valid : ``Out(1)``, ready : ``In(1)``, kind : ``Out(StepKind)``, address : ``Out``
        Requests the word at ``address``, or reports the end of the chunk.
    phase_valid, send_valid : ``In(1)``, fetched : ``In(fetched_layout)``
        The requested word, of kind PHASE or SEND, some cycles later.
    """

    def __init__(self, config: AceConfig) -> None:
        super().__init__({
            "valid": Out(1), "ready": In(1), "kind": Out(StepKind), "address": Out(config.program_bits),
            "phase_valid": In(1), "send_valid": In(1), "fetched": In(fetched_layout(config))})


class PhaseGrants(wiring.Signature):
    """GRANTs for the phase of an FSM; the phase and the sequence number are those of its state.

    Members
    -------
    entered : ``Out(1)``
        First cycle of a phase: the GRANTs that arrived before are looked up.
    inside : ``Out(1)``
        In a phase: GRANTs for it are forwarded at once.
    valid : ``In(1)``, granted : ``In``
        Receives of this phase that the receiver has granted.
    """

    def __init__(self) -> None:
        super().__init__({"entered": Out(1), "inside": Out(1), "valid": In(1), "granted": In(STEP_WIDTH)})


class PacketOffer(wiring.Signature):
    """A DATA packet that may be sent.

    Members
    -------
    valid : ``Out(1)``, port, address, header : ``Out``
        Held until ``taken``; ``stopped`` of the communicator withdraws it within two cycles.
    taken : ``In(1)``
        Only while ``valid``.
    read : ``In(1)``
        A packet of this FSM has been read from the SRAM.
    """

    def __init__(self, config: AceConfig) -> None:
        super().__init__({"valid": Out(1), "port": Out(range(config.ports)), "address": Out(config.sram_bits),
                          "header": Out(packet_layout(config)), "taken": In(1), "read": In(1)})


class BeatsLanded(EventSignature):
    """``payload + 1`` beats for the FSM's chunk have arrived."""

    def __init__(self) -> None:
        super().__init__(7)


class Fsm(wiring.Component):
    """Execute one program at a time.

    Parameters
    ----------
    config : AceConfig

    Members
    -------
    start : ``In(FsmStart)``, chunk : ``Out(FsmChunk)``, filled : ``In(FsmFilled)``
        Until the chunk is filled, nothing is sent; without an ``early`` program, no GRANTs either.
    communicator : ``In(FsmCommunicator)``
    steps : ``Out(StepPort)``
    grants : ``Out(PhaseGrants)``
        GRANTs of its downstream neighbour.
    packets : ``Out(PacketOffer)``
    landed : ``In(BeatsLanded)``
    signals : ``Out(stream.Signature(signal_layout))``
        GRANTs for its upstream neighbour.
    state : ``Out(state_layout)``
        A level, for software and for the arbiters of the pool.
    """

    def __init__(self, config: AceConfig) -> None:
        self.config = config
        super().__init__({
            "start": In(FsmStart(config)), "chunk": Out(FsmChunk(config)), "filled": In(FsmFilled(config)),
            "communicator": In(FsmCommunicator()),
            "steps": Out(StepPort(config)), "grants": Out(PhaseGrants()), "packets": Out(PacketOffer(config)),
            "landed": In(BeatsLanded()), "signals": Out(stream.Signature(signal_layout(config))),
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
        sent, received = Signal(STEP_WIDTH), Signal(STEP_WIDTH)
        unread = Signal(UNREAD_WIDTH)
        steps, packets, epoch, stopped = self.steps, self.packets, self.communicator.epoch, self.communicator.stopped
        m.d.comb += [self.chunk.slot.eq(chunk.slot), self.chunk.arithmetic.eq(chunk.arithmetic),
                     self.chunk.piece_beats.eq(chunk.piece_beats), steps.address.eq(address),
                     packets.port.eq(current.port)]

        # -- The fill; a chunk with a read error stays until its communicator is stopped.
        with m.If(self.filled.valid & (self.filled.payload.slot == chunk.slot)):
            m.d.sync += [chunk.ended.eq(1), chunk.filled.eq(~self.filled.payload.error)]

        # -- Received data of this phase.
        came = Signal(config.chunk_beat_bits + 1)          # beats of the receive in progress
        after = Signal(config.chunk_beat_bits + 2)
        m.d.comb += after.eq(came + self.landed.payload + 1)
        with m.If(self.landed.valid):
            with m.If(after == current.span):
                m.d.sync += [came.eq(0), received.eq(received + 1)]
            with m.Else():
                m.d.sync += came.eq(after)

        # -- The next packet of the send, and whether it may be sent.
        offset = Signal(config.chunk_beat_bits + 1)        # beats of the send that are issued
        left = Signal(config.chunk_beat_bits + 1)
        length = Signal(range(config.packet_beats + 1))
        granted = Signal(STEP_WIDTH)
        sending, may, there = Signal(), Signal(), Signal()
        m.d.comb += [
            length.eq(Mux(left > config.packet_beats, config.packet_beats, left)),
            may.eq(sent < granted),
            # Data for one packet: the last packet of a piece has arrived only when the whole piece counts as received.
            there.eq((received >= current.need)
                     | ((received + 1 == current.need) & (came >= offset + config.packet_beats))),
            packets.address.eq(current.source),
            packets.header.kind.eq(PacketKind.DATA),
            packets.header.communicator.eq(chunk.communicator), packets.header.epoch.eq(epoch),
            packets.header.sequence.eq(chunk.sequence), packets.header.phase.eq(phase),
            packets.header.offset.eq(current.target), packets.header.beats.eq(length - 1),
            packets.header.reduce.eq(current.reduce),
        ]
        # A send without beats has no packet.
        m.d.sync += packets.valid.eq(sending & chunk.filled & may & there & (left != 0) & ~packets.taken)
        with m.If(self.grants.valid):
            m.d.sync += granted.eq(self.grants.granted)
        m.d.sync += unread.eq(unread + packets.taken - packets.read)
        with m.If(packets.taken):
            m.d.sync += [current.source.eq(current.source + length), current.target.eq(current.target + length),
                         offset.eq(offset + length), left.eq(left - length)]

        # -- Grants to the upstream neighbour.
        safe = Signal(STEP_WIDTH)
        more = Signal()                                    # than was reported to it
        header = self.signals.payload.header
        m.d.comb += [
            self.signals.valid.eq(more & (chunk.filled | chunk.early)),
            self.signals.payload.port.eq(current.port ^ 1),
            header.kind.eq(PacketKind.GRANT),
            header.communicator.eq(chunk.communicator), header.epoch.eq(epoch),
            header.sequence.eq(chunk.sequence), header.phase.eq(phase), header.granted.eq(safe),
        ]
        with m.If(self.signals.ready):
            m.d.sync += more.eq(0)

        with m.FSM() as fsm:
            with m.State("IDLE"):
                with m.If(self.start.valid):
                    m.d.sync += [chunk.eq(self.start.payload), address.eq(self.start.payload.program),
                                 phases_left.eq(self.start.payload.phases), phase.eq(0)]
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
                        more.eq(steps.fetched.granted != 0), granted.eq(0), sent.eq(0), received.eq(0), came.eq(0),
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
                        current.need.eq(steps.fetched.need), current.grants.eq(steps.fetched.grants),
                        current.reduce.eq(steps.fetched.reduce), offset.eq(0), left.eq(current.span),
                    ]
                    m.next = "SENDING"
            with m.State("SENDING"):
                m.d.comb += sending.eq(1)
                with m.If(stopped):
                    m.next = "LEAVING"
                with m.Elif(packets.taken & (left == length)):
                    m.d.sync += sent.eq(sent + 1)
                    with m.If(current.grants != 0):
                        m.next = "SETTLE"
                    with m.Elif(sent + 1 == current.sends):
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
                with m.Elif((received == current.receives) & (unread == 0) & ~more):
                    m.d.sync += [phases_left.eq(phases_left - 1), phase.eq(phase + 1)]
                    m.next = "NEXT"
            with m.State("LEAVING"):
                m.d.sync += more.eq(0)
                with m.If((unread == 0) & ~packets.valid & ~more & chunk.ended):
                    m.next = "FINISH"
            with m.State("FINISH"):
                m.d.comb += [steps.valid.eq(1), steps.kind.eq(StepKind.FINISH)]
                with m.If(steps.ready):
                    m.next = "IDLE"
        m.d.comb += [
            self.chunk.busy.eq(~fsm.ongoing("IDLE")),
            self.grants.inside.eq(Cat(fsm.ongoing(state) for state in (
                "ENTER", "SEND", "SEND_WAIT", "SENDING", "SETTLE", "ENDING")).any()),
        ]

        state, waits, shown = self.state, Signal(Waits), Signal(Waits)
        stepping = Cat(fsm.ongoing(name) for name in ("PHASE", "PHASE_WAIT", "SEND", "SEND_WAIT", "FINISH")).any()
        m.d.comb += waits.eq(Mux(~chunk.filled & ~stepping, Waits.MEMORY, Mux(
            sending, Mux(~may, Waits.GRANT, Mux(~there, Waits.DATA, Waits.PORT)), Mux(
                stepping, Waits.PROGRAM, Mux(more, Waits.PORT, Mux(unread != 0, Waits.SRAM, Mux(
                    fsm.ongoing("ENDING") & (received != current.receives), Waits.DATA, Waits.NOTHING)))))))
        m.d.sync += shown.eq(waits)
        m.d.comb += [
            state.waits.eq(Mux(self.chunk.busy, shown, Waits.NOTHING)),
            state.busy.eq(self.chunk.busy), state.wants.eq(sending & chunk.filled), state.granted.eq(may), state.ready.eq(there),
            state.phase.eq(phase), state.port.eq(current.port), state.communicator.eq(chunk.communicator),
            state.sequence.eq(chunk.sequence), state.sent.eq(sent), state.received.eq(received),
        ]
        return m
