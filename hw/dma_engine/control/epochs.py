# SPDX-License-Identifier: Apache-2.0
"""Epochs: which segments still count after a reset abandoned outstanding responses.

QueueControl -> Epochs -> Scheduler, CompletionWriter, Notices, Aligner, Retire.  Segments and words carry their queue's
epoch. To abandon a queue is to increment its epoch and to end each of its segments in place of the memory, the oldest
first, each when the one before has retired. A later response with an older epoch only frees its tag.
"""

from amaranth import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.common.carry_save import carry_save
from hw.common.sweep import SweepSignature
from hw.common.table import Table
from hw.dma_engine.config import DmaConfig
from hw.dma_engine.frontend.segment_credit import SEGMENT_CREDITS
from hw.dma_engine.layouts import EPOCH_WIDTH, done_layout
from hw.dma_engine.mover.port_drain import DrainSignature
from hw.dma_engine.strobes import RetiredSignature, ReturnedSignature, ScheduledSignature

__all__ = [
    "LOOKUP_PORTS",
    "AbandonSignature",
    "EpochLookupSignature",
    "Epochs",
    "WindowSignature",
    "WordStatusSignature",
    "outstanding_bits",
]

LOOKUP_PORTS = 5
"""Look-up ports: scheduler, aligner, retirement, completion writer, notices."""

RETURNING = 8
"""Limit of segments without a tag that have not reached retirement, including rejected ones."""


class EpochLookupSignature(wiring.Signature):
    """The present epoch of a queue, combinational from ``queue`` to ``epoch``."""

    def __init__(self, config: DmaConfig) -> None:
        super().__init__({"queue": Out(config.queue_bits), "epoch": In(EPOCH_WIDTH)})


class AbandonSignature(wiring.Signature):
    """Epochs abandons a queue whose reset waits for memory in vain.

    Members
    -------
    valid : ``Out(1)``
        ``queue`` is abandoned now: its next epoch begins in the next cycle.
    queue : ``Out``
        Stable until ``scan``.
    scan : ``Out(1)``
        ``queue`` may change in the next cycle.
    busy : ``Out(1)``
        ``queue`` is being abandoned.
    """

    def __init__(self, config: DmaConfig) -> None:
        super().__init__({"valid": Out(1), "queue": Out(config.queue_bits), "scan": Out(1), "busy": Out(1)})


class WordStatusSignature(wiring.Signature):
    """Words whose write responses belong to earlier epochs of their queues, for Epochs and Quiesce.

    Members
    -------
    busy : ``Out(1)``
        The abandoned queue is not settled: high from the next cycle until a cycle without a response.
    abandoned : ``Out(1)``
        That queue, or the one last scanned, has abandoned responses outstanding. A register, high while ``busy``,
        and after it or a scan until a cycle without a response.
    outstanding : ``Out(1)``
        Some queue has abandoned responses outstanding.
    """

    def __init__(self) -> None:
        super().__init__({"busy": Out(1), "abandoned": Out(1), "outstanding": Out(1)})


class WindowSignature(wiring.Signature):
    """The scanner shows both ends of a queue's window: the numbers of its oldest segment and of its next one."""

    def __init__(self, config: DmaConfig) -> None:
        super().__init__({"valid": Out(1), "queue": Out(config.queue_bits), "head": Out(config.flight_width),
                          "tail": Out(config.flight_width)})


def outstanding_bits(config):
    """Width of the count of segments between scheduler and retirement: in the legalizer, with a tag, or returning."""
    return (SEGMENT_CREDITS + config.tags + RETURNING).bit_length()


