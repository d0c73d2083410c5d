# SPDX-License-Identifier: Apache-2.0
"""Inspection: the window of one queue, read by software and by the scanner.

FrontPanel, QueueControl -> QueueInspector -> Scheduler, Retire (lookups) -> FrontPanel, QueueControl, Epochs.
Latency: none.  Throughput: one queue per cycle; the scanner has priority.
"""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.common.layouts import CompletionLayout
from hw.dma_engine.completion.retire import RetirementLookupSignature
from hw.dma_engine.config import DmaConfig
from hw.dma_engine.frontend.scheduler import TailLookupSignature
from hw.dma_engine.rings.lifecycle import RingStatusSignature

from .control import ScanSignature
from .epochs import AbandonSignature, WindowSignature

__all__ = ["InspectSignature", "QueueInspector"]


class InspectSignature(wiring.Signature):
    """Software inspects a queue.

    Members
    -------
    queue : ``Out``
    valid : ``In(1)``
        The other members belong to that queue in this cycle: the scanner does not use the look-ups.
    in_flight : ``In``, word : ``In(CompletionLayout)``
        Segments in flight, and the counters.
    """

    def __init__(self, config: DmaConfig) -> None:
        super().__init__({"queue": Out(config.queue_bits), "valid": In(1), "in_flight": In(config.flight_width),
                          "word": In(CompletionLayout)})


class QueueInspector(wiring.Component):
    """Share the lookups of a queue's tail, head and counters.

    Parameters
    ----------
    config : DmaConfig

    Members
    -------
    software : ``In(InspectSignature)``, scan : ``In(ScanSignature)``
    tail : ``Out(TailLookupSignature)``, retirement : ``Out(RetirementLookupSignature)``
    rings : ``In(RingStatusSignature)``, abandon : ``In(AbandonSignature)``
    window : ``Out(WindowSignature)``
        The scanner's view, for epochs.
    """

    def __init__(self, config: DmaConfig) -> None:
        self.config = config
        super().__init__({
            "software": In(InspectSignature(config)), "scan": In(ScanSignature(config)),
            "tail": Out(TailLookupSignature(config)), "retirement": Out(RetirementLookupSignature(config)),
            "rings": In(RingStatusSignature(config)), "abandon": In(AbandonSignature(config)),
            "window": Out(WindowSignature(config)),
        })

    def elaborate(self, platform):
        m = Module()
        tail, head = self.tail.tail, self.retirement.head
        queue = Mux(self.scan.valid, self.scan.queue, self.software.queue)
        fetching = Cat(self.rings.fetching, C(0, self.config.queues))
        m.d.comb += [
            self.tail.queue.eq(queue), self.retirement.queue.eq(queue),
            self.software.valid.eq(~self.scan.valid),
            self.software.in_flight.eq(tail - head), self.software.word.eq(self.retirement.word),
            self.scan.in_flight.eq((tail != head) | fetching.bit_select(queue, 1)
                                   | (self.abandon.busy & (self.abandon.queue == queue))),
            self.window.valid.eq(self.scan.valid), self.window.queue.eq(self.scan.queue),
            self.window.head.eq(head), self.window.tail.eq(tail),
        ]
        return m
