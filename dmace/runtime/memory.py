# SPDX-License-Identifier: Apache-2.0
"""Memory that a device reaches, and spans of it."""

import ctypes
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from .errors import DmaceError

if TYPE_CHECKING:
    from .device import Device

__all__ = ["Memory", "Span"]


class Span:
    """Bytes ``offset`` to ``offset + length`` of a :class:`Memory`; ``memory[a:b]`` makes one."""

    def __init__(self, memory: "Memory", offset: int, length: int) -> None:
        self.memory, self.offset, self.length = memory, offset, length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, part: slice) -> "Span":
        if not isinstance(part, slice) or part.step not in (None, 1):
            raise TypeError(f"A span is indexed by a slice of bytes without a step, not {part!r}")
        for bound in (part.start, part.stop):
            if bound is not None and not 0 <= bound <= self.length:
                raise DmaceError(f"The bytes {part.start}:{part.stop} are not within a span of {self.length}.")
        start = 0 if part.start is None else part.start
        stop = self.length if part.stop is None else part.stop
        if stop < start:
            raise DmaceError(f"The bytes {start}:{stop} end before they start.")
        return Span(self.memory, self.offset + start, stop - start)

    def read(self) -> bytes:
        """The bytes, by the CPU."""
        return self.memory.load(self.offset, self.length)

    def write(self, data: Any) -> None:
        """Store bytes of any object with the buffer protocol, by the CPU."""
        stored = data.tobytes() if isinstance(data, np.ndarray) else bytes(memoryview(data).cast("B"))
        if len(stored) > self.length:
            raise DmaceError(f"{len(stored)} bytes do not fit into a span of {self.length}.")
        self.memory.save(self.offset, stored)


class Memory(Span):
    """Memory of one device, which :class:`Device` makes. A context manager; it ends with the device at the latest.

    Attributes
    ----------
    region : int
        Its number in words.
    domain : int
        Its protection domain.
    readable, writable : bool
        Whether requests may read and write it.
    address : int
        I/O address of its first byte, for engines other than the DMA engine.
    before_close : list of callables
        Each is called with the memory before it is released, and may raise :class:`DmaceError` to keep it.
    """

    def __init__(self, device: "Device", handle: int, domain: int, keeps: object = None, *, readable: bool = True,
                 writable: bool = True) -> None:
        self.device, self._handle, self._keeps = device, handle, keeps
        self.readable, self.writable = readable, writable
        self.before_close: list[Callable[[Memory], None]] = []
        binding = device.binding
        self.address = int(binding.memory_address(handle))
        self.domain, self.region = domain, int(binding.memory_region(handle))
        super().__init__(self, 0, int(binding.memory_length(handle)))

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
            raise DmaceError("The memory has been released.")
        return self._handle

    def close(self) -> None:
        """Wait for requests that use it, and release it. A second call does nothing."""
        if self._handle and not self.device.closed:
            for call in tuple(self.before_close):
                call(self)
            self.device.binding.deregister(self._handle)
            self.device.memories.discard(self)
        self._handle, self._keeps = 0, None

    def array(self, dtype: npt.DTypeLike = np.uint8) -> npt.NDArray[Any]:
        """A view as a NumPy array, without a copy. That of a BAR or DMA-BUF is valid while the memory is.

        Raises
        ------
        DmaceError
            If this process cannot address the memory; use :meth:`read` and :meth:`write`.
        """
        handle = self.handle
        if isinstance(self._keeps, np.ndarray):
            return self._keeps.reshape(-1).view(np.uint8).view(dtype)
        address = self.device.binding.memory_data(handle)
        if not address:
            raise DmaceError("This process cannot address the memory; use read() and write().")
        return np.ctypeslib.as_array((ctypes.c_uint8 * self.length).from_address(address)).view(dtype)

    def load(self, offset: int, length: int) -> bytes:
        data = ctypes.create_string_buffer(max(length, 1))
        if length:
            self.device.binding.memory_load(self.handle, offset, data, length)
        return data.raw[:length]

    def save(self, offset: int, data: bytes) -> None:
        if data:
            self.device.binding.memory_save(self.handle, offset, data, len(data))
