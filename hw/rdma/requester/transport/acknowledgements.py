# SPDX-License-Identifier: Apache-2.0
"""Progress of each queue pair: acknowledgements, NAKs, READ responses, and timers.

ResponseSplit -> Acknowledgements -> Sender, Retirement, ReadReturns.  Latency: 3 cycles from an operation to the rows.
Throughput: one operation per cycle; of one queue pair, one in 3 cycles.
"""

from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.common.sweep import SweepSignature
from hw.common.table import Table
from hw.stream import Queue

from ...config import RdmaConfig
from ...ports import FaultSignature, MarkSignature
from .judgement import Judgement, case_layout
from .layouts import (
    operation_layout,
    progress_layout,
    sent_layout,
    settings_layout,
    verdict_layout,
)
from .pending_reads import PendingReadLookup
from .ports import Opening, RowLookup, WindowStrobe
from .responses import READ_BEATS
from .timers import TimeLookup

__all__ = ["PROGRESS_ROWS", "AcknowledgementCounts", "Acknowledgements"]

PROGRESS_ROWS = 3
"""Look-ups of the rows of acknowledgements: of the sender, retirement, and status."""


class AcknowledgementCounts(wiring.Signature):
    """Event strobes, as in :class:`RequesterCounts`."""

    def __init__(self) -> None:
        super().__init__({name: Out(1) for name in ("timeouts", "naks", "rnrs", "dropped")})


