# SPDX-License-Identifier: Apache-2.0
"""Posted packets become the end of their queue pair's list.

buffers -> Posting -> Sender, Retirement.  Latency: 4 cycles to the strobes.  Throughput: one packet per cycle.
"""

from amaranth import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.common.delay import delayed
from hw.common.sweep import SweepSignature
from hw.common.table import Table

from ...config import RdmaConfig
from ...layouts import posted_layout
from ...ports import MarkSignature
from ...protocol import PSN_WIDTH
from .layouts import entry_layout, retired_layout, sent_layout
from .ports import LinkWrite, Opening, RecordWrite, RowLookup

__all__ = ["POSTED_READS", "Posting"]

POSTED_READS = 4
"""Look-ups of the PSN after the last posted packet: of the sender, retirement, states, and status."""

_DECISION = 3
"""Cycles from a packet's acceptance until the rows of the sender and of retirement are read; see :class:`Posting`."""


class Posting(wiring.Component):
    """Assign PSNs, store each packet's record, and append it to its queue pair's list.

    The sender and retirement follow the list by links, each at its own packet. A link is written to the last packet,
    unless that has retired. A stage that passes the last packet of a list cannot follow its link: the next packet is
    handed over as an entry.

    A stage decides that a packet is the last one two cycles before its row shows that it has passed. If it has not
    seen a packet that is posted in cycle 0, its row shows this in cycle 3, when the rows are read here. Thus a packet
    is handed over as an entry exactly if the stage does not follow its link.

    Parameters
    ----------
    config : RdmaConfig

    Members
    -------
    init : ``In(SweepSignature)``, opening : ``In(Opening)``
    posted : ``In(stream.Signature(posted_layout))``
    hold : ``In(1)``
        No packet is accepted.
    rows : ``In(RowLookup).array(POSTED_READS)``
        PSN after the last posted packet.
    to_send : ``In(RowLookup)``, to_retire : ``In(RowLookup).array(2)``
        Entries of the sender and of retirement.
    record : ``Out(RecordWrite)``, link : ``Out(LinkWrite)``
    sent : ``Out(RowLookup)``
    retired : ``Out(RowLookup).array(2)``
    flushing : ``Out(RowLookup)``
        Packets of the queue pair fail.
    wake, kick : ``Out(MarkSignature)``
        The queue pair has a packet to send; to retire, as it fails.
    """

    def __init__(self, config: RdmaConfig) -> None:
        self.config = config
        entry = RowLookup(config, entry_layout(config))
        super().__init__({
            "init": In(SweepSignature(config)), "opening": In(Opening(config)),
            "posted": In(stream.Signature(posted_layout(config))), "hold": In(1),
            "rows": In(RowLookup(config, unsigned(PSN_WIDTH))).array(POSTED_READS),
            "to_send": In(entry), "to_retire": In(entry).array(2),
            "record": Out(RecordWrite(config)), "link": Out(LinkWrite(config)),
            "sent": Out(RowLookup(config, sent_layout(config))),
            "retired": Out(RowLookup(config, retired_layout(config))).array(2),
            "flushing": Out(RowLookup(config, unsigned(1))),
            "wake": Out(MarkSignature(config)), "kick": Out(MarkSignature(config)),
        })

    def elaborate(self, platform):
        m = Module()
        config, posted, opening = self.config, self.posted.payload, self.opening
        init = SweepSignature(config)
        m.submodules.psns = psns = Table(unsigned(PSN_WIDTH), depth=config.queue_pairs, reads=1 + POSTED_READS,
                                         init=init)
        m.submodules.tails = tails = Table(config.packet_bits, depth=config.queue_pairs, reads=1, init=init)
        for table in (psns, tails):
            wiring.connect(m, wiring.flipped(self.init), table.init)
        for port, lookup in zip(psns.read[1:], self.rows, strict=True):
            m.d.comb += [port.addr.eq(lookup.qp), lookup.row.eq(port.data)]

        # -- Cycle 0: PSN and predecessor.
        accept, psn, before = Signal(), psns.read[0].data, self.retired[0]
        m.d.comb += [
            accept.eq(self.posted.valid & ~self.hold), self.posted.ready.eq(~self.hold),
            psns.read[0].addr.eq(posted.qp), tails.read[0].addr.eq(posted.qp), before.qp.eq(posted.qp),
            psns.write.en.eq(accept | opening.valid), psns.write.addr.eq(Mux(opening.valid, opening.qp, posted.qp)),
            psns.write.data.eq(Mux(opening.valid, opening.psn, psn + 1)),
            tails.write.en.eq(accept), tails.write.addr.eq(posted.qp), tails.write.data.eq(posted.index),
        ]
        m.d.sync += [
            self.record.valid.eq(accept), self.record.index.eq(posted.index), self.record.record.read.eq(posted.read),
            self.record.record.length.eq(posted.length), self.record.record.cost.eq(posted.cost),
            self.link.valid.eq(accept & (before.row.psn != psn)), self.link.index.eq(tails.read[0].data),
            self.link.next.eq(posted.index),
        ]

        # -- Cycle 3: has the sender, or retirement, passed all earlier packets?
        layout = data.StructLayout({"valid": 1, "qp": config.qp_bits, "index": config.packet_bits, "psn": PSN_WIDTH})
        now = Signal(layout)
        m.d.comb += [now.valid.eq(accept), now.qp.eq(posted.qp), now.index.eq(posted.index), now.psn.eq(psn)]
        late = data.View(layout, delayed(m, now.as_value(), _DECISION, name="accepted", reset_less=False))
        passed = self.retired[1]
        m.d.comb += [self.sent.qp.eq(late.qp), passed.qp.eq(late.qp), self.flushing.qp.eq(late.qp)]
        for name, lookups, caught in (("to_send", [self.to_send], self.sent.row.next == late.psn),
                                      ("to_retire", self.to_retire, passed.row.psn == late.psn)):
            m.submodules[name] = entries = Table(entry_layout(config), depth=config.queue_pairs,
                                                 reads=1 + len(lookups), init=init)
            wiring.connect(m, wiring.flipped(self.init), entries.init)
            m.d.comb += [
                entries.read[0].addr.eq(late.qp),
                entries.write.en.eq((late.valid & caught) | opening.valid),
                entries.write.addr.eq(Mux(opening.valid, opening.qp, late.qp)),
                entries.write.data.index.eq(late.index),
                entries.write.data.turn.eq(~entries.read[0].data.turn & ~opening.valid),
            ]
            for port, lookup in zip(entries.read[1:], lookups, strict=True):
                m.d.comb += [port.addr.eq(lookup.qp), lookup.row.eq(port.data)]
        m.d.sync += [
            self.wake.valid.eq(late.valid), self.wake.qp.eq(late.qp),
            self.kick.valid.eq(late.valid & self.flushing.row), self.kick.qp.eq(late.qp),
        ]
        return m
