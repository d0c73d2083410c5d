# SPDX-License-Identifier: Apache-2.0
"""A remote machine as a device: memory to allocate, read and write."""

from typing import NamedTuple, TypeVar

from dmace.runtime.errors import DmaceError
from hw.common.sizes import OFFSET_WIDTH, is_integer
from hw.dma_engine.words import NativeWord

from .future import Future, Turns, completion
from .local import FLAG_BYTES, Local, LocalDevice, bounds
from .machine import OWN_REGION, region_of
from .pool import ALIGNMENT, Pool
from .queue import RequestQueue
from .words import PIECE_BYTES, copies

__all__ = ["MOST_FLAG", "RemoteDevice", "RemoteMemory"]

_Result = TypeVar("_Result")

MOST_FLAG = (1 << OFFSET_WIDTH + 8) - 1
"""Largest value of a flag: a signal stores 44 bits."""


class RemoteMemory(NamedTuple):
    """Bytes ``offset`` to ``offset + length`` of the pool of machine ``peer``."""

    peer: int
    offset: int
    length: int

    def part(self, begin: int, end: int) -> "RemoteMemory":
        """Bytes ``begin`` to ``end`` of it."""
        begin, end = bounds(slice(begin, end), self.length)
        return RemoteMemory(self.peer, self.offset + begin, end - begin)


class RemoteDevice:
    """The memory of another machine, which this machine's DMA engine reads and writes.

    Transfers use the queues of the local device in turn. There is no order between the data of two transfers unless one
    is started after the other's future is done.

    Parameters
    ----------
    local : LocalDevice
        This machine.
    peer : int
        Number of the other one.
    pool : Pool
        The part of the other machine's memory from which :meth:`allocate` takes; only processes that share this object
        may allocate from it.
    piece : int
        Bytes per word of long transfers, at most 2 ** 28 - 1.
    """

    def __init__(self, local: LocalDevice, peer: int, pool: Pool, piece: int = PIECE_BYTES) -> None:
        if not is_integer(piece, 1, (1 << 28) - 1):
            raise DmaceError(f"A piece must have from 1 to {(1 << 28) - 1} bytes, not {piece!r}.")
        self.local, self.peer, self.pool = local, peer, pool
        self._region, self._piece = region_of(local.machine, peer), piece
        self._newest: dict[int, int] = {}

    def allocate(self, count: int, alignment: int = ALIGNMENT) -> RemoteMemory:
        """``count`` bytes of the other machine's pool, with undefined contents."""
        return RemoteMemory(self.peer, self.pool.allocate(count, alignment), count)

    def free(self, memory: RemoteMemory) -> None:
        """Release memory that :meth:`allocate` returned."""
        if memory.peer != self.peer:
            raise DmaceError(f"Memory of machine {memory.peer} is not freed through a device of machine {self.peer}.")
        self.pool.free(memory.offset)

    def read(self, remote: RemoteMemory, local: Local) -> Future[None]:
        """Copy remote memory to local memory; the future is done when all bytes are in local memory."""
        self._check(remote, local)
        words = copies((self._region, remote.offset), (OWN_REGION, local.offset), local.length, self._piece)
        return self.local.next_queue().submit(words)

    def write(self, local: Local, remote: RemoteMemory) -> Future[None]:
        """Copy local memory to remote memory; the future is done when all bytes are in remote memory."""
        return self.local.next_queue().submit(self._writes(local, remote))

    def write_with_flag(self, local: Local, remote: RemoteMemory, flag: RemoteMemory, value: int = 1) -> Future[None]:
        """Copy local memory to remote memory, then store ``value`` to the 8 bytes of ``flag``.

        A reader of the flag's new value sees all bytes of the data, in one request to the receiver: it needs no
        completion of this machine. The flag is a SIGNAL, which the engine stores when all earlier requests of its queue
        have completed, and a WRITE completes when the remote machine has acknowledged it, which its responder does when
        its memory has responded. A flag in the last byte of the data would not be safe here: the engine's segments may
        be written in any order where memory responds in any order, and with selective repeat the responder stores
        packets behind a lost one before the lost one. The cost is a round trip between the data and the flag.

        Parameters
        ----------
        flag : RemoteMemory
            8 bytes at a multiple of 8.
        value : int
            0 to 2 ** 44 - 1.
        """
        return self.local.next_queue().submit([*self._writes(local, remote), self._signal(flag, value)])

    def signal(self, flag: RemoteMemory, value: int, *, queue: RequestQueue | None = None) -> Future[None]:
        """Store ``value`` to the 8 bytes of ``flag`` when all earlier requests of the queue have completed: by default
        the control queue."""
        return (queue or self.local.control).submit([self._signal(flag, value)])

    def notify(self, flag: RemoteMemory, value: int) -> None:
        """:meth:`signal` without a future: a later poll raises its error. While a signal to the same flag is in flight,
        only the newest value waits for it. Signals to different flags have no order."""
        idle = flag.offset not in self._newest
        self._newest[flag.offset] = value
        if idle:
            self.local.tasks.check(self.start(self._notify(flag)))

    def _notify(self, flag: RemoteMemory) -> Turns[None]:
        stored: int | None = None
        while (value := self._newest[flag.offset]) != stored:
            stored = value
            yield from completion(self.signal(flag, value, queue=self.local.next_control()))
        del self._newest[flag.offset]

    def start(self, turns: Turns[_Result]) -> Future[_Result]:
        """Start work on this device; see :class:`Tasks`."""
        return self.local.tasks.start(self.local.machine, turns)

    def _signal(self, flag: RemoteMemory, value: int) -> NativeWord:
        self._check_peer(flag)
        if flag.length != FLAG_BYTES or flag.offset % FLAG_BYTES:
            raise DmaceError(f"A flag must have 8 bytes at a multiple of 8, not {flag.length} at {flag.offset}.")
        if not is_integer(value, 0, MOST_FLAG):
            raise DmaceError(f"The value of a flag must be from 0 to 2 ** 44 - 1, not {value!r}.")
        return NativeWord.signal(dst=(self._region, flag.offset), value=value)

    def _writes(self, local: Local, remote: RemoteMemory) -> list[NativeWord]:
        self._check(remote, local)
        return copies((OWN_REGION, local.offset), (self._region, remote.offset), local.length, self._piece)

    def _check(self, remote: RemoteMemory, local: Local) -> None:
        self._check_peer(remote)
        if local.machine is not self.local.machine:
            raise DmaceError(f"Local memory of a transfer must be of machine {self.local.machine.number}, "
                             f"not {local.machine.number}.")
        if remote.length != local.length:
            raise DmaceError(f"A transfer must have the same length at both ends, not {local.length:,} bytes here and "
                             f"{remote.length:,} remote.")

    def _check_peer(self, remote: RemoteMemory) -> None:
        if remote.peer != self.peer:
            raise DmaceError(f"Memory of machine {remote.peer} is not reached through a device of machine {self.peer}.")
