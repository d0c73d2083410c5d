"""A cluster of endpoints: collectives as in :class:`sim.ace.cluster.Cluster`, and requests to the DMA engines.

::

    with EndpointCluster(TINY, (4,)) as cluster:
        cluster.do(*(endpoint.dma.define_region(0, ...) for endpoint in cluster.endpoints))
        cluster.start_queue(rank=0, queue=1)
        cluster.post(0, 1, NativeWord.copy(...))
        cluster.wait_requests((0, 1, 1))
"""

from functools import cache

from dmace.drivers.endpoint import EndpointDriver, Window
from hw.common.words import CompletionWord
from hw.dma_engine.words import Command
from hw.endpoint.registers import WINDOWS
from sim.ace.cluster import Cluster
from sim.ace.endpoints import Reason
from sim.ace.shared_library import ClusterFailed, build_library
from sim.verilator.design import Design

__all__ = ["EndpointCluster", "library"]

_WORDS, _PITCH = 0x2_0000, 64
_FAILED = 0xFF << 56


@cache
def library(config, *, checked=False, status=None):
    """A cluster's library of endpoints of these sizes, described once per process."""
    from hw.endpoint.engine import Endpoint

    return build_library(config.ace, component=Design(Endpoint, config), checked=checked, status=status)


class EndpointCluster(Cluster):
    """Endpoints that are set up to work together.

    Parameters
    ----------
    config : EndpointConfig
    shape : tuple of int
    **options
        Of :class:`sim.ace.cluster.Cluster`.

    Attributes
    ----------
    endpoints : list of :class:`EndpointDriver`
        By rank.
    """

    def __init__(self, config, shape, **options):
        self.whole = config
        options.setdefault("library", library(config, status=options.get("status")))
        super().__init__(config.ace, shape, **options)
        self.endpoints = [EndpointDriver(self.whole_bus(rank), config) for rank in range(self.size)]
        for endpoint, driver in zip(self.endpoints, self.drivers, strict=True):
            # It knows which words of programs are taken.
            endpoint.ace = driver
        self.do(*(endpoint.check_identity() for endpoint in self.endpoints))
        for rank in range(self.size):
            self.write_memory(rank, _WORDS, bytes(_PITCH * config.dma.queues))

    def whole_bus(self, rank):
        return super().bus(rank)

    def bus(self, rank):
        """The accelerator's part of an endpoint's bus."""
        return Window(super().bus(rank), WINDOWS["ACE"], self.whole.dma.queues)

    # Requests

    @staticmethod
    def word_address(queue):
        """Where a queue's SC word is."""
        return _WORDS + _PITCH * queue

    def start_queue(self, rank, queue, *, rc=None, **options):
        """Configure a queue of a DMA engine, with an SC word, and start it; options of
        :meth:`DmaDriver.configure_queue`."""
        async def start(driver):
            await driver.configure_queue(queue, sc=self.word_address(queue), rc=rc, **options)
            await driver.command(queue, Command.START)

        self.do(start(self.endpoints[rank].dma))

    def post(self, rank, queue, *words, delay=0):
        """Store requests to a queue's doorbell, one after the other, ``delay`` cycles from now at the earliest."""
        async def store():
            for word in words:
                await self.endpoints[rank].post(queue, word, delay=delay)

        self.do(store())

    def request_word(self, rank, queue):
        """The queue's SC word in memory."""
        return CompletionWord.unpack(int.from_bytes(self.read_memory(rank, self.word_address(queue), 8), "little"))

    def wait_requests(self, *ends, limit=200_000):
        """Wait until queues have counted so many requests, or one has failed: ``(rank, queue, count)`` each.

        Returns the cycles in which that could be seen.
        """
        self.forget_watches()
        numbers = [self.watch(rank, self.word_address(queue), count, failed=_FAILED) for rank, queue, count in ends]
        if self.run(limit) != Reason.DONE:
            raise ClusterFailed(f"Requests had not ended after {limit:,} cycles.")
        return [self.watch_met(rank, number) for (rank, _, _), number in zip(ends, numbers, strict=True)]
