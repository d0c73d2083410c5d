# SPDX-License-Identifier: Apache-2.0
"""Containment of words: records stay inside their ring's records, flags inside their array. After a queue has been
abandoned and its port has drained, no byte of it is written. By induction.
"""

import pytest
from amaranth.hdl import Assert, Assume, Cat, Const, Format, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In

from hw.dma_engine.completion.ark_flags import ArkFlags
from hw.dma_engine.descriptors import RECORD_BYTES, RING_SIZE_BITS
from hw.dma_engine.layouts import EPOCH_WIDTH, RingSettings, notice_layout, word_id_layout
from hw.dma_engine.mover.aligner import OUTPUT_DEPTH, Aligner
from hw.dma_engine.mover.buffer import buffered_layout
from hw.dma_engine.mover.port_drain import PortDrain
from hw.dma_engine.mover.sequencer import ADDRESS_DEPTH, step_layout
from hw.dma_engine.rings.records import RingRecords
from hw.dma_engine.words import Status
from tests.formal.delivery import stable
from tests.formal.small import DMA
from tests.harness.formal import prove
from tests.harness.internals import elaborated, internal, opened

pytestmark = [pytest.mark.formal, pytest.mark.long]


class Recorded(wiring.Component):
    """Every record of the watched ring, compared with the location that was configured for it.

    Assumed: the ring is configured before its first notice (the records' table has no other contents).
    """

    def __init__(self):
        super().__init__({
            "configure": In(1), "configure_queue": In(DMA.queue_bits), "ring": In(RingSettings),
            "restarted": In(DMA.extended), "valid": In(1), "notice": In(notice_layout(DMA)), "ready": In(1),
            "watched": In(DMA.extended_bits),
        })

    def elaborate(self, platform):
        m = Module()
        dut = RingRecords(DMA)
        m.submodules.dut = parts = elaborated(dut)
        m.d.comb += [
            dut.configure.valid.eq(self.configure), dut.configure.queue.eq(self.configure_queue),
            dut.configure.ring.eq(self.ring), dut.restarted.eq(self.restarted), dut.i.valid.eq(self.valid),
            dut.i.payload.eq(self.notice), dut.o.ready.eq(self.ready),
        ]
        _, _ = stable(m, dut.i, Assume, "notice"), stable(m, dut.o, Assert, "record")
        watched, known, configured = Signal.like(self.watched, name="watched_before"), Signal(), Signal()
        page, size = Signal(52), Signal(5)
        low, high = RING_SIZE_BITS
        m.d.sync += [watched.eq(self.watched), known.eq(1)]
        m.d.comb += [
            Assume(~known | (self.watched == watched)),
            Assume(~self.valid | (self.notice.queue != self.watched) | configured),
            Assume(~self.configure | ((self.ring.size >= low) & (self.ring.size <= high))),
        ]
        with m.If(self.configure & (self.configure_queue == self.watched)):
            m.d.sync += [page.eq(self.ring.record_page), size.eq(self.ring.size), configured.eq(1)]
        took = Signal()
        page_before, size_before = Signal.like(page, name="page_before"), Signal.like(size, name="size_before")
        m.d.sync += [took.eq(self.valid & dut.i.ready & self.notice.info.note.ring.end
                             & (self.notice.queue == self.watched)), page_before.eq(page), size_before.eq(size)]
        base = Cat(Const(0, 12), page_before)
        length = RECORD_BYTES << size_before
        word_id = word_id_layout(DMA)(dut.o.payload.id)
        with m.If(took):
            m.d.comb += [
                Assert(dut.o.valid & (word_id.queue == self.watched), Format("a record is lost")),
                Assert(((dut.o.payload.addr ^ base) & ~(length - 1)) == 0, Format("a record of another ring")),
                Assert((dut.o.payload.addr & (RECORD_BYTES - 1)) == 0, Format("a record is not aligned")),
            ]
        rows = opened(parts, "locations").submodules.memory.read_port(domain="comb")
        m.d.comb += [
            rows.addr.eq(self.watched), Assert(~configured | (rows.data == Cat(page, size)), Format("the location")),
            Assert(~configured | ((size >= low) & (size <= high)), Format("the size")),
            Assert(~dut.o.valid | (word_id.top & word_id.notice), Format("another ID")),
        ]
        return m


