# SPDX-License-Identifier: Apache-2.0
"""Retirement: segments end in any order, requests complete in the order of their queue.

Responses, ReadIssue (rejected) -> Retire -> CompletionWriter, error log.  Latency: 2 cycles from the end of
a queue's oldest segment to ``publish``, 4 if the pipeline is busy.  Throughput: one segment per cycle, also from one
queue, whose next entry is read speculatively while no other queue requests the pipeline.

A segment that ends marks its entry in its queue's window; the queue's head advances over marked entries. Operations on
a queue (clear, reset, events) use the same pipeline, so that a single stage changes its counters.
"""

from amaranth import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.common.layouts import CompletionLayout
from hw.common.sweep import SweepSignature
from hw.common.table import Table
from hw.dma_engine.config import DmaConfig
from hw.dma_engine.configuration import AblationSignature, QueueStatesSignature
from hw.dma_engine.control.epochs import EpochLookupSignature
from hw.dma_engine.frontend.settings import SettingsLookupSignature
from hw.dma_engine.instruments.counters import MovedSignature
from hw.dma_engine.layouts import (
    PLACE_BITS,
    STATUS_WIDTH,
    EndFlags,
    InfoLayout,
    OpKind,
    done_layout,
    op_layout,
    queue_settings_layout,
)
from hw.dma_engine.strobes import (
    DoneSignature,
    OutcomeSignature,
    RetiredSignature,
    ReturnedSignature,
    ScheduledSignature,
)
from hw.dma_engine.words import QueueMode, Status
from hw.stream import RoundRobin

from .notices import NoticeSignature
from .window_table import WindowEntry, WindowTable
from .writer import PublishSignature

__all__ = ["HeadLookupSignature", "Retire", "RetirementLookupSignature"]


class HeadLookupSignature(wiring.Signature):
    """The scheduler looks up a queue's oldest segment that has not retired; combinational."""

    def __init__(self, config: DmaConfig) -> None:
        super().__init__({"queue": Out(config.queue_bits), "head": In(config.flight_width)})


class RetirementLookupSignature(wiring.Signature):
    """Software and the scanner look up a queue's oldest segment and its completion word; combinational."""

    def __init__(self, config: DmaConfig) -> None:
        super().__init__({"queue": Out(config.queue_bits), "head": In(config.flight_width),
                          "word": In(CompletionLayout)})


