# SPDX-License-Identifier: Apache-2.0
"""Completion: turns ends of segments into completion words, records and flags in memory.

                         ┌──────────┐ publish ┌──────────┐ completions
    done ───────────────▶│  retire  │────────▶│  writer  │──▶ pacer ─────┐
    rejected, abandoned ▶│          │         └──────────┘               ▼
    operations ─────────▶│          │ notice                        ┌──────────┐ words
                         └──────────┘──────────────────────────────▶│ notices  │───────▶ sequencer
    signals ──▶ queue ─────────────────────────────────────────────▶│          │
                         ┌───────────┐ requests[ARK], writes[ARK]   │          │
                         │ ark_flags │◀────────────────────────────▶│          │
                         ├───────────┤ requests[RING], writes[RING] │          │
                         │  records  │◀────────────────────────────▶│          │
                         └───────────┘                              └──────────┘
    written ──▶┌───────────┐ accepted ──▶ writer, notices
               │ responses │           ┌──────────────┐ events
               └───────────┘ ─────────▶│ failed_words │────────▶ operations
                                       └──────────────┘
"""

from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.common.interrupts import QueueInterruptsSignature
from hw.common.sweep import SweepSignature
from hw.common.wiring import Wiring
from hw.dma_engine.config import DmaConfig
from hw.dma_engine.configuration import (
    AblationSignature,
    ConnectionWriteSignature,
    QueueStatesSignature,
    QueueWriteSignature,
)
from hw.dma_engine.control.control import PendingSignature
from hw.dma_engine.control.epochs import AbandonSignature, EpochLookupSignature, WordStatusSignature
from hw.dma_engine.frontend.settings import SettingsLookupSignature
from hw.dma_engine.instruments.counters import MovedSignature
from hw.dma_engine.layouts import completion_write_layout, done_layout, event_layout, op_layout
from hw.dma_engine.mover.sequencer import WordWriteSignature
from hw.dma_engine.rings.records import RingRecords
from hw.dma_engine.strobes import (
    DoneSignature,
    OutcomeSignature,
    RetiredSignature,
    ReturnedSignature,
    ScheduledSignature,
    WrittenSignature,
)
from hw.dma_engine.words import QueueMode
from hw.stream import Pacer, Queue

from .ark_flags import ArkFlags
from .failed_words import FailedWords
from .interrupts import QueueInterrupts
from .notices import MODES, Notices, SentSignature
from .record_interrupts import RecordInterrupts
from .retire import HeadLookupSignature, Retire, RetirementLookupSignature
from .word_responses import WordResponses
from .writer import CompletionWriter

__all__ = ["Completion", "CompletionActivitySignature"]

WORD_BURST = 4
"""Completion words that may follow each other in spite of ``word_interval``: both words of two requests."""


class CompletionActivitySignature(wiring.Signature):
    """Events of the completion subsystem in this cycle, for counters and traces.

    Members
    -------
    moved : ``Out(MovedSignature)``, sent : ``Out(SentSignature)``
    unexpected : ``Out(1)``
        A response arrived for a word that is not in flight.
    """

    def __init__(self, config: DmaConfig) -> None:
        super().__init__({"moved": Out(MovedSignature(config)), "sent": Out(SentSignature(config)),
                          "unexpected": Out(1)})