class Flagged(wiring.Component):
    """Every flag of the watched queue and connection, compared with the arrays that were configured.

    Assumed: as for records; arrays are not configured while a notice of theirs is inside, which a RESET excludes.
    """

    def __init__(self):
        super().__init__({
            "configure": In(1), "configure_queue": In(DMA.queue_bits), "sc_enable": In(1), "sc_addr": In(64),
            "connect": In(1), "connection": In(DMA.connection_bits), "rc_addr": In(64),
            "valid": In(1), "notice": In(notice_layout(DMA)), "ready": In(1),
            "watched": In(DMA.extended_bits), "watched_connection": In(DMA.connection_bits),
        })

    def elaborate(self, platform):
        m = Module()
        dut = ArkFlags(DMA)
        m.submodules.dut = parts = elaborated(dut)
        ark = self.notice.info.note.ark
        m.d.comb += [
            dut.configure.valid.eq(self.configure), dut.configure.queue.eq(self.configure_queue),
            dut.configure.sc_addr.eq(self.sc_addr), dut.configure.settings.sc_enable.eq(self.sc_enable),
            dut.connection.valid.eq(self.connect), dut.connection.connection.eq(self.connection),
            dut.connection.rc_addr.eq(self.rc_addr), dut.i.valid.eq(self.valid), dut.i.payload.eq(self.notice),
            dut.o.ready.eq(self.ready),
        ]
        stable(m, dut.i, Assume, "notice")
        stable(m, dut.o, Assert, "flag")
        chosen = Cat(self.watched, self.watched_connection)
        before, known = Signal.like(chosen, name="watched_before"), Signal()
        enable, sender, receiver = Signal(), Signal(61, name="sender_base"), Signal(61, name="receiver_base")
        m.d.sync += [before.eq(chosen), known.eq(1)]
        ours = (self.notice.queue == self.watched) & (ark.connection == self.watched_connection)
        mine = self.configure & (self.configure_queue == self.watched)
        theirs = self.connect & (self.connection == self.watched_connection)
        # An array is configured while its queue has no notice.
        m.d.comb += [Assume(~known | (chosen == before)), Assume(~(self.valid & ours) | ~(mine | theirs))]
        some_sender, some_receiver = Signal(), Signal()
        with m.If(mine):
            m.d.sync += [enable.eq(self.sc_enable), sender.eq(self.sc_addr[3:]), some_sender.eq(1)]
        with m.If(theirs):
            m.d.sync += [receiver.eq(self.rc_addr[3:]), some_receiver.eq(1)]
        m.d.comb += Assume(~(self.valid & ours) | (some_sender & some_receiver))
        # The flags: RC, then SC if enabled.
        lookup, is_sc, free = (internal(parts, name) for name in ("lookup_valid", "is_sc", "free"))
        loads = lookup & free
        loaded, expected = Signal(), Signal(64)
        element = Mux(is_sc, Cat(Const(0, 3), sender) + (ark.src << 2), Cat(Const(0, 3), receiver) + (ark.dst << 2))
        m.d.sync += [loaded.eq(loads & self.valid & ours), expected.eq(element)]
        m.d.comb += [
            Assert(~lookup | self.valid, Format("flags of no notice")),
            Assert(~lookup | (self.notice.status == Status.OK), Format("flags of a failed request")),
            Assert(~(lookup & ours & is_sc) | enable, Format("a flag that is not enabled")),
            Assert(~loaded | (dut.o.valid & (dut.o.payload.addr == expected)), Format("a flag outside its array")),
        ]
        # -- The invariant: rows, and the registers that were looked up.
        senders = opened(parts, "senders").submodules.memory.read_port(domain="comb")
        receivers = opened(parts, "receivers").submodules.memory.read_port(domain="comb")
        now, there = internal(parts, "sender"), internal(parts, "receiver")
        m.d.comb += [
            senders.addr.eq(self.watched), receivers.addr.eq(self.watched_connection),
            Assert(~some_sender | (senders.data == Cat(enable, sender)), Format("sender")),
            Assert(~some_receiver | (receivers.data == receiver), Format("receiver")),
            Assert(~(lookup & ours) | (now == Cat(enable, sender)), Format("looked up")),
            Assert(~(lookup & ours) | (there == receiver), Format("looked up")),
            Assert(~is_sc | lookup, Format("is_sc")),
            Assert(~lookup | ~is_sc | now[0], Format("enabled")),
        ]
        return m


