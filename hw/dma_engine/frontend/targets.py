# SPDX-License-Identifier: Apache-2.0
"""Limits of the beats in flight to each memory, so that a slow memory cannot occupy the engine.

Legalizer, Retire -> TargetLimits -> Scheduler.  Latency: 2 cycles from a segment that enters or returns to
``blocked``.  Throughput: one segment in and one out per cycle.
"""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.dma_engine.config import TARGETS, DmaConfig
from hw.dma_engine.configuration import QueueWriteSignature, TargetSettingsSignature
from hw.dma_engine.strobes import ReturnedSignature

from .legalizer import EnteredSignature

__all__ = ["TargetLimits"]


class TargetLimits(wiring.Component):
    """Count the beats in flight per target; block the queues of targets that have reached their limit.

    Segments already scheduled when ``blocked`` rises continue, so that the limit may be exceeded by the segments
    between the scheduler and AR.

    Parameters
    ----------
    config : DmaConfig

    Members
    -------
    configure : ``In(QueueWriteSignature)``
        A queue's target.
    settings : ``In(TargetSettingsSignature)``
    entered : ``In(EnteredSignature)``, returned : ``In(ReturnedSignature)``
        Each segment enters once and returns once, with the same size and target.
    blocked : ``Out(queues)``
        Registered.
    """

    def __init__(self, config: DmaConfig) -> None:
        self.config = config
        super().__init__({
            "configure": In(QueueWriteSignature(config)), "settings": In(TargetSettingsSignature(config)),
            "entered": In(EnteredSignature(config)), "returned": In(ReturnedSignature(config)),
            "blocked": Out(config.queues),
        })

    def elaborate(self, platform):
        m = Module()
        config = self.config

        # The increment and the decrement, registered.
        more = Signal(range(config.segment_beats + 1))
        less = Signal.like(more)
        more_onehot, less_onehot = Signal(TARGETS), Signal(TARGETS)
        m.d.sync += [
            more.eq((self.entered.size >> config.lane_bits) + 1),
            less.eq((self.returned.size >> config.lane_bits) + 1),
            more_onehot.eq(Mux(self.entered.valid, 1 << self.entered.target, 0)),
            less_onehot.eq(Mux(self.returned.valid, 1 << self.returned.target, 0)),
        ]

        full = Signal(TARGETS)
        for number in range(TARGETS):
            load = Signal(config.load_width, name=f"load_{number}")
            m.d.sync += load.eq(load + Mux(more_onehot[number], more, 0) - Mux(less_onehot[number], less, 0))
            m.d.comb += full[number].eq((load >= self.settings.limit[number]) & (self.settings.limit[number] != 0))

        for index in range(config.queues):
            target = Signal(range(TARGETS), name=f"target_{index}")
            with m.If(self.configure.valid & (self.configure.queue == index)):
                m.d.sync += target.eq(self.configure.settings.target)
            m.d.sync += self.blocked[index].eq(full.bit_select(target, 1))
        return m
