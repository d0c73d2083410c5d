# SPDX-License-Identifier: Apache-2.0
"""The collectives accelerator of one device: its registers, and what communicators take of it."""

import threading
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, TypeVar

import numpy as np

from dmace.drivers.ace import AceDriver, Share
from dmace.drivers.endpoint import Window
from dmace.drivers.registers import wait
from hw.ace.collectives import Numbered
from hw.ace.config import AceConfig
from hw.ace.words import LinkState
from hw.common.sizes import PAGE_BYTES
from hw.endpoint.registers import WINDOWS

from .device import Device
from .errors import DmaceError
from .memory import Memory, Span

__all__ = ["Accelerator"]

_PITCH = 64
"""Bytes from one completion word to the next."""

_Result = TypeVar("_Result")


class _Bus:
    """Registers and doorbells of a device; nothing waits."""

    def __init__(self, device: Device) -> None:
        self._device = device

    async def read(self, offset: int) -> int:
        return self._device.read_register(offset)

    async def write(self, offset: int, value: int) -> None:
        self._device.write_register(offset, value)

    async def store(self, address: int, data: bytes) -> None:
        self._device.store(address, data)


class Accelerator:
    """Registers, regions and completion words that the communicators of one device share. Threads may share it.

    Parameters
    ----------
    device : :class:`Device`
    config : AceConfig
        Its sizes, which are compared with the device's.

    Attributes
    ----------
    pollers : list of callables
        Each makes a communicator see what has completed.

    Raises
    ------
    DmaceError
        If the device has no accelerator of these sizes.
    """

    def __init__(self, device: Device, config: AceConfig) -> None:
        self.device, self.config = device, config
        self.driver = AceDriver(Window(_Bus(device), WINDOWS["ACE"], device.info.queues), config)
        self._lock = threading.RLock()
        try:
            self.do(self.driver.check_identity())
        except RuntimeError as error:
            raise DmaceError(f"The device {device.name} has another accelerator: {error}.") from None
        self._words = device.reserve(_PITCH * config.queues)
        self._array = self._words.array(np.uint64)
        self._regions: dict[Memory, int] = {}
        self._uses: Counter[Memory] = Counter()
        self.pollers: list[Callable[[], None]] = []

    def do(self, coroutine: Coroutine[Any, Any, _Result]) -> _Result:
        """Result of a coroutine of the driver."""
        with self._lock:
            return wait(coroutine)

    def open_communicator(self, number: int, queue: int, *, domain: int, share: Share,
                          **options: Any) -> dict[Numbered, str]:
        """Define a communicator and a queue of its own; returns why there is no program for some collectives."""
        left_out = self.do(self.driver.define_communicator(number, domain=domain, share=share, **options))
        self.do(self.driver.configure_queue(queue, domain=domain, sc=self._words.address + _PITCH * queue))
        self._settle()
        return left_out

    def clear(self, queue: int) -> None:
        """Let a queue resume after a failed command."""
        self.do(self.driver.clear(queue))
        self._settle()

    def reopen(self, number: int) -> None:
        """Open a communicator again that has been revoked."""
        self.do(self.driver.reopen(number))
        self._settle()

    def _settle(self) -> None:
        """Return when all registers are written: a store to a doorbell page may pass writes in front of it."""
        refused = self.do(self.driver.refused_write())
        if refused:
            raise DmaceError(f"{refused.rstrip('.')}.")

    def link_is_up(self, port: int) -> bool:
        """Whether the link at a port is UP, as this end sees it."""
        async def state() -> int:
            await self.driver.write("LINK_SELECT", port=port)
            return (await self.driver.read("LINK_STATE"))["state"]

        return self.do(state()) == LinkState.UP

    def word(self, queue: int) -> int:
        """The completion word of a queue."""
        self.device.check()
        return int(self._array[_PITCH // 8 * queue])

    def post(self, queue: int, word: bytes) -> None:
        """Store a command to a queue."""
        self.device.store((self.device.info.queues + queue) * PAGE_BYTES, word)

    def place(self, span: Span) -> tuple[int, int]:
        """Region of a span's memory, and the span's first byte in it. The region is defined at the first use."""
        memory = span.memory
        with self._lock:
            if memory not in self._regions:
                self._define(memory)
            return self._regions[memory], memory.address % PAGE_BYTES + span.offset

    def _define(self, memory: Memory) -> None:
        free = set(range(self.config.regions)) - set(self._regions.values())
        if not free:
            raise DmaceError(f"All {self.config.regions} regions of the accelerator are in use; close memory that "
                             "collectives have used.")
        number, inside = min(free), memory.address % PAGE_BYTES
        self.do(self.driver.define_region(number, base=memory.address - inside, length=inside + memory.length,
                                          domain=memory.domain, readable=memory.readable, writable=memory.writable))
        self._settle()
        self._regions[memory] = number
        memory.before_close.append(self._release)

    def _release(self, memory: Memory) -> None:
        for poll in self.pollers:
            poll()
        with self._lock:
            if self._uses[memory]:
                raise DmaceError(f"The memory cannot be released while {self._uses[memory]} collectives use it: wait "
                                 "for them.")
            self.do(self.driver.define_region(self._regions.pop(memory), base=0, length=0, valid=False))
            self._settle()
            del self._uses[memory]
            memory.before_close.remove(self._release)

    def use(self, memories: Iterable[Memory]) -> None:
        """Keep memory until :meth:`unuse`."""
        with self._lock:
            self._uses.update(memories)

    def unuse(self, memories: Iterable[Memory]) -> None:
        with self._lock:
            self._uses.subtract(memories)
