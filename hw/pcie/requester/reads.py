# SPDX-License-Identifier: Apache-2.0
"""The read path of the requester.

::

    AR -> ReadSplitter -> ReadIssue -> RQ
                  OrderRows ^   ^ TagPool
    RC -> CompletionFinder -> CompletionCheck -> ReadDelivery -> R
       ReadTimeouts ^                   ReorderBuffer ^

Latency: 2 cycles from a burst to its first TLP, and from a completion's beat to R.  Throughput: one TLP and one beat
per cycle.
"""

from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.common.sweep import Sweep
from hw.common.wiring import Wiring
from hw.stream import Skid

from ..config import PcieConfig
from ..layouts import (
    FlushSignature,
    ReadTlp,
    RequesterEvents,
    RequesterSettings,
    completion_layout,
    read_beat_layout,
    read_burst_layout,
)
from .completion_check import CompletionCheck
from .completion_finder import CompletionFinder
from .order_rows import OrderRows
from .read_delivery import ReadDelivery
from .read_issue import ReadIssue
from .read_layouts import termination_layout
from .read_splitter import ReadSplitter
from .read_timeouts import ReadTimeouts
from .reorder_buffer import ReorderBuffer
from .tag_pool import TagPool

__all__ = ["ReadPath"]


class ReadPath(wiring.Component):
    """Read bursts as memory read requests, and their completions as beats.

    Beats of one AXI ID keep the order of their bursts. The first request of a row of IDs is *direct*: its beats are
    delivered as they arrive. Others are stored and delivered behind their predecessors.

    After reset, no request is sent for as many cycles as the configuration's ``sweep_rows``.

    Parameters
    ----------
    config : PcieConfig

    Members
    -------
    bursts : ``In(stream.Signature(read_burst_layout))``
        AR. ``ready`` is combinational, from ``tlps.ready`` as well.
    beats : ``Out(stream.Signature(read_beat_layout))``
        R. From registers, through two levels of logic.
    flushes : ``In(FlushSignature)``
        Reads of no byte behind a write.
    tlps : ``Out(stream.Signature(ReadTlp))``
        To RQ. From registers, through two levels of logic.
    completions : ``In(stream.Signature(completion_layout))``
        From RC, from registers: up to 7 levels of logic follow. ``ready`` is combinational, from ``beats.ready`` as
        well.
    settings : ``In(RequesterSettings)``, events : ``Out(RequesterEvents)``
    discard : ``In(1)``
        For a reset of the engine: bursts and flushes are dropped, beats and responses are not delivered. Hold it until
        ``idle``; tags stay in use until their completions have arrived or timed out. A TLP on offer stays.
    idle : ``Out(1)``
        No tag is in use, and no TLP is on offer. Registered.
    """

    def __init__(self, config: PcieConfig) -> None:
        self.config = config
        super().__init__({
            "bursts": In(stream.Signature(read_burst_layout(config))),
            "beats": Out(stream.Signature(read_beat_layout(config))),
            "flushes": In(FlushSignature(config)), "tlps": Out(stream.Signature(ReadTlp)),
            "completions": In(stream.Signature(completion_layout(config))),
            "settings": In(RequesterSettings()), "events": Out(RequesterEvents()), "discard": In(1), "idle": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        config, wires = self.config, Wiring(m, self)
        wires.add(sweep=Sweep(config), splitter=ReadSplitter(config), issue=ReadIssue(config), rows=OrderRows(config),
                  tags=TagPool(config), finder=CompletionFinder(config), check=CompletionCheck(config),
                  delivery=ReadDelivery(config), reorder=ReorderBuffer(config), timeouts=ReadTimeouts(config),
                  refusals=Skid(termination_layout(config)))
        wires.broadcast("sweep.init", "rows.init", "tags.init", "finder.init", "reorder.init", "timeouts.init")
        wires.broadcast("self.discard", "splitter.discard", "issue.discard", "delivery.discard")

        # -- Requests.
        wires.connect("self.bursts", "splitter.bursts")
        wires.connect("splitter.pieces", "issue.pieces")
        wires.connect("splitter.row", "rows.row")
        wires.connect("rows.previous", "issue.previous")
        wires.connect("tags.o", "issue.tags")
        wires.connect("issue.hold", "tags.hold")
        wires.connect("reorder.slots", "issue.slots")
        wires.connect("self.flushes.requests", "issue.flushes")
        wires.connect("issue.tlps", "self.tlps")
        wires.broadcast("issue.issued", "rows.issued", "finder.issued", "reorder.issued", "timeouts.issued")

        # -- Completions.
        wires.connect("self.completions", "finder.completions")
        wires.connect("timeouts.terminations", "finder.terminations[0]")
        wires.connect("issue.refused", "refusals.i")
        wires.connect("refusals.o", "finder.terminations[1]")
        wires.connect("timeouts.waiting", "finder.waiting")
        wires.connect("finder.found", "check.found")
        wires.connect("check.updates", "finder.updates")
        wires.connect("check.completed", "tags.completed")
        wires.connect("check.checked", "delivery.checked")
        wires.connect("delivery.store", "reorder.store")
        wires.connect("rows.heads", "reorder.heads")
        wires.connect("reorder.started", "rows.started")
        wires.connect("reorder.ordered", "delivery.ordered")
        wires.connect("delivery.beats", "self.beats")
        wires.connect("delivery.flushed", "self.flushes.done")
        wires.broadcast("delivery.delivered", "rows.delivered", "issue.delivered", "tags.delivered")
        wires.connect("check.events", "self.events")
        wires.connect("tags.idle", "self.idle")

        # -- Settings.
        wires.connect("self.settings.max_read", "splitter.max_read")
        wires.connect("self.settings.bus_master", "issue.bus_master")
        wires.connect("self.settings.halt", "issue.halt")
        wires.connect("self.settings.extended_tags", "tags.extended")
        wires.connect("self.settings.timeout", "timeouts.timeout")
        wires.leave_open("self.settings.max_payload", "it concerns writes")
        wires.finish()
        return m