class Acknowledgements(wiring.Component):
    """Read a queue pair's row, judge an operation, write the row; :class:`Judgement` has the rules.

    An operation is a received packet, or else the check of a timer: all queue pairs in turn, so that each is checked
    once in ``queue_pairs`` cycles if no packets arrive.

    Parameters
    ----------
    config : RdmaConfig

    Members
    -------
    init : ``In(SweepSignature)``, opening : ``In(Opening)``
    hold : ``In(1)``
        No operation begins.
    operations : ``In(stream.Signature(operation_layout))``
    verdicts : ``Out(stream.Signature(verdict_layout))``
        On READ responses. Always accepted, as no more than ``READ_BEATS`` can wait.
    rows : ``In(RowLookup).array(PROGRESS_ROWS)``
    sent, settings, running : ``Out(RowLookup)``
        Rows of other stages.
    reads : ``Out(PendingReadLookup)``
    time : ``Out(TimeLookup)``
    mark : ``Out(WindowStrobe)``
        The peer has received a packet beyond a gap; only for selective repeat.
    fault : ``Out(FaultSignature)``
    wake, kick : ``Out(MarkSignature)``
        The sender, or retirement, may continue.
    counts : ``Out(AcknowledgementCounts)``
    """

    def __init__(self, config: RdmaConfig) -> None:
        self.config = config
        super().__init__({
            "init": In(SweepSignature(config)), "opening": In(Opening(config)), "hold": In(1),
            "operations": In(stream.Signature(operation_layout(config))),
            "verdicts": Out(stream.Signature(verdict_layout(config))),
            "rows": In(RowLookup(config, progress_layout())).array(PROGRESS_ROWS),
            "sent": Out(RowLookup(config, sent_layout(config))),
            "settings": Out(RowLookup(config, settings_layout())), "running": Out(RowLookup(config, unsigned(1))),
            "reads": Out(PendingReadLookup(config)), "time": Out(TimeLookup()),
            **({"mark": Out(WindowStrobe(config))} if config.selective else {}),
            "fault": Out(FaultSignature(config)), "wake": Out(MarkSignature(config)),
            "kick": Out(MarkSignature(config)), "counts": Out(AcknowledgementCounts()),
        })

    def elaborate(self, platform):
        m = Module()
        config, opening, operation = self.config, self.opening, self.operations.payload
        m.submodules.table = table = Table(progress_layout(), depth=config.queue_pairs, reads=1 + PROGRESS_ROWS,
                                           init=SweepSignature(config))
        wiring.connect(m, wiring.flipped(self.init), table.init)
        for port, lookup in zip(table.read[1:], self.rows, strict=True):
            m.d.comb += [port.addr.eq(lookup.qp), lookup.row.eq(port.data)]

        # -- Cycle 0: a packet, unless its queue pair is busy, or a timer.
        timed, qp, packet, clash, begin = (Signal(config.qp_bits), Signal(config.qp_bits), Signal(), Signal(),
                                           Signal())
        case = Signal(case_layout(config))
        valid, judged, judged_qp = Signal(), Signal(), Signal(config.qp_bits)

        def busy(number):
            return (valid & (case.operation.qp == number)) | (judged & (judged_qp == number))

        m.d.comb += [
            packet.eq(self.operations.valid & ~busy(operation.qp)), qp.eq(Mux(packet, operation.qp, timed)),
            clash.eq(busy(timed)), begin.eq(~self.hold & (packet | ~clash)),
            self.operations.ready.eq(~self.hold & packet),
            table.read[0].addr.eq(qp), self.sent.qp.eq(qp), self.settings.qp.eq(qp), self.running.qp.eq(qp),
        ]
        with m.If(begin & ~packet):
            m.d.sync += timed.eq(timed + 1)
        m.d.sync += [
            valid.eq(begin), case.packet.eq(packet), case.operation.eq(operation), case.operation.qp.eq(qp),
            case.row.eq(table.read[0].data), case.settings.eq(self.settings.row), case.running.eq(self.running.row),
            case.next.eq(self.sent.row.next), case.reads.eq(self.sent.row.reads),
            case.served.eq(self.sent.row.served), case.resending.eq(self.sent.row.resending),
        ]

        # -- Cycle 1: the oldest READ is read; differences. Cycle 2: the judgement.
        m.submodules.judgement = judgement = Judgement(config)
        m.d.comb += [
            self.reads.qp.eq(case.operation.qp), self.reads.number.eq(case.row.reads),
            judgement.case.eq(case), judgement.read.eq(self.reads.read),
        ]
        wiring.connect(m, judgement.time, wiring.flipped(self.time))
        m.d.sync += [judged.eq(valid), judged_qp.eq(case.operation.qp)]
        result = judgement.result
        m.d.comb += [
            table.write.en.eq(judged | opening.valid), table.write.addr.eq(Mux(opening.valid, opening.qp, judged_qp)),
            table.write.data.eq(result.row),
        ]
        with m.If(opening.valid):
            m.d.comb += [table.write.data.eq(0), table.write.data.oldest.eq(opening.psn)]
        m.submodules.verdicts = verdicts = Queue(verdict_layout(config), depth=READ_BEATS, ram="lut",
                                                 output_register=True)
        wiring.connect(m, verdicts.o, wiring.flipped(self.verdicts))
        m.d.comb += [
            verdicts.i.valid.eq(judged & result.is_read), verdicts.i.payload.accept.eq(result.accept),
            verdicts.i.payload.qp.eq(judged_qp), verdicts.i.payload.index.eq(self.reads.read.index),
        ]
        if config.selective:
            m.d.sync += [self.mark.valid.eq(judged & result.mark), self.mark.qp.eq(judged_qp),
                         self.mark.psn.eq(result.marked)]
        m.d.comb += self.fault.valid.eq(self.fault.code != 0)
        m.d.sync += [
            self.fault.qp.eq(judged_qp), self.fault.code.eq(Mux(judged, result.fault, 0)),
            self.wake.valid.eq(judged & result.wake), self.wake.qp.eq(judged_qp),
            self.kick.valid.eq(judged & result.kick), self.kick.qp.eq(judged_qp),
            self.counts.timeouts.eq(judged & result.timeout), self.counts.naks.eq(judged & result.nak),
            self.counts.rnrs.eq(judged & result.rnr), self.counts.dropped.eq(verdicts.i.valid & ~result.accept),
        ]
        return m
