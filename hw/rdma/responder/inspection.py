# SPDX-License-Identifier: Apache-2.0
"""State of a queue pair, for the registers.

PacketOrder, Progress, ReadResponses, QueuePairStates -> ResponderInspection -> registers.  Latency: 2 cycles.
Throughput: one state per cycle.
"""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import Out

from ..config import RdmaConfig
from ..ports import ResponderStatus
from .layouts import progress_layout
from .order import order_layout, reads_width
from .rows import RowRead
from .states import StateRead

__all__ = ["ResponderInspection"]


class ResponderInspection(wiring.Component):
    """Compare a queue pair's requests and READs with those that are complete.

    Parameters
    ----------
    config : RdmaConfig

    Members
    -------
    status : ``Out(ResponderStatus)``
    order, progress, departed : ``Out(RowRead)``
    opening : ``Out(StateRead)``
    """

    def __init__(self, config: RdmaConfig) -> None:
        self.config = config
        super().__init__({
            "status": Out(ResponderStatus(config)), "order": Out(RowRead(order_layout(config), config.queue_pairs)),
            "progress": Out(RowRead(progress_layout(config), config.queue_pairs)),
            "departed": Out(RowRead(reads_width(config), config.queue_pairs)), "opening": Out(StateRead(config)),
        })

    def elaborate(self, platform):
        m = Module()
        for port in (self.order, self.progress, self.departed):
            m.d.comb += [port.addr.eq(self.status.qp), port.en.eq(1)]
        m.d.comb += self.opening.qp.eq(self.status.qp)
        opening = Signal()
        m.d.sync += [
            opening.eq(self.opening.bit), self.status.expected.eq(self.order.data.expected),
            self.status.messages.eq(self.progress.data.msn),
            self.status.busy.eq(opening | (self.order.data.issued != self.progress.data.completed)
                                | (self.order.data.reads != self.departed.data)),
        ]
        return m
