# SPDX-License-Identifier: Apache-2.0
"""ACKs and NAKs of completed requests.

Progress, ReadResponses -> Acknowledgements -> Replies.  Latency: 6 cycles from a notice.  Throughput: one packet per 3
cycles.
"""

from amaranth import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.common.delay import delayed
from hw.stream import Queue

from ..config import RdmaConfig
from ..fault import Fault
from ..ports import MarkSignature
from ..protocol import ACK, PSN_WIDTH, Nak, Opcode
from .layouts import progress_layout, reply_layout
from .order import nak, reads_width
from .progress import Notices, selected_layout
from .queue_pair_list import QueuePairList
from .rows import RowRead
from .states import StateRead

__all__ = ["Acknowledgements"]

FAULTS = {Nak.INVALID_REQUEST: Fault.LOCAL_INVALID, Nak.REMOTE_ACCESS: Fault.LOCAL_ACCESS,
          Nak.REMOTE_OPERATION: Fault.LOCAL_OPERATION}

SELECTED = 16
"""Packets beyond gaps that wait to be reported; any more of them are not reported."""


class Acknowledgements(wiring.Component):
    """Serve the listed queue pairs in turn: a NAK if one waits, else an ACK of the newest completed PSN.

    While READs of a queue pair wait for their responses, nothing else is sent for it, as their responses come first and
    acknowledge what is before them. It is listed again after the last of them.

    Parameters
    ----------
    config : RdmaConfig

    Members
    -------
    notices : ``In(Notices)``, selected : ``In(stream.Signature(selected_layout))``
    progress : ``Out(RowRead(progress_layout))``
    pushed, departed : ``Out(RowRead)``
        READs of a queue pair that are complete but for their responses, and those whose responses have left.
    departs : ``In(MarkSignature)``
        A count of ``departed`` is written in this cycle.
    active : ``Out(StateRead)``
    replies : ``Out(stream.Signature(reply_layout))``
    """

    def __init__(self, config: RdmaConfig) -> None:
        self.config = config
        count = RowRead(reads_width(config), config.queue_pairs)
        super().__init__({
            "notices": In(Notices(config)), "selected": In(stream.Signature(selected_layout(config))),
            "progress": Out(RowRead(progress_layout(config), config.queue_pairs)), "pushed": Out(count),
            "departed": Out(count), "departs": In(MarkSignature(config)), "active": Out(StateRead(config)),
            "replies": Out(stream.Signature(reply_layout(config))),
        })

    def elaborate(self, platform):
        m = Module()
        config = self.config
        m.submodules.due = due = QueuePairList(config, 2)
        m.submodules.selected = selected = Queue(selected_layout(config), depth=SELECTED, ram="lut")
        m.d.comb += [self.selected.ready.eq(1), selected.i.valid.eq(self.selected.valid),
                     selected.i.payload.eq(self.selected.payload)]

        # -- Queue pairs with a NAK that waits, and those that wait for the end of their READs.
        naks, deferred = Signal(config.queue_pairs), Signal(config.queue_pairs)
        later = delayed(m, Cat(self.departs.valid, self.departs.qp), 3, name="departs", reset_less=False)
        again, again_qp = later[0], later[1:]
        notice = self.notices
        m.d.comb += [
            due.add[0].valid.eq(notice.due), due.add[0].payload.eq(notice.qp),
        ]
        m.submodules.again = repeats = Queue(unsigned(config.qp_bits), depth=4, ram="lut")
        m.d.comb += [repeats.i.valid.eq(again & deferred.bit_select(again_qp, 1)), repeats.i.payload.eq(again_qp),
                     due.add[1].valid.eq(repeats.o.valid), due.add[1].payload.eq(repeats.o.payload),
                     repeats.o.ready.eq(due.add[1].ready)]

        # -- Cycle 0: choose, and look up. Cycle 1: compare. Cycle 2: send.
        phase, start, qp, is_selected = Signal(range(3)), Signal(), Signal(config.qp_bits), Signal()
        now = Signal(data.StructLayout({"qp": config.qp_bits, "selected": 1, "psn": PSN_WIDTH}), reset_less=True)
        m.d.comb += [
            is_selected.eq(selected.o.valid), start.eq((phase == 0) & (selected.o.valid | due.o.valid)),
            qp.eq(Mux(is_selected, selected.o.payload.qp, due.o.payload)),
            selected.o.ready.eq(phase == 0), due.o.ready.eq((phase == 0) & ~is_selected),
            self.active.qp.eq(now.qp),
        ]
        for port in (self.progress, self.pushed, self.departed):
            m.d.comb += [port.addr.eq(qp), port.en.eq(start)]
        with m.If(start):
            m.d.sync += [phase.eq(1), now.qp.eq(qp), now.selected.eq(is_selected),
                         now.psn.eq(selected.o.payload.psn)]
        row, waits, goes, is_nak = self.progress.data, Signal(), Signal(), Signal()
        ahead = Signal(PSN_WIDTH)
        kept, kept_nak, near = (Signal(progress_layout(config), reset_less=True), Signal(reset_less=True),
                                Signal(reset_less=True))
        m.d.comb += [waits.eq(self.pushed.data != self.departed.data), is_nak.eq(naks.bit_select(now.qp, 1)),
                     ahead.eq(now.psn - row.next)]
        with m.If(phase == 1):
            m.d.sync += [phase.eq(2), kept.eq(row), kept_nak.eq(is_nak), goes.eq(self.active.bit & ~waits),
                         near.eq(~(ahead >> config.window.bit_length() - 1).any())]
        with m.If((phase == 1) & ~now.selected & ~waits):
            m.d.sync += naks.bit_select(now.qp, 1).eq(0)

        # A departure reads its bit at least two cycles after its count is written: it finds a bit that was set for the
        # count before.
        with m.If(again):
            m.d.sync += deferred.bit_select(again_qp, 1).eq(0)
        with m.If((phase == 1) & ~now.selected & waits):
            m.d.sync += deferred.bit_select(now.qp, 1).eq(1)
        with m.If(notice.progress):
            m.d.sync += naks.bit_select(notice.qp, 1).eq(0)
        with m.If(notice.nak):
            m.d.sync += naks.bit_select(notice.qp, 1).eq(1)

        reply, header = self.replies.payload, self.replies.payload.beat.header
        m.d.comb += [
            reply.beat.first.eq(1), reply.beat.last.eq(1), header.qp.eq(now.qp),
            header.opcode.eq(Opcode.ACKNOWLEDGE), header.msn.eq(kept.msn),
            self.replies.valid.eq((phase == 2) & goes & (~now.selected | near)),
        ]
        with m.If(now.selected):
            m.d.comb += [header.psn.eq(kept.next), header.syndrome.eq(nak(Nak.SEQUENCE)), header.msn.eq(now.psn)]
        with m.Elif(kept_nak):
            m.d.comb += [header.psn.eq(kept.next), header.syndrome.eq(kept.syndrome)]
            # A dropped packet is not named: a PSN outside of all windows stands for none.
            with m.If(kept.selective & (kept.syndrome == nak(Nak.SEQUENCE))):
                m.d.comb += header.msn.eq(kept.next ^ 1 << PSN_WIDTH - 1)
            for code, fault in FAULTS.items():
                with m.If(kept.syndrome == nak(code)):
                    m.d.comb += reply.fault.eq(fault)
        with m.Else():
            m.d.comb += [header.psn.eq(kept.next - 1), header.syndrome.eq(ACK)]
        with m.If((phase == 2) & (self.replies.ready | ~self.replies.valid)):
            m.d.sync += phase.eq(0)
        return m
