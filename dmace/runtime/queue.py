# SPDX-License-Identifier: Apache-2.0
"""Queues and requests."""

import asyncio
import ctypes
import time
from collections.abc import Generator
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple, Self

from hw.dma_engine.words import NativeWord, RequestFlag, Status

from .binding import FOREVER, QueueStats, View, Word
from .errors import DmaceError, RequestFailed, RequestTimeout
from .memory import Span

if TYPE_CHECKING:
    from .device import Device

__all__ = ["Queue", "QueueStatistics", "Request"]

_TIMEOUT = 110
"""ETIMEDOUT of Linux."""


class QueueStatistics(NamedTuple):
    """Counts of a queue since it was created.

    ``histogram[n]`` counts requests whose latency was 2**n to less than 2**(n + 1) cycles of the device's clock.
    """

    requests: int
    failed: int
    bytes: int
    segments: int
    stalls: int
    waiting: int
    in_flight: int
    histogram: tuple[int, ...]


class Request:
    """A posted request. ``wait()`` it, or ``await`` it.

    Attributes
    ----------
    number : int
        In its queue, from 1 on. Requests of a queue complete in order.
    """

    def __init__(self, queue: "Queue", number: int, length: int) -> None:
        self.queue, self.number, self.length = queue, number, length

    def done(self) -> bool:
        """Whether it has completed, with whatever result."""
        return self.queue.result(self.number, 0) is not None

    def wait(self, timeout: float | None = None) -> None:
        """Return when it has completed with success.

        Parameters
        ----------
        timeout : float or None
            Seconds.

        Raises
        ------
        RequestFailed
            With the status.
        RequestTimeout
        """
        nanoseconds = FOREVER if timeout is None else max(0, round(timeout * 1e9))
        result = self.queue.result(self.number, nanoseconds)
        if result is None:
            raise RequestTimeout(f"Request {self.number} of queue {self.queue.number} has not completed within "
                                 f"{timeout} s.", _TIMEOUT)
        sentence = self.queue.device.binding.sentence()
        if result:
            raise RequestFailed(sentence, Status(result), self.number)

    def __await__(self) -> Generator[object, None, None]:
        return self._completed().__await__()

    async def _completed(self) -> None:
        """Sleep until the queue's interrupt, or poll at growing intervals where it has none."""
        pause, queue = 20e-6, self.queue
        while queue.result(self.number, 0) is None:
            if queue.event >= 0:
                await queue.interrupted()
            else:
                await asyncio.sleep(pause)
                pause = min(2 * pause, 1e-3)
        self.wait(0)


