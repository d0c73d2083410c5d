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
from hw.dma_engine.frontend.segment_credit import SEGMENT_PLACES
from hw.dma_engine.layouts import EPOCH_WIDTH, done_layout
from hw.dma_engine.mover.port_drain import DrainSignature
from hw.dma_engine.strobes import ReturnedSignature, ScheduledSignature

__all__ = ["LOOKUPS", "EpochLookupSignature", "Epochs", "GiveUpSignature", "WindowSignature", "WordStatusSignature",
           "outside_bits"]

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


class WordStatusSignature(wiring.Signature):
    """Words whose write responses belong to earlier lives of their queues, for epochs and for QUIESCE.

    Members
    -------
    busy : ``Out(1)``
        The queue that is given up is not settled: high from the cycle after, until a cycle without a response.
    outside : ``Out(1)``
        That queue, or the one last scanned, has responses outstanding that were given up. A register, high while
        ``busy``, and after it or a scan until a cycle without a response.
    outstanding : ``Out(1)``
        Some queue has.
    """

    def __init__(self):
        super().__init__({"busy": Out(1), "outside": Out(1), "outstanding": Out(1)})


class WindowSignature(wiring.Signature):
    """The scanner shows the ends of a queue's window: its oldest segment, and the number of its next one."""

    def __init__(self, config):
        super().__init__({"valid": Out(1), "queue": Out(config.queue_bits), "head": Out(config.index_width),
                          "tail": Out(config.index_width)})


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
    lookups : array of :data:`LOOKUPS` ``In(EpochLookupSignature)``
    scheduled : ``In(ScheduledSignature)``, returned : ``In(ReturnedSignature)``
    window : ``In(WindowSignature)``
    request : ``In(1)``
        Give up the queue last scanned; ignored while another one is being given up.
    inside : ``In(extended)``
        Queues with notices in the engine, which cannot be given up now.
    words : ``In(WordStatusSignature)``, drain : ``Out(DrainSignature)``
        What of a queue is outside, or past the last place where it can be switched off.
    give_up : ``Out(GiveUpSignature)``
    ends : ``Out(stream.Signature(done_layout))``
        Ends of the segments given up.
    """

    def __init__(self, config):
        self.config = config
        super().__init__({
            "init": In(SweepSignature(config)),
            "lookups": In(EpochLookupSignature(config)).array(LOOKUPS),
            "scheduled": In(ScheduledSignature(config)), "returned": In(ReturnedSignature(config)),
            "window": In(WindowSignature(config)),
            "request": In(1), "inside": In(config.extended), "words": In(WordStatusSignature()),
            "drain": Out(DrainSignature()), "give_up": Out(GiveUpSignature(config)),
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
        for index, lookup in enumerate(self.lookups):
            m.d.comb += [rows.read[index].addr.eq(lookup.queue), lookup.epoch.eq(rows.read[index].data.epoch)]
        for table, strobe, queue in ((sent, self.scheduled.valid, self.scheduled.segment.queue),
                                     (back, self.returned.valid, self.returned.queue)):
            m.d.comb += [table.read[0].addr.eq(queue), table.write.addr.eq(queue), table.write.en.eq(strobe),
                         table.write.data.eq(table.read[0].data + 1), table.read[1].addr.eq(self.window.queue)]

        # -- The queue last looked at.
        window, give_up = self.window, self.give_up
        queue, place, tail = Signal(config.queue_bits), Signal.like(window.head), Signal.like(window.tail)
        outside, walking, clean = Signal(), Signal(), Signal()
        spent = Signal()                # every epoch of it is in use; as ``give_up`` comes three cycles after the scan
        now = rows.read[LOOKUPS].data
        m.d.comb += [
            rows.read[LOOKUPS].addr.eq(queue),
            rows.write.addr.eq(queue),
            give_up.busy.eq(walking | (self.words.busy | self.drain.busy)),
            clean.eq(~give_up.busy & ~outside & ~self.words.outside),
            give_up.valid.eq(self.request & ~give_up.busy & ~spent), self.drain.start.eq(give_up.valid),
            give_up.queue.eq(queue), give_up.scan.eq(window.valid),
            rows.write.en.eq(give_up.valid | clean),
            rows.write.data.epoch.eq(now.epoch + give_up.valid),
            rows.write.data.used.eq(Mux(give_up.valid, now.used + 1, 0)),
        ]
        hold = Cat(self.inside, C(0, config.queues)).bit_select(queue, 1)
        m.d.sync += spent.eq(now.used.all() | hold)
        with m.If(window.valid & ~give_up.busy):
            m.d.sync += [queue.eq(window.queue), place.eq(window.head), tail.eq(window.tail),
                         outside.eq(sent.read[1].data != back.read[1].data)]

        # -- Its window, place by place.
        m.d.comb += [
            self.ends.valid.eq(walking),
            self.ends.payload.queue.eq(queue), self.ends.payload.index.eq(place),
            self.ends.payload.epoch.eq(now.epoch),
        ]
        with m.If(give_up.valid):
            m.d.sync += walking.eq(place != tail)
        with m.Elif(walking & self.ends.ready):
            m.d.sync += [place.eq(place + 1), walking.eq((place + 1)[:len(place)] != tail)]
        return m