class Completion(wiring.Component):
    """Retire requests in order and write their completions to memory. Only connects.

    Parameters
    ----------
    config : DmaConfig

    Members
    -------
    init : ``In(SweepSignature)``
    configure : ``In(QueueWriteSignature)``, connection : ``In(ConnectionWriteSignature)``
    ablation : ``In(AblationSignature)``, queues : ``In(QueueStatesSignature)``
    scheduled : ``In(ScheduledSignature)``, done : ``In(DoneSignature)``, rejected, abandoned : ``In(stream)``
        Segments that take an entry of their queue's window; segments that have ended.
    operations : ``In(stream.Signature(op_layout))``, events : ``Out(stream.Signature(event_layout))``
        Operations on queues, ordered with retirement; words whose writes failed.
    signals : ``In(stream)``, words : ``Out(WordWriteSignature)``, written : ``In(WrittenSignature)``
        Words to memory, and their write responses.
    restarted : ``In(extended)``
        Rings that restart.
    settings : ``Out(SettingsLookupSignature)``, head : ``In(HeadLookupSignature)``
    lookup : ``In(RetirementLookupSignature)``
    epochs : array of ``Out(EpochLookupSignature)``
        Look-ups by retirement, completion writer and notices.
    abandon : ``In(AbandonSignature)``, word_status : ``Out(WordStatusSignature)``, inside : ``Out(extended)``
        The queue being abandoned, and its words.
    pending : ``Out(PendingSignature)``, held : ``Out(queues)``
        Queues with words to write; queues that hold after an error.
    interrupts : ``Out(QueueInterruptsSignature)``
    retired, returned, outcome, activity : ``Out``
        Events of segments, requests and words.
    """

    def __init__(self, config: DmaConfig) -> None:
        self.config = config
        done = stream.Signature(done_layout(config))
        super().__init__({
            "init": In(SweepSignature(config)),
            "configure": In(QueueWriteSignature(config)), "connection": In(ConnectionWriteSignature(config)),
            "ablation": In(AblationSignature()), "queues": In(QueueStatesSignature(config)),
            "scheduled": In(ScheduledSignature(config)),
            "done": In(DoneSignature(config)), "rejected": In(done), "abandoned": In(done),
            "operations": In(stream.Signature(op_layout(config))),
            "events": Out(stream.Signature(event_layout(config))),
            "signals": In(stream.Signature(completion_write_layout(config))),
            "words": Out(WordWriteSignature(config)), "written": In(WrittenSignature(config)),
            "restarted": In(config.extended),
            "settings": Out(SettingsLookupSignature(config)), "head": In(HeadLookupSignature(config)),
            "lookup": In(RetirementLookupSignature(config)),
            "epochs": Out(EpochLookupSignature(config)).array(3),
            "abandon": In(AbandonSignature(config)), "word_status": Out(WordStatusSignature()),
            "inside": Out(config.extended),
            "pending": Out(PendingSignature(config)), "held": Out(config.queues),
            "interrupts": Out(QueueInterruptsSignature(config.queue_bits)),
            "retired": Out(RetiredSignature(config)), "returned": Out(ReturnedSignature(config)),
            "outcome": Out(OutcomeSignature(config)), "activity": Out(CompletionActivitySignature(config)),
        })

    def elaborate(self, platform):
        m = Module()
        config, ark, ring = self.config, MODES.index(QueueMode.ARK), MODES.index(QueueMode.RING)
        wires = Wiring(m, self)
        wires.add(retire=Retire(config), writer=CompletionWriter(config), notices=Notices(config),
                  word_responses=WordResponses(config), ark_flags=ArkFlags(config), records=RingRecords(config),
                  signals=Queue(completion_write_layout(config), depth=4), failed_words=FailedWords(config),
                  interrupts=QueueInterrupts(config), record_interrupts=RecordInterrupts(config))
        wires.broadcast("self.init", "retire.init", "word_responses.init")
        wires.broadcast("self.configure", "writer.configure", "ark_flags.configure", "records.configure")
        wires.connect("self.connection", "ark_flags.connection")

        # -- Ends of segments, in the order of their queues.
        wires.connect("self.ablation", "retire.ablation")
        wires.connect("self.queues", "retire.queues")
        wires.connect("self.scheduled", "retire.scheduled")
        wires.connect("self.done", "retire.done")
        wires.connect("self.rejected", "retire.rejected")
        wires.connect("self.abandoned", "retire.abandoned")
        wires.connect("self.operations", "retire.ops")
        wires.connect("retire.settings", "self.settings")
        wires.connect("retire.epoch", "self.epochs[0]")
        wires.connect("self.head", "retire.head")
        wires.connect("self.lookup", "retire.lookup")
        wires.connect("retire.held", "self.held")
        wires.connect("retire.retired", "self.retired")
        wires.connect("retire.returned", "self.returned")
        wires.connect("retire.moved", "self.activity.moved")
        wires.connect("retire.outcome", "self.outcome")

        # -- Words to memory.
        wires.broadcast("retire.publish", "writer.publish", "interrupts.publish")
        wires.broadcast("writer.pending", "retire.pending", "self.pending.completions")
        wires.connect("writer.epoch", "self.epochs[1]")
        if config.word_interval > 1:
            wires.add(pacer=Pacer(completion_write_layout(config), interval=config.word_interval, burst=WORD_BURST))
            wires.connect("writer.o", "pacer.i")
            wires.connect("pacer.o", "notices.completions")
        else:
            wires.connect("writer.o", "notices.completions")
        wires.connect("self.signals", "signals.i")
        wires.connect("signals.o", "notices.signals")
        wires.leave_open("signals.level", "read issue waits for ready")
        wires.connect("retire.notice", "notices.notice")
        wires.connect(f"notices.requests[{ark}]", "ark_flags.i")
        wires.connect("ark_flags.o", f"notices.writes[{ark}]")
        wires.connect(f"notices.requests[{ring}]", "records.i")
        wires.connect("records.o", f"notices.writes[{ring}]")
        wires.connect("self.restarted", "records.restarted")
        wires.connect("notices.epoch", "self.epochs[2]")
        wires.connect("notices.pending", "self.pending.notices")
        wires.connect("notices.words", "self.words")
        wires.connect("notices.sent", "self.activity.sent")

        # -- Responses to words.
        wires.connect("self.written", "word_responses.written")
        wires.broadcast("word_responses.accepted", "writer.written", "notices.written", "failed_words.written",
                        "interrupts.written", "record_interrupts.written")
        wires.connect("failed_words.events", "self.events")
        wires.connect("word_responses.unexpected", "self.activity.unexpected")
        wires.connect("writer.outstanding", "word_responses.outstanding")
        wires.broadcast("notices.outstanding_notices", "word_responses.outstanding_notices", "record_interrupts.counts")
        wires.broadcast("self.abandon", "writer.abandon", "word_responses.abandon")
        wires.broadcast("word_responses.discard", "writer.discard", "notices.discard", "record_interrupts.discard")
        wires.connect("word_responses.status", "self.word_status")
        wires.connect("notices.inside", "self.inside")

        # -- Interrupts.
        wires.connect("writer.choice", "interrupts.choice")
        wires.connect("records.interrupting", "record_interrupts.sent")
        wires.connect("record_interrupts.o", "interrupts.record")
        wires.connect("interrupts.interrupts", "self.interrupts")
        wires.finish()
        return m
