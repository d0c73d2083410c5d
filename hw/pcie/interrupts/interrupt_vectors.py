# SPDX-License-Identifier: Apache-2.0
"""Interrupts of an endpoint as requests of MSI-X vectors: one vector for its level, the others for groups of queues.

Endpoint -> InterruptVectors -> Msix.  Latency: 1 cycle from the level, 2 from a queue.  Throughput: two queues per
cycle.
"""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.common.interrupts import QueueInterruptsSignature

from ..config import PcieConfig

__all__ = ["InterruptVectors", "vector_of"]


def vector_of(queue: int, vectors: int) -> int:
    """The vector of a queue's completions: its own where there are more vectors than queues."""
    return 1 + queue % (vectors - 1)


class InterruptVectors(wiring.Component):
    """Request vector 0 whenever the level rises, and a queue's vector for each of its strobes.

    Software must clear all sources of the level, and read them again until none is set: only then it falls, and its
    next rise requests the vector again. Requests of a pending vector coalesce in :class:`Msix`.

    Parameters
    ----------
    config : PcieConfig

    Members
    -------
    irq : ``In(1)``
    queues : ``In(QueueInterruptsSignature)``
    requests : ``Out(config.vectors)``
        Registered.
    """

    def __init__(self, config: PcieConfig) -> None:
        self.config = config
        super().__init__({"irq": In(1), "queues": In(QueueInterruptsSignature(config.queue_bits)),
                          "requests": Out(config.vectors)})

    def elaborate(self, platform):
        m = Module()
        config, before, requests = self.config, Signal(), Signal(self.config.vectors)
        m.d.sync += [before.eq(self.irq), self.requests.eq(requests)]
        m.d.comb += requests[0].eq(self.irq & ~before)
        numbers = Array(vector_of(queue, config.vectors) for queue in range(config.queues))
        strobes = []
        for name in ("written", "completed"):
            strobe = getattr(self.queues, name)
            valid, vector = Signal(name=f"{name}_valid"), Signal(range(config.vectors), name=f"{name}_vector")
            m.d.sync += [valid.eq(strobe.valid), vector.eq(numbers[strobe.queue])]
            strobes.append((valid, vector))
        for number in range(1, config.vectors):
            m.d.comb += requests[number].eq(Cat(valid & (vector == number) for valid, vector in strobes).any())
        return m
