# SPDX-License-Identifier: Apache-2.0
"""The mover: moves segments through memory and writes the words of completions.

    segments, fetch         tags
          │                  │▲
          ▼                  ▼│ free
     ┌─────────┐ ar     ┌──────────┐   b   ┌───────────┐ done, written
     │  read   │───────▶│          │──────▶│ responses │──────────────▶ retirement
     └─────────┘        │   port   │       └───────────┘
        │ launch        │  (m_axi) │             ▲ read_status
        ▼               │          │  r    ┌──────────┐ descriptors
     ┌───────────┐  aw  │          │──────▶│  buffer  │──────────────▶ rings
 ───▶│ sequencer │─────▶│          │       └──────────┘
words└───────────┘      │          │  slots, │    │ beat
        │ steps         │          │ arrived │    ▼
        │               │          │◀────────┼─┌─────────┐
        └───────────────┼──────────┼─────────┼▶│ aligner │
                        └──────────┘    w    │ └─────────┘
                                             └▶ sequencer

``launch`` goes to buffer, sequencer and responses; ``drain`` watches AW and W.
"""

from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.axi import AxiSignature
from hw.common.free_list import FreeList
from hw.common.sizes import ADDR_WIDTH
from hw.common.sweep import SweepSignature
from hw.common.wiring import Wiring
from hw.dma_engine.config import DmaConfig
from hw.dma_engine.configuration import AblationSignature, TargetSettingsSignature
from hw.dma_engine.control.epochs import EpochLookupSignature
from hw.dma_engine.layouts import completion_write_layout, done_layout, fetch_layout, segment_layout
from hw.dma_engine.strobes import DoneSignature, LaunchSignature, RejectionSignature, WrittenSignature

from .aligner import OUTPUT_DEPTH as BEAT_DEPTH
from .aligner import Aligner
from .axi_port import AxiPort, BusActivitySignature
from .buffer import BeatBuffer, DescriptorBeatSignature
from .port_drain import DrainSignature, PortDrain
from .read import ReadIssue
from .responses import Responses
from .sequencer import ADDRESS_DEPTH, SequencerEventsSignature, WordWriteSignature, WriteSequencer

__all__ = ["Mover", "MoverActivitySignature"]


class MoverActivitySignature(wiring.Signature):
    """Events of the mover in this cycle, for counters and traces.

    Members
    -------
    launch, rejection, sequencer, bus : ``Out``
        Strobes of its stages.
    unexpected_beat, unexpected_response : ``Out(1)``
        Unexpected responses on R, on B.
    """

    def __init__(self, config: DmaConfig) -> None:
        super().__init__({
            "launch": Out(LaunchSignature(config)), "rejection": Out(RejectionSignature(config)),
            "sequencer": Out(SequencerEventsSignature(config)), "bus": Out(BusActivitySignature()),
            "unexpected_beat": Out(1), "unexpected_response": Out(1),
        })


class Mover(wiring.Component):
    """Read segments, align their beats, write them, and report their ends. Write words. Only connects.

    Parameters
    ----------
    config : DmaConfig

    Members
    -------
    init : ``In(SweepSignature)``
    segments, fetch : ``In(stream)``
        Segments to move; bursts of descriptors to read.
    descriptors : ``Out(DescriptorBeatSignature)``
    words : ``In(WordWriteSignature)``, signals : ``Out(stream)``
        Words to write; words of signals, which return among them.
    rejected : ``Out(stream)``, done : ``Out(DoneSignature)``, written : ``Out(WrittenSignature)``
        Ends of segments and of words.
    epoch : ``Out(EpochLookupSignature)``, drain : ``In(DrainSignature)``
        For abandoned queues.
    ablation : ``In(AblationSignature)``, targets : ``In(TargetSettingsSignature)``
    activity : ``Out(MoverActivitySignature)``
    m_axi : ``Out(AxiSignature)``
    """

    def __init__(self, config: DmaConfig) -> None:
        self.config = config
        word = stream.Signature(completion_write_layout(config))
        super().__init__({
            "init": In(SweepSignature(config)),
            "segments": In(stream.Signature(segment_layout(config))),
            "fetch": In(stream.Signature(fetch_layout(config))),
            "descriptors": Out(DescriptorBeatSignature(config)),
            "words": In(WordWriteSignature(config)), "signals": Out(word),
            "rejected": Out(stream.Signature(done_layout(config))),
            "done": Out(DoneSignature(config)), "written": Out(WrittenSignature(config)),
            "epoch": Out(EpochLookupSignature(config)), "drain": In(DrainSignature()),
            "ablation": In(AblationSignature()), "targets": In(TargetSettingsSignature(config)),
            "activity": Out(MoverActivitySignature(config)),
            "m_axi": Out(AxiSignature(addr_width=ADDR_WIDTH, data_width=config.data_width,
                                      id_width=config.axi_id_width)),
        })

    def elaborate(self, platform):
        m = Module()
        config, init = self.config, SweepSignature(self.config)
        wires = Wiring(m, self)
        wires.add(read=ReadIssue(config), tags=FreeList(config.tags, init=init), buffer=BeatBuffer(config),
                  sequencer=WriteSequencer(config), aligner=Aligner(config), responses=Responses(config),
                  port=AxiPort(config), drain=PortDrain(addresses=ADDRESS_DEPTH, beats=BEAT_DEPTH + 1))
        wires.broadcast("self.init", "tags.init", "buffer.init", "responses.init")

        # -- Reads.
        wires.connect("self.segments", "read.i")
        wires.connect("self.fetch", "read.fetch")
        wires.connect("self.ablation", "read.ablation")
        wires.connect("tags.o", "read.tags")
        wires.connect("read.ar", "port.ar")
        wires.connect("port.burst_read", "read.burst_read")
        wires.connect("port.r", "buffer.r")
        wires.connect("self.targets", "buffer.targets")
        wires.connect("buffer.slot_freed", "read.slot_freed")
        wires.connect("buffer.descriptors", "self.descriptors")
        wires.broadcast("read.launch", "buffer.launch", "sequencer.launch", "responses.launch",
                        "self.activity.launch")

        # -- Writes.
        wires.connect("buffer.arrived", "sequencer.arrived")
        wires.connect("sequencer.slots", "buffer.slots")
        wires.connect("buffer.beat", "aligner.beat")
        wires.connect("self.words", "sequencer.words")
        wires.connect("sequencer.steps", "aligner.steps")
        wires.connect("aligner.epoch", "self.epoch")
        wires.connect("sequencer.aw", "port.aw")
        wires.connect("aligner.w", "port.w")
        wires.connect("sequencer.aw_level", "drain.aw")
        wires.connect("aligner.w_level", "drain.w")
        wires.connect("self.drain", "drain.drain")
        wires.connect("port.bus", "self.m_axi")

        # -- Ends.
        wires.connect("port.b", "responses.b")
        wires.connect("responses.read_status", "buffer.read_status")
        wires.connect("responses.free", "tags.free")
        wires.connect("responses.done", "self.done")
        wires.connect("responses.written", "self.written")
        wires.connect("read.rejected", "self.rejected")
        wires.connect("read.signals", "self.signals")

        # -- For traces and counters.
        wires.connect("read.rejection", "self.activity.rejection")
        wires.connect("sequencer.events", "self.activity.sequencer")
        wires.connect("port.activity", "self.activity.bus")
        wires.connect("buffer.unexpected", "self.activity.unexpected_beat")
        wires.connect("responses.unexpected", "self.activity.unexpected_response")
        wires.finish()
        return m
