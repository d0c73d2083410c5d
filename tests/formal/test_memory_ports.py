# SPDX-License-Identifier: Apache-2.0
"""The memory ports of both engines keep the manager's rules of AXI4, whatever memory does: bounded, on the smallest
configurations. Induction for AR of the DMA engine is in ``test_read.py``.
"""

import pytest
from amaranth.hdl import Assume, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, connect

from hw.ace.drain import Drain
from hw.ace.fill import Fill
from hw.ace.layouts import move_layout
from hw.ace.memory_port import MemoryPort
from hw.ace.operations import word_layout
from hw.axi import AxiChecker
from hw.dma_engine.layouts import EPOCH_WIDTH, completion_write_layout, fetch_layout, segment_layout
from hw.dma_engine.mover.aligner import Aligner
from hw.dma_engine.mover.axi_port import AxiPort
from hw.dma_engine.mover.buffer import buffered_layout
from hw.dma_engine.mover.read import ReadIssue
from hw.dma_engine.mover.sequencer import WriteSequencer
from tests.formal.delivery import stable
from tests.formal.small import ACE, DMA, assume_legal_cache, assume_segment
from tests.harness.formal import prove

pytestmark = [pytest.mark.formal, pytest.mark.long]


def _checked(m, bus, stimulus, pins):
    """Attach the manager's rules to ``bus``, whose inputs ``pins`` are the solver's; no rule is assumed of memory."""
    m.submodules.checker = checker = AxiChecker(
        bus.signature, max_outstanding=16, subordinate=None, name="m_axi")
    m.d.comb += [*(getattr(bus, pin).eq(getattr(stimulus, pin)) for pin in pins), *checker.observe(bus)]


