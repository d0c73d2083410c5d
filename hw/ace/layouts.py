# SPDX-License-Identifier: Apache-2.0
"""Payloads between the stages of the collectives accelerator, sized by the configuration.

Command -> Operation -> Chunk -> Move (fill) -> Send, Flit, Landed -> Move (drain) -> Done, in the order of the data.
"""

from amaranth.hdl import C, Shape
from amaranth.lib import data, enum

from hw.common.crc import CRC_WIDTH

from .config import (
    LINK_CREDIT_WIDTH,
    LINK_HIGH_WIDTH,
    LINK_SEQUENCE_WIDTH,
    LINK_SESSION_WIDTH,
    PHASES,
    SEQUENCE_WIDTH,
    STEP_WIDTH,
)
from .numerics.formats import OP_WIDTH, TYPE_WIDTH
from .words import (
    COMMAND_FIELDS,
    HEADER_FIELDS,
    PHASE_FIELDS,
    RECORD_FIELDS,
    SEND_FIELDS,
    TRANSFER_FIELDS,
    LinkCause,
    LinkState,
)

__all__ = [
    "HEADER_WIDTH",
    "PAYLOAD_KINDS",
    "PHASE_WIDTH",
    "CommandLayout",
    "HeaderLayout",
    "LinkCause",
    "LinkState",
    "PacketKind",
    "PhaseLayout",
    "RecordLayout",
    "SendLayout",
    "TransferLayout",
    "abort_layout",
    "arithmetic_layout",
    "chunk_layout",
    "destination_layout",
    "done_layout",
    "flit_layout",
    "grant_layout",
    "implied_layout",
    "landed_layout",
    "landing_layout",
    "link_header_layout",
    "link_layout",
    "move_layout",
    "packet_layout",
    "received_layout",
    "send_layout",
    "signal_layout",
    "through_layout",
    "widens",
]

CommandLayout = data.StructLayout(dict(COMMAND_FIELDS))
HeaderLayout = data.StructLayout(dict(HEADER_FIELDS))
TransferLayout = data.StructLayout(dict(TRANSFER_FIELDS))
PhaseLayout = data.StructLayout(dict(PHASE_FIELDS))
SendLayout = data.StructLayout(dict(SEND_FIELDS))
RecordLayout = data.StructLayout(dict(RECORD_FIELDS))

PHASE_WIDTH = (PHASES - 1).bit_length()

HEADER_WIDTH = 48
"""Minimum bits of a packet's header: those of a PUT's."""


class PacketKind(enum.Enum, shape=3):
    """Kind of a packet."""

    CREDIT = 0
    """Only credits; produced and consumed by the link ports."""
    DATA = 1
    """A piece of a send, with payload."""
    GRANT = 2
    """``granted`` receives of a chunk's phase are safe; no payload."""
    ABORT = 3
    """A communicator's work ends; one beat, whose payload is the record of the cause."""
    PUT = 4
    """A piece of a DMA write to the neighbour's memory. Not used by the accelerator."""
    PUT_DONE = 5
    """A DMA write has completed. Not used by the accelerator."""


PAYLOAD_KINDS = (PacketKind.DATA, PacketKind.ABORT, PacketKind.PUT)
"""Kinds with payload behind the header; others have one beat, whose data is 0 and is not sent."""


