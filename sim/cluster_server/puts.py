# SPDX-License-Identifier: Apache-2.0
"""Transfers between any two ranks of a torus of endpoints: puts of the DMA engines, from neighbour to neighbour.

A put reaches a neighbour. Towards other ranks, the ranks between them store each part in a relay buffer and put it on,
in order of dimensions and by the shorter direction in each.
"""

from collections.abc import Callable, Sequence

from dmace.drivers.endpoint import EndpointDriver
from hw.dma_engine.words import NativeWord, RequestFlag, Status
from hw.endpoint.config import remote_address
from sim.ace.endpoints import Reason
from sim.ace.shared_library import ClusterFailed
from sim.endpoint.cluster import EndpointCluster

__all__ = ["RELAY_BYTES", "Puts", "route"]

RELAY_BYTES = 1 << 16
"""Size of a rank's relay buffer, and of the longest part of a relayed transfer."""

MOST_BYTES = 1 << 27
"""Longest request: a native word's length has 28 bits."""

_MEMORY, _RELAY, _RELAY_BASE, _QUEUE, _FAILED = 0, 1, 4 << 32, 0, 0xFF << 56


def route(shape: Sequence[int], source: int, target: int) -> list[int]:
    """Ports by which a transfer leaves each rank from ``source`` on; empty if it is ``target``.

    Port ``2 * d`` leads to the next rank of dimension d, ``2 * d + 1`` to the previous one.
    """
    ports, stride = [], 1
    for dimension in reversed(range(len(shape))):
        size = shape[dimension]
        forwards = (target // stride - source // stride) % size
        back = 2 * forwards > size
        ports += [2 * dimension + back] * (size - forwards if back else forwards)
        stride *= size
    return ports


class Puts:
    """The DMA engines of a cluster, ready for transfers; one at a time.

    Parameters
    ----------
    cluster : :class:`EndpointCluster`
    base : int
        Address of each rank's memory.
    length : int
        Bytes of it.
    """

    def __init__(self, cluster: EndpointCluster, base: int, length: int) -> None:
        self._cluster, self._counts = cluster, [0] * cluster.size
        for rank in range(cluster.size):
            cluster.write_memory(rank, _RELAY_BASE, bytes(RELAY_BYTES))
            cluster.start_queue(rank, _QUEUE)
        spans = {_MEMORY: (base, length), _RELAY: (_RELAY_BASE, RELAY_BYTES)}
        cluster.do(*(self._define(endpoint, spans) for endpoint in cluster.endpoints))

    async def _define(self, endpoint: EndpointDriver, spans: dict[int, tuple[int, int]]) -> None:
        """Regions of this memory, and of each neighbour's; spans that neighbours may write."""
        ports = range(2 * len(self._cluster.shape))
        for span, (base, length) in spans.items():
            await endpoint.dma.define_region(span, base=base, length=length)
            await endpoint.define_export(span, base=base, length=length, ports=ports)
            for port in ports:
                await endpoint.dma.define_region(_remote(port, span), base=remote_address(port, span), length=length,
                                                 readable=False)

    def transfer(self, source: tuple[int, int], target: tuple[int, int], length: int,
                 progress: Callable[[int], object]) -> None:
        """Copy ``length`` bytes between ``(rank, offset)`` pairs; simulate until all are in the target's memory.

        Raises
        ------
        ClusterFailed
            If a put has failed; the cluster cannot be used any more.
        """
        ports = route(self._cluster.shape, source[0], target[0])
        most = MOST_BYTES if len(ports) <= 1 else RELAY_BYTES
        for done in range(0, length, most):
            rank, place = source[0], (_MEMORY, source[1] + done)
            part = min(most, length - done)
            for hop, port in enumerate(ports):
                last = hop == len(ports) - 1
                there = (_MEMORY, target[1] + done) if last else (_RELAY, 0)
                self._copy(rank, place, (_remote(port, there[0]), there[1]), part, progress)
                rank, place = self._cluster.neighbour(rank, port), there
            if not ports:
                self._copy(rank, place, (_MEMORY, target[1] + done), part, progress)

    def _copy(self, rank: int, source: tuple[int, int], target: tuple[int, int], length: int,
              progress: Callable[[int], object]) -> None:
        cluster = self._cluster
        self._counts[rank] += 1
        cluster.post(rank, _QUEUE, NativeWord.copy(src=source, dst=target, length=length, flags=RequestFlag.SC))
        cluster.clear_watches()
        cluster.watch(rank, cluster.word_address(_QUEUE), self._counts[rank] % (1 << 32), failed=_FAILED)
        reason = cluster.run(length * 1000 + 10_000_000, progress=progress)
        if status := cluster.request_word(rank, _QUEUE).status:
            raise ClusterFailed(f"A transfer of {length} bytes has failed at rank {rank}: {Status(status).name}.")
        if reason != Reason.DONE:
            raise ClusterFailed(f"A transfer of {length} bytes from rank {rank} has not ended.")


def _remote(port: int, span: int) -> int:
    """Number of the region of a neighbour's span."""
    return 2 + 2 * port + span
