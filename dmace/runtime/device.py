# SPDX-License-Identifier: Apache-2.0
"""Devices: open one, give it memory, make queues."""

import contextlib
import ctypes
import errno
import mmap
import os
from collections.abc import Iterator
from types import TracebackType
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from hw.dma_engine.words import Status

from .binding import Info, QueueOptions, load
from .errors import DmaceError
from .memory import Memory
from .names import Status as Progress
from .names import board, resolve
from .queue import Queue
from .trace import Trace
from .transport import HostTransport, Table

__all__ = ["Device", "DeviceInfo", "LogEntry", "open_device", "open_transport"]

_READ, _WRITE, _FLUSH, _RELAXED, _NO_SNOOP, _NO_REGION = 1, 2, 4, 8, 16, 32


class DeviceInfo(NamedTuple):
    """Sizes of a device, read from it."""

    transport: str
    queues: int
    extended_queues: int
    queue_depth: int
    regions: int
    domains: int
    vectors: int
    beat_bytes: int
    segment_bytes: int
    max_copy: int


class LogEntry(NamedTuple):
    """First failure of a queue since its last entry was removed."""

    queue: int
    status: Status
    number: int


class Device:
    """An open device, from :func:`dmace.open`. A context manager.

    Threads may share it. It is reset when it is opened and when it is closed, and nothing is in flight afterwards.
    """

    def __init__(self, name: str, handle: int, table: Table | None = None) -> None:
        self.name, self._handle, self.binding = name, handle, load()
        self._table = table     # libdmace calls its functions
        self.memories: set[Memory] = set()
        self.queues: set[Queue] = set()
        self.trace: Trace | None = None
        found = Info()
        self.binding.get_info(handle, ctypes.byref(found))
        values = {field: getattr(found, field) for field in DeviceInfo._fields}
        self.info = DeviceInfo(**values | {"transport": found.transport.decode()})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()

    @property
    def closed(self) -> bool:
        return not self._handle

    def check(self) -> None:
        """Raise :class:`DmaceError` after :meth:`close`."""
        if self.closed:
            raise DmaceError(f"The device {self.name} is closed.")

    @property
    def handle(self) -> int:
        """That of libdmace."""
        self.check()
        return self._handle

    def close(self) -> None:
        """Reset the device, and release it with its queues and memory. A second call does nothing."""
        if self._handle:
            handle, self._handle = self._handle, 0
            self.binding.close(handle)
            self.memories.clear()
            self.queues.clear()

    # Memory

    def allocate(self, length: int, *, domain: int = 0, readable: bool = True, writable: bool = True,
                 flush: bool = False, relaxed: bool = False, no_snoop: bool = False) -> Memory:
        """New memory of ``length`` bytes, zero, at the beginning of a page; processes that are forked share it.

        Where the device cannot reach this process, it is memory of the device, for ``read()`` and ``write()``.

        Parameters
        ----------
        length : int
            Bytes, at least 1.
        domain : int
            Protection domain: queues of the same one may use it.
        readable, writable : bool
            Whether requests may read and write it.
        flush : bool
            A write completes when it has arrived; a write that the host refuses fails. A round trip per segment.
        relaxed, no_snoop : bool
            Attributes on PCIe.
        """
        if length < 1:
            raise DmaceError(f"Memory has at least 1 byte, not {length}.")
        pages = mmap.mmap(-1, -(-length // mmap.PAGESIZE) * mmap.PAGESIZE, mmap.MAP_SHARED | mmap.MAP_ANONYMOUS)
        array = np.frombuffer(pages, np.uint8, length)
        access = _access(readable, writable, flush, relaxed, no_snoop)
        try:
            return self._memory("register", array.ctypes.data, length, domain=domain, access=access, keeps=array)
        except DmaceError as error:
            if error.code != errno.ENOTSUP:
                raise
        return self._memory("alloc", length, domain=domain, access=access)

    def reserve(self, length: int) -> Memory:
        """New memory that only other engines of the card reach, at its ``address``: no request of a queue does."""
        if length < 1:
            raise DmaceError(f"Memory has at least 1 byte, not {length}.")
        return self._memory("alloc", length, domain=0, access=_READ | _WRITE | _NO_REGION)

    def register(self, array: npt.NDArray[Any], *, domain: int = 0, readable: bool = True, writable: bool | None = None,
                 flush: bool = False, relaxed: bool = False, no_snoop: bool = False) -> Memory:
        """The memory of a NumPy array, which must be contiguous; the options are those of :meth:`allocate`.

        By default requests may write it if the array is writeable. The array lives at least as long as the memory.
        """
        if not isinstance(array, np.ndarray) or not array.flags.c_contiguous or not array.nbytes:
            raise DmaceError(f"Only a NumPy array with contiguous elements can be registered, not {_described(array)}.")
        if writable and not array.flags.writeable:
            raise DmaceError("An array that is not writeable cannot be registered as writable.")
        writable = array.flags.writeable if writable is None else writable
        access = _access(readable, writable, flush, relaxed, no_snoop)
        return self._memory("register", array.ctypes.data, array.nbytes, domain=domain, access=access, keeps=array)

    def register_dmabuf(self, fd: int, length: int, *, offset: int = 0, domain: int = 0, readable: bool = True,
                        writable: bool = True, flush: bool = False, relaxed: bool = False,
                        no_snoop: bool = False) -> Memory:
        """A span of a DMA-BUF, for instance of a GPU's memory; the options are those of :meth:`allocate`."""
        access = _access(readable, writable, flush, relaxed, no_snoop)
        return self._memory("register_dmabuf", fd, offset, length, domain=domain, access=access)

    def register_bar(self, function: str, bar: int, length: int, *, offset: int = 0, domain: int = 0,
                     readable: bool = True, writable: bool = True, flush: bool = False, relaxed: bool = False,
                     no_snoop: bool = False) -> Memory:
        """A span of a BAR of another PCI function, like ``0000:02:00.0``; the options are those of :meth:`allocate`."""
        access = _access(readable, writable, flush, relaxed, no_snoop)
        return self._memory("register_bar", function.encode(), bar, offset, length, domain=domain, access=access)

    def _memory(self, what: str, *arguments: Any, domain: int, access: int, keeps: object = None) -> Memory:
        for value in (domain, *(argument for argument in arguments if isinstance(argument, int))):
            if value < 0:
                raise DmaceError(f"Lengths, offsets, descriptors and domains are not negative, and {value} is.")
        handle = ctypes.c_void_p()
        getattr(self.binding, what)(self.handle, *arguments, domain, access, ctypes.byref(handle))
        assert handle.value
        memory = Memory(self, handle.value, domain, keeps, readable=bool(access & _READ),
                        writable=bool(access & _WRITE))
        self.memories.add(memory)
        return memory

    # Queues

    def queue(self, *, domain: int = 0, weight: int = 1, priority: int = 0, segments: int = 0, ring: int = 0,
              interrupt: bool = False, skip_errors: bool = False, pair: bool = False) -> Queue:
        """A free queue, started.

        Parameters
        ----------
        domain : int
            Protection domain: its requests reach memory of the same one.
        weight, priority, segments : int
            Its share within its class, 1 to 15; its class, 0 to 3; segments in flight, 0 for no limit.
        ring : int
            Log2 of the entries of a descriptor ring, 3 to 16, or 0 for none.
        interrupt : bool
            Requests signal an eventfd, which ``await`` uses.
        skip_errors : bool
            Requests behind a failed one are executed, and those that may have failed, too, are reported as failed: only
            the first failure is exact. Otherwise the queue holds, and each failure is exact.
        pair : bool
            The ring prefetches twice as many descriptors, those of both queues of a pair, 2n and 2n + 1. As long as it
            exists, the other queue has no ring; without ``pair`` both may have one.

        Raises
        ------
        DmaceError
            If an option is not legal, there is ``pair`` without ``ring``, or no free queue allows these options.
        """
        for name, value in (("domain", domain), ("weight", weight), ("priority", priority), ("segments", segments),
                            ("ring", ring)):
            if not 0 <= value < 1 << 32:
                raise DmaceError(f"The option {name} of a queue must be a number from 0 on, not {value}.")
        options = QueueOptions(domain, weight, priority, segments, ring, int(interrupt), int(skip_errors), int(pair))
        handle = ctypes.c_void_p()
        self.binding.queue_create(self.handle, ctypes.byref(options), ctypes.byref(handle))
        assert handle.value
        queue = Queue(self, handle.value, domain, interrupt=interrupt)
        self.queues.add(queue)
        return queue

    # The device as a whole

    def reset(self) -> None:
        """Function-level reset: all queues and memory are gone; close them."""
        self.binding.reset(self.handle)

    def read_register(self, offset: int) -> int:
        """The 32-bit register at an offset in BAR 0."""
        value = ctypes.c_uint32()
        self.binding.read_register(self.handle, offset, ctypes.byref(value))
        return value.value

    def write_register(self, offset: int, value: int) -> None:
        self.binding.write_register(self.handle, offset, value)

    def store(self, offset: int, data: bytes) -> None:
        """Store 4, 8 or 16 bytes at an offset in BAR 2, to a doorbell page of an engine other than the DMA engine."""
        self.binding.store(self.handle, offset, data, len(data))

    def cycles(self) -> int | None:
        """Cycles of a simulated device's clock in which it had work; None for hardware."""
        value = ctypes.c_uint64()
        try:
            self.binding.cycles(self.handle, ctypes.byref(value))
        except DmaceError:
            return None
        return value.value

    def log(self) -> Iterator[LogEntry]:
        """Remove the entries of the error log, the oldest first."""
        queue, status, number = ctypes.c_uint32(), ctypes.c_int(), ctypes.c_uint32()
        while self.binding.pop_log(self.handle, *map(ctypes.byref, (queue, status, number))):
            yield LogEntry(queue.value, Status(status.value), number.value)

    @contextlib.contextmanager
    def tracing(self) -> Iterator[Trace]:
        """Record requests that are posted meanwhile."""
        self.trace = trace = Trace(self.name)
        try:
            yield trace
        finally:
            self.trace = None

    @staticmethod
    def clear_event(event: int) -> None:
        """Read an eventfd, readable or not."""
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(event)


def open_device(name: str, *, status: Progress | None = None) -> Device:
    """Open a device by its name, see :mod:`.names`, and reset it.

    Parameters
    ----------
    name : str
        ``vfio:0000:01:00.0``, ``sim:tiny``, ``uart:/dev/ttyUSB0``.
    status : callable or None
        Receives ``(what, done, total)`` while a simulator is built.

    Raises
    ------
    DmaceError
        If there is no such device, or it cannot be used.
    """
    transport = board(name)
    if transport is not None:
        return open_transport(name, transport)
    handle = ctypes.c_void_p()
    load().open(resolve(name, status).encode(), ctypes.byref(handle))
    assert handle.value
    return Device(name, handle.value)


def open_transport(name: str, transport: HostTransport) -> Device:
    """Open the device behind a transport in Python, and reset it; the transport is closed with it, and on failure."""
    table, handle = Table(transport), ctypes.c_void_p()
    load().open_transport(ctypes.addressof(table), None, ctypes.byref(handle))
    assert handle.value
    return Device(name, handle.value, table)


def _access(readable: bool, writable: bool, flush: bool, relaxed: bool, no_snoop: bool) -> int:
    return (readable * _READ | writable * _WRITE | flush * _FLUSH | relaxed * _RELAXED | no_snoop * _NO_SNOOP)


def _described(array: object) -> str:
    if isinstance(array, np.ndarray):
        return f"one of shape {array.shape} and strides {array.strides}"
    return f"a {type(array).__name__}"
