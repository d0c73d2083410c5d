# SPDX-License-Identifier: Apache-2.0
"""Notices: request completions of extended queues that memory receives in addition to the completion words.

Retire -> Notices -> (one consumer per queue mode) -> Notices; CompletionWriter, ReadIssue -> Notices -> WriteSequencer.
Latency: 2 cycles for notices, none for words; one more with ``word_output_register``, and one more with
``registered_words`` after a word of another kind.
Throughput: one notice and one word per cycle.
"""

from amaranth import *
from amaranth.hdl import Assert, Format
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from hw.dma_engine.config import DmaConfig
from hw.dma_engine.control.epochs import EpochLookupSignature
from hw.dma_engine.layouts import completion_write_layout, notice_layout, word_id_layout
from hw.dma_engine.mover.sequencer import WordWriteSignature
from hw.dma_engine.strobes import QueueStrobeSignature, WrittenSignature
from hw.dma_engine.words import QueueMode
from hw.stream import CreditCounter, Merge, Queue, Skid

__all__ = ["COUNT_WIDTH", "MODES", "NoticeSignature", "Notices", "OutstandingNoticesSignature", "SentSignature"]

DEPTH = 16

RESERVE_BITS = 2
"""Free entries at which notices stall: one may arrive before the stall takes effect, and Retire holds up to 3."""

COUNT_WIDTH = 12
"""Width of the count of a queue's words in flight. From half its range, no request that may add words retires."""

MODES = [mode for mode in QueueMode if mode is not QueueMode.NATIVE]


class NoticeSignature(wiring.Signature):
    """Retirement reports the end of a request of an extended queue that is not in native mode.

    Members
    -------
    valid : ``Out(1)``, payload : ``Out(notice_layout)``
        Always taken.
    crowded : ``In(1)``
        Early back-pressure: up to 3 more may arrive while it is high.
    """

    def __init__(self, config: DmaConfig) -> None:
        super().__init__({"valid": Out(1), "payload": Out(notice_layout(config)), "crowded": In(1)})


class OutstandingNoticesSignature(wiring.Signature):
    """Words of each extended queue that came from notices and whose write responses are outstanding.

    Members
    -------
    count : array of ``Out(COUNT_WIDTH)``
    settled : ``Out(1)``
        ``count`` includes every response so far.
    """

    def __init__(self, config: DmaConfig) -> None:
        super().__init__({"count": Out(COUNT_WIDTH).array(config.extended), "settled": Out(1)})


class SentSignature(wiring.Signature):
    """A word leaves for the write sequencer; ``id`` is its AXI ID. For traces."""

    def __init__(self, config: DmaConfig) -> None:
        super().__init__({"valid": Out(1), "id": Out(config.axi_id_width)})


