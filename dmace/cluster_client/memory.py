# SPDX-License-Identifier: Apache-2.0
"""A rank's simulated memory, mapped into the rank's process, and the buffers in it."""

import mmap
import os
import threading
import time
from collections.abc import Callable

from dmace.runtime.errors import DmaceError
from hw.common.sizes import PAGE_BYTES

__all__ = ["RankMemory"]


class RankMemory:
    """Memory of ``size`` bytes with first-fit allocation of whole pages; threads may share it.

    Parameters
    ----------
    descriptor : int
        Of the file, which is closed here.
    size : int
        Bytes.
    check : callable
        Called while an allocation waits; raises if no buffer will be released any more.

    Attributes
    ----------
    bytes : mmap.mmap
    """

    def __init__(self, descriptor: int, size: int, check: Callable[[], None]) -> None:
        self.size = size
        self.bytes = mmap.mmap(descriptor, size)
        os.close(descriptor)
        self._check = check
        self._released = threading.Condition()
        self._free = [(0, size)]
        self._used: dict[int, int] = {}

    def allocate(self, length: int, timeout: float) -> int:
        """Offset of ``length`` bytes; waits until there are enough.

        Raises
        ------
        DmaceError
            If the memory is too small, or no buffer was released within ``timeout`` seconds.
        """
        pages = max(1, -(-length // PAGE_BYTES)) * PAGE_BYTES
        if pages > self.size:
            raise DmaceError(f"A buffer of {length:,} bytes does not fit the rank's memory of {self.size:,} bytes.")
        deadline = time.monotonic() + timeout
        with self._released:
            while (found := self._first_fit(pages)) is None:
                self._check()
                if time.monotonic() > deadline:
                    raise DmaceError(f"A buffer of {length:,} bytes was not free within {timeout:g} s in the rank's "
                                     f"memory of {self.size:,} bytes.")
                self._released.wait(0.1)
            self._used[found] = pages
            return found

    def _first_fit(self, length: int) -> int | None:
        for number, (offset, free) in enumerate(self._free):
            if free >= length:
                self._free[number:number + 1] = [(offset + length, free - length)] if free > length else []
                return offset
        return None

    def release(self, offset: int) -> None:
        """Release the buffer at an offset."""
        with self._released:
            length = self._used.pop(offset)
            merged: list[tuple[int, int]] = []
            for at, free in sorted([*self._free, (offset, length)]):
                if merged and sum(merged[-1]) == at:
                    merged[-1] = merged[-1][0], merged[-1][1] + free
                else:
                    merged.append((at, free))
            self._free = merged
            self._released.notify_all()