class Epochs(wiring.Component):
    """Keep the epochs of all queues, and abandon one queue at a time.

    Segments and words with an old epoch must not be taken for new ones when the epoch number wraps. So a queue can
    be abandoned only while fewer than ``2**EPOCH_WIDTH - 1`` of its epochs may have responses outstanding; this count
    restarts whenever the queue has none outstanding.

    Parameters
    ----------
    config : DmaConfig

    Members
    -------
    init : ``In(SweepSignature)``
    lookups : array of :data:`LOOKUP_PORTS` ``In(EpochLookupSignature)``
    scheduled : ``In(ScheduledSignature)``, retired : ``In(RetiredSignature)``, returned : ``In(ReturnedSignature)``
    window : ``In(WindowSignature)``
    request : ``In(1)``
        Abandon the queue last scanned; ignored if one was being abandoned when it was scanned.
    inside : ``In(extended)``
        Queues with notices in the engine, which cannot be abandoned now.
    words : ``In(WordStatusSignature)``, drain : ``Out(DrainSignature)``
        What a queue has outstanding, or in stages that can no longer discard it.
    abandon : ``Out(AbandonSignature)``
    ends : ``Out(stream.Signature(done_layout))``
        Ends of the oldest segment of the abandoned queue; ``index`` is not set.
    """

    def __init__(self, config: DmaConfig) -> None:
        self.config = config
        super().__init__({
            "init": In(SweepSignature(config)),
            "lookups": In(EpochLookupSignature(config)).array(LOOKUP_PORTS),
            "scheduled": In(ScheduledSignature(config)), "returned": In(ReturnedSignature(config)),
            "retired": In(RetiredSignature(config)), "window": In(WindowSignature(config)),
            "request": In(1), "inside": In(config.extended), "words": In(WordStatusSignature()),
            "drain": Out(DrainSignature()), "abandon": Out(AbandonSignature(config)),
            "ends": Out(stream.Signature(done_layout(config))),
        })

    def elaborate(self, platform):
        m = Module()
        config, init = self.config, SweepSignature(self.config)
        row = data.StructLayout({"epoch": EPOCH_WIDTH, "used": EPOCH_WIDTH})
        m.submodules.rows = rows = Table(row, depth=config.queues, reads=LOOKUP_PORTS + 1, init=init)
        m.submodules.sent = sent = Table(outstanding_bits(config), depth=config.queues, reads=2, init=init)
        m.submodules.back = back = Table(outstanding_bits(config), depth=config.queues, reads=2, init=init)
        for table in (rows, sent, back):
            wiring.connect(m, wiring.flipped(self.init), table.init)
        for index, lookup in enumerate(self.lookups):
            m.d.comb += [rows.read[index].addr.eq(lookup.queue), lookup.epoch.eq(rows.read[index].data.epoch)]
        for table, strobe, queue in ((sent, self.scheduled.valid, self.scheduled.segment.queue),
                                     (back, self.returned.valid, self.returned.queue)):
            m.d.comb += [table.read[0].addr.eq(queue), table.write.addr.eq(queue), table.write.en.eq(strobe),
                         table.write.data.eq(table.read[0].data + 1), table.read[1].addr.eq(self.window.queue)]

        # -- The queue last scanned.
        window, abandon = self.window, self.abandon
        queue, tail, some = Signal(config.queue_bits), Signal.like(self.window.tail), Signal()
        outstanding, started, walking, clean = Signal(), Signal(), Signal(), Signal()
        stale = Signal()                # it was scanned while a queue was being abandoned
        refused = Signal()              # it is stale, or every epoch is in use; read three cycles after the scan
        now = rows.read[LOOKUP_PORTS].data
        m.d.comb += [
            rows.read[LOOKUP_PORTS].addr.eq(queue),
            rows.write.addr.eq(queue),
            abandon.busy.eq(walking | (self.words.busy | self.drain.busy)),
            clean.eq(~abandon.busy & ~outstanding & ~self.words.abandoned),
            abandon.valid.eq(self.request & ~abandon.busy & ~refused), self.drain.start.eq(abandon.valid),
            abandon.queue.eq(queue), abandon.scan.eq(window.valid),
            rows.write.en.eq(abandon.valid | clean),
            rows.write.data.epoch.eq(now.epoch + abandon.valid),
            rows.write.data.used.eq(Mux(abandon.valid, now.used + 1, 0)),
        ]
        hold = Cat(self.inside, C(0, config.queues)).bit_select(queue, 1)
        m.d.sync += refused.eq(now.used.all() | hold | stale)
        with m.If(window.valid):
            m.d.sync += stale.eq(abandon.busy)
        retires, last, taken = Signal(), Signal(), Signal()
        partial, carries = carry_save(self.retired.number, ~Mux(taken, window.tail, tail), C(1, config.flight_width))
        m.d.comb += [
            taken.eq(window.valid & ~abandon.busy),
            # A segment that retires now is still in ``window``.
            retires.eq(self.retired.valid & (self.retired.queue == Mux(taken, window.queue, queue))),
            # One less than the tail: the difference is -1, so its two terms differ in each bit.
            last.eq((partial ^ carries)[:config.flight_width].all()),
        ]
        with m.If(retires & last):
            m.d.sync += some.eq(0)
        with m.Elif(taken):
            m.d.sync += some.eq(window.head != window.tail)
        with m.If(taken):
            m.d.sync += [queue.eq(window.queue), tail.eq(window.tail),
                         outstanding.eq(sent.read[1].data != back.read[1].data)]

        # -- Its segments, one after the other.
        waits = Signal()                # the oldest one was ended and has not retired
        m.d.comb += [
            self.ends.valid.eq(walking & ~waits & ~retires),
            self.ends.payload.queue.eq(queue), self.ends.payload.epoch.eq(now.epoch),
            walking.eq(started & some),
        ]
        with m.If(abandon.valid):
            m.d.sync += started.eq(1)
        with m.Elif(~walking):
            m.d.sync += started.eq(0)
        with m.If(retires | ~walking):
            m.d.sync += waits.eq(0)
        with m.Elif(self.ends.ready):
            m.d.sync += waits.eq(1)
        return m