class Notices(wiring.Component):
    """Distribute notices by mode, collect the words made from them, and track the queues that still have some.

    All words of a queue that come from notices share one AXI ID, so that memory keeps their order.

    Parameters
    ----------
    config : DmaConfig

    Members
    -------
    notice : ``In(NoticeSignature)``
    requests : array of ``Out(stream.Signature(notice_layout))``
        Notices by mode, in the order of ``MODES``.
    writes : array of ``In(stream.Signature(completion_write_layout))``
        Words made from notices; a consumer takes a notice with its last word, or keeps the word valid.
    completions, signals : ``In(stream.Signature(completion_write_layout))``
        Words of the completion writer, and of signals.
    words : ``Out(WordWriteSignature)``, sent : ``Out(SentSignature)``
    written : ``In(WrittenSignature)``
    epoch : ``Out(EpochLookupSignature)``
    outstanding_notices : ``Out(OutstandingNoticesSignature)``
    inside : ``Out(extended)``
        Queues with notices, or with words from notices that have not left this component.
    discard : ``In(QueueStrobeSignature)``
        Stop waiting for the responses to the queue's words. None of its notices or words may be inside.
    pending : ``Out(queues)``
        Queues with notices, or with words that are waiting or in flight.
    """

    def __init__(self, config: DmaConfig) -> None:
        self.config = config
        notice, word = stream.Signature(notice_layout(config)), stream.Signature(completion_write_layout(config))
        super().__init__({
            "notice": In(NoticeSignature(config)),
            "requests": Out(notice).array(len(MODES)), "writes": In(word).array(len(MODES)),
            "completions": In(word), "signals": In(word),
            "words": Out(WordWriteSignature(config)), "sent": Out(SentSignature(config)),
            "written": In(WrittenSignature(config)), "epoch": Out(EpochLookupSignature(config)),
            "outstanding_notices": Out(OutstandingNoticesSignature(config)), "inside": Out(config.extended),
            "discard": In(QueueStrobeSignature(config)),
            "pending": Out(config.queues),
        })

    def elaborate(self, platform):
        m = Module()
        config = self.config
        # Consumers are driven by registers: they use the notice as an address of their tables.
        m.submodules.waiting = waiting = Queue(notice_layout(config), depth=DEPTH)
        m.submodules.output = output = Skid(notice_layout(config))
        connect(m, waiting.o, output.i)
        m.submodules.credit = credit = CreditCounter(DEPTH, max_take=1)
        gone = Signal()
        m.d.comb += [
            waiting.i.valid.eq(self.notice.valid), waiting.i.payload.eq(self.notice.payload),
            credit.take.eq(1), credit.take_stb.eq(self.notice.valid),
            gone.eq(output.o.valid & output.o.ready),
        ]
        m.d.sync += credit.give.eq(gone)
        few = (credit.available[RESERVE_BITS + 1:] == 0) & ~(credit.available[RESERVE_BITS]
                                                             & credit.available[:RESERVE_BITS].any())
        # Memory may withhold the responses to all words of a queue; their count has a limited range.
        m.d.sync += self.notice.crowded.eq(few | Cat(count[-1] for count in self.outstanding_notices.count).any())
        with m.Switch(output.o.payload.mode):
            for mode, request in zip(MODES, self.requests, strict=True):
                m.d.comb += request.payload.eq(output.o.payload)
                with m.Case(mode):
                    m.d.comb += [request.valid.eq(output.o.valid), output.o.ready.eq(request.ready)]

        m.submodules.merge = merge = Merge(
            completion_write_layout(config), 2 + len(MODES), registered_choice=config.timing.registered_words)
        for write, port in zip((self.completions, self.signals, *self.writes), merge.i, strict=True):
            connect(m, flipped(write), port)
        # Signal words and completion words carry their queue and epoch.
        sent, word = word_id_layout(config)(merge.o.payload.id), Signal(completion_write_layout(config))
        m.d.comb += [self.epoch.queue.eq(sent.queue), word.eq(merge.o.payload)]
        with m.If(sent.top & sent.notice):
            m.d.comb += [word.queue.eq(sent.queue), word.epoch.eq(self.epoch.epoch)]
        m.d.comb += [self.sent.valid.eq(self.words.valid & self.words.ready), self.sent.id.eq(self.words.payload.id)]
        waits = self.signals.valid | Cat(write.valid for write in self.writes).any()
        if not config.timing.word_output_register:
            m.d.comb += self.words.urgent.eq(waits)
            m.d.comb += [self.words.valid.eq(merge.o.valid), merge.o.ready.eq(self.words.ready),
                         self.words.payload.eq(word)]
        else:
            m.submodules.behind = behind = Skid(data.StructLayout({
                "write": completion_write_layout(config), "urgent": 1}))
            m.d.comb += [
                behind.i.valid.eq(merge.o.valid), merge.o.ready.eq(behind.i.ready),
                behind.i.payload.write.eq(word), behind.i.payload.urgent.eq(merge.source != 0),
                self.words.valid.eq(behind.o.valid), behind.o.ready.eq(self.words.ready),
                self.words.payload.eq(behind.o.payload.write),
            ]
            held = Signal(range(3))     # urgent ones that follow the choice
            m.d.sync += self.words.urgent.eq((held != 0) | waits)
            m.d.sync += held.eq(held + (behind.i.valid & behind.i.ready & behind.i.payload.urgent)
                                - (behind.o.valid & behind.o.ready & behind.o.payload.urgent))

        settled = []
        for queue, count in enumerate(self.outstanding_notices.count):
            sends, ends = Signal(name=f"sends_{queue}"), Signal(name=f"ends_{queue}")
            waiting_here = Signal(range(DEPTH + 1), name=f"inside_{queue}")
            # Counted one cycle later.
            m.d.sync += [
                sends.eq(merge.o.valid & merge.o.ready & sent.top & sent.notice & (sent.queue == queue)),
                ends.eq(self.written.valid & self.written.id.notice & (self.written.id.queue == queue)),
            ]
            settled.append(~ends)
            m.d.comb += [
                self.inside[queue].eq(
                    sends | (waiting_here != 0)
                    | Cat(write.valid & (word_id_layout(config)(write.payload.id).queue == queue)
                          for write in self.writes).any()),
                self.pending[queue].eq((count != 0) | self.inside[queue]),
            ]
            leaves, enters = Signal(name=f"leaves_{queue}"), self.notice.valid & (self.notice.payload.queue == queue)
            m.d.sync += [leaves.eq(gone & (output.o.payload.queue == queue)),
                         waiting_here.eq(waiting_here + enters - leaves)]
            with m.If(self.discard.valid & (self.discard.queue == queue)):
                m.d.sync += [count.eq(0),
                             Assert(~self.inside[queue], Format(f"queue {queue} is discarded with a notice inside"))]
            with m.Elif(sends & (~ends | (count == 0))):
                m.d.sync += count.eq(count + 1)
            with m.Elif(ends & ~sends & (count != 0)):
                m.d.sync += count.eq(count - 1)
        m.d.comb += self.outstanding_notices.settled.eq(Cat(settled).all())
        return m