def packet_layout(config):
    """Header of a packet, on its first beat. Fields of different kinds share bits. The headers of PUT and PUT_DONE are
    in :mod:`hw.endpoint.layouts`; only ``kind`` has the same position in all.

    ``communicator``, ``sequence``: the chunk. ``epoch``: of the communicator. ``phase``: of the chunk's program. DATA:
    ``offset``, beat of the slot where its payload starts; ``beats``, of payload, less one; ``reduce``, combine with the
    contents of the slot; ``final``, the last packet of its send. GRANT: ``granted``, total number of receives of the
    phase that are safe; all bits set: all of them. CREDIT: ``state`` of the sender's port; ``nak``, a packet is
    missing, replay; ``ask``, respond at once; ``refuse``, the sender is not in the session to which ``peer`` is bound;
    ``session``, ``peer``, sessions of the sender and, as far as it knows, of the receiver; ``ack_high``, the bits above
    ``ack``.
    """
    return _overlaid(
        ("kind", {"kind": PacketKind}),
        ("chunk", {"communicator": 4, "epoch": 4, "sequence": SEQUENCE_WIDTH, "phase": PHASE_WIDTH}, "kind"),
        ("data", {"offset": config.chunk_beat_bits, "beats": 7, "reduce": 1, "final": 1}, "chunk"),
        ("grant", {"granted": STEP_WIDTH}, "chunk"),
        ("credit", {"state": LinkState, "nak": 1, "ask": 1, "refuse": 1, "session": LINK_SESSION_WIDTH,
                    "peer": LINK_SESSION_WIDTH, "ack_high": LINK_HIGH_WIDTH}, "kind"))


def _overlaid(*parts):
    """Fields of each part, ``(name, fields)`` or ``(name, fields, part)``, placed above those of the named part."""
    fields, ends = {}, {}
    for name, part, *below in parts:
        at = ends[below[0]] if below else 0
        for field, shape in part.items():
            fields[field] = data.Field(shape, at)
            at += Shape.cast(shape).width
        ends[name] = at
    return data.FlexibleLayout(max(*ends.values(), HEADER_WIDTH), fields)


def flit_layout(config):
    """One beat between engine and link port; the header is valid on the first. A GRANT has one beat, without data."""
    return data.StructLayout({"data": config.data_width, "header": packet_layout(config), "first": 1, "last": 1})


def link_header_layout(config):
    """Header on the link, in front of the payload: a packet's header, and the ports' own fields.

    ``sequence``: number of the packet, modulo 2 ** 9; not valid in CREDIT packets. ``ack``: number of the next expected
    packet, modulo 2 ** 9. ``round``: changes with each replay; in a NAK, the round to which it refers. ``channel``: of
    the packet. ``credits``: beats read from each channel's receive buffer since the link came up, modulo 2 ** 13.
    """
    return data.StructLayout({
        "packet": packet_layout(config), "sequence": LINK_SEQUENCE_WIDTH, "ack": LINK_SEQUENCE_WIDTH, "round": 1,
        "channel": 1, "credits": data.ArrayLayout(LINK_CREDIT_WIDTH, config.link_channels)})


def implied_layout():
    """Properties of a packet other than CREDIT that both ends know and that are not sent. The CRC is XORed with them,
    so it does not match for a packet of another session, or one too old for the short numbers in its header.

    ``sequence_high``, ``ack_high``: bits above the header's ``sequence`` and ``ack``. ``session``: the receiver's.
    """
    return data.StructLayout({
        "sequence_high": LINK_HIGH_WIDTH, "ack_high": LINK_HIGH_WIDTH, "session": LINK_SESSION_WIDTH})


def link_layout(config):
    """One beat on a link. ``header`` is valid on the first, ``crc``, of header and payload, on the last."""
    return data.StructLayout({
        "data": config.data_width, "header": link_header_layout(config), "crc": CRC_WIDTH, "first": 1, "last": 1})


def received_layout(config):
    """Fields of an intact packet for the port's own sender. ``control``: it is a CREDIT packet. ``named``: it names the
    port's session. ``recent``: its acknowledgement is not older than the last known one."""
    return data.StructLayout({
        "ack": LINK_SEQUENCE_WIDTH, "credits": data.ArrayLayout(LINK_CREDIT_WIDTH, config.link_channels),
        "round": 1, "control": 1, "state": LinkState, "nak": 1, "ask": 1, "refuse": 1,
        "session": LINK_SESSION_WIDTH, "named": 1, "recent": 1})