class Queue:
    """An ordered stream of requests, which :meth:`Device.queue` makes. A context manager. Threads may share it.

    Attributes
    ----------
    number, domain : int
    event : int
        An eventfd that is readable after completions, or -1 without interrupts.
    """

    def __init__(self, device: "Device", handle: int, domain: int, *, interrupt: bool) -> None:
        self.device, self._handle, self.domain = device, handle, domain
        self.number = int(device.binding.queue_number(handle))
        self.event = int(device.binding.queue_eventfd(handle)) if interrupt else -1
        self._flags = int(RequestFlag.IRQ) if interrupt else 0
        self._waiting: asyncio.Future[None] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()

    @property
    def handle(self) -> int:
        """That of libdmace. Raises :class:`DmaceError` after :meth:`close`."""
        self.device.check()
        if not self._handle:
            raise DmaceError(f"Queue {self.number} is closed.")
        return self._handle

    def close(self) -> None:
        """Discard requests that wait, and free the queue. A second call does nothing."""
        if self._handle and not self.device.closed:
            self.device.binding.queue_destroy(self._handle)
            self.device.queues.discard(self)
        self._handle = 0

    # Requests

    def copy(self, to: Span, source: Span, *, fence: bool = False) -> Request:
        """Copy ``source`` to the beginning of ``to``. With ``fence``, after all earlier requests have completed."""
        if source.length > to.length:
            raise DmaceError(f"{source.length} bytes do not fit into a span of {to.length}.")
        number = ctypes.c_uint64()
        self.device.binding.copy(self.handle, to.memory.handle, to.offset, source.memory.handle, source.offset,
                                 source.length, self._flags_of(fence), ctypes.byref(number))
        return self._posted(number, source.length)

    def copy_2d(self, to: Span, source: Span, *, rows: int, length: int, to_stride: int, source_stride: int,
                fence: bool = False) -> Request:
        """Copy ``rows`` rows of ``length`` bytes, each ``stride`` bytes behind the one before."""
        for span, stride in ((to, to_stride), (source, source_stride)):
            last = (rows - 1) * stride
            if rows < 1 or length < 1 or min(0, last) < 0 or max(0, last) + length > span.length:
                raise DmaceError(f"{rows} rows of {length} bytes with a stride of {stride} are not within a span of "
                                 f"{span.length} bytes.")
        number = ctypes.c_uint64()
        self.device.binding.copy_2d(
            self.handle, to.memory.handle, to.offset, to_stride, source.memory.handle, source.offset, source_stride,
            length, rows, self._flags_of(fence), ctypes.byref(number))
        return self._posted(number, rows * length)

    def signal(self, to: Span, value: int) -> Request:
        """Store an 8-byte value below 2**44 once every earlier request has completed."""
        if to.length < 8 or not 0 <= value < 1 << 44:
            raise DmaceError(f"A signal stores a value from 0 to 2**44 - 1 to 8 bytes, not {value} to {to.length}.")
        number = ctypes.c_uint64()
        self.device.binding.signal(self.handle, to.memory.handle, to.offset, value, self._flags, ctypes.byref(number))
        return self._posted(number, 8)

    def post(self, word: NativeWord) -> Request:
        """Post any word, which the device checks."""
        data = word.to_bytes()
        number = ctypes.c_uint64()
        both = Word(int.from_bytes(data[:8], "little"), int.from_bytes(data[8:], "little"))
        self.device.binding.post_word(self.handle, both, ctypes.byref(number))
        return self._posted(number, word.length)

    def result(self, number: int, nanoseconds: int) -> int | None:
        """Status of a request, 0 for success, or None where it has not completed in time."""
        found = int(self.device.binding.wait(self.handle, number, nanoseconds))
        if found == -_TIMEOUT:
            return None
        if found < 0:
            raise DmaceError(self.device.binding.sentence(), -found)
        if self.device.trace is not None:
            self.device.trace.completed(self, number, time.monotonic_ns())
        return found

    async def interrupted(self) -> None:
        """Return after the next interrupt of this queue; any number of tasks of one event loop may wait."""
        loop = asyncio.get_running_loop()
        if self._waiting is None or self._waiting.done() or self._waiting.get_loop() is not loop:
            self._waiting = loop.create_future()
            loop.add_reader(self.event, self._wake, loop)
        await self._waiting

    def _wake(self, loop: asyncio.AbstractEventLoop) -> None:
        loop.remove_reader(self.event)
        self.device.clear_event(self.event)
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    def statistics(self) -> QueueStatistics:
        found = QueueStats()
        self.device.binding.get_queue_stats(self.handle, ctypes.byref(found))
        return QueueStatistics(**{name: getattr(found, name) for name in QueueStatistics._fields[:-1]},
                               histogram=tuple(found.histogram))

    def view(self) -> View:
        """Addresses of the doorbell page, 0 where the transport cannot map it, and of both completion words."""
        found: View = self.device.binding.queue_view(self.handle)
        return found

    def _flags_of(self, fence: bool) -> int:
        return self._flags | (RequestFlag.FENCE if fence else 0)

    def _posted(self, number: "ctypes.c_uint64", length: int) -> Request:
        if self.device.trace is not None:
            self.device.trace.posted(self, number.value, length, time.monotonic_ns())
        return Request(self, number.value, length)
