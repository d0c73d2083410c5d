# SPDX-License-Identifier: Apache-2.0
"""Payloads that travel between the stages of the collectives accelerator, sized by the configuration.

Command -> Operation -> Chunk -> Move (fill) -> Send, Flit, Landed -> Move (drain) -> Done, in the order of the data.
"""

from amaranth.hdl import C, Shape
from amaranth.lib import data, enum

from .config import (
    LINK_CREDIT_WIDTH,
    LINK_HIGH_WIDTH,
    LINK_SEQUENCE_WIDTH,
    LINK_SESSION_WIDTH,
    PHASES,
    SEQUENCE_WIDTH,
    STEP_WIDTH,
)
from .link.crc import CRC_WIDTH
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
    "HEADER_WIDTH", "PAYLOAD_KINDS", "PHASE_WIDTH", "CommandLayout", "HeaderLayout", "LinkCause", "LinkState",
    "PacketKind", "PhaseLayout", "RecordLayout", "SendLayout", "TransferLayout", "abort_layout", "arithmetic_layout",
    "chunk_layout", "done_layout", "flit_layout", "grant_layout", "heard_layout", "implied_layout", "landed_layout",
    "link_header_layout", "link_layout", "move_layout", "packet_layout", "place_layout", "send_layout",
    "signal_layout", "widens",
]

CommandLayout = data.StructLayout(dict(COMMAND_FIELDS))
HeaderLayout = data.StructLayout(dict(HEADER_FIELDS))
TransferLayout = data.StructLayout(dict(TRANSFER_FIELDS))
PhaseLayout = data.StructLayout(dict(PHASE_FIELDS))
SendLayout = data.StructLayout(dict(SEND_FIELDS))
RecordLayout = data.StructLayout(dict(RECORD_FIELDS))

PHASE_WIDTH = (PHASES - 1).bit_length()

HEADER_WIDTH = 48
"""Bits of a packet's header at least: as many as a PUT's takes."""


class PacketKind(enum.Enum, shape=3):
    """What a packet is."""

    CREDIT = 0
    """Nothing but credits; made and taken by the link ports."""
    DATA = 1
    """A piece of a send, with payload."""
    GRANT = 2
    """So many receives of a chunk's phase are safe; no payload."""
    ABORT = 3
    """A communicator's work ends; one beat, whose payload says why."""
    PUT = 4
    """A piece of a DMA write to the neighbour's memory. No part of the engine sends or takes it."""
    PUT_DONE = 5
    """A DMA write has ended. No part of the engine sends or takes it."""


PAYLOAD_KINDS = (PacketKind.DATA, PacketKind.ABORT, PacketKind.PUT)
"""Those with payload behind the header; others have one beat, of which the data is 0 and does not travel."""


def packet_layout(config):
    """Header of a packet, on its first beat. What only one kind has shares its bits with what only others have. The
    headers of PUT and PUT_DONE are in :mod:`hw.endpoint.layouts`; only ``kind`` is where it is here.

    ``communicator``, ``sequence``: the chunk. ``epoch``: of the communicator. ``phase``: which of its program. Of DATA,
    ``offset``: beat of the slot where its payload begins; ``beats``: of payload, less one; ``reduce``: combine with
    what is there. Of a GRANT, ``granted``: how many receives of the phase are safe in all. A CREDIT packet has nothing
    but ``state``: of the sender's port; ``nak``: something is missing, begin again; ``ask``: answer at once;
    ``refuse``: the sender is not in the session that ``peer`` is bound to; ``session``, ``peer``: of the sender, and of
    the receiver as far as the sender knows; ``ack_high``: the bits above ``ack``.
    """
    return _overlaid(
        ("kind", {"kind": PacketKind}),
        ("chunk", {"communicator": 4, "epoch": 4, "sequence": SEQUENCE_WIDTH, "phase": PHASE_WIDTH}, "kind"),
        ("data", {"offset": config.chunk_beat_bits, "beats": 7, "reduce": 1}, "chunk"),
        ("grant", {"granted": STEP_WIDTH}, "chunk"),
        ("credit", {"state": LinkState, "nak": 1, "ask": 1, "refuse": 1, "session": LINK_SESSION_WIDTH,
                    "peer": LINK_SESSION_WIDTH, "ack_high": LINK_HIGH_WIDTH}, "kind"))


def _overlaid(*parts):
    """Fields of each part, ``(name, fields)`` or ``(name, fields, part)``, above those of the part that it names."""
    fields, ends = {}, {}
    for name, part, *below in parts:
        at = ends[below[0]] if below else 0
        for field, shape in part.items():
            fields[field] = data.Field(shape, at)
            at += Shape.cast(shape).width
        ends[name] = at
    return data.FlexibleLayout(max(*ends.values(), HEADER_WIDTH), fields)


def flit_layout(config):
    """One beat between engine and link port; the header counts on the first. A GRANT has one beat, without data."""
    return data.StructLayout({"data": config.data_width, "header": packet_layout(config), "first": 1, "last": 1})


