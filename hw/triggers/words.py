# SPDX-License-Identifier: Apache-2.0
"""Words and codes of the trigger counters. Plain Python, shared with software."""

import enum
from typing import NamedTuple, Self

from hw.common.words import FieldTable, pack_fields, unpack_fields

from .config import GENERATION_WIDTH, INDEX_WIDTH, PAGE_WIDTH, THRESHOLD_WIDTH, VALUE_WIDTH

__all__ = ["ARM_FIELDS", "NATIVE_STAMP", "TICK_FIELDS", "ArmWord", "Mode", "Refusal", "SlotField", "TickWord"]


class Mode(enum.IntEnum):
    """When a counter fires, and what follows."""

    DISARM = 0
    """Idle: the counter refuses ticks."""
    ONCE = 1
    """Fires at the threshold, and is idle then."""
    REPEAT = 2
    """Fires at the threshold; the next generation begins at once."""
    SUM = 3
    """Fires after any tick; the stamp is the sum of all values."""


class Refusal(enum.IntEnum):
    """Reasons for which a tick, a store to the preparation page or a firing had no effect."""

    NONE = 0
    MALFORMED = 1
    """A bit that must be zero is not, a store has fewer bytes than a word, or a counter is beyond its block."""
    IDLE = 2
    """The counter is not armed, or its block is being reset."""
    GENERATION = 3
    """The counter is in another generation."""
    OVERFLOW = 4
    """The value is larger than the remaining count, or too many firings are pending."""
    BUSY = 5
    """A firing of the counter to prepare is pending, or the counter whose word is stored is armed."""
    PAGE = 6
    """The block may not post to the page."""
    QUEUE = 7
    """The queue refused a posted word."""


class SlotField(enum.IntEnum):
    """Fields of a counter's 64 bytes in the preparation page, in units of 16 bytes."""

    FIRST_WORD = 0
    SECOND_WORD = 1
    ARM = 2


TICK_FIELDS: FieldTable = (
    ("counter", INDEX_WIDTH),
    ("any", 1),
    ("reserved", 1),
    ("generation", GENERATION_WIDTH),
    ("value", VALUE_WIDTH),
    ("reserved_high", 20),
)
"""Fields of the 64-bit tick from bit 0 up."""

ARM_FIELDS: FieldTable = (
    ("threshold", THRESHOLD_WIDTH),
    ("generation", GENERATION_WIDTH),
    ("mode", 2),
    ("pair", 1),
    ("stamp", 1),
    ("reserved", 12),
    ("page", PAGE_WIDTH),
    ("reserved_high", 56),
)
"""Fields of the 128-bit arm word from bit 0 up."""


NATIVE_STAMP = (28, 64)
"""Bits of a posted word that a stamp replaces, as a range: the lower 36 bits of a SIGNAL's value."""


class TickWord(NamedTuple):
    """A tick: one aligned 8-byte store to a tick page, or the value of a SIGNAL to a counter address."""

    counter: int
    any: int
    reserved: int
    generation: int
    value: int
    reserved_high: int = 0

    @classmethod
    def add(cls, counter: int, value: int = 1, *, generation: int | None = None) -> Self:
        """Add ``value`` to a counter; ``generation`` None: whatever its generation is."""
        return cls(counter, int(generation is None), 0, generation or 0, value)

    def pack(self) -> int:
        """64-bit integer, of which at most 44 bits are used. Raises ValueError when a field does not fit."""
        return pack_fields(self, TICK_FIELDS)

    @classmethod
    def unpack(cls, word: int) -> Self:
        return cls(*unpack_fields(word, TICK_FIELDS))

    def to_bytes(self) -> bytes:
        return self.pack().to_bytes(8, "little")


class ArmWord(NamedTuple):
    """Arms a counter: one aligned 16-byte store to its slot of the preparation page."""

    threshold: int
    generation: int
    mode: int
    pair: int
    stamp: int
    reserved: int
    page: int
    reserved_high: int = 0

    @classmethod
    def arm(cls, *, mode: Mode, page: int, threshold: int = 0, generation: int = 0, pair: bool = False,
            stamp: bool = False) -> Self:
        return cls(threshold, generation, int(mode), int(pair), int(stamp), 0, page)

    def pack(self) -> int:
        """128-bit integer. Raises ValueError when a field does not fit."""
        return pack_fields(self, ARM_FIELDS)

    @classmethod
    def unpack(cls, word: int) -> Self:
        return cls(*unpack_fields(word, ARM_FIELDS))

    def to_bytes(self) -> bytes:
        return self.pack().to_bytes(16, "little")
