"""Event ports: what happens to each segment, for traces and for logic analysers.

All stages -> Events -> top-level ports.  Latency: 1 cycle.  Throughput: one event of each kind per cycle.
"""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .layouts import STATUS_WIDTH

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
"""Kinds of events, in the order of the pipeline, and what is said of each:

* ``posted``: a doorbell's word was accepted.
* ``dropped``: the queue was picked, and its window was full or its fence closed.
* ``scheduled``: a segment, the first or last of its request, got the place ``index`` of its queue's window
  (of the longest window; shorter ones come round sooner).
* ``read``: it got a tag, and ``beats`` slots of the buffer; its AR is next. ``size`` is its bytes, less one.
* ``arrived``: it is known to the write sequencer: its data is there, or begins to be.
* ``write``: its first beat is on the way to W.
* ``done``: memory has answered its write.
* ``rejected``: it ended without ever having had a tag: failed checks, or belongs to a request that failed them.
* ``retired``: its queue's window moved over it.
* ``ended``: a request is counted. ``failed``: something failed, logged or not.
* ``word``, ``written``: a completion word went to W, memory has answered it.
  ``writer`` is the lower part of its AXI ID: ``{notice, queue, is_rc}``, see ``word_id_layout``.
* ``freed``: one slot of the buffer.
* ``read_stall``, ``write_stall``: AR, W waits for ready.
"""


def EventsSignature(config):
    """For each kind of event a ``valid``, and its fields beside it."""
    widths = {
        "queue": config.queue_bits, "index": config.place_bits, "first": 1, "last": 1, "tag": config.tag_bits,
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
    i : ``In(EventsSignature)``
    o : ``Out(EventsSignature)``
        Fields without their ``valid`` mean nothing.
    """

    def __init__(self, config):
        super().__init__({"i": In(EventsSignature(config)), "o": Out(EventsSignature(config))})

    def elaborate(self, platform):
        m = Module()
        for kind, fields in EVENTS.items():
            for name in ("valid", *fields):
                m.d.sync += getattr(getattr(self.o, kind), name).eq(getattr(getattr(self.i, kind), name))
        return m
