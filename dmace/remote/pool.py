# SPDX-License-Identifier: Apache-2.0
"""Allocator of registered memory: spans of a pool, first fit, neighbouring free spans merged."""

from bisect import bisect_left

from dmace.runtime.errors import DmaceError
from hw.common.sizes import is_integer, is_power_of_two

__all__ = ["ALIGNMENT", "Pool", "PoolExhausted"]

ALIGNMENT = 64
"""Default alignment in bytes: a beat of the widest engine, and a cache line."""

_MOST_ALIGNMENT = 1 << 30


class PoolExhausted(DmaceError):
    """No free span of the pool is long enough."""


class Pool:
    """Spans of the bytes ``first`` to ``first + length`` of a machine's registered memory.

    Allocation and release search sorted lists: their time grows with the number of free spans. Several processes may
    each have a part of one machine's memory.

    Parameters
    ----------
    length : int
        Bytes.
    first : int
        Offset of the first byte in the registered memory.
    """

    def __init__(self, length: int, first: int = 0) -> None:
        if not is_integer(length, 1, (1 << 64) - 1):
            raise DmaceError(f"A pool must have at least one byte, not {length!r}.")
        if not is_integer(first, 0, (1 << 64) - 1):
            raise DmaceError(f"A pool must begin at an offset of 0 or more, not {first!r}.")
        self.first, self.length = first, length
        self._free: list[tuple[int, int]] = [(first, first + length)]
        self._used: dict[int, int] = {}

    @property
    def free_bytes(self) -> int:
        """Bytes in all free spans."""
        return sum(end - begin for begin, end in self._free)

    @property
    def longest(self) -> int:
        """Bytes in the longest free span."""
        return max((end - begin for begin, end in self._free), default=0)

    @property
    def spans(self) -> dict[int, int]:
        """Allocated spans, offset -> bytes."""
        return dict(self._used)

    def allocate(self, count: int, alignment: int = ALIGNMENT) -> int:
        """Offset of ``count`` bytes, a multiple of ``alignment``.

        Raises
        ------
        PoolExhausted
            If no free span is long enough.
        """
        if not is_integer(count, 1, (1 << 64) - 1):
            raise DmaceError(f"An allocation must have at least one byte, not {count!r}.")
        if not is_power_of_two(alignment, 1, _MOST_ALIGNMENT):
            raise DmaceError(f"An alignment must be a power of two from 1 to {_MOST_ALIGNMENT}, not {alignment!r}.")
        for index, (begin, end) in enumerate(self._free):
            offset = -(-begin // alignment) * alignment
            if offset + count <= end:
                self._free[index:index + 1] = [span for span in ((begin, offset), (offset + count, end))
                                               if span[0] < span[1]]
                self._used[offset] = count
                return offset
        raise PoolExhausted(f"{count:,} bytes at a multiple of {alignment} do not fit into the pool: of its "
                            f"{self.length:,} bytes {self.free_bytes:,} are free, {self.longest:,} of them contiguous.")

    def free(self, offset: int) -> None:
        """Release the span that begins at ``offset``."""
        count = self._used.pop(offset, None)
        if count is None:
            raise DmaceError(f"No allocated span begins at offset {offset!r}, so it cannot be freed.")
        begin, end = offset, offset + count
        index = bisect_left(self._free, (begin, end))
        following = index
        if index and self._free[index - 1][1] == begin:
            index -= 1
            begin = self._free[index][0]
        if following < len(self._free) and self._free[following][0] == end:
            end = self._free[following][1]
            following += 1
        self._free[index:following] = [(begin, end)]
