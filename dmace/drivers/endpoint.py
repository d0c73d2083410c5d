# SPDX-License-Identifier: Apache-2.0
"""Register-level drivers of an endpoint: those of its two engines behind their windows, and its own."""

from collections.abc import Iterable
from contextlib import nullcontext
from typing import Any

from dmace.drivers.ace import AceBus, AceDriver
from dmace.drivers.dma import DmaDriver
from dmace.drivers.rdma import RdmaDriver
from dmace.drivers.registers import Lock
from dmace.drivers.triggers import TriggerDriver
from hw.common.sizes import PAGE_BYTES
from hw.dma_engine.words import NativeWord
from hw.endpoint.config import EndpointConfig
from hw.endpoint.registers import WINDOWS, counters, register_map

__all__ = ["EndpointDriver", "Window"]


class Window:
    """A part of a bus: registers from ``offset`` on, doorbell pages from number ``page`` on."""

    def __init__(self, bus: AceBus, offset: int, page: int = 0) -> None:
        self._bus, self._offset, self._page = bus, offset, page * PAGE_BYTES

    async def write(self, offset: int, value: int) -> None:
        await self._bus.write(self._offset + offset, value)

    async def read(self, offset: int) -> int:
        return await self._bus.read(self._offset + offset)

    async def store(self, address: int, data: bytes, **options: Any) -> None:
        await self._bus.store(self._page + address, data, **options)


class EndpointDriver(TriggerDriver):
    """Drives what is the endpoint's own, trigger counters included.

    Parameters
    ----------
    bus : :class:`dmace.drivers.ace.AceBus`
        The whole endpoint's.
    config : :class:`EndpointConfig`
    lock : callable returning an async context manager, optional

    Attributes
    ----------
    dma : :class:`DmaDriver`
    ace : :class:`AceDriver`
    rdma : :class:`RdmaDriver` or None
        If there is a RoCEv2 unit.
    """

    def __init__(self, bus: AceBus, config: EndpointConfig, *, lock: Lock = nullcontext) -> None:
        super().__init__(Window(bus, WINDOWS["ENDPOINT"]), register_map(config), config.triggers, bus, lock=lock)
        self.config = config
        self.dma = DmaDriver(Window(bus, WINDOWS["DMA"]), config.dma, lock=lock)
        self.ace = AceDriver(Window(bus, WINDOWS["ACE"], config.dma.queues), config.ace, lock=lock)
        self.rdma = RdmaDriver(Window(bus, WINDOWS["RDMA"]), config.rdma, lock=lock) if config.rdma else None

    async def check_identity(self) -> None:
        """Raise RuntimeError unless this is an endpoint of the expected sizes, with such engines."""
        await self._check_identity("SIZES", "TRIGGER_SIZES")
        await self.dma.check_identity()
        await self.ace.check_identity()
        if self.rdma:
            await self.rdma.check_identity()

    async def post(self, queue: int, word: NativeWord, **options: Any) -> None:
        """Store a :class:`NativeWord` to a queue of the DMA engine; options are for the bus."""
        await self._doorbells.store(queue * PAGE_BYTES, word.to_bytes(), **options)

    async def share_memory(self, *, read: dict[str, int] | None = None, write: dict[str, int] | None = None,
                           window: int = 0) -> None:
        """Set weights, manager -> weight (1 where none is given), and the beats that may be in flight of reads."""
        await self.write("READ_WEIGHT", **dict.fromkeys(self.config.readers, 1) | (read or {}))
        await self.write("WRITE_WEIGHT", **dict.fromkeys(self.config.managers, 1) | (write or {}))
        await self.write("READ_WINDOW", beats=window)

    async def define_export(self, number: int, *, base: int, length: int, ports: Iterable[int], valid: bool = True,
                            counts: tuple[int, int, int] | None = None) -> None:
        """Write an entry of the table of exported spans.

        Parameters
        ----------
        base : int
            First byte, a multiple of 4096; or the address of a block's counters, of
            :func:`hw.triggers.config.counter_address`, which neighbours then tick.
        ports : iterable of int
            Ports whose neighbours may write the span.
        counts : (block, first, shift) or None
            The bytes that neighbours put add to counter ``first + (offset >> shift)`` of a block.
        """
        if base % PAGE_BYTES:
            raise ValueError(f"Base of an exported span must be a multiple of {PAGE_BYTES}, not {base:#x}")
        if counts is not None:
            block, first, shift = counts
            self._check_counter(block, first)
        async with self._lock():
            await self._write_pair("EXPORT_BASE", base)
            await self._write_pair("EXPORT_LENGTH", length)
            if counts is not None:
                await self.write("EXPORT_COUNTER", first=first, block=block, shift=shift)
            await self.write("EXPORT_ACCESS", ports=sum(1 << port for port in ports), valid=int(valid),
                             counts=int(counts is not None))
            await self.write("EXPORT_COMMIT", export=number)

    async def counters(self) -> dict[str, int]:
        """All free-running counters, name -> value."""
        return {name.lower(): (await self.read(f"COUNT_{name}"))["value"] for name, _ in counters(self.config)}
