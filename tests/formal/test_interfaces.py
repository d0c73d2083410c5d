# SPDX-License-Identifier: Apache-2.0
"""Interfaces that the containment proofs assume of other blocks: the scheduler numbers segments from 0 to the last one,
the beat buffer announces a tag once and only after its launch, and the write sequencer frees a slot once. By induction.
"""

import pytest
from amaranth.hdl import Assert, Assume, Format, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In

from hw.dma_engine.frontend.scheduler import Scheduler
from hw.dma_engine.layouts import Check, read_beat_layout, request_layout, segment_layout
from hw.dma_engine.mover.buffer import BeatBuffer
from hw.dma_engine.mover.sequencer import WriteSequencer
from tests.formal.delivery import stable
from tests.formal.small import DMA, assume_constant, assume_segment
from tests.harness.formal import prove
from tests.harness.internals import elaborated, internal, opened

pytestmark = [pytest.mark.formal, pytest.mark.long]


class Numbered(wiring.Component):
    """The segments of the watched queue, compared with the request at its head.

    Assumed of the queues: the head request stays until it is consumed or dropped; ``single`` means that the last
    segment is segment 0. Of QueueControl: words are dropped as :class:`Scheduler` states for ``flush``.
    """

    def __init__(self):
        queues = DMA.queues
        super().__init__({
            "ready": In(queues), "more": In(queues), "candidates": In(queues), "running": In(queues),
            "held": In(queues), "blocked": In(queues), "credit": In(1), "pool_valid": In(1), "pool_spare": In(1),
            "head": In(DMA.flight_width), "request": In(request_layout(DMA)), "other": In(request_layout(DMA)),
            "retired": In(1), "retired_queue": In(DMA.queue_bits), "retired_number": In(DMA.flight_width),
            "abort": In(1), "abort_queue": In(DMA.queue_bits), "abort_generation": In(1), "flush": In(1),
            "flush_queue": In(DMA.queue_bits), "watched": In(DMA.queue_bits),
        })

    def elaborate(self, platform):
        m = Module()
        dut = Scheduler(DMA)
        m.submodules.dut = parts = elaborated(dut)
        heads, watched = dut.queue_heads, self.watched
        assume_constant(m, watched)
        m.d.comb += [
            heads.ready.eq(self.ready), heads.more.eq(self.more),
            heads.request.eq(Mux(heads.queue == watched, self.request, self.other)),
            dut.shares.candidates.eq(self.candidates), dut.queues.running.eq(self.running), dut.held.eq(self.held),
            dut.blocked.eq(self.blocked), dut.credit.available.eq(self.credit), dut.pool.valid.eq(self.pool_valid),
            dut.pool.spare.eq(self.pool_spare), dut.head.head.eq(self.head), dut.retired.valid.eq(self.retired),
            dut.retired.queue.eq(self.retired_queue), dut.retired.number.eq(self.retired_number),
            dut.abort.valid.eq(self.abort), dut.abort.queue.eq(self.abort_queue),
            dut.abort.generation.eq(self.abort_generation), dut.flush.valid.eq(self.flush),
            dut.flush.queue.eq(self.flush_queue),
        ]
        request, before, kept = self.request, Signal(request_layout(DMA)), Signal()
        flushed, flushing = self.flush & (self.flush_queue == watched), Signal()
        consumed = heads.consume & (heads.queue == watched)
        m.d.sync += [before.eq(request), kept.eq(~consumed & ~flushed & ~flushing), flushing.eq(flushed)]
        m.d.comb += [
            Assume(~kept | (request.as_value() == before.as_value())),
            Assume(request.single == (request.last_segment == 0)),
            Assume(request.check.as_value() <= max(check.value for check in Check)),
        ]
        # Segments of the head request that were issued.
        issued, wide = Signal(DMA.segment_count_width + 1), DMA.segment_count_width
        segment = dut.scheduled.segment
        ours = dut.scheduled.valid & (segment.queue == watched)
        go = parts.submodules.tails.write.en & (heads.queue == watched)
        scheduled, number = (Signal.like(value, name=name) for name, value in (
            ("request_before", request), ("number_before", issued)))
        m.d.sync += [scheduled.eq(request), number.eq(issued)]
        with m.If(consumed | flushed):
            m.d.sync += issued.eq(0)
        with m.Elif(go):
            m.d.sync += issued.eq(issued + 1)
        s = segment
        with m.If(ours):
            m.d.comb += [
                Assert(s.request.as_value() == scheduled.as_value(), Format("another request")),
                Assert(s.number == number, Format("a segment is skipped or repeated")),
                Assert(s.first == (s.number == 0), Format("first")),
                Assert((s.request.check != Check.OK) | (s.number <= s.request.last_segment),
                       Format("a segment too many")),
                Assert((s.request.check != Check.OK) | (s.last == ((s.number == s.request.last_segment) | s.aborted)),
                       Format("last")),
                Assert((s.request.check == Check.OK) | (s.number == 0), Format("segments of a malformed request")),
            ]
        # -- The invariant.
        started = internal(parts, "started").bit_select(watched, 1)
        row = opened(parts, "remaining").submodules.memory.read_port(domain="comb")
        behind, is_last = row.data[:wide], row.data[wide]
        shown = Signal()
        m.d.sync += shown.eq(go)
        m.d.comb += [
            row.addr.eq(watched), Assert(started == (issued != 0), Format("started")),
            Assert(~started | ((request.check == Check.OK) & (issued <= request.last_segment)), Format("issued")),
            Assert(~started | (behind == request.last_segment - issued), Format("behind")),
            Assert(~started | (is_last == (behind == 0)), Format("last of all")),
            Assert(ours == shown, Format("a segment is lost")),
        ]
        return m


