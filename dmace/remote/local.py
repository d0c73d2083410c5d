# SPDX-License-Identifier: Apache-2.0
"""This machine: its registered memory, and the queues of its DMA engine."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from dmace.runtime.errors import DmaceError
from hw.common.sizes import is_integer

from .future import Future, Tasks
from .machine import MOST_POOL_BYTES, OWN_REGION, Machine
from .pool import ALIGNMENT, Pool
from .queue import RequestQueue
from .words import copies

__all__ = ["FLAG_BYTES", "Local", "LocalDevice"]

FLAG_BYTES = 8


class Local:
    """Bytes ``offset`` to ``offset + length`` of a machine's own pool; ``memory[a:b]`` is a part of it."""

    def __init__(self, machine: Machine, offset: int, length: int) -> None:
        self.machine, self.offset, self.length = machine, offset, length

    def __getitem__(self, part: slice) -> "Local":
        begin, end = bounds(part, self.length)
        return Local(self.machine, self.offset + begin, end - begin)

    def view(self) -> npt.NDArray[np.uint8] | None:
        """The bytes as an array without a copy, or None if this process cannot address them."""
        memory = self.machine.memory
        return None if memory is None else memory[self.offset:self.offset + self.length]

    def load(self) -> npt.NDArray[np.uint8]:
        """The bytes: the view if there is one, else a copy."""
        view = self.view()
        return self.machine.read_memory(self.offset, self.length) if view is None else view

    def store(self, data: bytes | npt.NDArray[Any]) -> None:
        """Store bytes, or those of an array in C order, from the first byte on."""
        count = len(data) if isinstance(data, bytes) else data.nbytes
        if count > self.length:
            raise DmaceError(f"{count:,} bytes do not fit into {self.length:,} bytes of registered memory.")
        if count:
            self.machine.write_memory(self.offset, data)

    def load_word(self) -> int:
        """The first 8 bytes as an integer, little endian."""
        return int.from_bytes(self.machine.read_memory(self.offset, FLAG_BYTES).tobytes(), "little")

    def store_word(self, value: int) -> None:
        """Store an integer as the first 8 bytes."""
        self.machine.write_memory(self.offset, value.to_bytes(FLAG_BYTES, "little"))


def bounds(part: slice, length: int) -> tuple[int, int]:
    """Begin and end of a slice of ``length`` bytes. Raises DmaceError for one that is not within them."""
    if not isinstance(part, slice) or part.step not in (None, 1):
        raise TypeError(f"Memory is indexed by a slice of bytes without a step, not {part!r}")
    begin = 0 if part.start is None else part.start
    end = length if part.stop is None else part.stop
    if not is_integer(begin, 0, length) or not is_integer(end, begin, length):
        raise DmaceError(f"The bytes {part.start}:{part.stop} are not within a span of {length:,}.")
    return begin, end


class LocalDevice:
    """One machine with an allocator of its pool and its queues.

    Parameters
    ----------
    machine : Machine
    queues : sequence of int, optional
        Queues to use, by default all: the first quarter, at least one, for signals that release memory, each of which
        waits for the earlier ones of its queue; the others for transfers and local copies. With one queue, all of them
        share it.
    pool : Pool, optional
        By default the whole registered memory.
    tasks : Tasks, optional
        Shared by the devices of all machines that this process drives; by default those of this machine.
    """

    def __init__(self, machine: Machine, queues: Sequence[int] | None = None, pool: Pool | None = None,
                 tasks: Tasks | None = None) -> None:
        if not is_integer(machine.pool_bytes, 1, MOST_POOL_BYTES):
            raise DmaceError(f"Registered memory must have from 1 to {MOST_POOL_BYTES:,} bytes, "
                             f"not {machine.pool_bytes!r}.")
        self.machine = machine
        self.tasks = Tasks() if tasks is None else tasks
        self.pool = Pool(machine.pool_bytes) if pool is None else pool
        if self.pool.first + self.pool.length > machine.pool_bytes:
            raise DmaceError(f"A pool that ends at {self.pool.first + self.pool.length:,} is not within the "
                             f"{machine.pool_bytes:,} bytes of registered memory.")
        numbers = range(machine.queues) if queues is None else queues
        if not numbers or len(set(numbers)) != len(numbers):
            raise DmaceError(f"A device needs one queue or several different ones, not {list(numbers)!r}.")
        made = [RequestQueue(machine, number, self.tasks) for number in numbers]
        self._controls = made[:max(1, len(made) // 4)]
        self.control = made[0]
        self.data = made[len(self._controls):] or made
        self._next = self._next_control = 0

    def next_queue(self) -> RequestQueue:
        """Queue of the next transfer: all of them in turn."""
        queue = self.data[self._next % len(self.data)]
        self._next += 1
        return queue

    def next_control(self) -> RequestQueue:
        """Queue of the next signal that releases memory: those in turn."""
        queue = self._controls[self._next_control % len(self._controls)]
        self._next_control += 1
        return queue

    def allocate(self, count: int, alignment: int = ALIGNMENT) -> Local:
        """``count`` bytes of registered memory, with undefined contents."""
        return Local(self.machine, self.pool.allocate(count, alignment), count)

    def flag(self) -> Local:
        """An 8-byte word of registered memory, which is 0."""
        made = self.allocate(FLAG_BYTES, ALIGNMENT)
        made.store_word(0)
        return made

    def free(self, memory: Local) -> None:
        """Release memory that :meth:`allocate` returned."""
        if memory.machine is not self.machine:
            raise DmaceError(f"Memory of machine {memory.machine.number} cannot be freed by machine "
                             f"{self.machine.number}.")
        self.pool.free(memory.offset)

    def copy(self, source: Local, destination: Local) -> Future[None]:
        """Copy within the pool, by the DMA engine."""
        if source.length != destination.length:
            raise DmaceError(f"A copy of {source.length:,} bytes needs as many at its destination, "
                             f"not {destination.length:,}.")
        return self.next_queue().submit(copies((OWN_REGION, source.offset), (OWN_REGION, destination.offset),
                                               source.length))
