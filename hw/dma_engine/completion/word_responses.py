# SPDX-License-Identifier: Apache-2.0
"""Word responses: which write responses to completion words, records and flags still count.

Responses -> WordResponses -> CompletionWriter, Notices.  Latency: combinational.  Throughput: one response per cycle.

All writes of one word have the same AXI ID, so that memory responds in order. When a queue is abandoned, its
outstanding responses are counted here, and that number of responses with the same ID is dropped.
"""

from amaranth import *
from amaranth.hdl import Assert, Format
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from hw.common.doorbell import is_extended
from hw.common.sweep import SweepSignature
from hw.common.table import Table
from hw.dma_engine.config import DmaConfig
from hw.dma_engine.control.epochs import AbandonSignature, WordStatusSignature
from hw.dma_engine.layouts import EPOCH_WIDTH
from hw.dma_engine.strobes import QueueStrobeSignature, WrittenSignature

from .notices import COUNT_WIDTH, OutstandingNoticesSignature
from .writer import OutstandingSignature

__all__ = ["WordResponses"]


class WordResponses(wiring.Component):
    """Classify responses to words: expected, abandoned earlier, or unexpected.

    Parameters
    ----------
    config : DmaConfig

    Members
    -------
    init : ``In(SweepSignature)``
    written : ``In(WrittenSignature)``, accepted : ``Out(WrittenSignature)``
        Responses to words; those expected by words of the present epoch.
    unexpected : ``Out(1)``
        Nothing is in flight under the ID of the response.
    outstanding : ``In(OutstandingSignature)``, outstanding_notices : ``In(OutstandingNoticesSignature)``
        Words with outstanding responses: completion words, and words made from notices.
    abandon : ``In(AbandonSignature)``
        From the next cycle, count the queue's outstanding responses as abandoned.
    discard : ``Out(QueueStrobeSignature)``
        The queue's words that wait for responses are abandoned now. Never in a cycle with a response.
    status : ``Out(WordStatusSignature)``
    """

    def __init__(self, config: DmaConfig) -> None:
        self.config = config
        super().__init__({
            "init": In(SweepSignature(config)),
            "written": In(WrittenSignature(config)), "accepted": Out(WrittenSignature(config)), "unexpected": Out(1),
            "outstanding": In(OutstandingSignature(config)),
            "outstanding_notices": In(OutstandingNoticesSignature(config)),
            "abandon": In(AbandonSignature(config)), "discard": Out(QueueStrobeSignature(config)),
            "status": Out(WordStatusSignature()),
        })

    def elaborate(self, platform):
        m = Module()
        config, init = self.config, SweepSignature(self.config)
        # Fewer than 2 ** EPOCH_WIDTH epochs (see Epochs), each with at most one SC word and one RC word outstanding.
        pair = data.StructLayout({"sc": EPOCH_WIDTH, "rc": EPOCH_WIDTH})
        m.submodules.pairs = pairs = Table(pair, depth=config.queues, reads=1, init=init)
        # One epoch counts little more than half the range of COUNT_WIDTH bits.
        m.submodules.notices = notices = Table(COUNT_WIDTH + EPOCH_WIDTH - 1, depth=config.extended, reads=1, init=init)
        for table in (pairs, notices):
            wiring.connect(m, wiring.flipped(self.init), table.init)

        response, writer, status, discard = self.written.valid, self.written.id, self.status, self.discard.valid
        m.d.comb += [
            self.accepted.id.eq(writer), self.accepted.failed.eq(self.written.failed),
            self.discard.queue.eq(self.abandon.queue),
        ]

        # -- The queue to look up: that of the response; without a response, the one that may be abandoned.
        queue, extended, notice_count = Signal(config.queue_bits), Signal(), Signal(COUNT_WIDTH)
        rc, sc, waits, has_abandoned = Signal(), Signal(), Signal(), Signal()
        abandoned_rows = Signal(config.extended)  # non-zero rows of ``notices``; late-arriving from LUT RAM
        row = queue[:config.extended_bits]
        was, abandoned_notices = pairs.read[0].data, notices.read[0].data
        m.d.comb += [
            queue.eq(Mux(response, writer.queue, self.abandon.queue)), extended.eq(is_extended(config, queue)),
            rc.eq(self.outstanding.rc.bit_select(queue, 1)), sc.eq(self.outstanding.sc.bit_select(queue, 1)),
            notice_count.eq(Mux(extended, Array(self.outstanding_notices.count)[row], 0)),
            waits.eq(extended & Cat(count != 0 for count in self.outstanding_notices.count).bit_select(row, 1)),
            has_abandoned.eq(extended & abandoned_rows.bit_select(row, 1)),
            self.discard.valid.eq(status.busy & ~response & self.outstanding_notices.settled),
        ]
        for table in (pairs, notices):
            m.d.comb += [table.read[0].addr.eq(queue), table.write.addr.eq(queue)]

        # -- A response: abandoned, expected, or unexpected.
        abandoned, waited, drop = Signal(), Signal(), Signal()
        with m.If(writer.notice):
            m.d.comb += [abandoned.eq(has_abandoned), waited.eq(waits)]
        with m.Else():
            m.d.comb += [abandoned.eq(Mux(writer.is_rc, was.rc, was.sc) != 0),
                         waited.eq(Mux(writer.is_rc, rc, sc))]
        m.d.comb += [
            drop.eq(response & abandoned),
            self.accepted.valid.eq(response & ~abandoned & waited),
            self.unexpected.eq(response & ~abandoned & ~waited),
        ]

        # -- Abandon: all expected responses become abandoned ones.
        m.d.comb += [
            pairs.write.en.eq(discard | (drop & ~writer.notice)),
            notices.write.en.eq((discard & extended) | (drop & writer.notice)),
        ]
        with m.If(discard):
            m.d.sync += Assert(~((rc & was.rc.all()) | (sc & was.sc.all())
                                 | (abandoned_notices + notice_count)[len(abandoned_notices):].any()),
                               Format("queue {} has more responses outstanding than can be counted", queue))
            m.d.comb += [pairs.write.data.rc.eq(was.rc + rc), pairs.write.data.sc.eq(was.sc + sc),
                         notices.write.data.eq(abandoned_notices + notice_count)]
        with m.Else():
            m.d.comb += [pairs.write.data.rc.eq(was.rc - writer.is_rc),
                         pairs.write.data.sc.eq(was.sc - ~writer.is_rc),
                         notices.write.data.eq(abandoned_notices - 1)]
        for index in range(config.extended):
            with m.If(queue == index):
                with m.If(discard & waits):
                    m.d.sync += abandoned_rows[index].eq(1)
                with m.If(drop & writer.notice & (abandoned_notices == 1)):
                    m.d.sync += abandoned_rows[index].eq(0)
        with m.If(self.abandon.valid):
            m.d.sync += status.busy.eq(1)
        with m.Elif(discard):
            m.d.sync += status.busy.eq(0)
        with m.If(self.abandon.scan | status.busy):
            m.d.sync += status.abandoned.eq(1)
        with m.Elif(~response):
            m.d.sync += status.abandoned.eq((was.as_value() != 0) | has_abandoned)

        # -- IDs with abandoned responses.
        ids, opened, closed = Signal(range(2 * config.queues + config.extended + 1)), Signal(2), Signal()
        m.d.comb += [
            opened.eq((rc & (was.rc == 0)) + (sc & (was.sc == 0)) + (waits & ~has_abandoned)),
            closed.eq(Mux(writer.notice, abandoned_notices == 1, Mux(writer.is_rc, was.rc, was.sc) == 1)),
            status.outstanding.eq(ids != 0),
        ]
        with m.If(discard):
            m.d.sync += ids.eq(ids + opened)
        with m.Elif(drop & closed):
            m.d.sync += ids.eq(ids - 1)
        return m
