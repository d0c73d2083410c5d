# SPDX-License-Identifier: Apache-2.0
"""The card in its system, with drivers of its registers and GPUs that post requests: for tests in cocotb."""

from typing import Any

from dmace.drivers.dma import DmaDriver
from dmace.drivers.registers import RegisterDriver
from hw.common.sizes import PAGE_BYTES
from hw.common.words import CompletionWord
from hw.dma_engine.config import DmaConfig
from hw.dma_engine.words import NativeWord
from hw.pcie.config import PcieConfig
from hw.pcie.registers import MSIX_PENDING, MSIX_TABLE, WINDOWS, register_map
from sim.pcie.gpu import Gpu
from sim.pcie.monitor import Monitor
from sim.pcie.system import PcieSystem, SystemSettings

__all__ = ["CardSystem", "Window"]


class Window:
    """Registers behind BAR 0, as the CPU accesses them.

    Parameters
    ----------
    system : :class:`PcieSystem`
        Where the card is.
    base : int
        Offset in BAR 0.
    """

    def __init__(self, system: PcieSystem, base: int) -> None:
        self._system, self._base = system, base

    async def read(self, offset: int) -> int:
        data = await self._system.root.mem_read(self._system.bar0 + self._base + offset, 4)
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
    """

    def __init__(self, dut: Any, engine: DmaConfig, adapter: PcieConfig, **settings: Any) -> None:
        super().__init__(dut, SystemSettings(
            bar2_bytes=1 << adapter.doorbell_addr_width, vectors=adapter.vectors, table_offset=MSIX_TABLE,
            pba_offset=MSIX_PENDING, **settings))
        self.dma = DmaDriver(Window(self, WINDOWS["ENDPOINT"]), engine)
        self.adapter_config = adapter
        self.adapter = RegisterDriver(Window(self, WINDOWS["PCIE"]), register_map(adapter))
        self.monitor = Monitor(self.card)

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
