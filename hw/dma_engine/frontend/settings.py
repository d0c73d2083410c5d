# SPDX-License-Identifier: Apache-2.0
"""Settings of the queues, looked up for checks and for retirement of segments.

Registers -> QueueSettingsTable -> Legalizer, Shares, Retire.  Latency: reads 0 cycles; a write is visible in the next
cycle.  Throughput: one write and one read of each kind per cycle.
"""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.common.sweep import SweepSignature
from hw.common.table import Table
from hw.dma_engine.config import DmaConfig
from hw.dma_engine.configuration import QueueWriteSignature
from hw.dma_engine.layouts import queue_settings_layout
from hw.dma_engine.queue_settings import QUEUE_SETTINGS
from hw.dma_engine.strobes import ScheduledSignature

__all__ = ["QueueSettingsTable", "SettingsLookupSignature"]


class SettingsLookupSignature(wiring.Signature):
    """The settings of a queue, combinational from ``queue`` to ``settings``."""

    def __init__(self, config: DmaConfig) -> None:
        super().__init__({"queue": Out(config.queue_bits), "settings": In(queue_settings_layout(config))})


class QueueSettingsTable(wiring.Component):
    """A row per queue, with two read ports.

    Parameters
    ----------
    config : DmaConfig

    Members
    -------
    init : ``In(SweepSignature)``
    configure : ``In(QueueWriteSignature)``
    scheduled : ``In(ScheduledSignature)``, issue : ``Out(queue_settings_layout)``
        The settings of the queue whose segment is scheduled, combinational.
    lookup : ``In(SettingsLookupSignature)``
        For retirement.
    """

    def __init__(self, config: DmaConfig) -> None:
        self.config = config
        super().__init__({
            "init": In(SweepSignature(config)),
            "configure": In(QueueWriteSignature(config)),
            "scheduled": In(ScheduledSignature(config)), "issue": Out(queue_settings_layout(config)),
            "lookup": In(SettingsLookupSignature(config)),
        })

    def elaborate(self, platform):
        m = Module()
        layout = queue_settings_layout(self.config)
        m.submodules.rows = rows = Table(
            layout, depth=self.config.queues, reads=2, init=SweepSignature(self.config),
            reset=layout.const({setting.row_field: setting.reset for setting in QUEUE_SETTINGS if setting.in_row})
            .as_bits())
        wiring.connect(m, wiring.flipped(self.init), rows.init)
        m.d.comb += [
            rows.write.en.eq(self.configure.valid), rows.write.addr.eq(self.configure.queue),
            rows.write.data.eq(self.configure.settings),
            rows.read[0].addr.eq(self.scheduled.segment.queue), self.issue.eq(rows.read[0].data),
            rows.read[1].addr.eq(self.lookup.queue), self.lookup.settings.eq(rows.read[1].data),
        ]
        return m
