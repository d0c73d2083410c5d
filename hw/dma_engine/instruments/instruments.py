# SPDX-License-Identifier: Apache-2.0
"""Instruments: counters, histogram and trace events, derived from the strobes of other subsystems.

                           ┌───────────┐ counts
    posted, outcome, ... ─▶│ activity  │────────▶ front panel (totals)
                           ├───────────┤
    moved, dropped, ... ──▶│ counters  │◀───────▶ front panel (snapshot)
                           ├───────────┤
    posted, outcome ──────▶│ histogram │◀───────▶ front panel
                           ├───────────┤
    every strobe ─────────▶│  events   │────────▶ ports
                           └───────────┘
"""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.common.sweep import SweepSignature
from hw.common.wiring import Wiring
from hw.dma_engine.completion.completion import CompletionActivitySignature
from hw.dma_engine.config import DmaConfig
from hw.dma_engine.frontend.frontend import FrontEndActivitySignature
from hw.dma_engine.mover.mover import MoverActivitySignature
from hw.dma_engine.rings.rings import RingsActivitySignature
from hw.dma_engine.strobes import (
    DoneSignature,
    OutcomeSignature,
    RetiredSignature,
    ScheduledSignature,
    WrittenSignature,
)

from .activity import Activity, Counts
from .counters import QueueCounters, SnapshotSignature
from .events import Events, EventsSignature
from .histogram import HistogramReadSignature, LatencyHistogram

__all__ = ["Instruments"]


class Instruments(wiring.Component):
    """Observe the engine. Only connects.

    Parameters
    ----------
    config : DmaConfig

    Members
    -------
    init : ``In(SweepSignature)``
    front_end, rings, mover, completion : ``In``
        Events of each subsystem.
    scheduled, done, written, retired, outcome : ``In``
        Strobes with other receivers.
    snapshot : ``In(SnapshotSignature)``, histogram : ``In(HistogramReadSignature)``, counts : ``Out(Counts)``
        For software.
    events : ``Out(EventsSignature)``
        For an external observer.
    """

    def __init__(self, config: DmaConfig) -> None:
        self.config = config
        super().__init__({
            "init": In(SweepSignature(config)),
            "front_end": In(FrontEndActivitySignature(config)), "rings": In(RingsActivitySignature()),
            "mover": In(MoverActivitySignature(config)), "completion": In(CompletionActivitySignature(config)),
            "scheduled": In(ScheduledSignature(config)), "done": In(DoneSignature(config)),
            "written": In(WrittenSignature(config)), "retired": In(RetiredSignature(config)),
            "outcome": In(OutcomeSignature(config)),
            "snapshot": In(SnapshotSignature(config)), "histogram": In(HistogramReadSignature(config)),
            "counts": Out(Counts), "events": Out(EventsSignature(config)),
        })

    def elaborate(self, platform):
        m = Module()
        config = self.config
        wires = Wiring(m, self)
        wires.add(activity=Activity(config), counters=QueueCounters(config), histogram=LatencyHistogram(config),
                  events=Events(config))
        wires.broadcast("self.init", "counters.init", "histogram.init")
        wires.broadcast("self.front_end.posted", "activity.posted", "histogram.posted", "events.posted")
        wires.broadcast("self.front_end.dropped", "counters.dropped", "events.dropped")
        wires.connect("self.scheduled", "events.scheduled")
        wires.broadcast("self.mover.launch", "activity.launch", "events.launch")
        wires.connect("self.mover.rejection", "events.rejection")
        wires.connect("self.mover.sequencer", "events.sequencer")
        wires.broadcast("self.mover.bus", "activity.bus", "events.bus")
        wires.connect("self.done", "events.done")
        wires.broadcast("self.written", "activity.written", "events.written")
        wires.connect("self.retired", "events.retired")
        wires.connect("self.completion.moved", "counters.moved")
        wires.broadcast("self.outcome", "activity.outcome", "counters.outcome", "histogram.outcome", "events.outcome")
        wires.connect("self.completion.sent", "events.sent")
        wires.connect("self.front_end.refused", "activity.word_refused")
        wires.connect("self.rings.tail_refused", "activity.tail_refused")
        wires.connect("self.mover.unexpected_beat", "activity.unexpected_beat")
        wires.connect("self.rings.unexpected", "activity.unexpected_descriptor")
        wires.connect("self.mover.unexpected_response", "activity.unexpected_response")
        wires.broadcast("self.completion.unexpected", "activity.unexpected_word", "events.unexpected_word")
        wires.connect("self.snapshot", "counters.snapshot")
        wires.connect("self.histogram", "histogram.software")
        wires.connect("activity.counts", "self.counts")
        wires.connect("events.o", "self.events")
        wires.finish()
        return m
