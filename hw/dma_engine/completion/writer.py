# SPDX-License-Identifier: Apache-2.0
"""Completion writer: writes SC and RC words, with at most one of each per queue in flight.

Retire -> CompletionWriter -> WriteSequencer.  Latency: 1 cycle from ``publish`` to ``o``
if it is idle, else 3.  Throughput: one word per 2 cycles.

A word that is published again before it is written is written once, with the newer value: tiny messages do not double
the write traffic.
"""

from amaranth import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.common.layouts import CompletionLayout
from hw.common.sizes import ADDR_WIDTH
from hw.common.table import Table
from hw.dma_engine.config import DmaConfig
from hw.dma_engine.configuration import QueueWriteSignature
from hw.dma_engine.control.epochs import AbandonSignature, EpochLookupSignature
from hw.dma_engine.layouts import EPOCH_WIDTH, completion_write_layout, word_id_layout
from hw.dma_engine.strobes import QueueStrobeSignature, WrittenSignature
from hw.stream import RoundRobin

__all__ = ["ChoiceSignature", "CompletionWriter", "OutstandingSignature", "PublishSignature"]


class PublishSignature(wiring.Signature):
    """Retirement changed a queue's completion word. Always taken; a newer word replaces an unwritten one.

    Members
    -------
    sc, rc : ``Out(1)``
        Write ``word`` to the queue's SC, RC address.
    queue : ``Out``, word : ``Out(CompletionLayout)``
    discard : ``Out(1)``
        Drop published words of ``queue`` that are not yet written.
    interrupt : ``Out(1)``
        ``queue`` interrupts when the words that are published now have been written; at once if there are none.
    record : ``Out(1)``
        A record will report the request, too.
    """

    def __init__(self, config: DmaConfig) -> None:
        super().__init__({"sc": Out(1), "rc": Out(1), "queue": Out(config.queue_bits), "word": Out(CompletionLayout),
                          "discard": Out(1), "interrupt": Out(1), "record": Out(1)})


class ChoiceSignature(wiring.Signature):
    """Words that wait to be chosen, and those that were chosen in the previous cycle, for interrupts.

    Members
    -------
    sc, rc : ``Out(queues)``
        Queues whose SC word, RC word is waiting.
    chosen : ``Out(1)``, queue : ``Out``, is_rc : ``Out(1)``
        A waiting word was chosen. If so, nothing is chosen in this cycle.
    at_once : ``Out(1)``
        The word that was published was chosen, without waiting: RC, if both were.
    """

    def __init__(self, config: DmaConfig) -> None:
        super().__init__({"sc": Out(config.queues), "rc": Out(config.queues), "chosen": Out(1),
                          "queue": Out(config.queue_bits), "is_rc": Out(1), "at_once": Out(1)})


class OutstandingSignature(wiring.Signature):
    """Queues whose SC word, RC word is in flight: chosen, with an outstanding write response."""

    def __init__(self, config: DmaConfig) -> None:
        super().__init__({"sc": Out(config.queues), "rc": Out(config.queues)})


