# SPDX-License-Identifier: Apache-2.0
"""The ports of an FSM, towards the pool's other parts.

Chunker, Receive, ProgramSteps, GrantStore <-> Fsm <-> SendArbiter, SignalArbiter.
"""

from amaranth import *
from amaranth.lib import data, enum, wiring
from amaranth.lib.wiring import In, Out

from hw.ace.communicators import EPOCH_WIDTH
from hw.ace.config import SEQUENCE_WIDTH, STEP_WIDTH, AceConfig
from hw.ace.layouts import PHASE_WIDTH, arithmetic_layout, chunk_layout, done_layout, packet_layout
from hw.common.event import EventSignature

__all__ = [
    "BeatsLanded", "FsmChunk", "FsmCommunicator", "FsmFilled", "FsmLookup", "FsmStart", "FsmsBusy", "FsmsPaused",
    "PacketOffer", "PhaseGrants", "StepKind", "StepPort", "fetched_layout", "state_layout",
]


class StepKind(enum.Enum, shape=2):
    """An FSM's requests to the pool."""

    PHASE = 0
    SEND = 1
    FINISH = 2
    """The chunk has completed all phases."""
    PART = 3
    """It has all but the last receive of its last phase."""


def fetched_layout(config):
    """A phase or a send of the program, in beats: ``source`` is an address in the SRAM, ``target`` one in a slot.
    ``ahead``: with the send, receives of the next phase are granted, which is in the dimension ``next``."""
    return data.StructLayout({
        "port": range(config.ports), "span": config.chunk_beat_bits + 1, "sends": STEP_WIDTH, "receives": STEP_WIDTH,
        "granted": STEP_WIDTH,
        "source": config.sram_bits, "target": config.chunk_beat_bits, "need": STEP_WIDTH, "grants": STEP_WIDTH,
        "reduce": 1, "both": 1, "back": 1, "local": 1, "ahead": 1, "next": 2, "next_both": 1,
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


class FsmsPaused(wiring.Signature):
    """FSMs whose payload must not be read in this cycle, one bit each: levels, driven by FsmDispatch for Transmit."""

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
        Requests the word at ``address``, or reports the end of the chunk or of its first part.
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
        First cycle of a phase: the GRANTs that arrived before are looked up, and forwarded in the next cycle.
    inside : ``Out(1)``
        In a phase, for at least two cycles: GRANTs for it are forwarded at once.
    valid : ``In(1)``, granted : ``In``
        Receives of this phase that the receiver has granted.
    back : ``In(1)``
        The receiver of sends that go back has granted all of them.
    odd : ``Out(1)``
        The phase's port has an odd number.
    """

    def __init__(self) -> None:
        super().__init__({"entered": Out(1), "inside": Out(1), "valid": In(1), "granted": In(STEP_WIDTH),
                          "back": In(1), "odd": Out(1)})


class PacketOffer(wiring.Signature):
    """A DATA packet that may be sent.

    Members
    -------
    valid : ``Out(1)``, port, address, header : ``Out``
        Held until ``taken``; ``stopped`` of the communicator withdraws it within two cycles.
    taken : ``In(1)``
        Only while ``valid``.
    read : ``In(range(3))``
        Number of packets of this FSM that have been read from the SRAM in the previous cycle. It sends at the two ports
        of a dimension, or at the loopback, so at most two pipes read at a time.
    """

    def __init__(self, config: AceConfig) -> None:
        super().__init__({"valid": Out(1), "port": Out(range(config.ports + 1)), "address": Out(config.sram_bits),
                          "header": Out(packet_layout(config)), "taken": In(1), "read": In(range(3))})


class BeatsLanded(wiring.Signature):
    """Packets for the FSM's chunk, by the lowest bit of the number of their phase, and by that of their port.

    Members
    -------
    valid : ``Out(1).array(2, 2)``, beats : ``Out(7).array(2, 2)``, final : ``Out(1).array(2, 2)``
        One of ``beats + 1`` beats, maybe the last of its send, may be sent from now on.
    end : ``Out(1).array(2, 2)``
        Its last beat has arrived, maybe in the cycle of ``valid``.
    local : ``Out(1)``
        A packet has arrived at the loopback.
    """

    def __init__(self, config: AceConfig) -> None:
        super().__init__({"valid": Out(1).array(2, 2), "beats": Out(7).array(2, 2), "final": Out(1).array(2, 2),
                          "end": Out(1).array(2, 2), "local": Out(1)})
