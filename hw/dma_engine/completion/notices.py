"""Notices: what memory is told of single requests of extended queues, beside the completion words.

Retire -> Notices -> (one consumer per queue mode) -> Notices; CompletionWriter, ReadIssue -> Notices -> WriteSequencer.
Latency: 2 cycles for notices, none for words; one more with ``word_output_register``, and one more with
``registered_words`` where another kind of word was before.
Throughput: one notice and one word per cycle.
"""

from amaranth import *
from amaranth.hdl import Assert, Format
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from hw.dma_engine.layouts import EPOCH_WIDTH, completion_write_layout, notice_layout, word_id_layout
from hw.dma_engine.words import QueueMode
from hw.stream import CreditCounter, Merge, Queue, Skid

__all__ = ["MODES", "Notices"]

PLACES = 16

RESERVE_BITS = 2
"""Notices come to a stop with 4 places left: one may come before that is seen, the stages of Retire hold up to 3."""

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
    queue : ``Out``, epoch : ``In``
        Epoch of a queue, combinational.
    outside : ``Out(COUNT_WIDTH).array(extended)``, settled : ``Out(1)``
        Words of each queue that came from notices and are not answered; ``outside`` has all responses before.
    inside : ``Out(extended)``
        Queues with notices, or with words made of them that have not left here.
    forget : ``In(1)``, forget_queue : ``In``
        Wait for no answer to the queue's words any more. Nothing of it is inside.
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
            "queue": Out(config.queue_bits), "epoch": In(EPOCH_WIDTH),
            "outside": Out(COUNT_WIDTH).array(config.extended), "settled": Out(1), "inside": Out(config.extended),
            "forget": In(1), "forget_queue": In(config.queue_bits),
            "pending": Out(config.queues),
        })

    def elaborate(self, platform):
        m = Module()
        config = self.config
        # What consumers see comes out of registers: they add it to what they read from tables.
        m.submodules.waiting = waiting = Queue(notice_layout(config), depth=PLACES)
        m.submodules.front = front = Skid(notice_layout(config))
        connect(m, waiting.o, front.i)
        m.submodules.room = room = CreditCounter(PLACES, max_take=1)
        gone = Signal()
        m.d.comb += [
            waiting.i.valid.eq(self.valid), waiting.i.payload.eq(self.i),
            room.take.eq(1), room.take_stb.eq(self.valid),
            gone.eq(front.o.valid & front.o.ready),
        ]
        m.d.sync += room.give.eq(gone)
        few = (room.available[RESERVE_BITS + 1:] == 0) & ~(room.available[RESERVE_BITS]
                                                           & room.available[:RESERVE_BITS].any())
        # Or memory answers none of a queue's words, of which only so many can be counted.
        m.d.sync += self.crowded.eq(few | Cat(count[-1] for count in self.outside).any())
        with m.Switch(front.o.payload.mode):
            for mode, told in zip(MODES, self.told, strict=True):
                m.d.comb += told.payload.eq(front.o.payload)
                with m.Case(mode):
                    m.d.comb += [told.valid.eq(front.o.valid), front.o.ready.eq(told.ready)]

        m.submodules.merge = merge = Merge(
            completion_write_layout(config), 2 + len(MODES), registered_choice=config.timing.registered_words)
        for write, port in zip((self.words, self.signals, *self.writes), merge.i, strict=True):
            connect(m, flipped(write), port)
        # A signal's word says what its queue and epoch are, a completion word too.
        sent, word = word_id_layout(config)(merge.o.payload.id), Signal(completion_write_layout(config))
        m.d.comb += [self.queue.eq(sent.queue), word.eq(merge.o.payload)]
        with m.If(sent.top & sent.notice):
            m.d.comb += [word.queue.eq(sent.queue), word.epoch.eq(self.epoch)]
        waits = self.signals.valid | Cat(write.valid for write in self.writes).any()
        if not config.timing.word_output_register:
            m.d.comb += self.urgent.eq(waits)
            m.d.comb += [self.o.valid.eq(merge.o.valid), merge.o.ready.eq(self.o.ready), self.o.payload.eq(word)]
        else:
            m.submodules.behind = behind = Skid(data.StructLayout({
                "write": completion_write_layout(config), "urgent": 1}))
            m.d.comb += [
                behind.i.valid.eq(merge.o.valid), merge.o.ready.eq(behind.i.ready),
                behind.i.payload.write.eq(word), behind.i.payload.urgent.eq(merge.source != 0),
                self.o.valid.eq(behind.o.valid), behind.o.ready.eq(self.o.ready),
                self.o.payload.eq(behind.o.payload.write),
            ]
            held = Signal(range(3))     # urgent ones behind the choice
            m.d.sync += self.urgent.eq((held != 0) | waits)
            m.d.sync += held.eq(held + (behind.i.valid & behind.i.ready & behind.i.payload.urgent)
                                - (behind.o.valid & behind.o.ready & behind.o.payload.urgent))

        settled = []
        for queue, count in enumerate(self.outside):
            sends, ends = Signal(name=f"sends_{queue}"), Signal(name=f"ends_{queue}")
            waiting_here = Signal(range(PLACES + 1), name=f"inside_{queue}")
            # They are counted one cycle later.
            m.d.sync += [
                sends.eq(merge.o.valid & merge.o.ready & sent.top & sent.notice & (sent.queue == queue)),
                ends.eq(self.written_valid & self.writer.notice & (self.writer.queue == queue)),
            ]
            settled.append(~ends)
            m.d.comb += [
                self.inside[queue].eq(
                    sends | (waiting_here != 0)
                    | Cat(write.valid & (word_id_layout(config)(write.payload.id).queue == queue)
                          for write in self.writes).any()),
                self.pending[queue].eq((count != 0) | self.inside[queue]),
            ]
            leaves = Signal(name=f"leaves_{queue}")
            m.d.sync += [leaves.eq(gone & (front.o.payload.queue == queue)),
                         waiting_here.eq(waiting_here + (self.valid & (self.i.queue == queue)) - leaves)]
            with m.If(self.forget & (self.forget_queue == queue)):
                m.d.sync += [count.eq(0),
                             Assert(~self.inside[queue], Format(f"queue {queue} is forgotten with a notice inside"))]
            with m.Elif(sends & (~ends | (count == 0))):
                m.d.sync += count.eq(count + 1)
            with m.Elif(ends & ~sends & (count != 0)):
                m.d.sync += count.eq(count - 1)
        m.d.comb += self.settled.eq(Cat(settled).all())
        return m
