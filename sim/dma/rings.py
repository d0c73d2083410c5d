# SPDX-License-Identifier: Apache-2.0
"""Software's side of a descriptor ring: what a thread that fills one keeps track of."""

from typing import TYPE_CHECKING, Any

from hw.dma_engine.config import DESCRIPTOR_BYTES
from hw.dma_engine.descriptors import RECORD_BYTES, Descriptor, Record, RingLocation

if TYPE_CHECKING:
    from sim.dma.testbench import DmaTestbench

__all__ = ["DescriptorRing"]


class DescriptorRing:
    """Fills the ring of one queue and reads its records.

    Parameters
    ----------
    bench : :class:`DmaTestbench`
    queue : int
    location : :class:`RingLocation`
        As the queue was configured with.
    """

    def __init__(self, bench: "DmaTestbench", queue: int, location: RingLocation) -> None:
        self.bench, self.queue, self.location = bench, queue, location
        self.restart()

    def restart(self) -> None:
        """After RESET."""
        self.tail = 0
        # For each descriptor, the queue's requests up to its last.
        self._ends: list[int] = []
        self._read = 0

    def free(self, ended: int) -> int:
        """Descriptors that may be written when this number of the queue's requests have ended."""
        busy = sum(1 for end in self._ends[-self.location.entries:] if end > ended)
        return self.location.entries - busy

    def write(self, *descriptors: Descriptor | bytes) -> None:
        """Put descriptors (or 64 bytes each) behind the tail, which is not yet in the doorbell."""
        for descriptor in descriptors:
            data = descriptor if isinstance(descriptor, bytes) else descriptor.to_bytes()
            self.bench.fill(self.location.base + self.tail % self.location.entries * DESCRIPTOR_BYTES, data)
            self.tail += 1

    async def notify(self, **options: Any) -> bool:
        """Store the tail to the doorbell; returns whether it was accepted."""
        accepted: bool = await self.bench.ring(self.queue, self.tail, **options)
        self._ends += [self.bench.model.queues[self.queue].posted] * (self.tail - len(self._ends))
        return accepted

    async def post(self, *descriptors: Descriptor | bytes, **options: Any) -> bool:
        self.write(*descriptors)
        return await self.notify(**options)

    def records(self) -> list[Record]:
        """New records in memory, in order."""
        assert self.location.records is not None
        found: list[Record] = []
        while True:
            address = self.location.records + self._read % self.location.entries * RECORD_BYTES
            record = Record.unpack(int.from_bytes(self.bench.memory.read(address, RECORD_BYTES), "little"))
            if record.phase != (self._read // self.location.entries % 2 == 0):
                return found
            found.append(record)
            self._read += 1