class Announced(wiring.Component):
    """The announcements of the watched tag, compared with its launches, for any beats on R.

    Assumed: a tag is launched again after it was announced.
    """

    def __init__(self):
        super().__init__({
            "launch": In(1), "launch_tag": In(DMA.tag_bits), "segment": In(segment_layout(DMA)), "slow": In(16),
            "r_valid": In(1), "r": In(read_beat_layout(DMA)), "ready": In(1), "watched": In(DMA.tag_bits),
        })

    def elaborate(self, platform):
        m = Module()
        dut = BeatBuffer(DMA)
        m.submodules.dut = parts = elaborated(dut)
        assume_constant(m, self.watched)
        m.d.comb += [
            dut.launch.read.eq(self.launch), dut.launch.payload.tag.eq(self.launch_tag),
            dut.launch.payload.segment.eq(self.segment), dut.targets.slow.eq(self.slow), dut.r.valid.eq(self.r_valid),
            dut.r.payload.eq(self.r), dut.arrived.ready.eq(self.ready),
        ]
        used, announced = Signal(), Signal()
        launches = self.launch & (self.launch_tag == self.watched)
        announces = internal(parts, "numbered") & internal(parts, "announce") & (
            internal(parts, "tag") == self.watched)
        with m.If(launches):
            m.d.sync += [used.eq(1), announced.eq(0)]
        with m.Elif(announces):
            m.d.sync += announced.eq(1)
        uses = opened(parts, "uses").submodules.memory.read_port(domain="comb")
        progress = opened(parts, "progress").submodules.memory.read_port(domain="comb")
        phase, quiet = uses.data[0] ^ progress.data[0], progress.data[2]
        m.d.comb += [
            Assume(~launches | ~used | announced),
            Assert(~announces | (used & ~announced), Format("a tag is announced twice, or before its launch")),
            uses.addr.eq(self.watched), progress.addr.eq(self.watched),
            Assert((phase | quiet) == (used & ~announced), Format("expected")),
        ]
        return m


