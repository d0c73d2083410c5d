# SPDX-License-Identifier: Apache-2.0
"""Simulated endpoints as machines: the RTL moves the data, and time is in clock cycles.

::

    with EndpointCluster(TINY, (2,)) as cluster:
        machines = SimulatedMachines(cluster, connect_puts).machines
        devices = open_devices(machines)
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from dmace.runtime.errors import DmaceError, RequestTimeout
from hw.common.sizes import PAGE_BYTES
from hw.common.words import CompletionWord
from hw.dma_engine.words import NativeWord
from sim.endpoint.cluster import EndpointCluster

__all__ = ["POOL_ADDRESS", "Connect", "SimulatedMachine", "SimulatedMachines"]

POOL_ADDRESS = 0x1000_0000
"""Address of each pool in its endpoint's memory."""

Connect = Callable[[EndpointCluster, int], list[tuple[int, ...]]]
"""Defines, for pools of a length, the regions of all peers in each endpoint's DMA engine: region 1 + n for
``peers[n]``. Returns the peers of each rank."""


class SimulatedMachine:
    """An endpoint of a cluster; see :class:`dmace.remote.machine.Machine`. Its memory is that of the simulator, so this
    process reads and writes copies."""

    memory = None

    def __init__(self, cluster: EndpointCluster, rank: int, peers: tuple[int, ...], pool_bytes: int, period: int,
                 limit: int) -> None:
        self._cluster, self.number, self.peers, self.pool_bytes = cluster, rank, peers, pool_bytes
        self.queues, self.queue_depth = cluster.whole.dma.queues, cluster.whole.dma.queue_depth
        self._period, self._limit = period, limit

    @property
    def cycle(self) -> int:
        return self._cluster.cycle

    def read_memory(self, offset: int, count: int) -> npt.NDArray[np.uint8]:
        self._check(offset, count)
        return self._cluster.read_memory(self.number, POOL_ADDRESS + offset, count)

    def write_memory(self, offset: int, data: bytes | npt.NDArray[Any]) -> None:
        self._check(offset, len(data) if isinstance(data, bytes) else data.nbytes)
        self._cluster.write_memory(self.number, POOL_ADDRESS + offset, data)

    def _check(self, offset: int, count: int) -> None:
        if offset < 0 or offset + count > self.pool_bytes:
            raise DmaceError(f"The bytes {offset} to {offset + count} are not within the pool of {self.pool_bytes:,}.")

    def post(self, queue: int, *words: NativeWord) -> None:
        self._cluster.post(self.number, queue, *words)

    def completed(self, queue: int) -> CompletionWord:
        return self._cluster.request_word(self.number, queue)

    def run(self, condition: Callable[[], bool]) -> None:
        end = self.cycle + self._limit
        while not condition():
            if self.cycle >= end:
                raise RequestTimeout(f"The result of a wait has not arrived within {self._limit:,} cycles.")
            self._cluster.run(self._period)


class SimulatedMachines:
    """All endpoints of a cluster as machines.

    Parameters
    ----------
    cluster : EndpointCluster
    connect : callable
        :func:`sim.remote.puts.connect_puts` or :func:`sim.remote.rdma.connect_rdma`.
    pool_bytes : int
        Registered memory of each, a multiple of 4096.
    period : int
        Cycles between two polls of a condition: the precision of measured times.
    limit : int
        Cycles of a wait until it times out.
    """

    def __init__(self, cluster: EndpointCluster, connect: Connect, *, pool_bytes: int = 1 << 20, period: int = 16,
                 limit: int = 2_000_000) -> None:
        if pool_bytes <= 0 or pool_bytes % PAGE_BYTES:
            raise DmaceError(f"Registered memory must have a multiple of {PAGE_BYTES} bytes, not {pool_bytes}.")
        cluster.clear_watches()
        for rank, endpoint in enumerate(cluster.endpoints):
            # Memory of a simulated endpoint exists once it has been written.
            cluster.write_memory(rank, POOL_ADDRESS, np.zeros(pool_bytes, np.uint8))
            cluster.do(endpoint.dma.define_region(0, base=POOL_ADDRESS, length=pool_bytes))
        peers = connect(cluster, pool_bytes)
        self.machines = [SimulatedMachine(cluster, rank, peers[rank], pool_bytes, period, limit)
                         for rank in range(cluster.size)]
        for machine in self.machines:
            for queue in range(machine.queues):
                cluster.start_queue(machine.number, queue)
