# SPDX-License-Identifier: Apache-2.0
"""Rules of acknowledgements, NAKs, READ responses and timers.

Part of Acknowledgements.  Latency: 1 cycle.
"""

from amaranth import *
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ...config import RdmaConfig
from ...fault import Fault
from ...protocol import PSN_WIDTH, Nak, SyndromeKind
from .layouts import (
    OFFSET_WIDTH,
    READS_WIDTH,
    STAMP_WIDTH,
    operation_layout,
    pending_read_layout,
    progress_layout,
    settings_layout,
)
from .timers import TimeLookup

__all__ = ["Judgement", "case_layout", "result_layout"]

_SPAN_WIDTH = 9
"""Bits of a number of PSNs in a window."""

_INFINITE = 7


def case_layout(config):
    """A received packet if ``packet``, else the check of a timer, with rows of its queue pair.

    ``next``, ``reads``, ``served``, ``resending``: those of the sender.
    """
    return data.StructLayout({
        "packet": 1, "operation": operation_layout(config), "row": progress_layout(), "settings": settings_layout(),
        "running": 1, "next": PSN_WIDTH, "reads": READS_WIDTH, "served": 1, "resending": 1})


def result_layout(config):
    """The new row and its consequences.

    ``is_read``: the packet is a READ response, which is delivered if ``accept``. ``mark``: the peer has received the
    PSN whose low bits are ``marked``. ``wake``, ``kick``: the sender, or retirement, may continue. ``fault``: a
    :class:`Fault`. ``timeout``, ``nak``, ``rnr``: counted events.
    """
    return data.StructLayout({
        "row": progress_layout(), "is_read": 1, "accept": 1, "mark": 1, "marked": range(config.window), "wake": 1,
        "kick": 1, "fault": 4, "timeout": 1, "nak": 1, "rnr": 1})