class Freed(wiring.Component):
    """Each slot that the sequencer takes is released once, before it takes the next one or with it.

    Assumed: tags are announced after their launch; ``test_legalizer.py`` asserts the number of beats.
    """

    def __init__(self):
        super().__init__({
            "launch": In(1), "launch_tag": In(DMA.tag_bits), "segment": In(segment_layout(DMA)), "arrived": In(1),
            "arrived_tag": In(DMA.tag_bits), "word_valid": In(1), "urgent": In(1), "step_ready": In(1),
            "aw_ready": In(1),
            "head": In(DMA.slot_bits), "tail": In(DMA.slot_bits), "next": In(DMA.slot_bits),
        })

    def elaborate(self, platform):
        m = Module()
        dut = WriteSequencer(DMA)
        m.submodules.dut = parts = elaborated(dut)
        segment, slots = self.segment, dut.slots
        m.d.comb += [
            dut.launch.read.eq(self.launch), dut.launch.payload.tag.eq(self.launch_tag),
            dut.launch.payload.segment.eq(segment), dut.arrived.valid.eq(self.arrived),
            dut.arrived.payload.eq(self.arrived_tag), dut.words.valid.eq(self.word_valid),
            dut.words.urgent.eq(self.urgent), dut.steps.ready.eq(self.step_ready), dut.aw.ready.eq(self.aw_ready),
            slots.head.eq(self.head), slots.tail.eq(self.tail), slots.next.eq(self.next),
        ]
        stable(m, dut.arrived, Assume, "arrived")
        stable(m, dut.words, Assume, "words")
        assume_segment(m, DMA, segment)
        # Tags that were launched; a tag is not launched between its announcement and its first step.
        launched, waits = Signal(DMA.tags), Signal(DMA.tags)
        accepted = self.arrived & dut.arrived.ready
        m.d.sync += [
            launched.eq(launched | (self.launch << self.launch_tag)),
            waits.eq((waits & ~(dut.events.began << dut.events.began_tag)) | (accepted << self.arrived_tag)),
        ]
        m.d.comb += [
            Assume(~self.launch | ~segment.signal),
            Assume(~self.arrived | launched.bit_select(self.arrived_tag, 1)),
            Assume(~(self.launch & self.arrived) | (self.launch_tag != self.arrived_tag)),
        ]
        # The slot that was taken and not released.
        unfreed, slot = Signal(), Signal(DMA.slot_bits)
        m.d.sync += unfreed.eq((unfreed & ~slots.release) | slots.take)
        with m.If(slots.take):
            m.d.sync += slot.eq(slots.slot)
        m.d.comb += [
            Assert(~slots.release | (unfreed & (slots.released == slot)), Format("a slot is freed that was not taken")),
            Assert(~slots.take | ~unfreed | slots.release, Format("a slot is never freed")),
        ]
        # -- The invariant.
        ended, follows = internal(parts, "ended"), internal(parts, "follows")
        kept, active = internal(parts, "kept"), internal(parts, "active")
        left, some = internal(parts, "takes_left"), internal(parts, "takes_some")
        emits = internal(parts, "emits_left") + internal(parts, "behind")
        rows, read = parts.submodules.contexts, parts.submodules.contexts.read_ports[0].data
        for tag in range(DMA.tags):
            row = rows.read_port(domain="comb")
            m.d.comb += [row.addr.eq(tag), Assert(~launched[tag] | self._consistent(row.data), Format("row {}", tag))]
        m.d.comb += [
            Assert(~internal(parts, "ready") | self._consistent(read), Format("the context")),
            Assert((ended | follows) == unfreed, Format("unfreed")), Assert(~(ended & follows), Format("both")),
            Assert(~unfreed | (internal(parts, "taken_slot") == slot), Format("the slot")),
            Assert(~kept | ~unfreed, Format("kept")),
            Assert((follows | kept) == (active & some), Format("more to take")),
            Assert(~active | (some == (left != 0)), Format("some")),
            # Each further beat is taken with one that is emitted.
            Assert(~active | ((emits != 0) & (left <= emits)), Format("emits")),
        ]
        return m

    def _consistent(self, row):
        """No beat is taken after the last one that is emitted."""
        more = row.more_takes if DMA.timing.precomputed_takes else (row.len + row.more_takes)[:DMA.beat_count_width]
        return ((row.one_take == (more == 0)) & (more <= row.len + row.behind)
                & (row.continues == ((row.len + row.behind) != 0)))


@pytest.mark.parametrize("design", [Numbered, Announced, Freed])
def test_interface(design):
    prove(design(), name=f"interface-{design.__name__}", depth=2, mode="prove")
