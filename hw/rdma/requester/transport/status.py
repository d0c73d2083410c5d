# SPDX-License-Identifier: Apache-2.0
"""State of one queue pair for software.

All tables -> RequesterState -> registers.  Latency: 1 cycle.
"""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import Out

from ...config import RdmaConfig
from ...ports import RequesterStatus
from ...protocol import PSN_WIDTH
from .layouts import progress_layout, retired_layout, sent_layout
from .ports import RowLookup

__all__ = ["RequesterState"]


class RequesterState(wiring.Component):
    """Read the rows of the queue pair in question.

    Parameters
    ----------
    config : RdmaConfig

    Members
    -------
    status : ``Out(RequesterStatus)``
    posted, progress, sent, retired, rate : ``Out(RowLookup)``
    """

    def __init__(self, config: RdmaConfig) -> None:
        super().__init__({
            "status": Out(RequesterStatus(config)),
            "posted": Out(RowLookup(config, unsigned(PSN_WIDTH))),
            "progress": Out(RowLookup(config, progress_layout())), "sent": Out(RowLookup(config, sent_layout(config))),
            "retired": Out(RowLookup(config, retired_layout(config))), "rate": Out(RowLookup(config, unsigned(9))),
        })

    def elaborate(self, platform):
        m = Module()
        for lookup in (self.posted, self.progress, self.sent, self.retired, self.rate):
            m.d.comb += lookup.qp.eq(self.status.qp)
        m.d.sync += [
            self.status.outstanding.eq(self.posted.row - self.retired.row.psn),
            self.status.oldest.eq(self.progress.row.oldest), self.status.next.eq(self.sent.row.next),
            self.status.rate.eq(self.rate.row),
        ]
        return m
