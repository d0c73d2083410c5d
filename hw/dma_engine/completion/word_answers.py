"""Word answers: which write response to a completion word, record or flag still counts.

Responses -> WordAnswers -> CompletionWriter, Notices.  Latency: combinational.  Throughput: one response per cycle.

Writes of one word have one AXI ID, so memory answers them in order. When a queue is given up, the answers that it has
outstanding are counted here; so many of the next ones with the same ID are taken by nobody.
"""

from amaranth import *
from amaranth.hdl import Assert, Format
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from hw.common.doorbell import is_extended
from hw.common.sweep import SweepSignature
from hw.common.table import Table
from hw.dma_engine.layouts import EPOCH_WIDTH, word_id_layout

from .notices import COUNT_WIDTH

__all__ = ["WordAnswers"]

class WordAnswers(wiring.Component):
    """Keep the answers to words apart: expected, given up before, expected by nobody.

    Parameters
    ----------
    config : DmaConfig

    Members
    -------
    init : ``In(SweepSignature)``
    answered : ``In(1)``, writer : ``In(word_id_layout)``
        The response to a word's write.
    counts : ``Out(1)``
        ``writer`` has been waiting for it.
    unexpected : ``Out(1)``
        Nothing is in flight under its ID.
    rc_flying, sc_flying : ``In(queues)``, told : ``In(COUNT_WIDTH).array(extended)``, settled : ``In(1)``
        Words whose answers are waited for: completion words, and those made of notices; ``told`` has all of the
        responses up to the cycle before.
    look : ``In(1)``, look_queue : ``In``
        ``look_queue`` is another one from the next cycle on.
    give_up : ``In(1)``
        In the cycle after: start to count the answers that ``look_queue`` has outstanding as given up.
    forget : ``Out(1)``
        The words of ``look_queue`` that are waited for are given up now.
    busy : ``Out(1)``
        From the cycle after ``give_up`` until ``forget``, which waits for a cycle without a response.
    outside : ``Out(1)``
        ``look_queue`` has answers that were given up and have not come. A register, high while ``busy``, and after it
        or a look until a cycle without a response lets it know better.
    outstanding : ``Out(1)``
        Some queue has.
    """

    def __init__(self, config):
        self.config = config
        super().__init__({
            "init": In(SweepSignature(config)),
            "answered": In(1), "writer": In(word_id_layout(config)), "counts": Out(1), "unexpected": Out(1),
            "rc_flying": In(config.queues), "sc_flying": In(config.queues),
            "told": In(COUNT_WIDTH).array(config.extended), "settled": In(1),
            "look": In(1), "look_queue": In(config.queue_bits), "give_up": In(1), "forget": Out(1), "busy": Out(1),
            "outside": Out(1), "outstanding": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        config, init = self.config, SweepSignature(self.config)
        # Of fewer than 2 ** EPOCH_WIDTH lives (Epochs), each with one SC word and one RC word outstanding at most.
        pair = data.StructLayout({"sc": EPOCH_WIDTH, "rc": EPOCH_WIDTH})
        m.submodules.pairs = pairs = Table(pair, depth=config.queues, reads=1, init=init)
        # Of a life, little more than half of what COUNT_WIDTH bits can count.
        m.submodules.notices = notices = Table(COUNT_WIDTH + EPOCH_WIDTH - 1, depth=config.extended, reads=1, init=init)
        for table in (pairs, notices):
            wiring.connect(m, wiring.flipped(self.init), table.init)

        # -- The queue that is looked up: of the response, or where there is none, the one that may be given up.
        queue, extended, told = Signal(config.queue_bits), Signal(), Signal(COUNT_WIDTH)
        rc, sc, waits, owes = Signal(), Signal(), Signal(), Signal()
        owing = Signal(config.extended)         # rows of ``notices`` that are not 0, which LUT RAM would tell late
        was, was_told = pairs.read[0].data, notices.read[0].data
        m.d.comb += [
            queue.eq(Mux(self.answered, self.writer.queue, self.look_queue)), extended.eq(is_extended(config, queue)),
            rc.eq(self.rc_flying.bit_select(queue, 1)), sc.eq(self.sc_flying.bit_select(queue, 1)),
            told.eq(Mux(extended, Array(self.told)[queue[:config.extended_bits]], 0)),
            waits.eq(extended & Cat(count != 0 for count in self.told).bit_select(queue[:config.extended_bits], 1)),
            owes.eq(extended & owing.bit_select(queue[:config.extended_bits], 1)),
            self.forget.eq(self.busy & ~self.answered & self.settled),
        ]
        for table in (pairs, notices):
            m.d.comb += [table.read[0].addr.eq(queue), table.write.addr.eq(queue)]

        # -- A response: one given up, one waited for, or neither.
        given_up, waited, drop = Signal(), Signal(), Signal()
        with m.If(self.writer.notice):
            m.d.comb += [given_up.eq(owes), waited.eq(waits)]
        with m.Else():
            m.d.comb += [given_up.eq(Mux(self.writer.is_rc, was.rc, was.sc) != 0),
                         waited.eq(Mux(self.writer.is_rc, rc, sc))]
        m.d.comb += [
            drop.eq(self.answered & given_up),
            self.counts.eq(self.answered & ~given_up & waited),
            self.unexpected.eq(self.answered & ~given_up & ~waited),
        ]

        # -- Giving up: all that is waited for becomes given up.
        m.d.comb += [
            pairs.write.en.eq(self.forget | (drop & ~self.writer.notice)),
            notices.write.en.eq((self.forget & extended) | (drop & self.writer.notice)),
        ]
        with m.If(self.forget):
            m.d.sync += Assert(~((rc & was.rc.all()) | (sc & was.sc.all())
                                 | (was_told + told)[len(was_told):].any()),
                               Format("queue {} has more answers outstanding than can be counted", queue))
            m.d.comb += [pairs.write.data.rc.eq(was.rc + rc), pairs.write.data.sc.eq(was.sc + sc),
                         notices.write.data.eq(was_told + told)]
        with m.Else():
            m.d.comb += [pairs.write.data.rc.eq(was.rc - self.writer.is_rc),
                         pairs.write.data.sc.eq(was.sc - ~self.writer.is_rc),
                         notices.write.data.eq(was_told - 1)]
        for index in range(config.extended):
            with m.If(queue == index):
                with m.If(self.forget & waits):
                    m.d.sync += owing[index].eq(1)
                with m.If(drop & self.writer.notice & (was_told == 1)):
                    m.d.sync += owing[index].eq(0)
        with m.If(self.give_up):
            m.d.sync += self.busy.eq(1)
        with m.Elif(self.forget):
            m.d.sync += self.busy.eq(0)
        with m.If(self.look | self.busy):
            m.d.sync += self.outside.eq(1)
        with m.Elif(~self.answered):
            m.d.sync += self.outside.eq((was.as_value() != 0) | owes)

        # -- IDs with answers that were given up.
        ids, opened, closed = Signal(range(2 * config.queues + config.extended + 1)), Signal(2), Signal()
        m.d.comb += [
            opened.eq((rc & (was.rc == 0)) + (sc & (was.sc == 0)) + (waits & ~owes)),
            closed.eq(Mux(self.writer.notice, was_told == 1, Mux(self.writer.is_rc, was.rc, was.sc) == 1)),
            self.outstanding.eq(ids != 0),
        ]
        with m.If(self.forget):
            m.d.sync += ids.eq(ids + opened)
        with m.Elif(drop & closed):
            m.d.sync += ids.eq(ids - 1)
        return m
