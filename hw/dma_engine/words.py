# SPDX-License-Identifier: Apache-2.0
"""Definitions shared by software and hardware: opcodes, flags, status codes, and the layouts of both words.

Plain Python: the golden model, the driver, the C header and the hardware share these tables and
nothing else.
"""

import enum
from typing import NamedTuple, Self

from hw.common.sizes import OFFSET_WIDTH, REGION_ID_WIDTH
from hw.common.words import pack_fields, unpack_fields

from .config import CONNECTION_WIDTH, LENGTH_WIDTH, REQUEST_LENGTH_WIDTH, SID_WIDTH

__all__ = [
    "ARK_EMPTY",
    "ARK_FIELDS",
    "ARK_FLAG_BYTES",
    "NATIVE_FIELDS",
    "ArkWord",
    "Command",
    "NativeWord",
    "Opcode",
    "QueueMode",
    "RequestFlag",
    "Status",
]


class Opcode(enum.IntEnum):
    """Operation of a native word. Every other value is malformed."""

    COPY = 1
    SIGNAL = 2
    """Store an 8-byte value after every earlier request of the queue has completed.

    The value's bits 35:0 come from ``src_offset``, 43:36 from ``src_region``, others are zero; ``length`` is 8, and
    ``dst_offset`` a multiple of 8, or the word is malformed.
    """


class RequestFlag(enum.IntFlag):
    """Flags of a native word. The upper four bits are reserved and must be zero."""

    SC = 1 << 0
    """Publish the send completion word when this request completes."""
    RC = 1 << 1
    """Publish the receive completion word when this request completes."""
    FENCE = 1 << 2
    """Start only after every earlier request of the queue has completed."""
    IRQ = 1 << 3
    """Raise the completion interrupt when this request completes."""


class QueueMode(enum.IntEnum):
    """Meaning of a store to a queue's page. Queues that are not extended are always NATIVE."""

    NATIVE = 0
    """16-byte request words."""
    ARK = 1
    """8-byte request words as published by ARK."""
    RING = 2
    """The new tail of the queue's descriptor ring."""


class Status(enum.IntEnum):
    """Result of a request, or of a word or doorbell that was refused.

    Bits 5:4 give the side (1 source, 2 destination). If several results apply, a request reports the first in this
    order: MALFORMED, ZERO_LENGTH, CONNECTION, source checks, destination checks (each group in numeric order),
    SRC_PAGE, DST_PAGE, read errors, write errors.
    """

    OK = 0x00
    MALFORMED = 0x01
    """Unknown opcode, reserved flag or bit, a store of fewer bytes than a word has, or SC/RC requested of a queue
    without that word."""
    ZERO_LENGTH = 0x02
    OVERFLOW = 0x03
    """A word for a full queue was refused, as is every later one until the queue is cleared."""
    DISABLED = 0x04
    """A word for a queue that is not enabled was refused."""
    TIMEOUT = 0x05
    """The queue made no progress within the watchdog's time limit."""
    COMPLETION_ERROR = 0x06
    """Memory responded to a completion word's write with an error."""
    RING_FETCH = 0x07
    """Memory responded to the read of a descriptor with an error."""
    CONNECTION = 0x08
    """An ARK word's connection is not in the table, or belongs to another protection domain."""
    RING_RANGE = 0x09
    """A descriptor ring's new tail is not within the ring."""
    SRC_REGION = 0x10
    """The source region is not in the table."""
    SRC_DOMAIN = 0x11
    """The source region belongs to another protection domain."""
    SRC_RIGHTS = 0x12
    """The source region may not be read."""
    SRC_BOUNDS = 0x13
    """The source range ends beyond its region."""
    READ_SLVERR = 0x14
    READ_DECERR = 0x15
    SRC_PAGE = 0x16
    """A page of the source is not in the page table."""
    DST_REGION = 0x20
    DST_DOMAIN = 0x21
    DST_RIGHTS = 0x22
    """The destination region may not be written."""
    DST_BOUNDS = 0x23
    WRITE_SLVERR = 0x24
    WRITE_DECERR = 0x25
    DST_PAGE = 0x26


