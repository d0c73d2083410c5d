# SPDX-License-Identifier: Apache-2.0
"""Completion: a segment ends only with the write response to its data; RC and SC count the requests whose segments have
all ended, in order and one by one; the writer writes the newest word of a queue to the configured address, and none of
an epoch that has ended as one of the present epoch.
"""

import pytest
from amaranth.hdl import Assert, Assume, Cat, Const, Format, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In

from hw.dma_engine.completion.retire import Retire
from hw.dma_engine.completion.writer import CompletionWriter
from hw.dma_engine.config import BLOCK_ENTRIES
from hw.dma_engine.layouts import (
    EPOCH_WIDTH,
    PLACE_BITS,
    EndFlags,
    origin_fields,
    queue_settings_layout,
    segment_layout,
    word_id_layout,
    write_response_layout,
)
from hw.dma_engine.mover.responses import Responses
from hw.dma_engine.words import Status
from tests.formal.small import DMA, swept
from tests.harness.formal import prove
from tests.harness.internals import elaborated, internal, opened

pytestmark = [pytest.mark.formal, pytest.mark.long]


class Ended(wiring.Component):
    """The ends of the segments with the watched tag, compared with their launch and with the responses on B.

    Assumed: a tag is not launched again before its end. Of memory: nothing.
    """

    def __init__(self):
        super().__init__({
            "launch": In(1), "signal": In(1), "launch_tag": In(DMA.tag_bits), "segment": In(segment_layout(DMA)),
            "b_valid": In(1), "b": In(write_response_layout(DMA)), "read_resp": In(2), "watched": In(DMA.tag_bits),
        })

    def elaborate(self, platform):
        m = Module()
        dut = Responses(DMA)
        m.submodules.dut = parts = elaborated(dut)
        m.d.comb += [
            dut.launch.read.eq(self.launch & ~self.signal), dut.launch.signal.eq(self.launch & self.signal),
            dut.launch.payload.tag.eq(self.launch_tag), dut.launch.payload.segment.eq(self.segment),
            dut.b.valid.eq(self.b_valid), dut.b.payload.eq(self.b), Value.cast(dut.read_status.resp).eq(self.read_resp),
        ]
        watched, known = Signal.like(self.watched, name="watched_before"), Signal()
        m.d.sync += [watched.eq(self.watched), known.eq(1)]
        m.d.comb += Assume(~known | (self.watched == watched))
        fields = origin_fields(DMA)
        used, came, ends = (Signal(name=name) for name in ("used", "came", "ends"))
        held = {name: Signal(self.segment[name].shape(), name=f"held_{name}") for name in fields}
        launches = self.launch & (self.launch_tag == self.watched)
        m.d.sync += [came.eq(self.b_valid & dut.b.ready & (self.b.id == self.watched)), ends.eq(came & used),
                     used.eq((used & ~came) | launches)]
        ended = {name: Signal.like(value, name=f"ended_{name}") for name, value in held.items()}
        m.d.sync += [ended[name].eq(held[name]) for name in fields]
        with m.If(launches):
            m.d.sync += [held[name].eq(self.segment[name]) for name in fields]
        ours = dut.done.valid & (dut.done.tag == self.watched)
        m.d.comb += [
            Assume(~launches | ~used),
            Assert(ours == ends, Format("a segment ends without its response, twice, or never")),
            *(Assert(~ours | (dut.done.payload[name] == ended[name]), Format("another segment ends"))
              for name in fields),
            Assert((dut.free.valid & (dut.free.number == self.watched)) == ours, Format("its tag is not freed")),
        ]
        # -- The invariant: rows of the watched tag.
        rows = {name: opened(parts, name).submodules.memory.read_port(domain="comb") for name in ("begun", "ended")}
        origin = parts.submodules.origins.read_port(domain="comb")
        m.d.comb += [rows["begun"].addr.eq(self.watched), rows["ended"].addr.eq(self.watched),
                     origin.addr.eq(self.watched)]
        number, valid = internal(parts, "number"), internal(parts, "valid")
        read = parts.submodules.origins.read_ports[0]
        m.d.comb += [
            Assert((rows["begun"].data[-1] ^ rows["ended"].data[0]) == used, Format("in flight")),
            *(Assert(~used | (origin.data[name] == held[name]), Format("origin")) for name in fields),
            Assert(came == (valid & (number == self.watched)), Format("came")),
            *(Assert(~ours | (read.data[name] == ended[name]), Format("read")) for name in fields),
        ]
        return m


