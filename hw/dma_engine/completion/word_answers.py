# SPDX-License-Identifier: Apache-2.0
"""Word responses: which write responses to completion words, records and flags still count.

Responses -> WordAnswers -> CompletionWriter, Notices.  Latency: combinational.  Throughput: one response per cycle.

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
from hw.dma_engine.control.epochs import GiveUpSignature, WordStatusSignature
from hw.dma_engine.layouts import EPOCH_WIDTH
from hw.dma_engine.strobes import QueueStrobeSignature, WrittenSignature

from .notices import COUNT_WIDTH, UnansweredSignature
from .writer import OutstandingSignature

__all__ = ["WordAnswers"]


class WordAnswers(wiring.Component):
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
    outstanding : ``In(OutstandingSignature)``, unanswered : ``In(UnansweredSignature)``
        Words with outstanding responses: completion words, and words made from notices.
    give_up : ``In(GiveUpSignature)``
        From the next cycle, count the queue's outstanding responses as abandoned.
    forget : ``Out(QueueStrobeSignature)``
        The queue's words that wait for responses are abandoned now. Never in a cycle with a response.
    status : ``Out(WordStatusSignature)``
    """

    def __init__(self, config: DmaConfig) -> None:
        self.config = config
        super().__init__({
            "init": In(SweepSignature(config)),
            "written": In(WrittenSignature(config)), "accepted": Out(WrittenSignature(config)), "unexpected": Out(1),
            "outstanding": In(OutstandingSignature(config)), "unanswered": In(UnansweredSignature(config)),
            "give_up": In(GiveUpSignature(config)), "forget": Out(QueueStrobeSignature(config)),
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

        answered, writer, status, forget = self.written.valid, self.written.id, self.status, self.forget.valid
        m.d.comb += [
            self.accepted.id.eq(writer), self.accepted.failed.eq(self.written.failed),
            self.forget.queue.eq(self.give_up.queue),
        ]

        # -- The queue to look up: that of the response; without a response, the one that may be abandoned.
        queue, extended, told = Signal(config.queue_bits), Signal(), Signal(COUNT_WIDTH)
        rc, sc, waits, owes = Signal(), Signal(), Signal(), Signal()
        owing = Signal(config.extended)         # non-zero rows of ``notices``; late-arriving from LUT RAM
        row = queue[:config.extended_bits]
        was, was_told = pairs.read[0].data, notices.read[0].data
        m.d.comb += [
            queue.eq(Mux(answered, writer.queue, self.give_up.queue)), extended.eq(is_extended(config, queue)),
            rc.eq(self.outstanding.rc.bit_select(queue, 1)), sc.eq(self.outstanding.sc.bit_select(queue, 1)),
            told.eq(Mux(extended, Array(self.unanswered.count)[row], 0)),
            waits.eq(extended & Cat(count != 0 for count in self.unanswered.count).bit_select(row, 1)),
            owes.eq(extended & owing.bit_select(row, 1)),
            self.forget.valid.eq(status.busy & ~answered & self.unanswered.settled),
        ]
        for table in (pairs, notices):
            m.d.comb += [table.read[0].addr.eq(queue), table.write.addr.eq(queue)]

        # -- A response: abandoned, expected, or unexpected.
        given_up, waited, drop = Signal(), Signal(), Signal()
        with m.If(writer.notice):
            m.d.comb += [given_up.eq(owes), waited.eq(waits)]
        with m.Else():
            m.d.comb += [given_up.eq(Mux(writer.is_rc, was.rc, was.sc) != 0),
                         waited.eq(Mux(writer.is_rc, rc, sc))]
        m.d.comb += [
            drop.eq(answered & given_up),
            self.accepted.valid.eq(answered & ~given_up & waited),
            self.unexpected.eq(answered & ~given_up & ~waited),
        ]

        # -- Abandon: all expected responses become abandoned ones.
        m.d.comb += [
            pairs.write.en.eq(forget | (drop & ~writer.notice)),
            notices.write.en.eq((forget & extended) | (drop & writer.notice)),
        ]
        with m.If(forget):
            m.d.sync += Assert(~((rc & was.rc.all()) | (sc & was.sc.all())
                                 | (was_told + told)[len(was_told):].any()),
                               Format("queue {} has more responses outstanding than can be counted", queue))
            m.d.comb += [pairs.write.data.rc.eq(was.rc + rc), pairs.write.data.sc.eq(was.sc + sc),
                         notices.write.data.eq(was_told + told)]
        with m.Else():
            m.d.comb += [pairs.write.data.rc.eq(was.rc - writer.is_rc),
                         pairs.write.data.sc.eq(was.sc - ~writer.is_rc),
                         notices.write.data.eq(was_told - 1)]
        for index in range(config.extended):
            with m.If(queue == index):
                with m.If(forget & waits):
                    m.d.sync += owing[index].eq(1)
                with m.If(drop & writer.notice & (was_told == 1)):
                    m.d.sync += owing[index].eq(0)
        with m.If(self.give_up.valid):
            m.d.sync += status.busy.eq(1)
        with m.Elif(forget):
            m.d.sync += status.busy.eq(0)
        with m.If(self.give_up.scan | status.busy):
            m.d.sync += status.outside.eq(1)
        with m.Elif(~answered):
            m.d.sync += status.outside.eq((was.as_value() != 0) | owes)

        # -- IDs with abandoned responses.
        ids, opened, closed = Signal(range(2 * config.queues + config.extended + 1)), Signal(2), Signal()
        m.d.comb += [
            opened.eq((rc & (was.rc == 0)) + (sc & (was.sc == 0)) + (waits & ~owes)),
            closed.eq(Mux(writer.notice, was_told == 1, Mux(writer.is_rc, was.rc, was.sc) == 1)),
            status.outstanding.eq(ids != 0),
        ]
        with m.If(forget):
            m.d.sync += ids.eq(ids + opened)
        with m.Elif(drop & closed):
            m.d.sync += ids.eq(ids - 1)
        return m