class Judgement(wiring.Component):
    """Judge one case per cycle.

    * A packet whose PSN is not outstanding, or of a queue pair that does not run, has no effect.
    * An acknowledgement, or the response to a later READ, does not pass a READ without response: the response is lost.
    * A NAK of sequence error, or a lost response, requests a retransmission from the oldest PSN that is not
      acknowledged, once until there is progress or a timeout.
    * A timer measures the time without progress while packets are outstanding and none waits to be retransmitted.

    Parameters
    ----------
    config : RdmaConfig

    Members
    -------
    case : ``In(case_layout)``
    time : ``Out(TimeLookup)``
        In the cycle of ``case``.
    read : ``In(pending_read_layout)``
        The queue pair's oldest READ whose response is outstanding, a cycle after ``case``.
    result : ``Out(result_layout)``
        A cycle after ``case``.
    """

    def __init__(self, config: RdmaConfig) -> None:
        self.config = config
        super().__init__({
            "case": In(case_layout(config)), "time": Out(TimeLookup()), "read": In(pending_read_layout(config)),
            "result": Out(result_layout(config)),
        })

    def elaborate(self, platform):
        m = Module()
        config, read, result, new = self.config, self.read, self.result, self.result.row

        # -- First cycle: distances from the oldest PSN.
        kind, code = self.case.operation.syndrome[5:], self.case.operation.syndrome[:5]
        m.d.comb += [
            self.time.rnr.eq(Mux(self.case.packet, ~self.case.operation.read & (kind == SyndromeKind.RNR),
                                 self.case.row.waiting)),
            self.time.code.eq(Mux(self.case.packet, code, self.case.row.code)),
            self.time.timeout.eq(self.case.settings.timeout),
        ]
        case = Signal(case_layout(config), name="judged")
        distance, marked = Signal(PSN_WIDTH), Signal(PSN_WIDTH)
        span, stamp, limit = Signal(_SPAN_WIDTH), Signal(STAMP_WIDTH), Signal(6)
        following, has_read = Signal(PSN_WIDTH), Signal()
        m.d.sync += [
            case.eq(self.case), distance.eq(self.case.operation.psn - self.case.row.oldest),
            marked.eq(self.case.operation.msn - self.case.row.oldest), span.eq(self.case.next - self.case.row.oldest),
            stamp.eq(self.time.stamp), limit.eq(self.time.limit), following.eq(self.case.operation.psn + 1),
            has_read.eq(self.case.reads != self.case.row.reads),
        ]
        operation, row, settings = case.operation, case.row, case.settings
        kind, code = operation.syndrome[5:], operation.syndrome[:5]

        # -- Second cycle: kind of packet, and its position relative to the oldest READ.
        live, known = Signal(), Signal()
        ack, nak, rnr, response = Signal(), Signal(), Signal(), Signal()
        gap, at_read, beyond = Signal(OFFSET_WIDTH), Signal(), Signal()
        m.d.comb += [
            live.eq(case.running & ~row.failed),
            known.eq(case.packet & live & ~distance[_SPAN_WIDTH:].any() & (distance[:_SPAN_WIDTH] < span)),
            response.eq(known & operation.read),
            ack.eq(known & ~operation.read & (kind == SyndromeKind.ACK)),
            rnr.eq(known & ~operation.read & (kind == SyndromeKind.RNR)),
            nak.eq(known & ~operation.read & (kind == SyndromeKind.NAK)),
            gap.eq(operation.psn - read.psn), at_read.eq(has_read & (gap == 0)),
            beyond.eq(has_read & ~gap[-1] & (gap != 0)),
        ]

        # -- The oldest PSN that is not acknowledged.
        to_read, to_own, past_own, lost, advance = Signal(), Signal(), Signal(), Signal(), Signal()
        good, accept, fault = Signal(), Signal(), Signal.like(result.fault)
        m.d.comb += [
            good.eq(operation.whole & (operation.length == read.length)),
            lost.eq((ack & (at_read | beyond)) | (response & beyond)),
            to_read.eq(lost | ((nak | rnr) & beyond)), to_own.eq((nak | rnr) & ~beyond),
            past_own.eq((ack & ~at_read & ~beyond) | (response & at_read & good)),
            advance.eq(past_own | (to_own & (distance != 0))
                       | (to_read & (read.psn[:OFFSET_WIDTH] != row.oldest[:OFFSET_WIDTH]))),
            result.is_read.eq(case.packet & operation.read), accept.eq(response & at_read & good),
            result.accept.eq(accept),
        ]

        # -- Timers.
        elapsed, expired, timing, waited, timed_out = (Signal(STAMP_WIDTH), Signal(), Signal(), Signal(), Signal())
        m.d.comb += [
            elapsed.eq(stamp - row.stamp), expired.eq(elapsed > limit),
            waited.eq(~case.packet & live & row.waiting & expired),
            timing.eq((span != 0) & (settings.timeout != 0) & (case.served == row.request) & ~case.resending),
            timed_out.eq(~case.packet & live & ~row.waiting & timing & row.armed & expired),
        ]

        # -- Retransmission.
        sequence, waits, rewinds, exhausted = Signal(), Signal(), Signal(), Signal()
        count = Signal(3)
        m.d.comb += [
            sequence.eq(nak & (code == Nak.SEQUENCE)),
            rewinds.eq((sequence | lost) & ~row.waiting & (advance | ~row.requested)),
            count.eq(Mux(advance, 0, row.rnr)),
            exhausted.eq((settings.rnr_retries != _INFINITE) & (count == settings.rnr_retries)),
            waits.eq(rnr & ~row.waiting),
        ]

        # -- The new row.
        m.d.comb += new.eq(row)
        with m.If(past_own):
            m.d.comb += new.oldest.eq(following)
        with m.Elif(to_own):
            m.d.comb += new.oldest.eq(operation.psn)
        with m.Elif(to_read):
            m.d.comb += new.oldest.eq(read.psn)
        m.d.comb += new.reads.eq(row.reads + accept)
        with m.If(advance):
            m.d.comb += [new.tries.eq(0), new.rnr.eq(0), new.requested.eq(0)]
        with m.If((advance | rewinds) & ~row.waiting):
            m.d.comb += [new.armed.eq(1), new.stamp.eq(stamp)]
        with m.If(rewinds):
            m.d.comb += [new.requested.eq(1), new.partial.eq(0)]
        with m.If(waits):
            m.d.comb += [new.waiting.eq(1), new.code.eq(code), new.stamp.eq(stamp), new.rnr.eq(count + 1)]
        with m.If(~case.packet & ~row.waiting):
            m.d.comb += new.armed.eq(timing)
            with m.If(~row.armed):
                m.d.comb += new.stamp.eq(stamp)
        with m.If(waited):
            m.d.comb += [new.waiting.eq(0), new.armed.eq(0), new.partial.eq(0), new.requested.eq(0)]
        with m.If(timed_out):
            m.d.comb += [new.tries.eq(row.tries + 1), new.armed.eq(0), new.partial.eq(0), new.requested.eq(0)]
        # A request that the sender has not served begins at the oldest PSN anyway.
        with m.If((rewinds | waited | timed_out) & (case.served == row.request)):
            m.d.comb += new.request.eq(~row.request)
        if config.selective:
            received, ahead = Signal(), Signal(OFFSET_WIDTH)
            m.d.comb += [
                received.eq(sequence & settings.selective & ~marked[_SPAN_WIDTH:].any()
                            & (marked[:_SPAN_WIDTH] < span)),
                result.mark.eq(received), result.marked.eq(operation.msn), ahead.eq(operation.msn - row.last),
            ]
            with m.If(rewinds):
                m.d.comb += [new.partial.eq(received | (lost & settings.selective)),
                             new.last.eq(Mux(lost, read.psn, operation.msn))]
            with m.Elif(received & row.partial & ~ahead[-1]):
                m.d.comb += new.last.eq(operation.msn)

        # -- Faults and consequences.
        with m.If(nak & ~sequence):
            with m.Switch(code):
                with m.Case(Nak.INVALID_REQUEST):
                    m.d.comb += fault.eq(Fault.REMOTE_INVALID)
                with m.Case(Nak.REMOTE_ACCESS):
                    m.d.comb += fault.eq(Fault.REMOTE_ACCESS)
                with m.Case(Nak.REMOTE_OPERATION):
                    m.d.comb += fault.eq(Fault.REMOTE_OPERATION)
                with m.Default():
                    m.d.comb += fault.eq(Fault.BAD_RESPONSE)
        with m.Elif(response & at_read & ~good):
            m.d.comb += fault.eq(Fault.BAD_RESPONSE)
        with m.Elif(waits & exhausted):
            m.d.comb += fault.eq(Fault.RNR_RETRIES)
        with m.Elif(timed_out & (row.tries == settings.retries)):
            m.d.comb += fault.eq(Fault.RETRIES)
        with m.If(fault != 0):
            m.d.comb += new.failed.eq(1)
        m.d.comb += [
            result.wake.eq(advance | rewinds | waited | timed_out), result.kick.eq(advance),
            result.timeout.eq(timed_out), result.nak.eq(sequence), result.rnr.eq(rnr), result.fault.eq(fault),
        ]
        return m