def link_header_layout(config):
    """What travels in front of the payload: a packet's header, and what the ports tell each other on each.

    ``sequence``: number of the packet, modulo 2 ** 9; of CREDIT packets it does not count. ``ack``: number of the
    packet that is expected next, modulo 2 ** 9. ``round``: changes whenever packets are sent again; of a NAK, the round
    that it complains of. ``channel``: whose packet. ``credits``: beats that have been taken out of each channel's
    receive buffer since the link came up, modulo 2 ** 13.
    """
    return data.StructLayout({
        "packet": packet_layout(config), "sequence": LINK_SEQUENCE_WIDTH, "ack": LINK_SEQUENCE_WIDTH, "round": 1,
        "channel": 1, "credits": data.ArrayLayout(LINK_CREDIT_WIDTH, config.link_channels)})


def implied_layout():
    """What both ends know of a packet that is no CREDIT packet, and does not travel: its CRC is XORed with this, so
    that it is wrong of a packet of another session, or of one that is older than the numbers in its header can tell.

    ``sequence_high``, ``ack_high``: what is above the header's ``sequence`` and ``ack``. ``session``: the receiver's.
    """
    return data.StructLayout({
        "sequence_high": LINK_HIGH_WIDTH, "ack_high": LINK_HIGH_WIDTH, "session": LINK_SESSION_WIDTH})


def link_layout(config):
    """One beat on a link. ``header`` travels with the first, ``crc``, of header and payload, with the last."""
    return data.StructLayout({
        "data": config.data_width, "header": link_header_layout(config), "crc": CRC_WIDTH, "first": 1, "last": 1})


def heard_layout(config):
    """Of a packet that came whole: what it tells the port's own sender. ``control``: it is a CREDIT packet. ``named``:
    it names the port's session. ``recent``: it acknowledges no less than what was known."""
    return data.StructLayout({
        "ack": LINK_SEQUENCE_WIDTH, "credits": data.ArrayLayout(LINK_CREDIT_WIDTH, config.link_channels),
        "round": 1, "control": 1, "state": LinkState, "nak": 1, "ask": 1, "refuse": 1,
        "session": LINK_SESSION_WIDTH, "named": 1, "recent": 1})


def grant_layout(config):
    """A GRANT that has come."""
    return data.StructLayout({
        "communicator": 4, "sequence": SEQUENCE_WIDTH, "phase": PHASE_WIDTH, "granted": STEP_WIDTH})


def abort_layout():
    """An ABORT that has come."""
    return data.StructLayout({"communicator": 4, "record": RecordLayout})


def signal_layout(config):
    """A GRANT to be sent: at which port, and its header."""
    return data.StructLayout({"port": range(config.ports), "header": packet_layout(config)})


def send_layout(config):
    """A DATA packet to be sent: at which port, for which FSM, where its payload is in the SRAM, and its header."""
    return data.StructLayout({
        "port": range(config.ports), "fsm": config.fsm_bits, "address": config.sram_bits,
        "header": packet_layout(config)})


def arithmetic_layout():
    """What is made of two operands, which are both of ``dtype``."""
    return data.StructLayout({"dtype": TYPE_WIDTH, "op": OP_WIDTH})


def chunk_layout(config):
    """A chunk that is in its slot and goes to its FSM: ``program`` is the address of its first phase."""
    return data.StructLayout({
        "communicator": config.communicator_bits, "sequence": SEQUENCE_WIDTH, "fsm": config.fsm_bits,
        "slot": config.slot_bits, "arithmetic": arithmetic_layout(), "piece_beats": config.chunk_beat_bits + 1,
        "program": config.program_bits, "phases": PHASES.bit_length(),
    })


def place_layout(config):
    """Where a chunk is, and what is made of it: the answer to a packet's communicator and sequence."""
    return data.StructLayout({
        "fsm": config.fsm_bits, "slot": config.slot_bits, "arithmetic": arithmetic_layout()})


def landed_layout(config):
    """Payload that is in the SRAM: ``beats`` of it, less one, for this FSM."""
    return data.StructLayout({"fsm": config.fsm_bits, "beats": 7})


def move_layout(config):
    """Bytes between memory and SRAM; with no bytes, nothing moves and only ``last`` counts.

    ``address``: first byte in memory, any. ``bytes``: 0 to a chunk. ``sram``: beat of the SRAM where the first byte is
    in lane 0. ``slot``: whose chunk. ``last``: the chunk's last move. ``dtype``, ``widen``, ``divide``: elements, for
    conversion on the way; ``divide`` is 0 for nothing, else the divisor.
    """
    return data.StructLayout({
        "address": config.address_width, "bytes": range(config.chunk_bytes + 1), "sram": config.sram_bits,
        "slot": config.slot_bits, "last": 1, "dtype": TYPE_WIDTH, "widen": 1, "divide": 8,
    })


def widens(config, entry):
    """Bit ``widen`` of an entry; 0 in an accelerator that does not widen, so that all that it would do is left out."""
    return entry.widen if config.widen else C(0, 1)


def done_layout(config):
    """The last move of a chunk, and all before, has ended; ``error`` if the memory answered any with an error."""
    return data.StructLayout({"slot": config.slot_bits, "error": 1})
