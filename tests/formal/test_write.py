# SPDX-License-Identifier: Apache-2.0
"""Containment, third block: the write sequencer and the aligner write the bytes of a segment's destination, and no
others, in one burst with as many beats as its address names. By induction, for a tag that the solver chooses.
"""

import pytest
from amaranth.hdl import Assert, Assume, Cat, Format, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In

from hw.dma_engine.config import TINY
from hw.dma_engine.layouts import EPOCH_WIDTH, completion_write_layout, segment_layout
from hw.dma_engine.mover.aligner import Aligner
from hw.dma_engine.mover.buffer import buffered_layout
from hw.dma_engine.mover.sequencer import WriteSequencer, step_layout
from tests.formal.delivery import stable
from tests.harness.formal import prove
from tests.harness.internals import elaborated, internal

pytestmark = [pytest.mark.formal, pytest.mark.long]

CONFIG = TINY
LANES, BYTES = CONFIG.lane_bits, CONFIG.beat_bytes


class Sequenced(wiring.Component):
    """The address and the steps of the segment with the watched tag, compared with its launch.

    Assumed: a tag is announced after its launch, and launched again after its last step; what ``test_legalizer.py``
    asserts of segments.
    """

    def __init__(self):
        super().__init__({
            "launch": In(1), "launch_tag": In(CONFIG.tag_bits), "segment": In(segment_layout(CONFIG)),
            "arrived": In(1), "arrived_tag": In(CONFIG.tag_bits), "word_valid": In(1),
            "word": In(completion_write_layout(CONFIG)), "urgent": In(1), "step_ready": In(1), "aw_ready": In(1),
            "head": In(CONFIG.slot_bits), "tail": In(CONFIG.slot_bits), "next": In(CONFIG.slot_bits),
            "watched": In(CONFIG.tag_bits),
        })

    def elaborate(self, platform):
        m = Module()
        dut = WriteSequencer(CONFIG)
        m.submodules.dut = parts = elaborated(dut)
        segment, step, arrived = self.segment, dut.steps.payload, dut.arrived
        m.d.comb += [
            dut.launch.read.eq(self.launch), dut.launch.payload.tag.eq(self.launch_tag),
            dut.launch.payload.segment.eq(segment), arrived.valid.eq(self.arrived),
            arrived.payload.eq(self.arrived_tag),
            dut.words.valid.eq(self.word_valid), dut.words.payload.eq(self.word), dut.words.urgent.eq(self.urgent),
            dut.steps.ready.eq(self.step_ready), dut.aw.ready.eq(self.aw_ready), dut.slots.head.eq(self.head),
            dut.slots.tail.eq(self.tail), dut.slots.next.eq(self.next),
        ]
        stable(m, arrived, Assume, "arrived")
        stable(m, dut.words, Assume, "words")
        watched, known = Signal.like(self.watched, name="watched_before"), Signal()
        m.d.sync += [watched.eq(self.watched), known.eq(1)]
        m.d.comb += Assume(~known | (self.watched == watched))

        # -- The watched segment: launched, announced, begun.
        beats = ((segment.src_addr[:LANES] + segment.size) >> LANES) + 1
        end = segment.dst_addr[:LANES] + segment.size
        m.d.comb += [
            Assume(~self.launch | (segment.src_beats == beats)),
            Assume(~self.launch | (segment.dst_addr[:CONFIG.segment_bits] + segment.size < CONFIG.segment_bytes)),
        ]
        used, announced, begun = (Signal(name=name) for name in ("used", "announced", "begun"))
        held = Signal.like(segment, name="held")
        emitted = Signal(range(CONFIG.segment_beats + 2))
        taken = Signal(range(CONFIG.segment_beats + 3))
        launches = self.launch & (self.launch_tag == self.watched)
        announces = arrived.valid & arrived.ready & (arrived.payload == self.watched)
        m.d.comb += [Assume(~launches | ~used),
                     Assume(~(arrived.valid & (arrived.payload == self.watched)) | (used & ~announced))]
        active = internal(parts, "active")
        moved = dut.steps.valid & dut.steps.ready
        begins = dut.events.began & (dut.events.began_tag == self.watched)
        ours = (begins | (active & begun)) & moved
        lane, src_lane = held.dst_addr[:LANES], held.src_addr[:LANES]
        behind = lane < src_lane
        last_beat = (lane + held.size) >> LANES
        ended = ours & step.emit & step.ends
        with m.If(launches):
            m.d.sync += [used.eq(1), held.eq(segment)]
        with m.If(announces):
            m.d.sync += announced.eq(1)
        with m.If(begins):
            m.d.sync += begun.eq(1)
        with m.If(ours):
            m.d.sync += [emitted.eq(emitted + step.emit), taken.eq(taken + step.take)]
        with m.If(ended):
            m.d.sync += [used.eq(0), announced.eq(0), begun.eq(0), emitted.eq(0), taken.eq(0)]

        # -- Its address and its steps.
        addresses = parts.submodules.addresses.i
        address = addresses.payload
        m.d.comb += [
            Assert(~begins | (announced & ~begun), Format("a segment begins twice, or before its data has arrived")),
            Assert(~begins | (addresses.valid & addresses.ready & (address.id == self.watched)
                              & (address.addr == held.dst_addr) & (address.len == last_beat)
                              & (address.attributes == held.dst_attributes)), Format("the burst's address")),
            Assert(~dut.events.began | moved, Format("an address without its first step")),
        ]
        after = taken + step.take
        most = emitted + 1 + behind
        with m.If(ours):
            m.d.comb += [
                Assert(~step.completion, Format("a word instead of data")),
                Assert(~step.emit | (step.starts == (emitted == 0)), Format("starts")),
                Assert(~step.emit | (step.ends == (emitted == last_beat)), Format("the burst has another length")),
                Assert(~(step.emit & step.starts) | (step.start_lane == lane), Format("the first byte")),
                Assert(~(step.emit & step.ends) | (step.end_lane == (lane + held.size)[:LANES]),
                       Format("the last byte")),
                Assert(step.shift == (lane - src_lane)[:LANES], Format("shift")),
                Assert((step.queue == held.queue) & (step.epoch == held.epoch), Format("queue and epoch")),
                Assert(~step.emit | (after == Mux(most > held.src_beats, held.src_beats, most)),
                       Format("beats of another place of the source")),
                Assert(step.emit | (behind & (emitted == 0) & (taken == 0) & step.take), Format("a step without use")),
                Assert(~ended | (after == held.src_beats), Format("a slot is not taken")),
            ]
        self._words(m, dut, step, addresses, moved, active)
        self._invariant(m, dut, parts, held, used, announced, begun, emitted, taken, behind, last_beat, end)
        return m

    def _words(self, m, dut, step, addresses, moved, active):
        """A word is a burst of one beat at its address, and its bytes are the 8, or 4, at this address."""
        word, address = self.word, addresses.payload
        first = word.addr[:LANES]
        with m.If(moved & step.completion):
            m.d.comb += [
                Assert(dut.words.ready & self.word_valid & ~active & ~dut.events.began, Format("a word from nowhere")),
                Assert(addresses.valid & addresses.ready & (address.addr == word.addr) & (address.len == 0)
                       & (address.id == word.id) & (address.attributes == word.attributes), Format("a word's address")),
                Assert(step.emit & step.starts & step.ends & ~step.take, Format("a word of another length")),
                Assert((step.start_lane == first) & (step.word == word.word)
                       & (step.end_lane == first + Mux(word.half, 3, 7)), Format("a word's bytes")),
                Assert((step.queue == word.queue) & (step.epoch == word.epoch), Format("a word's queue and epoch")),
            ]
        m.d.comb += [
            # RingRecords, ArkFlags and CompletionWriter: see test_words.py.
            Assume((word.addr[:2] == 0) & (word.half | ~word.addr[2])),
            Assert(~(self.word_valid & dut.words.ready) | (moved & step.completion), Format("a word is lost")),
        ]

    def _invariant(self, m, dut, parts, held, used, announced, begun, emitted, taken, behind, last_beat, end):
        """The row of the watched tag, the segment read from it, and the counts of the active segment."""
        contexts = parts.submodules.contexts
        rows, read = contexts.read_port(domain="comb"), contexts.read_ports[0]
        m.d.comb += rows.addr.eq(self.watched)
        lane, src_lane = held.dst_addr[:LANES], held.src_addr[:LANES]
        expected = {
            "dst_addr": held.dst_addr, "shift": (lane - src_lane)[:LANES], "behind": behind, "len": last_beat,
            "one_beat": last_beat == 0, "more_takes": held.src_beats - 1, "one_take": held.src_beats == 1,
            "continues": behind | (last_beat != 0), "end_lane": (lane + held.size)[:LANES],
            "attributes": held.dst_attributes, "queue": held.queue, "epoch": held.epoch,
        }
        beats = ((src_lane + held.size) >> LANES) + 1
        m.d.comb += [
            Assert(~used | ((held.src_beats == beats)
                            & (held.dst_addr[:CONFIG.segment_bits] + held.size < CONFIG.segment_bytes)),
                   Format("held")),
            Assert(used | ~announced, Format("announced")), Assert(announced | ~begun, Format("begun")),
            Assert(begun | ((emitted == 0) & (taken == 0)), Format("counts")),
            *(Assert(~used | (rows.data[name] == value), Format("row: {}", number))
              for number, (name, value) in enumerate(expected.items())),
        ]
        active, current = internal(parts, "active"), internal(parts, "current")
        ready, ready_tag = internal(parts, "ready"), internal(parts, "ready_tag")
        with m.If(announced & ~begun):
            m.d.comb += [Assert(ready & (ready_tag == self.watched), Format("ready")),
                         *(Assert(read.data[name] == value, Format("context: {}", number))
                           for number, (name, value) in enumerate(expected.items()))]
        m.d.comb += Assert(~(ready & (ready_tag == self.watched)) | (announced & ~begun), Format("a tag is ready"))
        takes_left, emits_left, sent = (internal(parts, name) for name in ("takes_left", "emits_left", "emitted"))
        m.d.comb += Assert(~begun | active, Format("active"))
        with m.If(begun):
            m.d.comb += [
                Assert(current == Cat(expected["shift"], lane, expected["end_lane"], held.queue, held.epoch)),
                Assert(sent == (emitted != 0), Format("sent")),
                Assert(takes_left == held.src_beats - taken, Format("takes left")),
                Assert(internal(parts, "takes_some") == (takes_left != 0), Format("takes some")),
                Assert(internal(parts, "behind") == behind, Format("behind")),
                Assert(emits_left + behind == last_beat + 1 - emitted, Format("emits left")),
                Assert(emitted <= last_beat, Format("emitted")),
                Assert(taken == Mux(emitted + behind > held.src_beats, held.src_beats, emitted + behind),
                       Format("taken")),
            ]


