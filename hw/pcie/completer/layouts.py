# SPDX-License-Identifier: Apache-2.0
"""Payloads between the stages of the completer."""

from amaranth.lib import data, enum

from ..config import DWORD_BYTES, LENGTH_WIDTH, MAX_PAYLOAD_BYTES, PcieConfig
from ..tlp import CompleterRequest

__all__ = [
    "DOORBELL_BAR",
    "MAX_PAYLOAD_DWORDS",
    "PAYLOAD_LENGTH_WIDTH",
    "REGISTER_BAR",
    "WORD_DWORDS",
    "WORD_WIDTH",
    "PayloadDword",
    "RegisterRequest",
    "RequestKind",
    "doorbell_word_layout",
    "request_beat_layout",
]

REGISTER_BAR, DOORBELL_BAR = 0, 2

WORD_WIDTH, WORD_DWORDS = 128, 4
"""A word is a beat of ``doorbells``, and the size of a request's descriptor."""

MAX_PAYLOAD_DWORDS = MAX_PAYLOAD_BYTES // DWORD_BYTES

PAYLOAD_LENGTH_WIDTH = MAX_PAYLOAD_DWORDS.bit_length()


class RequestKind(enum.Enum, shape=3):
    """Class of a request, which selects its path and its completion."""

    DOORBELL_WRITE = 0
    REGISTER_WRITE = 1
    REGISTER_READ = 2
    ZERO_READ = 3
    """A read of doorbells, or of no byte: zeros without an access."""
    UNSUPPORTED = 4
    """A non-posted request whose completion has the status unsupported request (UR)."""


def request_beat_layout(config: PcieConfig) -> data.StructLayout:
    """A beat of CQ. ``kind``, ``first_be`` and ``last_be`` are those of the request in its first beat only.

    ``last_word``: position of the last valid word in the beat.
    """
    return data.StructLayout({
        "data": config.data_width, "first_be": 4, "last_be": 4, "kind": RequestKind, "first": 1, "last": 1,
        "last_word": range(config.data_width // WORD_WIDTH),
    })


def doorbell_word_layout(config: PcieConfig) -> data.StructLayout:
    """A word of a memory write's payload, not aligned yet; the request's fields are equal on all of its words.

    ``address`` in double words.
    """
    return data.StructLayout({
        "address": config.doorbell_addr_width - 2, "dwords": PAYLOAD_LENGTH_WIDTH, "first_be": 4, "last_be": 4,
        "data": WORD_WIDTH, "first": 1, "last": 1,
    })


RegisterRequest = data.StructLayout({"descriptor": CompleterRequest, "first_be": 4, "last_be": 4, "kind": RequestKind})
"""A request to registers, or one that needs a completion. Its payload follows separately, in words."""

PayloadDword = data.StructLayout({"data": 32, "first": 1, "last": 1})
"""A double word of a packet on CC. ``first`` drops an unfinished packet."""

assert CompleterRequest.size == WORD_WIDTH
assert LENGTH_WIDTH >= PAYLOAD_LENGTH_WIDTH
