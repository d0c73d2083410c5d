# SPDX-License-Identifier: Apache-2.0
"""Congestion notification packets: at most one per queue pair and 50 us.

dispatch -> CongestionNotices -> Replies.  Latency: at most as many cycles as there are queue pairs.
Throughput: one packet per cycle.
"""

from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ..config import RdmaConfig
from ..ports import ConnectionWrite, MarkSignature, StopSignature
from ..protocol import Opcode
from .layouts import reply_layout
from .rows import RowTable

__all__ = ["INTERVAL", "CongestionNotices"]

INTERVAL = 12
"""Least time between two CNPs of a queue pair, in units of 4.096 us (DCQCN: 50 us)."""


class CongestionNotices(wiring.Component):
    """Visit all queue pairs in turn. Once per unit of time, or per round of visits if that is longer, each visit
    decrements the time until the next CNP of its queue pair.

    Parameters
    ----------
    config : RdmaConfig

    Members
    -------
    marked : ``In(MarkSignature)``
        A packet that met congestion arrived. Marks within the least time after a CNP have no effect: when that time
        ends, they are too old to say that there is still congestion.
    connections : ``In(ConnectionWrite)``, stop : ``In(StopSignature)``
        Drop the mark of the queue pair.
    replies : ``Out(stream.Signature(reply_layout))``
    """

    def __init__(self, config: RdmaConfig) -> None:
        self.config = config
        super().__init__({
            "marked": In(MarkSignature(config)), "connections": In(ConnectionWrite(config)),
            "stop": In(StopSignature(config)), "replies": Out(stream.Signature(reply_layout(config))),
        })

    def elaborate(self, platform):
        m = Module()
        config = self.config
        m.submodules.times = times = RowTable(config, unsigned(4), depth=config.queue_pairs, swept=False)
        pending, started = Signal(config.queue_pairs), Signal()
        tick = Signal(range(max(config.timer_cycles, config.queue_pairs)))
        # -- Cycle 0: the time of a queue pair. Cycle 1: send, and write it.
        qp, ages, looked, last, sends, go = (Signal(config.qp_bits), Signal(), Signal(), Signal(), Signal(), Signal())
        left, write = times.read[0].data, times.write
        m.d.comb += [
            go.eq(~sends | self.replies.ready), times.read[0].addr.eq(tick[:config.qp_bits]), times.read[0].en.eq(go),
            sends.eq(looked & started & pending.bit_select(qp, 1) & (left == 0)), self.replies.valid.eq(sends),
            self.replies.payload.beat.header.opcode.eq(Opcode.CNP), self.replies.payload.beat.header.qp.eq(qp),
            self.replies.payload.beat.first.eq(1), self.replies.payload.beat.last.eq(1),
            write.en.eq(looked & go), write.addr.eq(qp),
            write.data.eq(Mux(~started, 0, Mux(sends, INTERVAL + 1, left - (ages & (left != 0))))),
        ]
        with m.If(go):
            m.d.sync += [tick.eq(tick + 1), qp.eq(tick), looked.eq(1), ages.eq(~tick[config.qp_bits:].any()),
                         last.eq(tick[:config.qp_bits].all())]
            with m.If(looked & last):
                m.d.sync += started.eq(1)
        # Until the time has ended, each visit drops the marks since the last one.
        with m.If(looked & go & started & (sends | (left != 0))):
            m.d.sync += pending.bit_select(qp, 1).eq(0)
        with m.If(self.marked.valid):
            m.d.sync += pending.bit_select(self.marked.qp, 1).eq(1)
        for event in (self.connections, self.stop):
            with m.If(event.valid):
                m.d.sync += pending.bit_select(event.qp, 1).eq(0)
        return m
