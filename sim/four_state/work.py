# SPDX-License-Identifier: Apache-2.0
"""The work of one engine in a four-state simulation."""

from collections.abc import Sequence
from typing import NamedTuple

__all__ = ["BASE", "SIZE", "Recorder", "Work"]

BASE, SIZE = 1 << 32, 1 << 16
"""Address and bytes of an engine's memory."""


class Work(NamedTuple):
    """An engine's configuration, its stores, and its memory before and after.

    Parameters
    ----------
    first, last : sequence of int
        Offsets of the registers that are read after reset, and at the end.
    writes : sequence of (int, int)
        Offset and value of each write to a register, after the first reads.
    stores : sequence of (int, bytes)
        Address and 16 bytes of each store to a doorbell, after the writes.
    before, after : bytes
        Contents of the memory, :data:`SIZE` bytes.
    words : sequence of int
        Offsets of the completion words in memory; when all are as in ``after``, the engine has done its work.
    """

    first: Sequence[int]
    last: Sequence[int]
    writes: Sequence[tuple[int, int]]
    stores: Sequence[tuple[int, bytes]]
    before: bytes
    after: bytes
    words: Sequence[int]


class Recorder:
    """A bus of which writes and stores are recorded and which reads 0."""

    def __init__(self) -> None:
        self.writes: list[tuple[int, int]] = []
        self.stores: list[tuple[int, bytes]] = []

    async def read(self, offset: int) -> int:
        return 0

    async def write(self, offset: int, value: int) -> None:
        self.writes.append((offset, value))

    async def store(self, address: int, data: bytes) -> None:
        self.stores.append((address, data))
