# SPDX-License-Identifier: Apache-2.0
"""Words in memory: their fields, and the completion word of both engines. Plain Python, shared with software."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Self

from .sizes import COUNT_WIDTH, FAILED_WIDTH

__all__ = ["COMPLETION_FIELDS", "CompletionWord", "FieldTable", "field_positions", "pack_fields", "unpack_fields"]

FieldTable = Sequence[tuple[str, int]]
"""Name and width of each field of a word, from bit 0 up."""

COMPLETION_FIELDS: FieldTable = (("count", COUNT_WIDTH), ("failed", FAILED_WIDTH), ("status", 8))
"""Fields of the 64-bit SC and RC words from bit 0 up."""


def field_positions(fields: FieldTable) -> dict[str, tuple[int, int]]:
    """Name -> (lsb, width) of packed fields."""
    positions: dict[str, tuple[int, int]] = {}
    lsb = 0
    for name, width in fields:
        positions[name] = (lsb, width)
        lsb += width
    return positions


def pack_fields(values: Iterable[int], fields: FieldTable) -> int:
    """Pack fields into an integer; raises ValueError if a value does not fit its field."""
    word = 0
    for (name, (lsb, width)), value in zip(field_positions(fields).items(), values, strict=True):
        if not 0 <= value < 1 << width:
            raise ValueError(f"{name} must fit {width} bits, not {value!r}")
        word |= int(value) << lsb
    return word


def unpack_fields(word: int, fields: FieldTable) -> list[int]:
    """Values of packed fields, in their order."""
    return [(word >> lsb) & ((1 << width) - 1) for lsb, width in field_positions(fields).values()]


class CompletionWord(NamedTuple):
    """An SC or RC word in memory: 8 bytes, aligned, little endian.

    ``count`` is the number of requests of the queue that have completed, in order; a failed one counts when software
    clears it, or immediately in a queue that skips errors. ``failed`` counts failures; ``status`` is the status of the
    latest failure until the queue is cleared.
    """

    count: int      # type: ignore[assignment]  # hides tuple.count, which is never called
    failed: int
    status: int

    def pack(self) -> int:
        return pack_fields(self, COMPLETION_FIELDS)

    @classmethod
    def unpack(cls, word: int) -> Self:
        return cls(*unpack_fields(word, COMPLETION_FIELDS))
