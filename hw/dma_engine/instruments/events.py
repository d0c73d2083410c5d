# SPDX-License-Identifier: Apache-2.0
"""Event ports: the events of each segment, for traces and logic analysers.

All stages -> Events -> top-level ports.  Latency: 1 cycle.  Throughput: one event of each kind per cycle.
"""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.dma_engine.completion.notices import SentSignature
from hw.dma_engine.config import DmaConfig
from hw.dma_engine.layouts import STATUS_WIDTH
from hw.dma_engine.mover.axi_port import BusActivitySignature
from hw.dma_engine.mover.sequencer import SequencerEventsSignature
from hw.dma_engine.strobes import (
    DoneSignature,
    LaunchSignature,
    OutcomeSignature,
    QueueStrobeSignature,
    RejectionSignature,
    RetiredSignature,
    ScheduledSignature,
    WrittenSignature,
)

__all__ = ["EVENTS", "Events", "EventsSignature"]

EVENTS = {
    "posted": ("queue",),
    "dropped": ("queue",),
    "scheduled": ("queue", "index", "first", "last"),
    "read": ("queue", "index", "tag", "size", "beats"),
    "arrived": ("tag",),
    "write": ("tag",),
    "done": ("tag", "status"),
    "rejected": ("queue", "index", "status"),
    "retired": ("queue", "index"),
    "ended": ("queue",),
    "failed": ("queue", "status"),
    "word": ("writer",),
    "written": ("writer", "error"),
    "freed": (),
    "read_stall": (),
    "write_stall": (),
}
"""Kinds of events, in the order of the pipeline, with their meaning:

* ``posted``: a doorbell's word was accepted.
* ``dropped``: the queue was picked, and its window was full or its fence closed.
* ``scheduled``: a segment, the first or last of its request, got entry ``index`` of its queue's window
  (of the longest window; shorter ones wrap sooner).
* ``read``: it got a tag, and ``beats`` slots of the buffer; its AR is next. ``size`` is its bytes, less one.
* ``arrived``: the write sequencer has the segment, and at least its first data.
* ``write``: its first beat is issued to W.
* ``done``: memory has responded to its write.
* ``rejected``: it ended without a tag, because it or an earlier segment of its request failed the checks.
* ``retired``: its queue's window advanced over it.
* ``ended``: a request is counted. ``failed``: a failure, logged or not.
* ``word``, ``written``: a completion word went to W, memory has responded to it.
  ``writer`` is the lower part of its AXI ID: ``{notice, queue, is_rc}``, see ``word_id_layout``.
* ``freed``: one slot of the buffer.
* ``read_stall``, ``write_stall``: AR, W stalls.
"""


def EventsSignature(config):
    """For each kind of event a ``valid``, and its fields beside it."""
    widths = {
        "queue": config.queue_bits, "index": config.entry_bits, "first": 1, "last": 1, "tag": config.tag_bits,
        "size": config.segment_bits, "beats": config.beat_count_width, "status": STATUS_WIDTH,
        "writer": config.queue_bits + 2, "error": 1,
    }
    return wiring.Signature({
        kind: Out(wiring.Signature({"valid": Out(1)} | {name: Out(widths[name]) for name in fields}))
        for kind, fields in EVENTS.items()})


class Events(wiring.Component):
    """A register between the stages and the ports.

    Parameters
    ----------
    config : DmaConfig

    Members
    -------
    posted, dropped, scheduled, launch, sequencer, done, rejection, retired, outcome, sent, written, bus : ``In``
        Strobes of the stages.
    unexpected_word : ``In(1)``
        ``written`` is of a word that is not in flight.
    o : ``Out(EventsSignature)``
        Fields are undefined while their ``valid`` is low.
    """

    def __init__(self, config: DmaConfig) -> None:
        super().__init__({
            "posted": In(QueueStrobeSignature(config)), "dropped": In(QueueStrobeSignature(config)),
            "scheduled": In(ScheduledSignature(config)), "launch": In(LaunchSignature(config)),
            "sequencer": In(SequencerEventsSignature(config)), "done": In(DoneSignature(config)),
            "rejection": In(RejectionSignature(config)), "retired": In(RetiredSignature(config)),
            "outcome": In(OutcomeSignature(config)), "sent": In(SentSignature(config)),
            "written": In(WrittenSignature(config)), "unexpected_word": In(1), "bus": In(BusActivitySignature()),
            "o": Out(EventsSignature(config)),
        })

    def elaborate(self, platform):
        m = Module()
        scheduled, launch, log = self.scheduled.segment, self.launch.payload, self.outcome.log
        for event, valid, fields in (
            ("posted", self.posted.valid, {"queue": self.posted.queue}),
            ("dropped", self.dropped.valid, {"queue": self.dropped.queue}),
            ("scheduled", self.scheduled.valid, {"queue": scheduled.queue, "index": scheduled.index,
                                                 "first": scheduled.first, "last": scheduled.last}),
            ("read", self.launch.read, {"queue": launch.segment.queue, "index": launch.segment.index,
                                        "tag": launch.tag, "size": launch.segment.size,
                                        "beats": launch.segment.src_beats}),
            ("arrived", self.sequencer.arrived, {"tag": self.sequencer.arrived_tag}),
            ("write", self.sequencer.began, {"tag": self.sequencer.began_tag}),
            ("done", self.done.valid, {"tag": self.done.tag, "status": self.done.payload.status}),
            ("rejected", self.rejection.valid, {"queue": self.rejection.queue, "index": self.rejection.index,
                                                "status": self.rejection.status}),
            ("retired", self.retired.valid, {"queue": self.retired.queue, "index": self.retired.index}),
            ("ended", self.outcome.ended, {"queue": self.outcome.queue}),
            ("failed", self.outcome.failed, {"queue": log.queue, "status": log.status}),
            ("word", self.sent.valid, {"writer": self.sent.id}),
            ("written", self.written.valid & ~self.unexpected_word, {"writer": self.written.id.as_value(),
                                                                     "error": self.written.failed}),
            ("freed", self.sequencer.freed, {}),
            ("read_stall", self.bus.read_stall, {}),
            ("write_stall", self.bus.write_stall, {}),
        ):
            port = getattr(self.o, event)
            m.d.sync += [port.valid.eq(valid), *(getattr(port, name).eq(value) for name, value in fields.items())]
        return m
