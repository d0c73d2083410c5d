"""Notices: what memory is told of single requests of extended queues, beside the completion words.

Retire -> Notices -> (one consumer per queue mode) -> Notices; CompletionWriter, ReadIssue -> Notices -> WriteSequencer.
Latency: 2 cycles for notices, none for words.  Throughput: one notice and one word per cycle.
"""

from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from hw.stream import CreditCounter, Merge, Queue, Skid

from .layouts import completion_write_layout, notice_layout, word_id_layout
from .words import QueueMode

__all__ = ["MODES", "Notices"]

PLACES = 16

RESERVE_BITS = 2
"""Notices come to a stop with less than 4 places left; the stages of Retire hold up to 3."""

COUNT_WIDTH = 12
"""Bits that count a queue's words on their way to memory. From half of it on no request retires that may add some."""

MODES = [mode for mode in QueueMode if mode is not QueueMode.NATIVE]


class Notices(wiring.Component):
    """Share out notices by mode, gather the words made of them, and know which queues still have some.

    All words of one queue that come from notices have one AXI ID, so that memory keeps their order.

    Parameters
    ----------
    config : DmaConfig

    Members
    -------
    valid : ``In(1)``, i : ``In(notice_layout)``, crowded : ``Out(1)``
        Notices; up to 3 more may come when ``crowded`` is high.
    told : array of ``Out(stream.Signature(notice_layout))``
        One per mode, ARK first.
    writes : array of ``In(stream.Signature(completion_write_layout))``
        Words made of them; a consumer takes a notice when its last word is taken, or keeps the word valid.
    words, signals : ``In(stream.Signature(completion_write_layout))``
        From the completion writer; of signals.
    o : ``Out(stream.Signature(completion_write_layout))``
    urgent : ``Out(1)``
        A word waits that no newer one will replace, of a signal or a notice; perhaps behind another on ``o``.
    written_valid : ``In(1)``, writer : ``In(word_id_layout)``
        The write of a word has ended.
    give_up : ``In(1)``, give_up_queue : ``In``
        Wait for no answer to the queue's words any more.
    pending : ``Out(queues)``
        Queues with notices, with words to write or being written.
    """

    def __init__(self, config):
        self.config = config
        notice, word = stream.Signature(notice_layout(config)), stream.Signature(completion_write_layout(config))
        super().__init__({
            "valid": In(1), "i": In(notice_layout(config)), "crowded": Out(1),
            "told": Out(notice).array(len(MODES)), "writes": In(word).array(len(MODES)),
            "words": In(word), "signals": In(word), "o": Out(word), "urgent": Out(1),
            "written_valid": In(1), "writer": In(word_id_layout(config)),
            "give_up": In(1), "give_up_queue": In(config.queue_bits),
            "pending": Out(config.queues),
        })

    def elaborate(self, platform):
        m = Module()
        config = self.config
        outside = [Signal(COUNT_WIDTH, name=f"outside_{queue}") for queue in range(config.extended)]
        # What consumers see comes out of registers: they add it to what they read from tables.
        m.submodules.waiting = waiting = Queue(notice_layout(config), depth=PLACES)
        m.submodules.front = front = Skid(notice_layout(config))
        connect(m, waiting.o, front.i)
        m.submodules.room = room = CreditCounter(PLACES, max_take=1)
        gone = Signal()
        m.d.comb += [
            waiting.i.valid.eq(self.valid), waiting.i.payload.eq(self.i),
            room.take.eq(1), room.take_stb.eq(self.valid),
            gone.eq(front.o.valid & front.o.ready), room.give.eq(gone),
            # Or memory answers none of a queue's words, of which only so many can be counted.
            self.crowded.eq((room.available[RESERVE_BITS:] == 0) | Cat(count[-1] for count in outside).any()),
        ]
        with m.Switch(front.o.payload.mode):
            for mode, told in zip(MODES, self.told, strict=True):
                m.d.comb += told.payload.eq(front.o.payload)
                with m.Case(mode):
                    m.d.comb += [told.valid.eq(front.o.valid), front.o.ready.eq(told.ready)]

        m.submodules.merge = merge = Merge(completion_write_layout(config), 2 + len(MODES))
        for write, port in zip((self.words, self.signals, *self.writes), merge.i, strict=True):
            connect(m, flipped(write), port)
        connect(m, merge.o, flipped(self.o))

        m.d.comb += self.urgent.eq(self.signals.valid | Cat(write.valid for write in self.writes).any())

        inside = [Signal(range(PLACES + 1), name=f"inside_{queue}") for queue in range(config.extended)]
        sent = word_id_layout(config)(self.o.payload.id)
        for queue, count in enumerate(outside):
            sends, ends = Signal(name=f"sends_{queue}"), Signal(name=f"ends_{queue}")
            m.d.comb += [
                sends.eq(self.o.valid & self.o.ready & sent.top & sent.notice & (sent.queue == queue)),
                ends.eq(self.written_valid & self.writer.notice & (self.writer.queue == queue) & (count != 0)),
                self.pending[queue].eq(
                    (count != 0) | (inside[queue] != 0)
                    | Cat(write.valid & (word_id_layout(config)(write.payload.id).queue == queue)
                          for write in self.writes).any()),
            ]
            m.d.sync += inside[queue].eq(inside[queue] + (self.valid & (self.i.queue == queue))
                                         - (gone & (front.o.payload.queue == queue)))
            with m.If(self.give_up & (self.give_up_queue == queue)):
                m.d.sync += count.eq(0)
            with m.Elif(sends & ~ends):
                m.d.sync += count.eq(count + 1)
            with m.Elif(ends & ~sends):
                m.d.sync += count.eq(count - 1)
        return m
