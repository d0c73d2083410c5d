# SPDX-License-Identifier: Apache-2.0
"""Packets leave the transport in the order of their PSN.

Visits -> Retirement -> buffers.  Latency: 4 cycles from the beginning of a visit to ``retire``.  Throughput:
one packet per cycle; one packet of a queue pair in 3 cycles.
"""

from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.common.sweep import SweepSignature
from hw.common.table import Table
from hw.stream import Queue

from ...config import RdmaConfig
from ...layouts import retire_layout
from ...ports import MarkSignature
from ...protocol import PSN_WIDTH
from .layouts import entry_layout, progress_layout, retired_layout
from .ports import IndexLookup, Opening, RecordLookup, RowLookup

__all__ = ["RETIRED_ROWS", "Retirement"]

RETIRED_ROWS = 5
"""Look-ups of the rows of retirement: two of posting, of the sender, states, and status."""

_DEPTH, _STAGES = 16, 3


class Retirement(wiring.Component):
    """In a visit, the oldest packet of a queue pair retires: it is acknowledged, or the queue pair flushes.

    A packet that waits to be sent stays, and so does a READ until its response is delivered.

    Parameters
    ----------
    config : RdmaConfig

    Members
    -------
    init : ``In(SweepSignature)``, opening : ``In(Opening)``
    visit : ``In(MarkSignature)``, go : ``Out(1)``, again : ``Out(1)``
        As those of :class:`Visits`.
    rows : ``In(RowLookup).array(RETIRED_ROWS)``
    posted, entries, progress, flushing, delivered : ``Out(RowLookup)``
        Rows of other stages. ``delivered``: READ responses of the queue pair that were delivered.
    record : ``Out(RecordLookup)``
    unsent : ``Out(IndexLookup)``
    retire : ``Out(stream.Signature(retire_layout))``
    wake : ``Out(MarkSignature)``
        No packet of the queue pair can retire now.
    kick : ``Out(MarkSignature)``
        The packet waits to be sent: another visit is needed.
    count : ``Out(1)``
        A strobe for each packet.
    """

    def __init__(self, config: RdmaConfig) -> None:
        self.config = config
        super().__init__({
            "init": In(SweepSignature(config)), "opening": In(Opening(config)),
            "visit": In(MarkSignature(config)), "go": Out(1), "again": Out(1),
            "rows": In(RowLookup(config, retired_layout(config))).array(RETIRED_ROWS),
            "posted": Out(RowLookup(config, unsigned(PSN_WIDTH))),
            "entries": Out(RowLookup(config, entry_layout(config))),
            "progress": Out(RowLookup(config, progress_layout())),
            "flushing": Out(RowLookup(config, unsigned(1))),
            "delivered": Out(RowLookup(config, unsigned(config.packet_bits + 1))),
            "record": Out(RecordLookup(config)), "unsent": Out(IndexLookup(config)),
            "retire": Out(stream.Signature(retire_layout(config))),
            "wake": Out(MarkSignature(config)), "kick": Out(MarkSignature(config)), "count": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        config, opening = self.config, self.opening
        m.submodules.table = table = Table(retired_layout(config), depth=config.queue_pairs, reads=1 + RETIRED_ROWS,
                                           init=SweepSignature(config))
        # READs retired: all that were delivered, when a queue pair is opened.
        m.submodules.reads = reads = Table(unsigned(config.packet_bits + 1), depth=config.queue_pairs, reads=1,
                                           init=SweepSignature(config))
        for one in (table, reads):
            wiring.connect(m, wiring.flipped(self.init), one.init)
        for port, lookup in zip(table.read[1:], self.rows, strict=True):
            m.d.comb += [port.addr.eq(lookup.qp), lookup.row.eq(port.data)]

        # -- Cycle 0: rows.
        m.d.comb += table.read[0].addr.eq(self.visit.qp)
        row, count = Signal(retired_layout(config)), Signal(config.packet_bits + 1)
        m.d.comb += reads.read[0].addr.eq(self.visit.qp)
        m.d.sync += [row.eq(table.read[0].data), count.eq(reads.read[0].data)]
        read = {}
        for name in ("posted", "entries", "progress", "flushing", "delivered"):
            lookup = getattr(self, name)
            m.d.comb += lookup.qp.eq(self.visit.qp)
            read[name] = Signal(lookup.row.shape(), name=f"{name}_row")
            m.d.sync += read[name].eq(lookup.row)
        valid, qp = Signal(), Signal(config.qp_bits)
        m.d.sync += [valid.eq(self.visit.valid), qp.eq(self.visit.qp)]

        # -- Cycle 1: is there a packet that may retire?
        acknowledged, some = Signal(), Signal()
        follows, index = Signal(config.packet_bits + 1), Signal(config.packet_bits)
        m.d.comb += [
            acknowledged.eq(~row.failing & (row.psn != read["progress"].oldest)),
            some.eq(row.linked | (read["entries"].turn != row.turn)),
            index.eq(Mux(row.linked, row.index, read["entries"].index)), self.record.index.eq(index),
            follows.eq(read["posted"] - row.psn),
        ]
        visited, able, good, more, delivered = Signal(), Signal(), Signal(), Signal(), Signal()
        following = Signal.like(count)
        step_row, step_qp, step_index = Signal.like(row), Signal.like(qp), Signal.like(index)
        m.d.sync += [
            visited.eq(valid), able.eq(valid & some & (acknowledged | read["flushing"])), good.eq(acknowledged),
            more.eq(follows != 1), delivered.eq(read["delivered"] != count), following.eq(count + 1),
            step_row.eq(row), step_qp.eq(qp), step_index.eq(index),
        ]

        # -- Cycle 2: it leaves, unless it waits to be sent, or its data have not been delivered.
        new, is_read = Signal.like(row), Signal()
        m.d.comb += [
            is_read.eq(self.record.record.read & good), self.unsent.index.eq(step_index),
            self.again.eq(able & ~self.unsent.found & ~(is_read & ~delivered)),
            new.failing.eq(~good), new.psn.eq(step_row.psn + 1), new.index.eq(self.record.next), new.linked.eq(more),
            new.turn.eq(step_row.turn ^ ~step_row.linked),
            reads.write.en.eq(self.again & is_read), reads.write.addr.eq(step_qp), reads.write.data.eq(following),
        ]
        with m.If(opening.valid):
            m.d.comb += [new.eq(0), new.psn.eq(opening.psn)]
        m.d.comb += [
            table.write.en.eq(self.again | opening.valid),
            table.write.addr.eq(Mux(opening.valid, opening.qp, step_qp)), table.write.data.eq(new),
        ]
        m.d.sync += [
            self.wake.valid.eq(visited & ~self.again), self.wake.qp.eq(step_qp),
            self.kick.valid.eq(able & self.unsent.found), self.kick.qp.eq(step_qp),
        ]

        # Those in progress fit, and so does one that was queued in the cycle before.
        m.submodules.queue = queue = Queue(retire_layout(config), depth=_DEPTH, ram="lut", output_register=True)
        m.d.comb += [
            self.count.eq(self.again), queue.i.valid.eq(self.again),
            queue.i.payload.index.eq(step_index), queue.i.payload.failed.eq(~good),
        ]
        m.d.sync += self.go.eq(queue.level < _DEPTH - _STAGES - 1)
        wiring.connect(m, queue.o, wiring.flipped(self.retire))
        return m
