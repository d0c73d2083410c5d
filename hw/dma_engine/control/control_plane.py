# SPDX-License-Identifier: Apache-2.0
"""The control plane: configuration, commands and status registers for software.

    s_axil    ┌─────────────┐ configure, region, page, connection, targets, ablation
    ─────────▶│ front panel │────────────────────────────────────────────────────────▶ all subsystems
     irq ◀────│             │ inspect ┌───────────┐ lookups
              │             │◀───────▶│ inspector │◀──────▶ scheduler, retirement
              └─────────────┘         └───────────┘
      command │         ▲ │ quiesce  scan ▲   │ window
              ▼  states │ └──────┐        │   ▼
          ┌─────────┐   │        ▼        │ ┌────────┐ epochs, abandon
          │ control │───┴─▶ ┌─────────┐   │ │ epochs │────────────────▶ all subsystems
          │         │───────│ quiesce │───┘ └────────┘
          └─────────┘       └─────────┘          ▲ request (from control)
              │ clears, scans
              ▼
        ┌────────────┐ operations
        │ operations │────────────▶ retirement
        └────────────┘
              ▲ events of queues, words and rings

``states`` goes to the front panel and to all subsystems, ``scan`` from control to the inspector.
"""

from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.axi import AxiLiteSignature
from hw.common.regions import RegionWriteSignature
from hw.common.sweep import SweepSignature
from hw.common.wiring import Wiring
from hw.dma_engine.completion.retire import RetirementLookupSignature
from hw.dma_engine.config import DmaConfig
from hw.dma_engine.configuration import (
    AblationSignature,
    ConnectionWriteSignature,
    PageWriteSignature,
    QueueStatesSignature,
    QueueWriteSignature,
    TargetSettingsSignature,
)
from hw.dma_engine.frontend.queues import OccupancySignature
from hw.dma_engine.frontend.scheduler import TailLookupSignature
from hw.dma_engine.instruments.activity import Counts
from hw.dma_engine.instruments.counters import SnapshotSignature
from hw.dma_engine.instruments.histogram import HistogramReadSignature
from hw.dma_engine.layouts import done_layout, event_layout, op_layout
from hw.dma_engine.mover.port_drain import DrainSignature
from hw.dma_engine.rings.lifecycle import RingPartsSignature, RingStatusSignature
from hw.dma_engine.strobes import (
    OutcomeSignature,
    QueueStrobeSignature,
    RetiredSignature,
    ReturnedSignature,
    ScheduledSignature,
)

from .control import PendingSignature, QueueControl
from .epochs import LOOKUP_PORTS, AbandonSignature, EpochLookupSignature, Epochs, WordStatusSignature
from .frontpanel import FrontPanel
from .inspection import QueueInspector
from .operations import Operations
from .quiesce import Quiesce

__all__ = ["ControlPlane"]