class Aligned(wiring.Component):
    """Every beat on W, compared with its step: strobes only from the first lane to the last one, none in an outdated
    epoch or after an error.
    """

    def __init__(self):
        super().__init__({"valid": In(1), "step": In(step_layout(CONFIG)), "beat": In(buffered_layout(CONFIG)),
                          "epoch": In(EPOCH_WIDTH), "ready": In(1)})

    def elaborate(self, platform):
        m = Module()
        dut = Aligner(CONFIG)
        m.submodules.dut = parts = elaborated(dut)
        m.d.comb += [dut.steps.valid.eq(self.valid), dut.steps.payload.eq(self.step), dut.beat.eq(self.beat),
                     dut.epoch.epoch.eq(self.epoch), dut.w.ready.eq(self.ready)]
        out, moves = parts.submodules.out.i, dut.steps.ready
        # Two steps: the one whose beat is read, and the one that is rotated, with what is known of it.
        one, two = (Signal.like(self.step, name=name) for name in ("one", "two"))
        one_valid, two_valid = (Signal(name=name) for name in ("one_valid", "two_valid"))
        fails = Signal()            # of the burst of ``two``
        failed = Signal(name="failed_before")
        failing = (one.epoch != self.epoch) | (one.take & self.beat.error) | (~one.first & failed)
        with m.If(moves):
            m.d.sync += [one.eq(self.step), one_valid.eq(self.valid), two.eq(one), two_valid.eq(one_valid & one.emit)]
            with m.If(one_valid):
                m.d.sync += [fails.eq(failing), failed.eq(failing)]
        lanes = Cat((~two.starts | (lane >= two.start_lane)) & (~two.ends | (lane <= two.end_lane))
                    for lane in range(BYTES))
        m.d.comb += Assert(out.valid == two_valid, Format("a beat is lost, or from nowhere"))
        m.d.comb += [
            Assert(internal(parts, "step") == Value.cast(one)),
            Assert(internal(parts, "step_valid") == one_valid), Assert(internal(parts, "failed") == failed),
        ]
        with m.If(two_valid):
            m.d.comb += [
                Assert((out.payload.strb & ~lanes) == 0, Format("a byte outside the destination")),
                Assert(out.payload.strb == Mux(fails, 0, lanes), Format("strobes")),
                Assert(out.payload.last == two.ends, Format("last")),
                Assert(moves == out.ready, Format("moves")),
            ]
            with m.If(two.completion):
                m.d.comb += Assert(out.payload.data == two.word.replicate(CONFIG.data_width // 64), Format("the word"))
        return m


def test_sequencer():
    prove(Sequenced(), name="write-sequencer", depth=2, mode="prove")


def test_aligner():
    prove(Aligned(), name="aligner", depth=3, mode="prove")
