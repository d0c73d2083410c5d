# SPDX-License-Identifier: Apache-2.0
"""The card in its system, with drivers of its registers and GPUs that post requests: for tests in cocotb."""

import random
from typing import Any

from dmace.drivers.dma import DmaDriver
from dmace.drivers.registers import RegisterDriver
from hw.common.sizes import PAGE_BYTES
from hw.common.words import CompletionWord
from hw.dma_engine.config import DmaConfig
from hw.dma_engine.words import NativeWord
from hw.pcie.config import PcieConfig
from hw.pcie.registers import MSIX_PENDING, MSIX_TABLE, WINDOWS, register_map
from sim.pcie.engine_clock import EngineClock
from sim.pcie.gpu import Gpu
from sim.pcie.monitor import Monitor
from sim.pcie.system import PcieSystem, SystemSettings

__all__ = ["CardSystem", "RequestRefused", "Window"]


class RequestRefused(Exception):
    """A read has completed with the status unsupported request or completer abort."""


class Window:
    """Registers behind BAR 0, as the CPU accesses them.

    Parameters
    ----------
    system : :class:`PcieSystem`
        Where the card is.
    base : int
        Offset in BAR 0.

    Raises
    ------
    RequestRefused
        By :meth:`read`.
    """

    def __init__(self, system: PcieSystem, base: int) -> None:
        self._system, self._base = system, base

    async def read(self, offset: int) -> int:
        try:
            data = await self._system.root.mem_read(self._system.bar0 + self._base + offset, 4)
        except Exception as error:
            # The library raises nothing more specific.
            if str(error) != "Unsuccessful completion":
                raise
            raise RequestRefused(f"The read of the register at {self._base + offset:#x} was refused.") from error
        return int.from_bytes(data, "little")

    async def write(self, offset: int, value: int) -> None:
        await self._system.root.mem_write(self._system.bar0 + self._base + offset, value.to_bytes(4, "little"))


class CardSystem(PcieSystem):
    """Root complex, switch, GPUs and a card with an endpoint.

    Parameters
    ----------
    dut : handle
        A :class:`hw.card.card.Card`, or a :class:`sim.pcie.dma_card.DmaCard`.
    engine : :class:`DmaConfig`
        Sizes of the DMA engine.
    adapter : :class:`PcieConfig`
        Sizes of the adapter.
    engine_mhz : int or None
        Frequency of the engine's clock, if it has one of its own; else None.
    settings
        Fields of :class:`SystemSettings`, but for those that the card determines.

    Attributes
    ----------
    dma : :class:`DmaDriver`
        Driver of the DMA engine.
    adapter : :class:`RegisterDriver`
        Registers of the PCIe adapter.
    adapter_config : :class:`PcieConfig`
        Its sizes.
    monitor : :class:`Monitor`
        Of all packets on the card's pins.
    engine_clock : :class:`EngineClock` or None
        The engine's own clock.

    Raises
    ------
    ValueError
        If ``engine_mhz`` is given for a card with one clock, or is missing for one with two.
    """

    def __init__(self, dut: Any, engine: DmaConfig, adapter: PcieConfig, *, engine_mhz: int | None = None,
                 **settings: Any) -> None:
        if adapter.two_clocks == (engine_mhz is None):
            raise ValueError(f"engine_mhz must be {'a frequency' if adapter.two_clocks else 'None'} for a card with "
                             f"{'two clocks' if adapter.two_clocks else 'one clock'}, not {engine_mhz!r}")
        super().__init__(dut, SystemSettings(
            bar2_bytes=1 << adapter.doorbell_addr_width, vectors=adapter.vectors, table_offset=MSIX_TABLE,
            pba_offset=MSIX_PENDING, **settings))
        self.dma = DmaDriver(Window(self, WINDOWS["ENDPOINT"]), engine)
        self.adapter_config = adapter
        self.adapter = RegisterDriver(Window(self, WINDOWS["PCIE"]), register_map(adapter))
        self.monitor = Monitor(self.card)
        self.engine_clock: EngineClock | None = None
        if engine_mhz is not None:
            self.engine_clock = EngineClock(dut, engine_mhz, random.Random(f"engine clock {self.settings.seed}"))

    def doorbell(self, queue: int) -> int:
        """Address of a queue's page."""
        return self.bar2 + queue * PAGE_BYTES

    async def post(self, gpu: Gpu, queue: int, *words: NativeWord, merged: int = 1) -> None:
        """A GPU's threads post requests to a queue."""
        await gpu.ring(self.doorbell(queue), [word.pack().to_bytes(16, "little") for word in words], merged=merged)

    async def wait(self, gpu: Gpu, address: int, count: int) -> CompletionWord:
        """Poll a completion word in a GPU's memory, at an offset, until it counts this number of requests."""
        data = await gpu.completer.poll(
            address, 8, lambda data: CompletionWord.unpack(int.from_bytes(data, "little")).count >= count)
        return CompletionWord.unpack(int.from_bytes(data, "little"))
