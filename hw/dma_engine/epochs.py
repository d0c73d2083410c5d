"""Epochs: which segments still count, after a reset gave up those that memory never answered.

QueueControl -> Epochs -> Scheduler, CompletionWriter, Notices, Aligner, Retire.  A segment and a word carry their
queue's epoch. Giving up a queue moves the queue to the next epoch and ends each place of its window in the memory's
stead, one per cycle; what comes back later with an older epoch frees its tag and changes nothing else.
"""

from amaranth import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.common.sweep import SweepSignature
from hw.common.table import Table

from .layouts import EPOCH_WIDTH, done_layout
from .segment_credit import SEGMENT_PLACES

__all__ = ["LOOKUPS", "EpochLookupSignature", "Epochs", "GiveUpSignature", "outside_bits"]

LOOKUPS = 5
"""Who looks up epochs: scheduler, aligner, retirement, completion writer, notices."""

RETURNING = 8
"""Segments at most that have no tag, or none any more, and have not come to retirement: rejected ones among them."""


class EpochLookupSignature(wiring.Signature):
    """The present epoch of a queue, combinational from ``queue`` to ``epoch``."""

    def __init__(self, config):
        super().__init__({"queue": Out(config.queue_bits), "epoch": In(EPOCH_WIDTH)})


class GiveUpSignature(wiring.Signature):
    """Epochs gives up a queue whose reset waits for memory in vain.

    Members
    -------
    valid : ``Out(1)``
        ``queue`` is given up now: its next epoch begins in the next cycle.
    queue : ``Out``
        Stays until ``scan``.
    scan : ``Out(1)``
        ``queue`` may change in the next cycle.
    busy : ``Out(1)``
        ``queue`` is being given up.
    """

    def __init__(self, config):
        super().__init__({"valid": Out(1), "queue": Out(config.queue_bits), "scan": Out(1), "busy": Out(1)})


def outside_bits(config):
    """Bits that count the segments between scheduler and retirement: in the legalizer, with a tag, or returning."""
    return (SEGMENT_PLACES + config.tags + RETURNING).bit_length()


class Epochs(wiring.Component):
    """Keep the epochs of all queues, and give up one queue at a time.

    Segments and words with an old epoch must not be taken for new ones when epochs come round. So a queue can be given
    up again only while fewer than ``2**EPOCH_WIDTH - 1`` of its epochs may have some outside; that starts anew
    whenever none of the queue is outside.

    Parameters
    ----------
    config : DmaConfig

    Members
    -------
    init : ``In(SweepSignature)``
    queue : array of :data:`LOOKUPS` ``In``, epoch : array of as many ``Out``
        Epoch of a queue, combinational.
    scheduled, scheduled_queue, returned, returned_queue : ``In``
        A segment enters the pipeline; a segment leaves it, whatever its epoch.
    look, look_queue, look_head, look_tail : ``In``
        While ``look`` is high: the ends of a queue's window.
    give_up : ``In(1)``
        Give up the queue last looked at; ignored while another one is being given up.
    hold : ``In(1)``
        That queue cannot be given up now.
    words_outside : ``In(1)``
        It has words that were given up before and are outside.
    draining : ``In(1)``
        What is past the last place where it can be switched off has not left the engine.
    gave_up : ``Out(GiveUpSignature)``
    ends : ``Out(stream.Signature(done_layout))``
        Ends of the segments given up.
    """

    def __init__(self, config):
        self.config = config
        queue, place = config.queue_bits, config.index_width
        super().__init__({
            "init": In(SweepSignature(config)),
            "queue": In(queue).array(LOOKUPS), "epoch": Out(EPOCH_WIDTH).array(LOOKUPS),
            "scheduled": In(1), "scheduled_queue": In(queue), "returned": In(1), "returned_queue": In(queue),
            "look": In(1), "look_queue": In(queue), "look_head": In(place), "look_tail": In(place),
            "give_up": In(1), "hold": In(1), "words_outside": In(1), "draining": In(1),
            "gave_up": Out(GiveUpSignature(config)),
            "ends": Out(stream.Signature(done_layout(config))),
        })

    def elaborate(self, platform):
        m = Module()
        config, init = self.config, SweepSignature(self.config)
        row = data.StructLayout({"epoch": EPOCH_WIDTH, "used": EPOCH_WIDTH})
        m.submodules.rows = rows = Table(row, depth=config.queues, reads=LOOKUPS + 1, init=init)
        m.submodules.sent = sent = Table(outside_bits(config), depth=config.queues, reads=2, init=init)
        m.submodules.back = back = Table(outside_bits(config), depth=config.queues, reads=2, init=init)
        for table in (rows, sent, back):
            wiring.connect(m, wiring.flipped(self.init), table.init)
        for index in range(LOOKUPS):
            m.d.comb += [rows.read[index].addr.eq(self.queue[index]),
                         self.epoch[index].eq(rows.read[index].data.epoch)]
        for table, strobe, queue in ((sent, self.scheduled, self.scheduled_queue),
                                     (back, self.returned, self.returned_queue)):
            m.d.comb += [table.read[0].addr.eq(queue), table.write.addr.eq(queue), table.write.en.eq(strobe),
                         table.write.data.eq(table.read[0].data + 1), table.read[1].addr.eq(self.look_queue)]

        # -- The queue last looked at.
        queue, place, tail = Signal(config.queue_bits), Signal.like(self.look_head), Signal.like(self.look_tail)
        outside, walking, clean = Signal(), Signal(), Signal()
        spent = Signal()                # every epoch of it is in use; as ``give_up`` comes three cycles after ``look``
        now = rows.read[LOOKUPS].data
        m.d.comb += [
            rows.read[LOOKUPS].addr.eq(queue),
            rows.write.addr.eq(queue),
            self.gave_up.busy.eq(walking | self.draining),
            clean.eq(~self.gave_up.busy & ~outside & ~self.words_outside),
            self.gave_up.valid.eq(self.give_up & ~self.gave_up.busy & ~spent),
            self.gave_up.queue.eq(queue), self.gave_up.scan.eq(self.look),
            rows.write.en.eq(self.gave_up.valid | clean),
            rows.write.data.epoch.eq(now.epoch + self.gave_up.valid),
            rows.write.data.used.eq(Mux(self.gave_up.valid, now.used + 1, 0)),
        ]
        m.d.sync += spent.eq(now.used.all() | self.hold)
        with m.If(self.look & ~self.gave_up.busy):
            m.d.sync += [queue.eq(self.look_queue), place.eq(self.look_head), tail.eq(self.look_tail),
                         outside.eq(sent.read[1].data != back.read[1].data)]

        # -- Its window, place by place.
        m.d.comb += [
            self.ends.valid.eq(walking),
            self.ends.payload.queue.eq(queue), self.ends.payload.index.eq(place),
            self.ends.payload.epoch.eq(now.epoch),
        ]
        with m.If(self.gave_up.valid):
            m.d.sync += walking.eq(place != tail)
        with m.Elif(walking & self.ends.ready):
            m.d.sync += [place.eq(place + 1), walking.eq((place + 1)[:len(place)] != tail)]
        return m
