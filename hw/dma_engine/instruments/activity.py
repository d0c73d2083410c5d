# SPDX-License-Identifier: Apache-2.0
"""Activity: increments of the global counters in this cycle.

All stages -> Activity -> FrontPanel.  Latency: none.
"""

from amaranth import *
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from hw.dma_engine.config import DmaConfig
from hw.dma_engine.mover.axi_port import BusActivitySignature
from hw.dma_engine.registers import COUNTERS
from hw.dma_engine.strobes import LaunchSignature, OutcomeSignature, QueueStrobeSignature, WrittenSignature

__all__ = ["Activity", "Counts"]

Counts = data.StructLayout({name.lower(): 1 for name, _ in COUNTERS} | {"unexpected": 2})
"""Increment of each counter."""


class Activity(wiring.Component):
    """Collect the strobes of the stages.

    Parameters
    ----------
    config : DmaConfig

    Members
    -------
    posted : ``In(QueueStrobeSignature)``, word_refused, tail_refused : ``In(1)``
        Words and doorbells of rings.
    launch, outcome, written, bus : ``In``
    unexpected_beat, unexpected_descriptor, unexpected_response, unexpected_word : ``In(1)``
        Unexpected responses of memory. At most one of the first two, and at most one of the last two, is high.
    counts : ``Out(Counts)``
    """

    def __init__(self, config: DmaConfig) -> None:
        super().__init__({
            "posted": In(QueueStrobeSignature(config)), "word_refused": In(1), "tail_refused": In(1),
            "launch": In(LaunchSignature(config)), "outcome": In(OutcomeSignature(config)),
            "written": In(WrittenSignature(config)), "bus": In(BusActivitySignature()),
            "unexpected_beat": In(1), "unexpected_descriptor": In(1),
            "unexpected_response": In(1), "unexpected_word": In(1),
            "counts": Out(Counts),
        })

    def elaborate(self, platform):
        m = Module()
        counts = self.counts
        m.d.comb += [
            counts.words.eq(self.posted.valid),
            counts.refused.eq(self.word_refused | self.tail_refused),
            counts.requests.eq(self.outcome.ended), counts.failed.eq(self.outcome.failed),
            counts.segments.eq(self.launch.read),
            counts.read_beats.eq(self.bus.read_beat), counts.write_beats.eq(self.bus.write_beat),
            counts.completion_writes.eq(self.written.valid & ~self.unexpected_word),
            counts.unexpected.eq((self.unexpected_beat | self.unexpected_descriptor)
                                 + (self.unexpected_response | self.unexpected_word)),
            counts.read_stalls.eq(self.bus.read_stall), counts.write_stalls.eq(self.bus.write_stall),
        ]
        return m
