# SPDX-License-Identifier: Apache-2.0
"""Completed requests of each queue pair: PSN and MSN of acknowledgements, and which of them to send.

Completion -> Progress -> Acknowledgements, ReadQueues.  Latency: 2 cycles.  Throughput: one request per 2 cycles.
"""

from amaranth import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.common.sweep import SweepSignature

from ..config import RdmaConfig
from ..ports import MarkSignature
from ..protocol import PSN_WIDTH
from .layouts import Kind, entry_layout, progress_layout, read_job_layout
from .rows import RowRead, RowTable

__all__ = ["ACK_INTERVAL", "Notices", "Progress", "read_push_layout", "selected_layout"]

ACK_INTERVAL = 16
"""Most packets of a queue pair that one ACK covers, if their sender requires none before."""


def selected_layout(config):
    """A packet beyond a gap that is in memory."""
    return data.StructLayout({"qp": config.qp_bits, "psn": PSN_WIDTH})


def read_push_layout(config):
    return data.StructLayout({"qp": config.qp_bits, "job": read_job_layout(config)})


class Notices(wiring.Signature):
    """Strobes about queue pair ``qp``, whose row is written in the cycle before. ``due``: an ACK, or a NAK that waits,
    is to be sent; ``nak``: a NAK waits; ``progress``: the NAK that waits is out of date."""

    def __init__(self, config: RdmaConfig) -> None:
        super().__init__({"qp": Out(config.qp_bits), "due": Out(1), "nak": Out(1), "progress": Out(1)})


class Progress(wiring.Component):
    """Requests of a queue pair arrive in order.

    Parameters
    ----------
    config : RdmaConfig

    Members
    -------
    init : ``In(SweepSignature)``
    ops : ``In(stream.Signature(entry_layout))``
    notices : ``Out(Notices)``
    selected : ``Out(stream.Signature(selected_layout))``
        The receiver drops what it cannot accept.
    reads : ``Out(stream.Signature(read_push_layout))``
    settled : ``Out(MarkSignature)``
        A queue pair has opened.
    read : ``In(RowRead(progress_layout)).array(2)``
    """

    def __init__(self, config: RdmaConfig) -> None:
        self.config = config
        super().__init__({
            "init": In(SweepSignature(config)), "ops": In(stream.Signature(entry_layout(config))),
            "notices": Out(Notices(config)), "selected": Out(stream.Signature(selected_layout(config))),
            "reads": Out(stream.Signature(read_push_layout(config))), "settled": Out(MarkSignature(config)),
            "read": In(RowRead(progress_layout(config), config.queue_pairs)).array(2),
        })

    def elaborate(self, platform):
        m = Module()
        op, config = self.ops.payload, self.config
        m.submodules.rows = rows = RowTable(config, progress_layout(config), depth=config.queue_pairs, reads=3)
        wiring.connect(m, wiring.flipped(self.init), rows.init)
        for ours, port in zip(self.read, rows.read[1:], strict=True):
            wiring.connect(m, wiring.flipped(ours), port)
        row, new, looked, go, is_read = rows.read[0].data, rows.write.data, Signal(), Signal(), Signal()
        m.d.comb += [
            rows.read[0].addr.eq(op.qp), rows.read[0].en.eq(self.ops.valid & ~looked),
            is_read.eq((op.kind == Kind.READ) | (op.kind == Kind.READ_AGAIN)),
            go.eq(looked & (~is_read | self.reads.ready)), self.ops.ready.eq(go),
            rows.write.en.eq(go), rows.write.addr.eq(op.qp), new.eq(row), new.completed.eq(row.completed + 1),
        ]
        m.d.sync += looked.eq(Mux(looked, ~go, self.ops.valid))

        due, is_nak, progress = Signal(), Signal(), Signal()
        with m.Switch(op.kind):
            with m.Case(Kind.DONE):
                m.d.comb += [
                    new.next.eq(op.next), new.msn.eq(row.msn + op.messages), progress.eq(1),
                    due.eq(op.ackreq | (row.since == ACK_INTERVAL - 1)), new.since.eq(Mux(due, 0, row.since + 1)),
                ]
            with m.Case(Kind.REPEATED):
                m.d.comb += due.eq(1)
            with m.Case(Kind.NAK):
                m.d.comb += [new.syndrome.eq(op.syndrome), new.selective.eq(op.selective), is_nak.eq(1), due.eq(1)]
            with m.Case(Kind.READ):
                with m.If(~op.void):
                    m.d.comb += [new.next.eq(op.next), new.msn.eq(row.msn + 1), new.since.eq(0), progress.eq(1)]
            with m.Case(Kind.OPEN):
                m.d.comb += [new.eq(0), new.completed.eq(row.completed + 1), new.next.eq(op.next), progress.eq(1)]
        m.d.sync += [
            self.notices.qp.eq(op.qp), self.notices.due.eq(go & due), self.notices.nak.eq(go & is_nak),
            self.notices.progress.eq(go & progress), self.settled.valid.eq(go & (op.kind == Kind.OPEN)),
            self.settled.qp.eq(op.qp),
        ]
        job = self.reads.payload.job
        m.d.comb += [
            self.selected.valid.eq(go & (op.kind == Kind.SELECTED)), self.selected.payload.qp.eq(op.qp),
            self.selected.payload.psn.eq(op.psn),
            self.reads.valid.eq(looked & is_read), self.reads.payload.qp.eq(op.qp), job.msn.eq(new.msn),
            *(job[name].eq(op[name])
              for name in ("address", "length", "psn", "mtu", "region", "generation", "void")),
        ]
        return m