class Counted(wiring.Component):
    """The words that retirement publishes, compared with the segments of the watched queue that have ended.

    The queue has one block of window entries, hence at most ``BLOCK_ENTRIES`` segments here; its segments end in any
    order and with any status, and are numbered by the scheduler. Other queues are as the solver likes.
    """

    def __init__(self):
        super().__init__({
            "schedule": In(1), "last": In(1), "end": In(EndFlags), "done": In(1), "which": In(PLACE_BITS),
            "failed": In(1), "settings": In(queue_settings_layout(DMA)), "clear": In(1),
        })

    def elaborate(self, platform):
        m = Module()
        dut, queue = Retire(DMA), 1
        m.submodules.dut = dut
        done = swept(m, dut.init, DMA.queues)
        scheduled, ended, lasts = Signal(range(BLOCK_ENTRIES + 1)), Signal(BLOCK_ENTRIES), Signal(BLOCK_ENTRIES)
        end = Signal(3 * BLOCK_ENTRIES)
        schedules = self.schedule & done & (scheduled != BLOCK_ENTRIES)
        ends = self.done & done & (self.which < scheduled) & ~ended.bit_select(self.which, 1)
        segment = dut.scheduled.segment
        m.d.comb += [
            dut.scheduled.valid.eq(schedules), segment.queue.eq(queue),
            segment.index.eq(Cat(scheduled[:PLACE_BITS], Const(queue, DMA.block_bits))),
            segment.last.eq(self.last), segment.request.end.eq(self.end),
            dut.done.valid.eq(ends), dut.done.payload.queue.eq(queue),
            dut.done.payload.index.eq(Cat(self.which, Const(queue, DMA.block_bits))),
            dut.done.payload.last.eq(lasts.bit_select(self.which, 1)),
            Value.cast(dut.done.payload.end).eq(end.word_select(self.which, 3)),
            dut.done.payload.status.eq(Mux(self.failed, Status.READ_SLVERR, Status.OK)),
            dut.settings.settings.eq(self.settings),
            dut.ops.valid.eq(self.clear & done), dut.ops.payload.kind.eq(1), dut.ops.payload.queue.eq(queue),
        ]
        with m.If(schedules):
            m.d.sync += [scheduled.eq(scheduled + 1), lasts.bit_select(scheduled[:PLACE_BITS], 1).eq(self.last),
                         end.word_select(scheduled[:PLACE_BITS], 3).eq(self.end)]
        with m.If(ends):
            m.d.sync += ended.bit_select(self.which, 1).eq(1)
        # Requests whose segments, and those before them, have all ended.
        complete = sum((ended[:number + 1].all() & lasts[number]) for number in range(BLOCK_ENTRIES))
        count = dut.publish.word.count
        counted = Signal(4)
        ours = dut.outcome.ended & (dut.outcome.queue == queue)
        publishes = (dut.publish.rc | dut.publish.sc) & (dut.publish.queue == queue)
        with m.If(ours):
            m.d.sync += counted.eq(counted + 1)
        m.d.comb += [
            Assert(~publishes | (count <= complete), Format("a request is counted before all of its segments ended")),
            Assert(~publishes | (count == counted + ours), Format("a count is skipped or repeated")),
            Assert(counted + ours <= complete, Format("more requests end than are complete")),
            Assert(~(dut.outcome.ended & (dut.outcome.queue != queue)), Format("a request of another queue ends")),
        ]
        return m


