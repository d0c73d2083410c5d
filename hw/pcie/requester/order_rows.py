# SPDX-License-Identifier: Apache-2.0
"""Order of the requests of one AXI ID: rows, each a linked list of the requests in flight.

ReadSplitter, ReadIssue, ReadDelivery -> OrderRows -> ReadIssue, ReorderBuffer.  Latency: 1 cycle from a row to its last
request, 1 cycle from the start or end of a delivery to the new head.  Throughput: one request and one delivery per
cycle.
"""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.common.sweep import SweepSignature
from hw.common.table import Table

from ..config import PcieConfig
from .read_layouts import IssuedSignature, PreviousSignature, RowSignature, TagEvent
from .tag_flags import TagFlags

__all__ = ["OrderRows", "order_row"]


def order_row(config: PcieConfig, number: Value) -> Value:
    """Row of an AXI ID: all of its bits take part, and consecutive IDs are in different rows."""
    row: Value = Const(0, config.order_bits)
    for lsb in range(0, len(number), config.order_bits):
        row = row ^ number[lsb:lsb + config.order_bits]
    return row[:config.order_bits]


class OrderRows(wiring.Component):
    """Remember the last request of each row, and what follows each request in its row.

    A row's table entry has no valid bit: it is valid if the tag in it is undelivered and was issued in this row.

    Parameters
    ----------
    config : PcieConfig

    Members
    -------
    init : ``In(SweepSignature)``
    row : ``In(RowSignature)``
        Row of the next pieces.
    previous : ``Out(PreviousSignature)``
        Of the row that was named last; a request that is issued in this cycle counts.
    issued : ``In(IssuedSignature)``
    delivered : ``In(TagEvent)``
        ``previous.in_flight`` is 0 in this cycle already; no request may be linked to this tag any more.
    started : ``In(TagEvent)``
        Delivery from the reorder buffer has started, so that the next one may follow there. May be late or missed: the
        delivery's end does the same.
    heads : ``Out(TagEvent)``
        This request's predecessors in its row are delivered, or ahead of it in the reorder buffer. Only of requests
        that were linked. Registered.
    """

    def __init__(self, config: PcieConfig) -> None:
        self.config = config
        super().__init__({
            "init": In(SweepSignature(config)), "row": In(RowSignature(config)),
            "previous": Out(PreviousSignature(config)), "issued": In(IssuedSignature(config)),
            "delivered": In(TagEvent(config)), "started": In(TagEvent(config)),
            "heads": Out(TagEvent(config)),
        })

    def elaborate(self, platform):
        m = Module()
        self._find(m)
        self._follow(m)
        return m

    def _find(self, m):
        """The last request of the current row."""
        config, issued, delivered = self.config, self.issued, self.delivered
        m.submodules.last = last = Table(config.tag_bits, depth=config.order_rows, reads=1, init=None)
        m.submodules.rows = rows = Table(config.order_bits, depth=config.tags, reads=1, init=None)
        m.submodules.undelivered = undelivered = TagFlags(config)
        wiring.connect(m, wiring.flipped(self.init), undelivered.init)
        ordered = issued.valid & issued.ordered
        m.d.comb += [
            last.write.en.eq(ordered), last.write.addr.eq(issued.row), last.write.data.eq(issued.tag),
            rows.write.en.eq(ordered), rows.write.addr.eq(issued.tag), rows.write.data.eq(issued.row),
            undelivered.set.valid.eq(ordered), undelivered.set.tag.eq(issued.tag),
            undelivered.clear.valid.eq(delivered.valid), undelivered.clear.tag.eq(delivered.tag),
        ]

        row, tag = Signal(config.order_bits), Signal(config.tag_bits)
        m.d.comb += last.read[0].addr.eq(self.row.row)
        with m.If(self.row.valid):
            m.d.sync += [row.eq(self.row.row), tag.eq(last.read[0].data)]
            with m.If(ordered & (issued.row == self.row.row)):
                m.d.sync += tag.eq(issued.tag)
        with m.Elif(ordered & (issued.row == row)):
            m.d.sync += tag.eq(issued.tag)

        same, in_flight = Signal(), Signal()
        m.d.comb += [
            rows.read[0].addr.eq(tag), undelivered.read[0].tag.eq(tag),
            # A piece may wait for the end of the sweep.
            in_flight.eq(~self.init.active & undelivered.read[0].value & (rows.read[0].data == row)
                         & ~(delivered.valid & (delivered.tag == tag))),
            same.eq(ordered & (issued.row == row)),
            self.previous.in_flight.eq(same | in_flight), self.previous.tag.eq(Mux(same, issued.tag, tag)),
        ]

    def _follow(self, m):
        """Links from each request to the one that follows it."""
        config, issued, delivered = self.config, self.issued, self.delivered
        # A start waits for a cycle in which no delivery ends. The next start replaces it, and the end of its own
        # delivery cancels it: the tag may be in use again afterwards.
        waiting, started = Signal(), Signal(config.tag_bits)
        follow, tag = Signal(), Signal(config.tag_bits)
        with m.If(self.started.valid):
            m.d.sync += [waiting.eq(delivered.valid), started.eq(self.started.tag)]
        with m.Elif(~delivered.valid | (delivered.tag == started)):
            m.d.sync += waiting.eq(0)
        m.d.comb += [
            follow.eq(delivered.valid | self.started.valid | waiting),
            tag.eq(Mux(delivered.valid, delivered.tag, Mux(self.started.valid, self.started.tag, started))),
        ]
        m.submodules.following = following = Table(config.tag_bits, depth=config.tags, reads=1, init=None)
        m.submodules.linked = linked = TagFlags(config)
        wiring.connect(m, wiring.flipped(self.init), linked.init)
        link = issued.valid & issued.linked
        m.d.comb += [
            following.write.en.eq(link), following.write.addr.eq(issued.previous), following.write.data.eq(issued.tag),
            linked.set.valid.eq(link), linked.set.tag.eq(issued.previous),
            linked.clear.valid.eq(follow), linked.clear.tag.eq(tag),
            linked.read[0].tag.eq(tag), following.read[0].addr.eq(tag),
        ]
        m.d.sync += [self.heads.valid.eq(follow & linked.read[0].value),
                     self.heads.tag.eq(following.read[0].data)]