class DmaReads(wiring.Component):
    """Read issue on the port, with free segments and bursts of descriptors.

    Assumed: what ``test_legalizer.py`` asserts of segments; bursts of descriptors within 4 KiB.
    """

    def __init__(self):
        super().__init__({
            "segment_valid": In(1), "segment": In(segment_layout(DMA)), "fetch_valid": In(1),
            "fetch": In(fetch_layout(DMA)), "tag_valid": In(1), "tag": In(DMA.tag_bits), "freed": In(1),
            "burst_read": In(1), "single_read": In(1), "rejected_ready": In(1), "signals_ready": In(1),
            "arready": In(1),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.read, m.submodules.port = read, port = ReadIssue(DMA), AxiPort(DMA)
        connect(m, read.ar, port.ar)
        m.d.comb += [
            read.i.valid.eq(self.segment_valid), read.i.payload.eq(self.segment),
            read.fetch.valid.eq(self.fetch_valid), read.fetch.payload.eq(self.fetch),
            read.tags.valid.eq(self.tag_valid), read.tags.payload.eq(self.tag),
            read.slot_freed.eq(self.freed), read.burst_read.eq(self.burst_read),
            read.ablation.single_read.eq(self.single_read), read.rejected.ready.eq(self.rejected_ready),
            read.signals.ready.eq(self.signals_ready),
            Assume(self.fetch.addr[DMA.lane_bits:12] + self.fetch.len + 1 <= 4096 >> DMA.lane_bits),
        ]
        for name, source in (("segment", read.i), ("fetch", read.fetch), ("tag", read.tags)):
            stable(m, source, Assume, name)
        assume_segment(m, DMA, self.segment)
        _checked(m, port.bus, self, ["arready"])
        return m


class DmaWrites(wiring.Component):
    """Sequencer and aligner on the port, with free launches, announcements, slots, beats and words.

    Assumed: what ``test_legalizer.py`` asserts of segments; a tag is announced after its launch, and not launched again
    before its last step; words are aligned, and the top bit of their ID is set.
    """

    def __init__(self):
        super().__init__({
            "launch": In(1), "launch_tag": In(DMA.tag_bits), "segment": In(segment_layout(DMA)), "arrived": In(1),
            "arrived_tag": In(DMA.tag_bits), "word_valid": In(1), "word": In(completion_write_layout(DMA)),
            "urgent": In(1), "head": In(DMA.slot_bits), "tail": In(DMA.slot_bits), "next": In(DMA.slot_bits),
            "beat": In(buffered_layout(DMA)), "epoch": In(EPOCH_WIDTH), "awready": In(1), "wready": In(1),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.sequencer, m.submodules.aligner, m.submodules.port = sequencer, aligner, port = (
            WriteSequencer(DMA), Aligner(DMA), AxiPort(DMA))
        connect(m, sequencer.steps, aligner.steps)
        connect(m, sequencer.aw, port.aw)
        connect(m, aligner.w, port.w)
        word = self.word
        m.d.comb += [
            sequencer.launch.read.eq(self.launch), sequencer.launch.payload.tag.eq(self.launch_tag),
            sequencer.launch.payload.segment.eq(self.segment),
            sequencer.arrived.valid.eq(self.arrived), sequencer.arrived.payload.eq(self.arrived_tag),
            sequencer.words.valid.eq(self.word_valid), sequencer.words.payload.eq(word),
            sequencer.words.urgent.eq(self.urgent), sequencer.slots.head.eq(self.head),
            sequencer.slots.tail.eq(self.tail), sequencer.slots.next.eq(self.next),
            aligner.beat.eq(self.beat), aligner.epoch.epoch.eq(self.epoch),
        ]
        for name, source in (("arrived", sequencer.arrived), ("words", sequencer.words)):
            stable(m, source, Assume, name)
        assume_segment(m, DMA, self.segment)
        assume_legal_cache(m, word.attributes)
        used, announced = Signal(DMA.tags), Signal(DMA.tags)
        launched = self.launch << self.launch_tag
        taken = (self.arrived & sequencer.arrived.ready) << self.arrived_tag
        began = sequencer.events.began << sequencer.events.began_tag
        m.d.sync += [used.eq((used | launched) & ~taken), announced.eq((announced | taken) & ~began)]
        m.d.comb += [
            Assume(((used | announced) & launched) == 0),
            Assume(~self.arrived | used.bit_select(self.arrived_tag, 1)),
            Assume((word.addr[:2] == 0) & (word.half | ~word.addr[2]) & word.id[-1]),
        ]
        _checked(m, port.bus, self, ["awready", "wready"])
        return m


class AceReads(wiring.Component):
    """Fill on the port, with free moves and any beats on R. Assumed: moves of at most a chunk."""

    def __init__(self):
        super().__init__({
            "valid": In(1), "move": In(move_layout(ACE)), "written": In(1), "arready": In(1), "rvalid": In(1)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.port, m.submodules.fill = port, fill = MemoryPort(ACE), Fill(ACE, reads=32)
        connect(m, fill.memory, port.reads)
        m.d.comb += [fill.i.valid.eq(self.valid), fill.i.payload.eq(self.move), fill.write.ready.eq(self.written),
                     Assume(self.move.bytes <= ACE.chunk_bytes)]
        stable(m, fill.i, Assume, "move")
        _checked(m, port.bus, self, ["arready", "rvalid"])
        return m


class AceWrites(wiring.Component):
    """Drain on the port, with free moves, completion words, SRAM, and any responses on B.

    Assumed: moves of at most a chunk; words that are aligned.
    """

    def __init__(self):
        super().__init__({
            "valid": In(1), "move": In(move_layout(ACE)), "word_valid": In(1), "word": In(word_layout(ACE)),
            "sram_ready": In(1), "awready": In(1), "wready": In(1), "bvalid": In(1),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.port, m.submodules.drain = port, drain = MemoryPort(ACE), Drain(ACE, writes=8)
        connect(m, drain.memory, port.writes)
        m.d.comb += [
            drain.i.valid.eq(self.valid), drain.i.payload.eq(self.move), drain.read.ready.eq(self.sram_ready),
            drain.words.valid.eq(self.word_valid), drain.words.payload.eq(self.word),
            Assume(self.move.bytes <= ACE.chunk_bytes), Assume(self.word.address[:3] == 0),
        ]
        for name, source in (("move", drain.i), ("words", drain.words)):
            stable(m, source, Assume, name)
        _checked(m, port.bus, self, ["awready", "wready", "bvalid"])
        return m


@pytest.mark.parametrize("design, depth", [(DmaReads, 14), (DmaWrites, 8), (AceReads, 14), (AceWrites, 10)])
def test_manager_rules(design, depth):
    prove(design(), name=f"port-{design.__name__}", depth=depth)
