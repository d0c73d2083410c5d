# SPDX-License-Identifier: Apache-2.0
"""A conventional endpoint: partial sums are in memory, which cores read and write."""

from .chunk import Chunk
from .endpoint import Decision, Endpoint, OfEndpoints
from .grains import Grain, Leg
from .memory import Reads

__all__ = ["Conventional"]


class Conventional(Endpoint):
    """Reads each grain before it is sent, in a reduce-scatter with the partial sum, and writes each that has arrived.

    Any number of chunks is on the links; nothing but memory, bus and cores takes time.
    """

    def __init__(self, machine: OfEndpoints, rank: int) -> None:
        super().__init__(machine, rank)
        self._reads = Reads(self.kernel, self.memory, key=self.key(Decision.READ))
        self._arrived: list[tuple[int, int, int, int]] = []

    def ways(self) -> list[float | None]:
        npu = self.config.npu
        return [npu.bus_bytes_per_s, self.kind.sms * npu.sm_bytes * npu.clock_hz]

    def offer(self, chunk: Chunk, leg: Leg, grain: Grain) -> None:
        self._reads.request(chunk.key, grain.size * (2 if grain.reduce else 1), self.ports[leg.port].offer, chunk)

    def comes(self, number: int, index: int, leg: int, grain: Grain, port: int) -> None:
        self._arrived.append((number, index, leg, grain.arriving))
        self.kernel.decide(self.key(Decision.RECEIVE), self._receive)

    def _receive(self) -> None:
        """Write the grains that have arrived at this time, the oldest first."""
        self._arrived.sort()
        for number, index, leg, size in self._arrived:
            self.kernel.at(self.memory.write(size), self.landed, number, index, leg)
        self._arrived.clear()