class Command(enum.IntEnum):
    """Commands of software to a queue, through the QUEUE_COMMAND register."""

    START = 1
    """Accept words and schedule them."""
    PAUSE = 2
    """Accept words, schedule no more segments. The queue is drained when it shows nothing in flight."""
    CLEAR = 3
    """Leave the error state: the failed request counts as completed, the status returns to OK."""
    RESET = 4
    """Discard waiting words, drain segments in flight, zero the counters, refuse words until START."""


NATIVE_FIELDS = (
    ("opcode", 4),
    ("flags", 8),
    ("src_region", REGION_ID_WIDTH),
    ("dst_region", REGION_ID_WIDTH),
    ("src_offset", OFFSET_WIDTH),
    ("length", LENGTH_WIDTH),
    ("dst_offset", OFFSET_WIDTH),
)
"""Fields of the native 128-bit word from bit 0 up; no field straddles the two 64-bit halves."""

ARK_FIELDS = (
    ("req", 2),
    ("dst", SID_WIDTH),
    ("src", SID_WIDTH),
    ("connection", CONNECTION_WIDTH),
    ("length", REQUEST_LENGTH_WIDTH),
    ("reserved", 5),
)
"""Fields of the 64-bit ARK word from bit 0 up. ``req`` is 0, Send, in every word that is not malformed."""

ARK_EMPTY = (1 << 64) - 1
"""The value of an empty half of a store of ARK words."""

ARK_FLAG_BYTES = 4
"""Size of an element of ARK's SC and RC arrays; set to 1."""

class NativeWord(NamedTuple):
    """A request as a GPU thread stores it: one aligned 16-byte store, little endian."""

    opcode: int
    flags: int
    src_region: int
    dst_region: int
    src_offset: int
    length: int
    dst_offset: int

    @classmethod
    def copy(cls, *, src: tuple[int, int], dst: tuple[int, int], length: int,
             flags: int = RequestFlag.SC | RequestFlag.RC) -> Self:
        """A copy of ``length`` bytes between ``(region, offset)`` pairs."""
        return cls(Opcode.COPY, int(flags), src[0], dst[0], src[1], length, dst[1])

    @classmethod
    def signal(cls, *, dst: tuple[int, int], value: int, flags: int = 0) -> Self:
        """An 8-byte store of ``value`` (44 bits) at a ``(region, offset)`` pair."""
        return cls(Opcode.SIGNAL, int(flags), value >> OFFSET_WIDTH, dst[0], value % (1 << OFFSET_WIDTH), 8, dst[1])

    def pack(self) -> int:
        """128-bit integer. Raises ValueError when a field does not fit."""
        return pack_fields(self, NATIVE_FIELDS)

    @classmethod
    def unpack(cls, word: int) -> Self:
        return cls(*unpack_fields(word, NATIVE_FIELDS))

    def to_bytes(self) -> bytes:
        return self.pack().to_bytes(16, "little")


class ArkWord(NamedTuple):
    """A request on the page of a queue in ARK mode: one aligned 8-byte store, little endian."""

    req: int
    dst: int
    src: int
    connection: int
    length: int
    reserved: int = 0

    @classmethod
    def send(cls, *, src: int, dst: int, connection: int, length: int) -> Self:
        """Send ``length`` bytes of the sender's segment ``src`` to the segment ``dst`` of a connection."""
        return cls(0, dst, src, connection, length)

    def pack(self) -> int:
        """64-bit integer. Raises ValueError when a field does not fit."""
        return pack_fields(self, ARK_FIELDS)

    @classmethod
    def unpack(cls, word: int) -> Self:
        return cls(*unpack_fields(word, ARK_FIELDS))

    def to_bytes(self) -> bytes:
        return self.pack().to_bytes(8, "little")