class Retire(wiring.Component):
    """Complete requests in order, count them, and select what to publish.

    Parameters
    ----------
    config : DmaConfig

    Members
    -------
    init : ``In(SweepSignature)``
    done : ``In(DoneSignature)``
    rejected, abandoned : ``In(stream.Signature(done_layout))``
        Taken when there is no ``done``; ``abandoned`` when there is none of the others. The latter ends the queue's
        oldest segment, whatever its ``index``.
    epoch : ``Out(EpochLookupSignature)``
        Ends of segments of an older epoch are dropped: those segments have been ended before.
    ops : ``In(stream.Signature(op_layout))``
        Always taken, except during the sweep.
    queues : ``In(QueueStatesSignature)``
    ablation : ``In(AblationSignature)``, pending : ``In(queues)``
        With ``every_word``, do not retire from queues with completion words to write.
    scheduled : ``In(ScheduledSignature)``
        A segment takes an entry of its window.
    notice : ``Out(NoticeSignature)``
        While ``crowded``, extended queues retire only the segments in stages 1 to 3.
    settings : ``Out(SettingsLookupSignature)``
    held : ``Out(queues)``
        Queues that hold after an error.
    moved : ``Out(MovedSignature)``
    retired : ``Out(RetiredSignature)``, returned : ``Out(ReturnedSignature)``
    head : ``In(HeadLookupSignature)``, lookup : ``In(RetirementLookupSignature)``
    publish : ``Out(PublishSignature)``, outcome : ``Out(OutcomeSignature)``
    """

    def __init__(self, config: DmaConfig) -> None:
        self.config = config
        super().__init__({
            "init": In(SweepSignature(config)),
            "done": In(DoneSignature(config)),
            "rejected": In(stream.Signature(done_layout(config))),
            "abandoned": In(stream.Signature(done_layout(config))),
            "epoch": Out(EpochLookupSignature(config)),
            "ops": In(stream.Signature(op_layout(config))),
            "queues": In(QueueStatesSignature(config)), "ablation": In(AblationSignature()),
            "pending": In(config.queues),
            "scheduled": In(ScheduledSignature(config)),
            "notice": Out(NoticeSignature(config)), "settings": Out(SettingsLookupSignature(config)),
            "held": Out(config.queues), "moved": Out(MovedSignature(config)),
            "retired": Out(RetiredSignature(config)), "returned": Out(ReturnedSignature(config)),
            "head": In(HeadLookupSignature(config)), "lookup": In(RetirementLookupSignature(config)),
            "publish": Out(PublishSignature(config)), "outcome": Out(OutcomeSignature(config)),
        })

    def elaborate(self, platform):
        m = Module()
        config, queues, init = self.config, self.config.queues, SweepSignature(self.config)
        m.submodules.heads = heads = Table(config.flight_width, depth=queues, reads=3, init=init)
        m.submodules.indices = indices = Table(             # of the heads
            config.index_width, depth=queues, reads=2, init=init,
            reset=lambda address: Cat(C(0, PLACE_BITS), address[:config.queue_bits]))
        m.submodules.verdicts = verdicts = Table(
            data.StructLayout({"status": STATUS_WIDTH, "failed": 1}), depth=queues, reads=1, init=init)
        m.submodules.words = words = Table(CompletionLayout, depth=queues, reads=2, init=init)
        for table in (heads, indices, verdicts, words):
            wiring.connect(m, wiring.flipped(self.init), table.init)
        m.d.comb += [
            heads.read[1].addr.eq(self.head.queue), self.head.head.eq(heads.read[1].data),
            heads.read[2].addr.eq(self.lookup.queue), self.lookup.head.eq(heads.read[2].data),
            words.read[1].addr.eq(self.lookup.queue), self.lookup.word.eq(words.read[1].data),
        ]
        m.submodules.window_table = window_table = WindowTable(config)
        wiring.connect(m, wiring.flipped(self.init), window_table.init)

        tries = Signal(queues)              # the head may be marked
        one_valid, one_op, one_queue = Signal(), Signal(), Signal(config.queue_bits)
        one_onehot, two_onehot = Signal(queues), Signal(queues)

        # -- A segment ends: mark its entry.
        done, marked = Signal(done_layout(config)), Signal()
        index, oldest = Signal(config.index_width), Signal(config.index_width)
        m.d.comb += [
            done.eq(Mux(self.done.valid, self.done.payload,
                        Mux(self.rejected.valid, self.rejected.payload, self.abandoned.payload))),
            indices.read[1].addr.eq(done.queue), oldest.eq(indices.read[1].data),
            index.eq(Mux(self.done.valid | self.rejected.valid, done.index, oldest)),
            self.epoch.queue.eq(done.queue),
            marked.eq((self.done.valid | self.rejected.valid | self.abandoned.valid)
                      & (done.epoch == self.epoch.epoch)),
            self.rejected.ready.eq(~self.done.valid & ~self.init.active),
            self.abandoned.ready.eq(~self.done.valid & ~self.rejected.valid & ~self.init.active),
            self.returned.valid.eq(self.done.valid | (self.rejected.valid & self.rejected.ready)),
            self.returned.queue.eq(done.queue), self.returned.size.eq(done.size),
            self.returned.target.eq(done.target), self.returned.phase.eq(done.phase),
            self.moved.valid.eq(self.done.valid & marked), self.moved.queue.eq(self.done.payload.queue),
            self.moved.size.eq(self.done.payload.size), self.moved.ok.eq(self.done.payload.status == Status.OK),
            window_table.mark.valid.eq(marked), window_table.mark.done.eq(done), window_table.mark.done.index.eq(index),
        ]
        wiring.connect(m, wiring.flipped(self.scheduled), window_table.scheduled)

        # -- Queues that may retire now: not those that hold, nor extended ones while notices stall. A queue that resets
        # sends no notices.
        open_ = Signal(queues)
        m.d.comb += open_.eq(self.queues.resetting | ~(
            self.held | Mux(self.notice.crowded, Const((1 << config.extended) - 1, queues), 0)))

        # -- The segment is its queue's oldest and stage 2 is free in the next cycle: bypass stages 0 and 1.
        direct = Signal()
        m.d.comb += [
            direct.eq(marked & (oldest == index) & ~one_valid & ~one_op
                      & ~self.ablation.every_word & ~tries.bit_select(done.queue, 1)
                      & ~two_onehot.bit_select(done.queue, 1) & open_.bit_select(done.queue, 1)),
        ]

        # -- Stage 0: a queue whose head may be marked, or an operation.
        busy = Signal(queues)
        m.submodules.choice = choice = RoundRobin(queues)
        is_op, pick, again, one_again, continues = Signal(), Signal(), Signal(), Signal(), Signal()
        m.d.comb += [
            self.ops.ready.eq(~self.init.active),
            is_op.eq(self.ops.valid),
            choice.requests.eq(tries & ~busy & open_),
            pick.eq(choice.valid & ~is_op & ~self.init.active),
            choice.advance.eq(pick),
            again.eq(one_valid & continues & ~self.ablation.every_word & ~choice.valid & ~is_op
                     & (one_onehot & open_).any()),
        ]

        # -- Stage 1: read the entry, or retry later.
        put_off = Signal()
        op_kind, op_status = Signal(OpKind), Signal(STATUS_WIDTH)
        one_head, one_index = Signal(config.flight_width), Signal(config.index_width)
        looked_up = Signal(config.queue_bits)   # the queue in stage 1, or that of a segment that may bypass it
        m.d.sync += [
            one_valid.eq(pick | again), one_again.eq(again), one_op.eq(is_op & self.ops.ready),
            one_queue.eq(Mux(is_op, self.ops.payload.queue, Mux(again, one_queue, choice.grant))),
            one_onehot.eq(Mux(pick, choice.grant_onehot, Mux(again, one_onehot, 0))),
            op_kind.eq(self.ops.payload.kind), op_status.eq(self.ops.payload.status),
        ]
        m.d.comb += [
            put_off.eq(one_valid & self.ablation.every_word & self.pending.bit_select(one_queue, 1)),
            looked_up.eq(Mux(one_valid | one_op, one_queue, done.queue)),
            heads.read[0].addr.eq(looked_up), indices.read[0].addr.eq(looked_up),
            one_head.eq(Mux(one_again, heads.write.data, heads.read[0].data)),
            one_index.eq(Mux(one_again, indices.write.data, indices.read[0].data)),
            window_table.lookup.index.eq(one_index),
        ]

        # -- Stage 2: does the head move, does a request end, does the queue hold?
        two_valid, two_op, two_queue = Signal(), Signal(), Signal(config.queue_bits)
        two_head, two_index = Signal.like(one_head), Signal.like(one_index)
        two_entry = Signal(WindowEntry)
        two_direct, later = Signal(), Signal()
        two_kind, two_status = Signal(OpKind), Signal(STATUS_WIDTH)
        m.d.sync += [
            two_valid.eq((one_valid & continues & ~put_off) | direct), later.eq(put_off), two_op.eq(one_op),
            two_direct.eq(direct),
            # Independent of ``direct``, which is late-arriving.
            two_queue.eq(looked_up),
            two_onehot.eq(Mux(direct, 1 << done.queue, one_onehot)),
            two_head.eq(one_head), two_index.eq(one_index),
            two_entry.last.eq(done.last), two_entry.end.eq(done.end), two_entry.status.eq(done.status),
            two_entry.failed.eq(done.status != Status.OK),
            two_kind.eq(op_kind), two_status.eq(op_status),
        ]
        m.d.comb += busy.eq(one_onehot | two_onehot)
        entry, so_far, verdict = Signal(WindowEntry), verdicts.read[0].data.status, Signal(STATUS_WIDTH)
        m.d.comb += entry.eq(Mux(two_direct, two_entry, window_table.lookup.entry))
        hit, ends, fails, holds = Signal(), Signal(), Signal(), Signal()
        held_failed = Signal(queues)    # held by a request that is not yet counted
        resetting = self.queues.resetting.bit_select(two_queue, 1)
        m.d.comb += [
            verdicts.read[0].addr.eq(two_queue),
            self.settings.queue.eq(two_queue),
            verdict.eq(Mux(_precedes(entry.status, so_far), entry.status, so_far)),
            hit.eq(two_valid & (two_direct | window_table.lookup.marked)),
            # A speculative read is valid if the previous entry was marked and cannot make the queue hold.
            continues.eq(~one_again | (hit & ~fails)),
            ends.eq(hit & entry.last),
            fails.eq(ends & (verdicts.read[0].data.failed | entry.failed)),
            holds.eq(fails & ~self.settings.settings.skip_errors & ~resetting),
            heads.write.addr.eq(two_queue), heads.write.en.eq(hit),
            heads.write.data.eq(two_head + 1),
            indices.write.addr.eq(two_queue), indices.write.en.eq(hit),
            indices.write.data.eq(Cat(heads.write.data[:PLACE_BITS], window_table.lookup.next)),
            verdicts.write.addr.eq(two_queue), verdicts.write.data.status.eq(Mux(ends | two_op, 0, verdict)),
            verdicts.write.data.failed.eq(~(ends | two_op) & (verdicts.read[0].data.failed | entry.failed)),
            verdicts.write.en.eq(hit | (two_op & (two_kind == OpKind.RESET))),
            self.retired.valid.eq(hit), self.retired.queue.eq(two_queue), self.retired.number.eq(two_head),
            self.retired.index.eq(two_index),
        ]
        timeout = two_op & (two_kind == OpKind.EVENT) & (two_status == Status.TIMEOUT)
        release = two_op & (two_kind != OpKind.EVENT)
        for index in range(queues):
            here = two_queue == index
            with m.If((marked & (done.queue == index)) | ((hit | later | release) & here)):
                m.d.sync += tries[index].eq(1)
            with m.Elif(pick & choice.grant_onehot[index]):
                m.d.sync += tries[index].eq(0)
            with m.If(holds & here):
                m.d.sync += [self.held[index].eq(1), held_failed[index].eq(1)]
            with m.Elif(timeout & here):
                m.d.sync += self.held[index].eq(1)
            with m.Elif(release & here):
                m.d.sync += [self.held[index].eq(0), held_failed[index].eq(0)]

        # -- Stage 3: counters, what to publish, what to log.
        three = Signal(data.StructLayout({
            "ok": 1, "fail": 1, "event": 1, "clear": 1, "reset": 1, "counts": 1,
            "queue": config.queue_bits, "end": EndFlags, "status": STATUS_WIDTH,
            "settings": queue_settings_layout(config), "notice": 1, "info": InfoLayout,
        }))
        notifies, interrupts, notice = Signal(), Signal(), self.notice.payload
        m.d.comb += [
            notifies.eq(ends & ~resetting & (self.settings.settings.mode != QueueMode.NATIVE)),
            interrupts.eq(three.fail | (three.ok & three.end.irq)),
            self.notice.valid.eq(three.notice), notice.queue.eq(three.queue), notice.mode.eq(three.settings.mode),
            notice.irq.eq(interrupts), notice.status.eq(three.status), notice.info.eq(three.info),
        ]
        quiet = (two_status == Status.DISABLED) | (two_status == Status.COMPLETION_ERROR)
        m.d.sync += [
            three.ok.eq(ends & ~fails & ~resetting),
            three.fail.eq((fails & ~resetting) | (two_op & (two_kind == OpKind.EVENT) & ~quiet)),
            three.event.eq(two_op & (two_kind == OpKind.EVENT) & quiet),
            three.clear.eq(two_op & (two_kind == OpKind.CLEAR)),
            three.reset.eq(two_op & (two_kind == OpKind.RESET)),
            three.counts.eq((ends & ~holds & ~resetting)
                            | (two_op & (two_kind == OpKind.CLEAR) & held_failed.bit_select(two_queue, 1))),
            three.queue.eq(two_queue),
            three.end.eq(entry.end),
            three.status.eq(Mux(two_op, two_status, verdict)),
            three.settings.eq(self.settings.settings),
            three.notice.eq(notifies), three.info.eq(window_table.lookup.info),
        ]
        word, now = Signal(CompletionLayout), self.publish.word
        # The word as of when the entry reaches this stage: the previous entry may be changing it now.
        m.d.sync += word.eq(Mux(words.write.en & (three.queue == two_queue), now, words.read[0].data))
        everything, log = three.fail | three.clear, self.outcome.log
        m.d.comb += [
            words.read[0].addr.eq(two_queue),
            now.count.eq(Mux(three.reset, 0, Mux(three.counts, self._next(word.count), word.count))),
            now.failed.eq(Mux(three.reset, 0, Mux(three.fail, self._next(word.failed), word.failed))),
            now.status.eq(Mux(three.fail, three.status, Mux(three.clear | three.reset, Status.OK, word.status))),
            words.write.addr.eq(three.queue), words.write.data.eq(now),
            words.write.en.eq(three.ok | three.fail | three.clear | three.reset),
            self.publish.queue.eq(three.queue), self.outcome.queue.eq(three.queue),
            # In ARK mode, the SC address is that of an array of flags.
            self.publish.sc.eq(three.settings.sc_enable & (three.settings.mode != QueueMode.ARK)
                               & (everything | (three.ok & three.end.sc))),
            self.publish.rc.eq(three.settings.rc_enable & (everything | (three.ok & three.end.rc))),
            self.publish.interrupt.eq(interrupts),
            self.publish.record.eq(three.notice & (three.settings.mode == QueueMode.RING)
                                   & three.info.note.ring.end),
            self.publish.discard.eq(three.reset), self.outcome.reset.eq(three.reset),
            self.outcome.ended.eq(three.counts),
            self.outcome.failed.eq(three.fail | three.event),
            self.outcome.interrupt.eq(three.ok & three.end.irq),
            log.queue.eq(three.queue), log.status.eq(three.status), log.count.eq(word.count),
        ]
        return m

    def _next(self, count):
        """``count + 1`` without a carry chain: each bit depends on all bits below it."""
        if self.config.timing.carry_chain_increment:
            return (count + 1)[:len(count)]
        return Cat(bit ^ count[:index].all() if index else ~bit for index, bit in enumerate(count))


_GROUPS = ((Status.WRITE_SLVERR, Status.WRITE_DECERR), (Status.READ_SLVERR, Status.READ_DECERR),
           (Status.DST_PAGE,), (Status.SRC_PAGE,))
"""Outcomes of single segments of a request; a later group takes precedence over an earlier one."""


def _precedes(status, so_far):
    """True if a segment's outcome takes precedence over the outcomes of the request's earlier segments."""
    def among(value, groups):
        return Cat(value == member for group in groups for member in group).any()

    result = so_far == Status.OK
    for index, group in enumerate(_GROUPS[:-1]):
        result |= among(so_far, [group]) & among(status, _GROUPS[index + 1:])
    return result