class ControlPlane(wiring.Component):
    """Registers, queue control, resets and quiescence. Only connects.

    Parameters
    ----------
    config : DmaConfig

    Members
    -------
    init : ``In(SweepSignature)``
    s_axil : ``In(AxiLiteSignature)``, irq : ``Out(1)``
    configure, region, page, connection, targets, ablation : ``Out``
        Configuration that software commits.
    states : ``Out(QueueStatesSignature)``, clear, flush : ``Out(QueueStrobeSignature)``
        State bits of the queues; accept words of a queue again; drop its words.
    operations : ``Out(stream.Signature(op_layout))``, queue_events, word_events, ring_events : ``In(stream)``
        Operations on queues, ordered with retirement; events that other subsystems report.
    occupancy : ``In(OccupancySignature)``, held : ``In(queues)``, pending : ``In(PendingSignature)``
    rings_refusing : ``In(extended)``, rings : ``In(RingStatusSignature)``, ring_parts : ``In(RingPartsSignature)``
        State of queues and rings.
    tail : ``Out(TailLookupSignature)``, retirement : ``Out(RetirementLookupSignature)``
        For inspection.
    scheduled : ``In(ScheduledSignature)``, retired : ``In(RetiredSignature)``, returned : ``In(ReturnedSignature)``
    epochs : array of ``In(EpochLookupSignature)``, phase : ``Out(1)``
        The epoch and the phase of segments.
    abandon : ``Out(AbandonSignature)``, abandoned : ``Out(stream.Signature(done_layout))``
        A queue is abandoned; its segments end.
    words : ``In(WordStatusSignature)``, inside : ``In(extended)``, drain : ``Out(DrainSignature)``
        Its words and reads in flight.
    snapshot : ``Out(SnapshotSignature)``, histogram : ``Out(HistogramReadSignature)``
    outcome : ``In(OutcomeSignature)``, counts : ``In(Counts)``
    """

    def __init__(self, config: DmaConfig) -> None:
        self.config = config
        strobe, event = QueueStrobeSignature(config), stream.Signature(event_layout(config))
        super().__init__({
            "init": In(SweepSignature(config)),
            "s_axil": In(AxiLiteSignature(addr_width=12, data_width=32)), "irq": Out(1),
            "configure": Out(QueueWriteSignature(config)), "region": Out(RegionWriteSignature(config)),
            "page": Out(PageWriteSignature(config)), "connection": Out(ConnectionWriteSignature(config)),
            "targets": Out(TargetSettingsSignature(config)), "ablation": Out(AblationSignature()),
            "states": Out(QueueStatesSignature(config)), "clear": Out(strobe), "flush": Out(strobe),
            "operations": Out(stream.Signature(op_layout(config))),
            "queue_events": In(event), "word_events": In(event), "ring_events": In(event),
            "occupancy": In(OccupancySignature(config)), "held": In(config.queues),
            "pending": In(PendingSignature(config)),
            "rings_refusing": In(config.extended), "rings": In(RingStatusSignature(config)),
            "ring_parts": In(RingPartsSignature(config)),
            "tail": Out(TailLookupSignature(config)), "retirement": Out(RetirementLookupSignature(config)),
            "scheduled": In(ScheduledSignature(config)), "retired": In(RetiredSignature(config)),
            "returned": In(ReturnedSignature(config)),
            "epochs": In(EpochLookupSignature(config)).array(LOOKUP_PORTS), "phase": Out(1),
            "abandon": Out(AbandonSignature(config)), "abandoned": Out(stream.Signature(done_layout(config))),
            "words": In(WordStatusSignature()), "inside": In(config.extended), "drain": Out(DrainSignature()),
            "snapshot": Out(SnapshotSignature(config)), "histogram": Out(HistogramReadSignature(config)),
            "outcome": In(OutcomeSignature(config)), "counts": In(Counts),
        })

    def elaborate(self, platform):
        m = Module()
        config = self.config
        wires = Wiring(m, self)
        wires.add(panel=FrontPanel(config), control=QueueControl(config), inspector=QueueInspector(config),
                  operations=Operations(config), epochs=Epochs(config), quiesce=Quiesce(config))
        wires.broadcast("self.init", "panel.init", "epochs.init")

        # -- Registers.
        wires.connect("self.s_axil", "panel.bus")
        wires.connect("panel.irq", "self.irq")
        wires.connect("panel.configure", "self.configure")
        wires.connect("panel.region", "self.region")
        wires.connect("panel.page", "self.page")
        wires.connect("panel.connection", "self.connection")
        wires.connect("panel.targets", "self.targets")
        wires.connect("panel.ablation", "self.ablation")
        wires.connect("panel.snapshot", "self.snapshot")
        wires.connect("panel.histogram", "self.histogram")
        wires.connect("self.outcome", "panel.outcome")
        wires.connect("self.counts", "panel.counts")
        wires.connect("self.rings_refusing", "panel.rings_refusing")
        wires.connect("self.ring_parts", "panel.ring_parts")

        # -- Queue control.
        wires.connect("panel.command", "control.command")
        wires.broadcast("control.states", "panel.states", "self.states")
        wires.broadcast("self.occupancy", "panel.occupancy", "control.occupancy")
        wires.broadcast("self.held", "panel.held", "control.held")
        wires.connect("self.pending", "control.pending")
        wires.broadcast("self.retired", "control.retired", "epochs.retired")
        wires.connect("control.clear", "self.clear")
        wires.connect("control.flush", "self.flush")
        wires.connect("control.clears", "operations.clears")
        wires.connect("control.scans", "operations.scans")
        wires.connect("self.queue_events", "operations.queues")
        wires.connect("self.word_events", "operations.words")
        wires.connect("self.ring_events", "operations.rings")
        wires.connect("operations.o", "self.operations")

        # -- Inspection.
        wires.connect("panel.inspect", "inspector.software")
        wires.connect("control.scan", "inspector.scan")
        wires.connect("inspector.tail", "self.tail")
        wires.connect("inspector.retirement", "self.retirement")
        wires.broadcast("self.rings", "inspector.rings", "quiesce.rings")

        # -- Epochs and phases.
        wires.connect("inspector.window", "epochs.window")
        wires.connect("control.abandon", "epochs.request")
        wires.broadcast("epochs.abandon", "inspector.abandon", "self.abandon")
        wires.connect("epochs.ends", "self.abandoned")
        wires.connect("self.epochs", "epochs.lookups")
        wires.broadcast("self.scheduled", "epochs.scheduled", "quiesce.scheduled")
        wires.broadcast("self.returned", "epochs.returned", "quiesce.returned")
        wires.broadcast("self.words", "epochs.words", "quiesce.words")
        wires.connect("self.inside", "epochs.inside")
        wires.connect("epochs.drain", "self.drain")
        wires.connect("panel.quiesce", "quiesce.software")
        wires.connect("quiesce.phase", "self.phase")
        wires.finish()
        return m
