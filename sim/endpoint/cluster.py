# SPDX-License-Identifier: Apache-2.0
"""A cluster of endpoints: collectives as in :class:`sim.ace.cluster.Cluster`, requests to the DMA engines, Ethernet.

::

    with EndpointCluster(TINY, (4,)) as cluster:
        cluster.do(*(endpoint.dma.define_region(0, ...) for endpoint in cluster.endpoints))
        cluster.start_queue(rank=0, queue=1)
        cluster.post(0, 1, NativeWord.copy(...))
        cluster.wait_requests((0, 1, 1))
"""

import ctypes
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from dmace.drivers.ace import AceBus
from dmace.drivers.dma import DmaDriver
from dmace.drivers.endpoint import EndpointDriver, Window
from hw.common.words import CompletionWord
from hw.dma_engine.words import Command, NativeWord
from hw.endpoint.config import EndpointConfig
from hw.endpoint.registers import WINDOWS
from sim.ace.cluster import Cluster
from sim.ace.endpoints import Reason
from sim.ace.shared_library import ClusterFailed, Library, build_library
from sim.rdma.network import Line, Network, Switch, load, network_arguments
from sim.verilator.design import Design

__all__ = ["EndpointCluster", "library"]

_WORDS, _PITCH = 0x2_0000, 64
_FAILED = 0xFF << 56
_FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "cluster_connect": (ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p),
    "cluster_network": (ctypes.c_void_p, ctypes.c_void_p),
}


@cache
def library(config: EndpointConfig, *, checked: bool = False,
            status: Callable[[str, int, int], None] | None = None) -> Library:
    """Shared library of a cluster of endpoints with these sizes, created once per process."""
    from hw.endpoint.engine import Endpoint

    return build_library(config.ace, component=Design(Endpoint, config), checked=checked, status=status)


class EndpointCluster(Cluster):
    """A torus of endpoints, configured and ready for collectives and requests.

    Parameters
    ----------
    config : EndpointConfig
    shape : tuple of int
    lines : sequence of :class:`Line`, optional
        Segments of an Ethernet, to whose first ports the endpoints are connected; software stations may use the others.
        Endpoints have RoCEv2 units.
    switch : :class:`Switch`, optional
        Of the Ethernet.
    **options
        Options of :class:`sim.ace.cluster.Cluster`.

    Attributes
    ----------
    endpoints : list of :class:`EndpointDriver`
        By rank.
    network : :class:`Network`
        The Ethernet.
    """

    network: Network

    def __init__(self, config: EndpointConfig, shape: Sequence[int], *, lines: Sequence[Line] | None = None,
                 switch: Switch | None = None, **options: Any) -> None:
        self.whole = config
        if lines is not None:
            options["threads"] = 1
        options.setdefault("library", library(config, status=options.get("status")))
        super().__init__(config.ace, shape, **options)
        if lines is not None:
            self._connect(lines, switch or Switch(), options.get("seed", 1))
        self.endpoints = [EndpointDriver(self.whole_bus(rank), config) for rank in range(self.size)]
        for endpoint, driver in zip(self.endpoints, self.drivers, strict=True):
            # The cluster's driver keeps track of the program words in use.
            endpoint.ace = driver
        self.do(*(endpoint.check_identity() for endpoint in self.endpoints))
        for rank in range(self.size):
            self.write_memory(rank, _WORDS, bytes(_PITCH * config.dma.queues))

    def _connect(self, lines: Sequence[Line], switch: Switch, seed: int) -> None:
        if not self.whole.rdma:
            raise ClusterFailed("Endpoints without a RoCEv2 unit cannot be connected to an Ethernet.")
        functions = load(self._library.program.path, _FUNCTIONS)
        functions["cluster_connect"](self._handle, *network_arguments(lines, switch, seed))
        self.network = Network(functions, functions["cluster_network"](self._handle), lambda: self.cycle)

    def whole_bus(self, rank: int) -> AceBus:
        return super().bus(rank)

    def bus(self, rank: int) -> AceBus:
        """The accelerator's window of an endpoint's bus."""
        return Window(super().bus(rank), WINDOWS["ACE"], self.whole.dma.queues)

    # Requests

    @staticmethod
    def word_address(queue: int) -> int:
        """Address of a queue's SC word."""
        return _WORDS + _PITCH * queue

    def start_queue(self, rank: int, queue: int, *, rc: int | None = None, **options: Any) -> None:
        """Configure a queue of a DMA engine, with an SC word, and start it; options of
        :meth:`DmaDriver.configure_queue`."""
        async def start(driver: DmaDriver) -> None:
            await driver.configure_queue(queue, sc=self.word_address(queue), rc=rc, **options)
            await driver.command(queue, Command.START)

        self.do(start(self.endpoints[rank].dma))

    def post(self, rank: int, queue: int, *words: NativeWord, delay: int = 0) -> None:
        """Store requests to a queue's doorbell in order, ``delay`` cycles from now at the earliest."""
        async def store() -> None:
            for word in words:
                await self.endpoints[rank].post(queue, word, delay=delay)

        self.do(store())

    def request_word(self, rank: int, queue: int) -> CompletionWord:
        """The queue's SC word in memory."""
        word = self.read_memory(rank, self.word_address(queue), 8)
        return CompletionWord.unpack(int.from_bytes(word.tobytes(), "little"))

    def wait_requests(self, *ends: tuple[int, int, int], limit: int = 200_000) -> list[int]:
        """Wait until each queue of ``ends``, tuples ``(rank, queue, count)``, has completed ``count`` requests or
        reported a failure.

        Returns the cycle of each in which its SC word showed this.
        """
        self.clear_watches()
        numbers = [self.watch(rank, self.word_address(queue), count, failed=_FAILED) for rank, queue, count in ends]
        if self.run(limit) != Reason.DONE:
            raise ClusterFailed(f"Requests did not complete within {limit:,} cycles.")
        return [self.met(rank, number) for (rank, _, _), number in zip(ends, numbers, strict=True)]
