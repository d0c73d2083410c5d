# SPDX-License-Identifier: Apache-2.0
"""Descriptor rings as software and hardware both see them: the 64-byte descriptor, and the completion record.

Plain Python, as :mod:`words`.
"""

import enum
from dataclasses import dataclass
from typing import NamedTuple, Self

from hw.common.sizes import OFFSET_WIDTH, PAGE_BYTES
from hw.common.words import pack_fields, unpack_fields

from .config import DESCRIPTOR_BYTES
from .words import NativeWord, Opcode

__all__ = [
    "HEADER_FIELDS", "LIST_WORDS", "RECORD_BYTES", "RECORD_FIELDS", "RING_SIZE_BITS", "SHAPE_FIELDS",
    "STRIDE_WIDTH", "Descriptor", "DescriptorFlag", "DescriptorKind", "Record", "RingLocation",
]

RECORD_BYTES = 8
LIST_WORDS = 3
"""Maximum number of native words in one descriptor."""

RING_SIZE_BITS = (3, 16)
"""Least and greatest log2 of the descriptors in a ring."""

STRIDE_WIDTH = OFFSET_WIDTH + 1
"""Significant bits of a stride, including the sign; the bits above must equal the sign."""


class DescriptorKind(enum.IntEnum):
    """Kind of a descriptor. Every other value is malformed."""

    LIST = 1
    """One to three native words: independent copies."""
    COPY2D = 2
    """Rows of equal length: a native word describes the first, and two strides the distance to the next on each
    side."""


class DescriptorFlag(enum.IntFlag):
    """Flags of a descriptor; the first four as in a native word. Bits 7:5 are reserved and must be zero."""

    SC = 1 << 0
    """Publish the send completion word when the last request completes."""
    RC = 1 << 1
    """Publish the receive completion word when the last request completes."""
    FENCE = 1 << 2
    """Start the first request only after every earlier request of the queue has completed."""
    IRQ = 1 << 3
    """Raise the completion interrupt when the last request completes."""
    RECORD = 1 << 4
    """Write a completion record when the last request completes."""


HEADER_FIELDS = (("kind", 4), ("flags", 8), ("count", 2), ("zero", 2), ("tag", 16))
"""Fields of bytes 0 to 3. Bytes 4 to 15 are zero; up to three native words follow."""

SHAPE_FIELDS = (("src_stride", 64), ("dst_stride", 64), ("rows", 32), ("zero", 96))
"""Fields of bytes 32 to 63 of a COPY2D; the first row is the native word in bytes 16 to 31."""

RECORD_FIELDS = (("tag", 16), ("status", 7), ("phase", 1), ("bytes", 40))
"""Fields of a completion record from bit 0 up."""


@dataclass(frozen=True, kw_only=True)
class RingLocation:
    """Addresses of a descriptor ring and of its records, ``records`` is None if there are none; and its prefetch.

    Each address is a multiple of its area's length and of 4096. Raises ValueError otherwise.
    """

    base: int
    #: Log2 of descriptors, and of records.
    size: int
    records: int | None = None
    #: Prefetch twice as many descriptors: the other queue of the pair 2n and 2n + 1 cannot have a ring.
    pair: bool = False

    def __post_init__(self) -> None:
        for what, address, entry_bytes in (("A descriptor ring", self.base, DESCRIPTOR_BYTES),
                                           ("Completion records", self.records or 0, RECORD_BYTES)):
            length = max(self.entries * entry_bytes, PAGE_BYTES)
            if address % length:
                raise ValueError(f"{what} of {self.entries} entries must be at a multiple of {length}, "
                                 f"not {address:#x}")

    @property
    def entries(self) -> int:
        low, high = RING_SIZE_BITS
        return 1 << min(max(self.size, low), high)


class Descriptor(NamedTuple):
    """One entry of a descriptor ring.

    ``words`` are native words (LIST), or the first row alone (COPY2D). Strides are in bytes, from the start of one
    row to the start of the next, and may be negative.
    """

    kind: int
    flags: int
    tag: int
    words: tuple[NativeWord, ...]
    rows: int = 0
    src_stride: int = 0
    dst_stride: int = 0

    @classmethod
    def copies(cls, *words: NativeWord, flags: int = 0, tag: int = 0) -> Self:
        """One to three native words."""
        return cls(DescriptorKind.LIST, int(flags), tag, words)

    @classmethod
    def copy_2d(cls, *, src: tuple[int, int], dst: tuple[int, int], row_bytes: int, rows: int, src_stride: int,
                dst_stride: int, flags: int = 0, tag: int = 0) -> Self:
        """``rows`` rows of ``row_bytes`` bytes, the first between two ``(region, offset)`` pairs."""
        row = NativeWord(Opcode.COPY, 0, src[0], dst[0], src[1], row_bytes, dst[1])
        return cls(DescriptorKind.COPY2D, int(flags), tag, (row,), rows, src_stride, dst_stride)

    def to_bytes(self) -> bytes:
        """64 bytes, little endian. Raises ValueError when a field does not fit."""
        count = len(self.words) if self.kind == DescriptorKind.LIST else 0
        if not len(self.words) <= LIST_WORDS:
            raise ValueError(f"a descriptor holds at most {LIST_WORDS} words, not {len(self.words)}")
        low, high = -(1 << (STRIDE_WIDTH - 1)), 1 << (STRIDE_WIDTH - 1)
        for name in ("src_stride", "dst_stride"):
            if not low <= getattr(self, name) < high:
                raise ValueError(f"{name} must be from -2^{STRIDE_WIDTH - 1} to 2^{STRIDE_WIDTH - 1} - 1, "
                                 f"not {getattr(self, name)!r}")
        header = pack_fields((self.kind, self.flags, count, 0, self.tag), HEADER_FIELDS)
        data = header.to_bytes(16, "little") + b"".join(word.to_bytes() for word in self.words)
        if self.kind == DescriptorKind.COPY2D:
            mask = (1 << 64) - 1
            data += pack_fields((self.src_stride & mask, self.dst_stride & mask, self.rows, 0),
                                SHAPE_FIELDS).to_bytes(32, "little")
        return data.ljust(DESCRIPTOR_BYTES, b"\0")


class Record(NamedTuple):
    """A completion record: 8 bytes, aligned, little endian.

    ``status`` is the first failure among the requests since the previous record, ``bytes`` the length of those that
    succeeded. ``phase`` is 1 in the first pass over the record ring, 0 in the second, and so on.
    """

    tag: int
    status: int
    phase: int
    bytes: int

    def pack(self) -> int:
        return pack_fields(self, RECORD_FIELDS)

    @classmethod
    def unpack(cls, record: int) -> Self:
        return cls(*unpack_fields(record, RECORD_FIELDS))


