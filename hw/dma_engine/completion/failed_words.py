# SPDX-License-Identifier: Apache-2.0
"""Failed words: each failed write of a word becomes an event of the word's queue.

WordResponses -> FailedWords -> Retire (operations).  Latency: 1 cycle.  Throughput: one word per cycle, until the queue
holds as many as can be in flight.
"""

from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.dma_engine.config import DmaConfig
from hw.dma_engine.layouts import event_layout
from hw.dma_engine.strobes import WrittenSignature
from hw.dma_engine.words import Status
from hw.stream import Queue

__all__ = ["FailedWords"]


class FailedWords(wiring.Component):
    """Queue a COMPLETION_ERROR for each write response with an error.

    Parameters
    ----------
    config : DmaConfig

    Members
    -------
    written : ``In(WrittenSignature)``
    events : ``Out(stream.Signature(event_layout))``
    """

    def __init__(self, config: DmaConfig) -> None:
        self.config = config
        super().__init__({"written": In(WrittenSignature(config)),
                          "events": Out(stream.Signature(event_layout(config)))})

    def elaborate(self, platform):
        m = Module()
        m.submodules.failed = failed = Queue(unsigned(self.config.queue_bits), depth=2 * self.config.queues)
        m.d.comb += [
            failed.i.valid.eq(self.written.valid & self.written.failed), failed.i.payload.eq(self.written.id.queue),
            self.events.valid.eq(failed.o.valid), failed.o.ready.eq(self.events.ready),
            self.events.payload.queue.eq(failed.o.payload), self.events.payload.status.eq(Status.COMPLETION_ERROR),
        ]
        return m
