# SPDX-License-Identifier: Apache-2.0
"""Which packet of a queue pair is sent next: a new one, or one to retransmit.

Visits -> Sender -> SendBuffer.  Latency: 2 cycles from the beginning of a visit.  Throughput: one visit per cycle.
"""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.common.event import EventSignature
from hw.common.sweep import SweepSignature
from hw.common.table import Table

from ...config import RdmaConfig
from ...layouts import send_layout
from ...ports import MarkSignature
from ...protocol import PSN_WIDTH
from .layouts import (
    OFFSET_WIDTH,
    READS_WIDTH,
    entry_layout,
    progress_layout,
    retired_layout,
    sent_layout,
    settings_layout,
)
from .ports import Opening, PaceRequest, PendingReadWrite, RecordLookup, RowLookup, SelectiveLookup, WindowStrobe

__all__ = ["SENT_ROWS", "Sender"]

SENT_ROWS = 3
"""Look-ups of the sender's rows: of posting, acknowledgements, and status."""

_ACK_BITS = 3
"""A packet whose PSN has only ones in these low bits requests an acknowledgement."""


class Sender(wiring.Component):
    """In a visit, one packet is sent, or the sender moves to another packet, or there is nothing to do.

    * A retransmission is requested, or packets that were to be retransmitted are acknowledged meanwhile: as soon as
      retirement has reached the oldest packet without acknowledgement, it is the next one to retransmit.
    * Retransmission: packets that the peer has received beyond a gap are left out, except the oldest one, whose gap is
      filled: its acknowledgement was lost.
    * Else a new packet, if the window and the limit of READs permit.

    Parameters
    ----------
    config : RdmaConfig

    Members
    -------
    init : ``In(SweepSignature)``, opening : ``In(Opening)``
    visit : ``In(MarkSignature)``, again : ``Out(1)``
        As those of :class:`Visits`.
    rows : ``In(RowLookup).array(SENT_ROWS)``
    posted, entries, progress, retired, to_retire, settings, running, paced, limited : ``Out(RowLookup)``
        Rows of other stages. ``paced``: the last packet's time on the line is not over. ``limited``: the queue pair has
        not the line rate.
    record : ``Out(RecordLookup)``
    received : ``Out(SelectiveLookup)``
        Marks of packets that the peer has received beyond a gap; only for selective repeat.
    clear : ``Out(WindowStrobe)``
        A new packet takes this entry of the window; only for selective repeat.
    send : ``Out(EventSignature(send_layout))``
    read : ``Out(PendingReadWrite)``
    pace : ``Out(PaceRequest)``
    sent, retransmitted : ``Out(1)``
        Strobes: a packet; it was sent before.
    """

    def __init__(self, config: RdmaConfig) -> None:
        self.config = config
        flag = Out(RowLookup(config, unsigned(1)))
        super().__init__({
            "init": In(SweepSignature(config)), "opening": In(Opening(config)),
            "visit": In(MarkSignature(config)), "again": Out(1),
            "rows": In(RowLookup(config, sent_layout(config))).array(SENT_ROWS),
            "posted": Out(RowLookup(config, unsigned(PSN_WIDTH))),
            "entries": Out(RowLookup(config, entry_layout(config))),
            "progress": Out(RowLookup(config, progress_layout())),
            "retired": Out(RowLookup(config, retired_layout(config))),
            "to_retire": Out(RowLookup(config, entry_layout(config))),
            "settings": Out(RowLookup(config, settings_layout())),
            "running": flag, "paced": flag, "limited": flag,
            "record": Out(RecordLookup(config)),
            **({"received": Out(SelectiveLookup(config)), "clear": Out(WindowStrobe(config))}
               if config.selective else {}),
            "send": Out(EventSignature(send_layout(config))), "read": Out(PendingReadWrite(config)),
            "pace": Out(PaceRequest(config)), "sent": Out(1), "retransmitted": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        config, opening = self.config, self.opening
        m.submodules.table = table = Table(sent_layout(config), depth=config.queue_pairs, reads=1 + SENT_ROWS,
                                           init=SweepSignature(config))
        wiring.connect(m, wiring.flipped(self.init), table.init)
        for port, lookup in zip(table.read[1:], self.rows, strict=True):
            m.d.comb += [port.addr.eq(lookup.qp), lookup.row.eq(port.data)]

        # -- Cycle 0: rows.
        lookups = {name: getattr(self, name) for name in (
            "posted", "entries", "progress", "retired", "to_retire", "settings", "running", "paced", "limited")}
        read = {}
        m.d.comb += table.read[0].addr.eq(self.visit.qp)
        row = Signal(sent_layout(config))
        m.d.sync += row.eq(table.read[0].data)
        for name, lookup in lookups.items():
            m.d.comb += lookup.qp.eq(self.visit.qp)
            read[name] = Signal(lookup.row.shape(), name=f"{name}_row")
            m.d.sync += read[name].eq(lookup.row)
        progress, retired, entry = read["progress"], read["retired"], read["entries"]
        valid, qp = Signal(), Signal(config.qp_bits)
        m.d.sync += [valid.eq(self.visit.valid), qp.eq(self.visit.qp)]

        # -- Cycle 1: kind of step, and the packet.
        behind, beyond, window, some = Signal(), Signal(), Signal(), Signal()
        able, reload = Signal(), Signal()
        offset, left = Signal(OFFSET_WIDTH), Signal(OFFSET_WIDTH)
        in_flight, reads = Signal(range(2 * config.window)), Signal(READS_WIDTH)
        follows, index = Signal(config.packet_bits + 1), Signal(config.packet_bits)
        m.d.comb += [
            able.eq(valid & read["running"] & ~progress.waiting & ~read["paced"]),
            offset.eq(row.position - progress.oldest), behind.eq(offset[-1]),
            reload.eq((row.served != progress.request) | (row.resending & behind)),
            left.eq(Mux(progress.partial, progress.last, row.next) - row.position),
            beyond.eq(left[-1] | (~progress.partial & (left == 0))),
            in_flight.eq(row.next - progress.oldest), window.eq(~in_flight[-1]),
            some.eq(row.linked | (entry.turn != row.turn)),
            reads.eq(row.reads - progress.reads), follows.eq(read["posted"] - row.next),
            index.eq(Mux(row.resending, row.resend, Mux(row.linked, row.index, entry.index))),
            self.record.index.eq(index),
        ]
        reloads, resends, ends, sends = (Signal(name=name) for name in ("reloads", "resends", "ends", "sends"))
        m.d.sync += [
            reloads.eq(able & reload & (retired.psn == progress.oldest)),
            resends.eq(able & ~reload & row.resending & ~beyond),
            ends.eq(able & ~reload & row.resending & beyond),
            sends.eq(able & ~reload & ~row.resending & some & window),
        ]
        full, more, outstanding = Signal(), Signal(), Signal()
        step_qp, step_index, pointer = Signal.like(qp), Signal.like(index), Signal.like(index)
        step_row, oldest, request, at_oldest = Signal.like(row), Signal(PSN_WIDTH), Signal(), Signal()
        limited, selective = Signal(), Signal()
        m.d.sync += [
            full.eq(reads > read["settings"].max_reads), more.eq(follows != 1),
            outstanding.eq(row.next != progress.oldest), step_qp.eq(qp), step_index.eq(index),
            pointer.eq(Mux(retired.linked, retired.index, read["to_retire"].index)),
            step_row.eq(row), oldest.eq(progress.oldest), at_oldest.eq(offset == 0), request.eq(progress.request),
            limited.eq(read["limited"]),
            selective.eq(read["settings"].selective),
        ]

        # -- Cycle 2: the packet's record; the new row.
        record, new = self.record.record, Signal.like(row)
        fresh, repeat, skip = Signal(), Signal(), Signal()
        m.d.comb += [fresh.eq(sends & ~(record.read & full)), repeat.eq(resends & ~skip)]
        if config.selective:
            m.d.comb += [
                self.received.qp.eq(qp), self.received.psn.eq(row.position),
                skip.eq(selective & self.received.found & ~at_oldest),
                self.clear.valid.eq(fresh), self.clear.qp.eq(step_qp), self.clear.psn.eq(step_row.next),
            ]
        m.d.comb += new.eq(step_row)
        with m.If(reloads):
            m.d.comb += [new.position.eq(oldest), new.resend.eq(pointer), new.resending.eq(outstanding),
                         new.served.eq(request)]
        with m.If(resends):
            m.d.comb += [new.position.eq(step_row.position + 1), new.resend.eq(self.record.next)]
        with m.If(ends):
            m.d.comb += new.resending.eq(0)
        with m.If(sends):
            m.d.comb += [new.next.eq(step_row.next + 1), new.index.eq(self.record.next), new.linked.eq(more),
                         new.turn.eq(step_row.turn ^ ~step_row.linked), new.reads.eq(step_row.reads + record.read)]
        with m.If(opening.valid):
            m.d.comb += [new.eq(0), new.next.eq(opening.psn)]
        m.d.comb += [
            self.again.eq(reloads | resends | ends | fresh),
            table.write.en.eq(self.again | opening.valid),
            table.write.addr.eq(Mux(opening.valid, opening.qp, step_qp)), table.write.data.eq(new),
        ]

        # -- The packet.
        send, pending = self.send.payload, self.read.read
        m.d.comb += [
            self.send.valid.eq(fresh | repeat), self.sent.eq(self.send.valid), self.retransmitted.eq(repeat),
            send.index.eq(step_index), send.psn.eq(Mux(resends, step_row.position, step_row.next)),
            send.ackreq.eq(resends | ~more | step_row.next[:_ACK_BITS].all()),
            self.read.valid.eq(fresh & record.read), self.read.qp.eq(step_qp), self.read.number.eq(step_row.reads),
            pending.psn.eq(step_row.next), pending.index.eq(step_index), pending.length.eq(record.length),
            self.pace.valid.eq(self.send.valid & limited), self.pace.qp.eq(step_qp), self.pace.cost.eq(record.cost),
        ]
        return m