class Drained(wiring.Component):
    """The beats of the watched queue with strobes, in the aligner and on W: those of an epoch that has ended are on W
    only while the drain is busy.

    Assumed of Epochs: the drain starts in the cycle with which the epoch ends. That a beat of an outdated epoch has no
    strobes is in ``test_write.py``.
    """

    def __init__(self):
        super().__init__({"valid": In(1), "step": In(step_layout(DMA)), "beat": In(buffered_layout(DMA)),
                          "ready": In(1), "epoch": In(EPOCH_WIDTH), "start": In(1), "watched": In(DMA.queue_bits)})

    def elaborate(self, platform):
        m = Module()
        dut, drain = Aligner(DMA), PortDrain(addresses=ADDRESS_DEPTH, beats=OUTPUT_DEPTH + 1)
        m.submodules.dut = parts = elaborated(dut)
        m.submodules.drain = waits = elaborated(drain)
        present, watched, known = Signal(EPOCH_WIDTH), Signal.like(self.watched, name="watched_before"), Signal()
        start, ended = self.start & ~drain.drain.busy, Signal()
        m.d.sync += [watched.eq(self.watched), known.eq(1), present.eq(present + start), ended.eq(start)]
        m.d.comb += [
            Assume(~known | (self.watched == watched)), drain.drain.start.eq(start),
            drain.w.level.eq(dut.w_level.level), drain.w.taken.eq(dut.w_level.taken),
            dut.steps.valid.eq(self.valid), dut.steps.payload.eq(self.step), dut.beat.eq(self.beat),
            dut.w.ready.eq(self.ready),
            dut.epoch.epoch.eq(Mux(dut.epoch.queue == self.watched, present, self.epoch)),
        ]
        step = step_layout(DMA)(internal(parts, "step"))
        emit, out = internal(parts, "emit"), parts.submodules.out
        moves, level = dut.steps.ready, out.level
        pop, push = dut.w.valid & self.ready, emit & out.i.ready
        # One bit per beat, the oldest first, the last one for the beat before the queue: it is of the watched queue and
        # of the present epoch; and of one that has ended.
        fresh, stale = Signal(OUTPUT_DEPTH + 1), Signal(OUTPUT_DEPTH + 1)
        entering = Signal(OUTPUT_DEPTH + 1)
        now_stale, now_fresh = Signal.like(stale, name="now_stale"), Signal.like(fresh, name="now_fresh")
        m.d.comb += [now_stale.eq(stale | Mux(ended, fresh, 0)), now_fresh.eq(Mux(ended, 0, fresh))]
        mine = internal(parts, "step_valid") & step.emit & (step.queue == self.watched) & (step.epoch == present)
        m.d.comb += entering.eq((moves & mine) << (level + push - pop)[:3])
        m.d.sync += [stale.eq(now_stale >> pop), fresh.eq((now_fresh >> pop) | entering)]
        left, busy = internal(waits, "w_left"), drain.drain.busy
        m.d.comb += [
            Assert(~(pop & now_stale[0]) | busy, Format("a beat of an epoch that has ended, after the drain")),
            *(Assert(~stale[place] | ended | (place < left), Format("the drain does not wait for it"))
              for place in range(OUTPUT_DEPTH + 1)),
            Assert(~ended | (stale == 0), Format("a beat of an earlier epoch")),
            Assert(internal(waits, "sample") == ended), Assert((stale & fresh) == 0),
            *(Assert(~(stale[place] | fresh[place]) | (place < level + emit), Format("a beat from nowhere"))
              for place in range(OUTPUT_DEPTH + 1)),
            Assert(left <= level + emit, Format("the drain waits for nothing")),
            Assert(dut.w.valid == (level != 0)), Assert(out.i.ready == (level != OUTPUT_DEPTH)),
            Assert(level <= OUTPUT_DEPTH),
        ]
        return m


@pytest.mark.parametrize("design", [Recorded, Flagged, Drained])
def test_containment(design):
    prove(design(), name=f"words-{design.__name__}", depth=2, mode="prove")