def grant_layout(config):
    """A received GRANT."""
    return data.StructLayout({
        "communicator": 4, "sequence": SEQUENCE_WIDTH, "phase": PHASE_WIDTH, "granted": STEP_WIDTH})


def abort_layout():
    """A received ABORT."""
    return data.StructLayout({"communicator": 4, "record": RecordLayout})


def signal_layout(config):
    """A GRANT to send: its port and its header."""
    return data.StructLayout({"port": range(config.ports), "header": packet_layout(config)})


def send_layout(config):
    """A DATA packet to send: its port, or the loopback, its FSM, the address of its payload in the SRAM, and its
    header."""
    return data.StructLayout({
        "port": range(config.ports + 1), "fsm": config.fsm_bits, "address": config.sram_bits,
        "header": packet_layout(config)})


def arithmetic_layout():
    """Operation on two operands, and the type of both."""
    return data.StructLayout({"dtype": TYPE_WIDTH, "op": OP_WIDTH})


def chunk_layout(config):
    """A chunk in its slot, for its FSM: ``program`` is the address of its first phase. ``early``: as in the program's
    header, ``parts`` too. ``ended``: the fill has ended; ``filled``: and without an error."""
    return data.StructLayout({
        "communicator": config.communicator_bits, "sequence": SEQUENCE_WIDTH, "fsm": config.fsm_bits,
        "slot": config.slot_bits, "arithmetic": arithmetic_layout(), "piece_beats": config.chunk_beat_bits + 1,
        "program": config.program_bits, "phases": PHASES.bit_length(), "early": 1, "parts": 1, "ended": 1,
        "filled": 1,
    })


def through_layout(config):
    """A chunk to drain. ``part``: all but the last of its drains, while it is still on the links."""
    return data.StructLayout({"slot": config.slot_bits, "part": 1})


def destination_layout(config):
    """Result of the look-up of a packet's communicator and sequence: the chunk's FSM, slot and operation."""
    return data.StructLayout({
        "fsm": config.fsm_bits, "slot": config.slot_bits, "arithmetic": arithmetic_layout()})


def landing_layout(config):
    """A packet of ``beats``, less one, for this FSM. ``final``: the last of its send. ``odd_phase``: the number of its
    phase is odd. ``odd``: it came at a port with an odd number. ``local``: at the loopback."""
    return data.StructLayout({"fsm": config.fsm_bits, "beats": 7, "final": 1, "odd_phase": 1, "odd": 1, "local": 1})


def landed_layout(config):
    """Progress of a packet that is written to the SRAM: see :class:`~hw.ace.receive.DataLanded`."""
    return data.StructLayout({**landing_layout(config).members, "begin": 1, "late": 1, "end": 1})


def move_layout(config):
    """Bytes between memory and SRAM; with no bytes, nothing moves and only ``last`` is valid.

    ``address``: first byte in memory, unaligned. ``bytes``: 0 to a chunk. ``sram``: beat of the SRAM whose lane 0 is
    the first byte. ``slot``: of the chunk. ``last``: the job's last move. ``part``: others of the chunk follow in
    another job. ``mark``: the last of a fill with a mark. ``dtype``, ``widen``, ``divide``: for conversion between
    memory and SRAM; ``divide`` is the divisor, or 0 for none.
    """
    return data.StructLayout({
        "address": config.address_width, "bytes": range(config.chunk_bytes + 1), "sram": config.sram_bits,
        "slot": config.slot_bits, "last": 1, "part": 1, "mark": 1, "dtype": TYPE_WIDTH, "widen": 1,
        "divide": 8,
    })


def widens(config, entry):
    """Bit ``widen`` of an entry; constant 0 in an accelerator without widening, so that its logic is removed."""
    return entry.widen if config.widen else C(0, 1)


def done_layout(config):
    """All moves of a job have completed; ``error``: at least one of them got an error response from memory. ``part``:
    others of the chunk follow in another job."""
    return data.StructLayout({"slot": config.slot_bits, "error": 1, "part": 1})