class CompletionWriter(wiring.Component):
    """Store the latest words of each queue and write changed ones, in turn: RC before SC, but neither twice before the
    other.

    Parameters
    ----------
    config : DmaConfig

    Members
    -------
    configure : ``In(QueueWriteSignature)``
        Addresses of a queue's words.
    publish : ``In(PublishSignature)``
    abandon : ``In(AbandonSignature)``
        Drop words that have not reached ``o``. The queue's epoch ends with this cycle.
    discard : ``In(QueueStrobeSignature)``
        Stop waiting for the responses to the queue's words. Never together with ``written``.
    epoch : ``Out(EpochLookupSignature)``
    written : ``In(WrittenSignature)``
    outstanding : ``Out(OutstandingSignature)``
    pending : ``Out(queues)``
        Queues with a word that is waiting or in flight.
    choice : ``Out(ChoiceSignature)``
    o : ``Out(stream.Signature(completion_write_layout))``
    """

    def __init__(self, config: DmaConfig) -> None:
        self.config = config
        super().__init__({
            "configure": In(QueueWriteSignature(config)), "publish": In(PublishSignature(config)),
            "abandon": In(AbandonSignature(config)), "discard": In(QueueStrobeSignature(config)),
            "epoch": Out(EpochLookupSignature(config)),
            "written": In(WrittenSignature(config)), "outstanding": Out(OutstandingSignature(config)),
            "pending": Out(config.queues), "choice": Out(ChoiceSignature(config)),
            "o": Out(stream.Signature(completion_write_layout(config))),
        })

    def elaborate(self, platform):
        m = Module()
        config, queues = self.config, self.config.queues
        changed, flying, addresses, words = {}, {}, {}, {}
        for kind in ("rc", "sc"):
            changed[kind] = Signal(queues, name=f"{kind}_changed")
            flying[kind] = getattr(self.outstanding, kind)
            m.submodules[f"{kind}_addresses"] = addresses[kind] = Table(
                ADDR_WIDTH - 3, depth=queues, reads=1, init=None)
            m.submodules[f"{kind}_words"] = words[kind] = Table(CompletionLayout, depth=queues, reads=1, init=None)
            m.d.comb += [
                addresses[kind].write.en.eq(self.configure.valid),
                addresses[kind].write.addr.eq(self.configure.queue),
                addresses[kind].write.data.eq(getattr(self.configure, f"{kind}_addr")[3:]),
                words[kind].write.en.eq(getattr(self.publish, kind)),
                words[kind].write.addr.eq(self.publish.queue),
                words[kind].write.data.eq(self.publish.word),
            ]
        m.d.comb += self.pending.eq(changed["rc"] | changed["sc"] | flying["rc"] | flying["sc"])

        # -- Choose a queue, then its RC or its SC. RC goes before SC, but not twice before a waiting SC, which would
        # starve.
        open_rc, open_sc = changed["rc"] & ~flying["rc"], changed["sc"] & ~flying["sc"]
        m.submodules.choice = choice = RoundRobin(queues)
        chosen, is_rc = Signal(name="chosen"), Signal(name="is_rc")
        queue = Signal(config.queue_bits)
        pick, onehot = Signal(), Signal(queues)
        rc_first, sc_next = Signal(queues), Signal(queues)
        m.d.comb += [
            choice.requests.eq(open_rc | open_sc),
            pick.eq(choice.valid & ~chosen),
            choice.advance.eq(pick),
            onehot.eq(Mux(chosen, 0, choice.grant_onehot)),
            rc_first.eq(open_rc & ~(open_sc & sc_next)),
        ]
        # The choice in one-hot encoding, and the queues whose RC goes first, both from when it was made, as the grant
        # is late-arriving. Nothing is picked in the next cycle, in which ``sc_next`` follows.
        picked, taken, rc_of = Signal(), Signal(queues), Signal(queues)
        m.d.sync += picked.eq(pick)
        m.d.comb += is_rc.eq((taken & rc_of).any())
        with m.If(~chosen):
            m.d.sync += [chosen.eq(pick), queue.eq(choice.grant), taken.eq(choice.grant_onehot), rc_of.eq(rc_first)]
        with m.Elif(~self.o.valid | self.o.ready):
            m.d.sync += chosen.eq(0)
        for index in range(queues):
            with m.If(taken[index]):
                m.d.sync += sc_next[index].eq(rc_of[index])

        # -- A chosen word belongs to the epoch of its choice, which may end with the choice, or before the word leaves.
        past_abandon, past_queue = Signal(), Signal(config.queue_bits)
        ended_before, epoch_ended = Signal(), Signal(name="epoch_ended")
        epoch = Signal(EPOCH_WIDTH)
        m.d.sync += [past_abandon.eq(self.abandon.valid), past_queue.eq(self.abandon.queue), ended_before.eq(
            chosen & (epoch_ended | (self.abandon.valid & (self.abandon.queue == queue))))]
        m.d.comb += [
            epoch_ended.eq(ended_before | (picked & past_abandon & (past_queue == queue))),
            epoch.eq(self.epoch.epoch - (chosen & epoch_ended)),
        ]

        # -- A word published to an idle writer need not be chosen.
        open_, next_queue, next_rc = Signal(), Signal(config.queue_bits), Signal()
        published = {kind: Signal(queues, name=f"{kind}_published") for kind in ("rc", "sc")}
        at_once = {kind: Signal(queues, name=f"{kind}_at_once") for kind in ("rc", "sc")}
        m.d.comb += open_.eq(~chosen & (~self.o.valid | self.o.ready))
        for kind, publish, may in (("rc", self.publish.rc, 1), ("sc", self.publish.sc, ~self.publish.rc)):
            here = Cat(self.publish.queue == index for index in range(queues))
            m.d.comb += [
                published[kind].eq(Mux(publish, here, 0)),
                at_once[kind].eq(Mux(may & open_, published[kind] & ~(changed[kind] | flying[kind]), 0)),
            ]

        # -- For interrupts: ``o`` was loaded without a choice.
        was_open = Signal()
        m.d.sync += was_open.eq(open_)
        m.d.comb += [
            self.choice.sc.eq(changed["sc"]), self.choice.rc.eq(changed["rc"]), self.choice.chosen.eq(picked),
            self.choice.queue.eq(queue), self.choice.is_rc.eq(is_rc),
            self.choice.at_once.eq(was_open & self.o.valid),
        ]

        # -- Read the chosen word as late as possible, independently of ``at_once``, which is late-arriving.
        m.d.comb += [next_queue.eq(Mux(chosen, queue, self.publish.queue)), self.epoch.queue.eq(next_queue),
                     next_rc.eq(Mux(chosen, is_rc, self.publish.rc))]
        for kind in ("rc", "sc"):
            m.d.comb += [addresses[kind].read[0].addr.eq(next_queue), words[kind].read[0].addr.eq(queue)]
        with m.If(~self.o.valid | self.o.ready):
            m.d.sync += [
                self.o.valid.eq(chosen | at_once["rc"].any() | at_once["sc"].any()),
                self._id(next_rc, next_queue),
                self.o.payload.queue.eq(next_queue), self.o.payload.epoch.eq(epoch),
                self.o.payload.addr.eq(
                    Mux(next_rc, addresses["rc"].read[0].data, addresses["sc"].read[0].data) << 3),
                self.o.payload.word.eq(Mux(chosen, Mux(is_rc, words["rc"].read[0].data, words["sc"].read[0].data),
                                           self.publish.word)),
            ]

        # No word is discarded in a cycle with a response.
        response = self.written.valid & ~self.written.id.notice
        writer, discard = self.written.id, self.discard.valid
        ends = {"rc": discard | (response & writer.is_rc), "sc": discard | (response & ~writer.is_rc)}
        ended_queue = Mux(discard, self.discard.queue, writer.queue)
        for kind, first in (("rc", rc_first), ("sc", ~rc_first)):
            for index in range(queues):
                mine = onehot[index] & first[index]
                abandoned = self.abandon.valid & (self.abandon.queue == index)
                with m.If(published[kind][index] & ~at_once[kind][index]):
                    m.d.sync += changed[kind][index].eq(1)
                with m.Elif(mine | abandoned | (self.publish.discard & (self.publish.queue == index))):
                    m.d.sync += changed[kind][index].eq(0)
                with m.If(mine | at_once[kind][index]):
                    m.d.sync += flying[kind][index].eq(1)
                with m.Elif(ends[kind] & (ended_queue == index)):
                    m.d.sync += flying[kind][index].eq(0)
        return m

    def _id(self, is_rc, queue):
        word_id = data.View(word_id_layout(self.config), self.o.payload.id)
        return [word_id.is_rc.eq(is_rc), word_id.queue.eq(queue), word_id.top.eq(1)]
