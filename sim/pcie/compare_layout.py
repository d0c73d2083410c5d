# SPDX-License-Identifier: Apache-2.0
"""Memory and requests for ``dmace compare pcie``: those of ``dmace compare dma``, in two GPUs and the host."""

from typing import TYPE_CHECKING, Any, cast

from hw.common.sizes import PAGE_BYTES
from hw.dma_engine.words import Status
from sim.dma.compare_requests import MEMORY, Item, RequestMaker

if TYPE_CHECKING:
    from sim.dma.testbench import DmaTestbench
    from sim.pcie.card import CardSystem
    from sim.pcie.completer import Completer

__all__ = ["Memories", "PcieRequestMaker"]

ARRAY_BYTES = 3 * PAGE_BYTES
"""Bytes in which an array of ARK is placed."""


class Memories:
    """The memories of all GPUs and of the host, by bus address, through the backdoor.

    Parameters
    ----------
    system : :class:`CardSystem`
        Started.
    """

    withheld: tuple[int, ...] = ()
    """Pages that do not respond; there are none."""

    def __init__(self, system: "CardSystem") -> None:
        settings = system.settings
        self.parts: list[tuple[int, int, Completer]] = [
            *((gpu.base, settings.gpu_bytes, gpu.completer) for gpu in system.gpus),
            (0, settings.host_bytes, system.host)]

    def find(self, address: int) -> int:
        """Number of the memory with an address."""
        return next(number for number, (base, size, _) in enumerate(self.parts) if base <= address < base + size)

    def place(self, address: int) -> "tuple[Completer, int]":
        """The memory with an address, and the offset there."""
        base, _, completer = self.parts[self.find(address)]
        return completer, address - base

    def read(self, address: int, length: int) -> bytes:
        completer, offset = self.place(address)
        return bytes(completer.memory.read(offset, length))

    def write(self, address: int, data: bytes) -> None:
        completer, offset = self.place(address)
        completer.memory.write(offset, data)

    @property
    def store(self) -> "Memories":
        return self

    @property
    def segs(self) -> dict[int, Any]:
        """Address of each page that was ever written."""
        return {base + page: None for base, _, completer in self.parts for page in completer.memory.segs}

    @property
    def writes(self) -> int:
        """Write requests that have arrived."""
        return sum(completer.writes for _, _, completer in self.parts)

    def idle(self) -> bool:
        return all(completer.idle() for _, _, completer in self.parts)


class PcieRequestMaker(RequestMaker):
    """Requests whose memory is anywhere in the three memories.

    Parameters
    ----------
    bench : :class:`.compare_bench.PcieTestbench`
        Started.
    """

    def __init__(self, bench: "DmaTestbench") -> None:
        super().__init__(bench)
        self._parts = cast(Memories, bench.memory).parts
        # Flags of one queue have an order only in one memory.
        self._array_part = self.rng.choice(self._parts)
        self._failing: list[Status] = []

    async def lay_out(self) -> None:
        await super().lay_out()
        faulty = {*self.model.faults["read"].values(), *self.model.faults["write"].values()}
        self._failing = [status for status in MEMORY if status in faulty]
        self.wanted = [status for status in self.wanted if status not in MEMORY or status in faulty]

    def items(self, queue: int) -> list[Item]:
        """As for the engine alone, with more faults of memory."""
        if self._failing and not self.wanted and self.rng.random() < 0.1:
            item = self.bad(queue, self.rng.choice(self._failing))
            if item is not None:
                return [item]
        return super().items(queue)

    def page(self, length: int, multiple: int = PAGE_BYTES) -> int:
        while True:
            first, size, _ = self._array_part if length == ARRAY_BYTES else self.rng.choice(self._parts)
            base = first + self.rng.randrange(size) & -multiple
            if base < first + PAGE_BYTES or base + length + PAGE_BYTES > first + size:
                continue
            if all(base + length + PAGE_BYTES <= begin or end + PAGE_BYTES <= base for begin, end in self._taken):
                self._taken.append((base, base + length + PAGE_BYTES))
                return base
