# SPDX-License-Identifier: Apache-2.0
"""Memory of peers, and the cuts of a burst to it."""

from dataclasses import dataclass, field

__all__ = ["PAGE", "Remote", "SparseMemory", "pieces"]

PAGE = 4096


class SparseMemory:
    """Memory of any size; a page has random contents until it is written."""

    def __init__(self, rng):
        self._rng = rng
        self.pages = {}

    def page(self, number):
        if number not in self.pages:
            self.pages[number] = bytearray(self._rng.randbytes(PAGE))
        return self.pages[number]

    def _parts(self, offset, size):
        """Page, position in it, and size of each part."""
        end = offset + size
        while offset < end:
            part = min(end - offset, PAGE - offset % PAGE)
            yield self.page(offset // PAGE), offset % PAGE, part
            offset += part

    def read(self, offset, size):
        return b"".join(bytes(page[at:at + part]) for page, at, part in self._parts(offset, size))

    def write(self, offset, data):
        done = 0
        for page, at, part in self._parts(offset, len(data)):
            page[at:at + part] = data[done:done + part]
            done += part


@dataclass
class Remote:
    """An entry of the table of remote memories, and the memory."""

    number: int
    qp: int
    rkey: int
    va: int
    length: int
    memory: SparseMemory = field(repr=False)


def pieces(offset, size, mtu, *, from_start):
    """Offset and size of each packet."""
    found, end = [], offset + size
    while offset < end:
        stop = min(end, offset + mtu if from_start else (offset // mtu + 1) * mtu)
        found.append((offset, stop - offset))
        offset = stop
    return found