class Written(wiring.Component):
    """The words of the watched queue and kind that leave the writer, compared with those that were published.

    Assumed of WordResponses: a response is passed on, and words are discarded, as ``word_responses.py`` states. Of
    Epochs: a queue's epoch is incremented in the cycle after ``abandon``, and not so often while a word waits that it
    wraps. The address is configured at any time; a word that leaves has the address of its choice.
    """

    def __init__(self):
        self.dut = dut = CompletionWriter(DMA)
        word = dut.publish.word.shape()
        super().__init__({
            "configure": In(1), "configure_queue": In(DMA.queue_bits), "sc_addr": In(64), "rc_addr": In(64),
            "sc": In(1), "rc": In(1), "publish_queue": In(DMA.queue_bits), "word": In(word), "discard": In(1),
            "abandon": In(1), "abandon_queue": In(DMA.queue_bits), "drop": In(1), "drop_queue": In(DMA.queue_bits),
            "written": In(1), "written_id": In(word_id_layout(DMA)), "epoch": In(EPOCH_WIDTH), "ready": In(1),
            "watched": In(DMA.queue_bits), "watched_rc": In(1),
        })

    def elaborate(self, platform):
        m = Module()
        dut = self.dut
        m.submodules.dut = parts = elaborated(dut)
        kept, known, present = Signal(DMA.queue_bits + 1), Signal(), Signal(EPOCH_WIDTH)
        m.d.sync += [kept.eq(Cat(self.watched, self.watched_rc)), known.eq(1)]
        m.d.comb += [
            Assume(~known | (Cat(self.watched, self.watched_rc) == kept)),
            dut.configure.valid.eq(self.configure), dut.configure.queue.eq(self.configure_queue),
            dut.configure.sc_addr.eq(self.sc_addr), dut.configure.rc_addr.eq(self.rc_addr),
            dut.publish.sc.eq(self.sc), dut.publish.rc.eq(self.rc), dut.publish.queue.eq(self.publish_queue),
            dut.publish.word.eq(self.word), dut.publish.discard.eq(self.discard),
            dut.abandon.valid.eq(self.abandon), dut.abandon.queue.eq(self.abandon_queue),
            dut.discard.valid.eq(self.drop), dut.discard.queue.eq(self.drop_queue),
            dut.written.valid.eq(self.written), dut.written.id.eq(self.written_id),
            dut.epoch.epoch.eq(Mux(dut.epoch.queue == self.watched, present, self.epoch)), dut.o.ready.eq(self.ready),
            Assume(~self.drop | ~self.written),
        ]
        chosen, queue, is_rc = (internal(parts, name) for name in ("chosen", "queue", "is_rc"))
        o = dut.o.payload
        identity = word_id_layout(DMA)(o.id)
        publishes = Mux(self.watched_rc, self.rc, self.sc) & (self.publish_queue == self.watched)
        abandons = self.abandon & (self.abandon_queue == self.watched)
        loads = ~dut.o.valid | self.ready
        here = chosen & (queue == self.watched) & (is_rc == self.watched_rc)
        # The newest word, the address, and whether one was published since the queue was abandoned.
        newest, address = Signal.like(Value.cast(self.word), name="newest"), Signal(61, name="address")
        fresh, dirty = Signal(), Signal()
        shown, was_here, at_once = (Signal(name=name) for name in ("shown", "was_here", "at_once_before"))
        newest_before, address_before = (
            Signal.like(value, name=f"{value.name}_before") for value in (newest, address))
        changed = internal(parts, "rc_changed"), internal(parts, "sc_changed")
        once = internal(parts, "rc_at_once"), internal(parts, "sc_at_once")

        def ours(pair):
            return Mux(self.watched_rc, pair[0], pair[1]).bit_select(self.watched, 1)

        flying = ours((dut.outstanding.rc, dut.outstanding.sc))
        m.d.sync += [present.eq(present + abandons), newest_before.eq(newest), address_before.eq(address),
                     was_here.eq(here), shown.eq(loads), at_once.eq(ours(once))]
        with m.If(publishes):
            m.d.sync += [newest.eq(self.word), fresh.eq(1)]
        with m.Elif(abandons):
            m.d.sync += fresh.eq(0)
        with m.If(self.configure & (self.configure_queue == self.watched)):
            m.d.sync += address.eq(Mux(self.watched_rc, self.rc_addr, self.sc_addr)[3:])
        with m.If(publishes & ~ours(once)):
            m.d.sync += dirty.eq(1)
        with m.Elif((here & loads) | abandons | (self.discard & (self.publish_queue == self.watched))):
            m.d.sync += dirty.eq(0)
        leaves = dut.o.valid & (identity.queue == self.watched) & (identity.is_rc == self.watched_rc)
        configured = Signal()
        with m.If(self.configure & (self.configure_queue == self.watched)):
            m.d.sync += configured.eq(1)
        configured_before = Signal()
        m.d.sync += configured_before.eq(configured)
        with m.If(leaves & shown):
            m.d.comb += [
                Assert(was_here | at_once, Format("a word that was not chosen")),
                Assert(~was_here | (o.word == newest_before), Format("not the newest word")),
                Assert(was_here | (o.word == newest), Format("not the published word")),
                Assert((o.epoch != present) | fresh, Format("a word of an epoch that has ended")),
                Assert(~configured_before | (o.addr == address_before << 3), Format("another address")),
            ]
        m.d.comb += [
            Assert(~identity.notice & (~dut.o.valid | identity.top), Format("another ID")),
            Assert(~dut.o.valid | (o.queue == identity.queue), Format("another queue")),
            Assert(~ours(changed) | fresh, Format("a word of an abandoned queue waits")),
            Assert(~here | internal(parts, "epoch_ended") | fresh, Format("a word of an abandoned queue is chosen")),
            Assert(~dirty | ours(changed) | here, Format("a published word is lost")),
        ]
        self._once(m, here, loads, leaves, flying, ours(changed))
        self._invariant(m, parts, newest, address, configured)
        return m

    def _once(self, m, here, loads, leaves, flying, changed):
        """At most one word is between its choice and its response."""
        response = self.written & ~self.written_id.notice & (self.written_id.queue == self.watched) & (
            self.written_id.is_rc == self.watched_rc)
        # WordResponses passes on a response only to a word that has left.
        left = Signal()
        dropped = self.drop & (self.drop_queue == self.watched)
        m.d.sync += left.eq((left | (leaves & self.ready)) & ~(response | dropped))
        m.d.comb += [
            Assume(~response | left),
            Assume(~dropped | ~(here | leaves)),
            Assert(~(here | leaves) | flying, Format("a word in flight is not outstanding")),
            Assert(~(here & leaves) & ~(here & left) & ~(leaves & left), Format("two words are in flight")),
            Assert(~left | flying, Format("a word that has left is not outstanding")),
        ]

    def _invariant(self, m, parts, newest, address, configured):
        for kind, wanted in (("rc", self.watched_rc), ("sc", ~self.watched_rc)):
            words = opened(parts, f"{kind}_words").submodules.memory.read_port(domain="comb")
            addresses = opened(parts, f"{kind}_addresses").submodules.memory.read_port(domain="comb")
            m.d.comb += [
                words.addr.eq(self.watched), addresses.addr.eq(self.watched),
                Assert(~wanted | (words.data == newest), Format("the newest word is not stored")),
                Assert(~(wanted & configured) | (addresses.data == address), Format("the address is not stored")),
            ]


def test_ends():
    prove(Ended(), name="responses", depth=2, mode="prove")


def test_counts():
    prove(Counted(), name="retire-counts", depth=11)


def test_words():
    prove(Written(), name="completion-writer", depth=2, mode="prove")
