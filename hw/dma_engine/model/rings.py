# SPDX-License-Identifier: Apache-2.0
"""Descriptor rings in the golden model: descriptors in memory to requests, and requests to records.

A descriptor is read when a doorbell covers it; software must not change it until one of its requests has completed.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from hw.dma_engine.descriptors import RingLocation
from hw.dma_engine.words import NativeWord, Opcode, Status

from .memory import Memory

__all__ = ["Ring", "RingWord", "expand"]

DESCRIPTOR_BYTES = 64
POINTERS = 1 << 32


class RingWord(NamedTuple):
    """A request from a descriptor: a native word, possibly malformed, or its status if there is none."""

    word: NativeWord | None
    status: Status
    tag: int
    end: bool


Stored = tuple[int, bytes]
"""An address and the bytes stored there."""


@dataclass
class Ring:
    """State of one descriptor ring."""

    location: RingLocation
    #: Number of descriptors that doorbells have covered since START.
    tail: int = 0
    #: The next record: its accumulated contents, and its number.
    status: Status = Status.OK
    bytes: int = 0
    written: int = 0
    #: ``(address, 8 bytes)`` of the latest record, None before the first.
    latest: Stored | None = None

    def advance_to(self, tail: int, memory: Memory, faulty: Callable[[int], bool]) -> list[list[RingWord]] | None:
        """Requests of a doorbell, a list per descriptor, or None if the tail is not possible.

        ``faulty`` returns whether reads of an address fail.
        """
        numbers = self._new_descriptors(tail)
        if numbers is None:
            return None
        found: list[list[RingWord]] = []
        records = self.location.records is not None
        for number in numbers:
            address = self.location.base + number % self.location.entries * DESCRIPTOR_BYTES
            found.append([RingWord(None, Status.RING_FETCH, 0, records)] if faulty(address)
                         else expand(memory.read(address, DESCRIPTOR_BYTES), records))
        return found

    def _new_descriptors(self, tail: int) -> range | None:
        ahead = (tail - self.tail) % POINTERS
        if ahead > self.location.entries:
            # Behind: a delayed older doorbell.
            return range(0) if POINTERS - ahead < self.location.entries else None
        numbers = range(self.tail, self.tail + ahead)
        self.tail = (self.tail + ahead) % POINTERS
        return numbers

    def end(self, status: Status, length: int, ring_word: RingWord) -> Stored | None:
        """Add a completed request; returns ``(address, 8 bytes)`` of the record if it completes one."""
        if self.status is Status.OK:
            self.status = status
        if status is Status.OK:
            self.bytes += length
        if not ring_word.end:
            return None
        first_pass = self.written // self.location.entries % 2 == 0
        value = ring_word.tag | self.status << 16 | first_pass << 23 | self.bytes % (1 << 40) << 24
        assert self.location.records is not None
        self.latest = self.location.records + self.written % self.location.entries * 8, value.to_bytes(8, "little")
        self.status, self.bytes, self.written = Status.OK, 0, self.written + 1
        return self.latest


def expand(data: bytes, records: bool) -> list[RingWord]:
    """Requests of a descriptor of 64 bytes, in order; ``records`` is true if the ring has records."""
    head, tag = int.from_bytes(data[0:2], "little"), int.from_bytes(data[2:4], "little")
    kind, flags, count = head & 15, head >> 4 & 255, head >> 12
    wants_record = bool(flags & 16)
    found: list[NativeWord | None] | None = None
    if not (any(data[4:16]) or flags & 0xE0 or (wants_record and not records)):
        if kind == 1 and count in (1, 2, 3):
            found = [NativeWord.unpack(int.from_bytes(data[16 + 16 * index:32 + 16 * index], "little"))
                     for index in range(count)]
        elif kind == 2 and count == 0:
            found = _rows(data)
    if found is None:
        return [RingWord(None, Status.MALFORMED, tag, wants_record and records)]
    requests = []
    for number, word in enumerate(found):
        final = number == len(found) - 1
        extra = (flags & 4 if number == 0 else 0) | (flags & 11 if final else 0)
        if word is not None:
            word = word._replace(flags=word.flags | extra)
        requests.append(RingWord(word, Status.MALFORMED if word is None else Status.OK, tag, final and wants_record))
    return requests


def _rows(data: bytes) -> list[NativeWord | None] | None:
    """Rows of a 2-D copy; None for a row that starts outside the range of an offset."""
    row = NativeWord.unpack(int.from_bytes(data[16:32], "little"))
    strides = [int.from_bytes(data[at:at + 8], "little", signed=True) for at in (32, 40)]
    rows = int.from_bytes(data[48:52], "little")
    wrong = (any(data[52:]) or row.opcode != Opcode.COPY or row.flags or rows == 0
             or not all(-(1 << 36) <= stride < 1 << 36 for stride in strides))
    if wrong:
        return None
    if row.length == 0:
        return [row]
    found: list[NativeWord | None] = []
    source, destination = row.src_offset, row.dst_offset
    for _ in range(rows):
        inside = 0 <= source < 1 << 36 and 0 <= destination < 1 << 36
        found.append(row._replace(src_offset=source, dst_offset=destination) if inside else None)
        source, destination = source + strides[0], destination + strides[1]
    return found
