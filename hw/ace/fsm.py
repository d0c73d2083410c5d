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
from amaranth.lib import data, enum, wiring
from amaranth.lib.wiring import In, Out

from .communicators import EPOCH_WIDTH
from .config import SEQUENCE_WIDTH, STEP_WIDTH
from .layouts import PHASE_WIDTH, PacketKind, arithmetic_layout, chunk_layout, packet_layout, signal_layout
from .words import Waits

__all__ = ["Fsm", "FsmLookup", "FsmsBusy", "StepKind", "fetched_layout", "state_layout"]

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

    def __init__(self, config):
        super().__init__({"fsm": Out(config.fsm_bits), "state": In(state_layout(config))})


class FsmsBusy(wiring.Signature):
    """FSMs that have a chunk, one bit each: levels, driven by the pool for Chunker."""

    def __init__(self, config):
        super().__init__({"fsms": Out(config.fsms)})


class Fsm(wiring.Component):
    """Execute one program at a time.

    Parameters
    ----------
    config : AceConfig

    Members
    -------
    start : ``In(1)``, chunk : ``In(chunk_layout)``
        ``start`` is asserted only while the FSM is not busy.
    busy : ``Out(1)``
    slot : ``Out``, arithmetic : ``Out``, piece_beats : ``Out``
        Of the FSM's chunk.
    step : ``Out(1)``, step_kind : ``Out(StepKind)``, step_address : ``Out``, step_taken : ``In(1)``
        Requests a word of the program, or the end of the chunk.
    phase_valid, send_valid : ``In(1)``, fetched : ``In(fetched_layout)``
        The requested word.
    entered : ``Out(1)``
        First cycle of a phase: the pool looks up GRANTs that arrived before.
    inside : ``Out(1)``
        In a phase: GRANTs for it are forwarded at once.
    granted_valid : ``In(1)``, granted : ``In``
        Receives of this phase that the receiver has granted.
    offer : ``Out(1)``, port, address, header : ``Out``, taken : ``In(1)``
        A packet that may be sent. The offer is held until ``taken``; ``stopped`` withdraws it within two cycles.
    read : ``In(1)``
        A packet of this FSM has been read from the SRAM.
    landed : ``In(1)``, beats : ``In``
        ``beats`` + 1 beats for the FSM's chunk have arrived.
    signal : ``Out(1)``, signal_payload : ``Out(signal_layout)``, signal_taken : ``In(1)``
        A GRANT for its upstream neighbour.
    stopped : ``In(1)``
        The chunk is dropped: its offer and its GRANT are withdrawn unless they were taken; packets already taken are
        still read; nothing else happens.
    epoch : ``In``
        Of the FSM's communicator.
    state : ``Out(state_layout)``
    """

    def __init__(self, config):
        self.config = config
        super().__init__({
            "start": In(1), "chunk": In(chunk_layout(config)), "busy": Out(1),
            "slot": Out(config.slot_bits), "arithmetic": Out(arithmetic_layout()),
            "piece_beats": Out(config.chunk_beat_bits + 1),
            "step": Out(1), "step_kind": Out(StepKind), "step_address": Out(config.program_bits), "step_taken": In(1),
            "phase_valid": In(1), "send_valid": In(1), "fetched": In(fetched_layout(config)),
            "entered": Out(1), "inside": Out(1), "granted_valid": In(1), "granted": In(STEP_WIDTH),
            "offer": Out(1), "port": Out(range(config.ports)), "address": Out(config.sram_bits),
            "header": Out(packet_layout(config)), "taken": In(1), "read": In(1),
            "landed": In(1), "beats": In(7),
            "signal": Out(1), "signal_payload": Out(signal_layout(config)), "signal_taken": In(1),
            "stopped": In(1), "epoch": In(EPOCH_WIDTH), "state": Out(state_layout(config)),
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
        m.d.comb += [self.slot.eq(chunk.slot), self.arithmetic.eq(chunk.arithmetic),
                     self.piece_beats.eq(chunk.piece_beats), self.step_address.eq(address), self.port.eq(current.port)]

        # -- Received data of this phase.
        came = Signal(config.chunk_beat_bits + 1)          # beats of the receive in progress
        after = Signal(config.chunk_beat_bits + 2)
        m.d.comb += after.eq(came + self.beats + 1)
        with m.If(self.landed):
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
            self.address.eq(current.source),
            self.header.kind.eq(PacketKind.DATA),
            self.header.communicator.eq(chunk.communicator), self.header.epoch.eq(self.epoch),
            self.header.sequence.eq(chunk.sequence), self.header.phase.eq(phase),
            self.header.offset.eq(current.target), self.header.beats.eq(length - 1),
            self.header.reduce.eq(current.reduce),
        ]
        # A send without beats has no packet.
        m.d.sync += self.offer.eq(sending & may & there & (left != 0) & ~self.taken)
        with m.If(self.granted_valid):
            m.d.sync += granted.eq(self.granted)
        m.d.sync += unread.eq(unread + self.taken - self.read)
        with m.If(self.taken):
            m.d.sync += [current.source.eq(current.source + length), current.target.eq(current.target + length),
                         offset.eq(offset + length), left.eq(left - length)]

        # -- Grants to the upstream neighbour.
        safe = Signal(STEP_WIDTH)
        more = Signal()                                    # than was reported to it
        header = self.signal_payload.header
        m.d.comb += [
            self.signal.eq(more),
            self.signal_payload.port.eq(current.port ^ 1),
            header.kind.eq(PacketKind.GRANT),
            header.communicator.eq(chunk.communicator), header.epoch.eq(self.epoch),
            header.sequence.eq(chunk.sequence), header.phase.eq(phase), header.granted.eq(safe),
        ]
        with m.If(self.signal_taken):
            m.d.sync += more.eq(0)

        with m.FSM() as fsm:
            with m.State("IDLE"):
                with m.If(self.start):
                    m.d.sync += [chunk.eq(self.chunk), address.eq(self.chunk.program),
                                 phases_left.eq(self.chunk.phases), phase.eq(0)]
                    m.next = "NEXT"
            with m.State("NEXT"):
                with m.If(self.stopped):
                    m.next = "LEAVING"
                with m.Elif(phases_left == 0):
                    m.next = "FINISH"
                with m.Else():
                    m.next = "PHASE"
            with m.State("PHASE"):
                m.d.comb += [self.step.eq(1), self.step_kind.eq(StepKind.PHASE)]
                with m.If(self.step_taken):
                    m.d.sync += address.eq(address + 1)
                    m.next = "PHASE_WAIT"
                with m.Elif(self.stopped):
                    m.next = "LEAVING"
            with m.State("PHASE_WAIT"):
                with m.If(self.phase_valid):
                    m.d.sync += [
                        current.eq(self.fetched), safe.eq(self.fetched.granted),
                        more.eq(self.fetched.granted != 0), granted.eq(0), sent.eq(0), received.eq(0), came.eq(0),
                    ]
                    m.next = "ENTER"
            with m.State("ENTER"):
                m.d.comb += self.entered.eq(1)
                with m.If(current.sends == 0):
                    m.next = "ENDING"
                with m.Else():
                    m.next = "SEND"
            with m.State("SEND"):
                m.d.comb += [self.step.eq(1), self.step_kind.eq(StepKind.SEND)]
                with m.If(self.step_taken):
                    m.d.sync += address.eq(address + 1)
                    m.next = "SEND_WAIT"
                with m.Elif(self.stopped):
                    m.next = "LEAVING"
            with m.State("SEND_WAIT"):
                with m.If(self.send_valid):
                    m.d.sync += [
                        current.source.eq(self.fetched.source), current.target.eq(self.fetched.target),
                        current.need.eq(self.fetched.need), current.grants.eq(self.fetched.grants),
                        current.reduce.eq(self.fetched.reduce), offset.eq(0), left.eq(current.span),
                    ]
                    m.next = "SENDING"
            with m.State("SENDING"):
                m.d.comb += sending.eq(1)
                with m.If(self.stopped):
                    m.next = "LEAVING"
                with m.Elif(self.taken & (left == length)):
                    m.d.sync += sent.eq(sent + 1)
                    with m.If(current.grants != 0):
                        m.next = "SETTLE"
                    with m.Elif(sent + 1 == current.sends):
                        m.next = "ENDING"
                    with m.Else():
                        m.next = "SEND"
            with m.State("SETTLE"):
                # The new grant permits overwriting sent data, so that data must have been read.
                with m.If(self.stopped):
                    m.next = "LEAVING"
                with m.Elif(unread == 0):
                    m.d.sync += [safe.eq(safe + current.grants), more.eq(1)]
                    with m.If(sent == current.sends):
                        m.next = "ENDING"
                    with m.Else():
                        m.next = "SEND"
            with m.State("ENDING"):
                with m.If(self.stopped):
                    m.next = "LEAVING"
                with m.Elif((received == current.receives) & (unread == 0) & ~more):
                    m.d.sync += [phases_left.eq(phases_left - 1), phase.eq(phase + 1)]
                    m.next = "NEXT"
            with m.State("LEAVING"):
                m.d.sync += more.eq(0)
                with m.If((unread == 0) & ~self.offer & ~more):
                    m.next = "FINISH"
            with m.State("FINISH"):
                m.d.comb += [self.step.eq(1), self.step_kind.eq(StepKind.FINISH)]
                with m.If(self.step_taken):
                    m.next = "IDLE"
        m.d.comb += [
            self.busy.eq(~fsm.ongoing("IDLE")),
            self.inside.eq(Cat(fsm.ongoing(state) for state in (
                "ENTER", "SEND", "SEND_WAIT", "SENDING", "SETTLE", "ENDING")).any()),
        ]

        state, waits, shown = self.state, Signal(Waits), Signal(Waits)
        stepping = Cat(fsm.ongoing(name) for name in ("PHASE", "PHASE_WAIT", "SEND", "SEND_WAIT", "FINISH")).any()
        m.d.comb += waits.eq(Mux(sending, Mux(~may, Waits.GRANT, Mux(~there, Waits.DATA, Waits.PORT)), Mux(
            stepping, Waits.PROGRAM, Mux(more, Waits.PORT, Mux(unread != 0, Waits.SRAM, Mux(
                fsm.ongoing("ENDING") & (received != current.receives), Waits.DATA, Waits.NOTHING))))))
        m.d.sync += shown.eq(waits)
        m.d.comb += [
            state.waits.eq(Mux(self.busy, shown, Waits.NOTHING)),
            state.busy.eq(self.busy), state.wants.eq(sending), state.granted.eq(may), state.ready.eq(there),
            state.phase.eq(phase), state.port.eq(current.port), state.communicator.eq(chunk.communicator),
            state.sequence.eq(chunk.sequence), state.sent.eq(sent), state.received.eq(received),
        ]
        return m
