# SPDX-License-Identifier: Apache-2.0
"""State and events of the trigger counters, for the registers.

OperationMerge, TriggerPoster, BlockResets -> TriggerInspection -> registers.  Latency: 0.
"""

from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from .config import TriggerConfig
from .layouts import RowLayout
from .ports import RefusalSignature, TriggerSettings, TriggerStatus

__all__ = ["TriggerInspection"]


class TriggerInspection(wiring.Component):
    """Read the selected counter through the stream of operations, and merge refusals.

    Parameters
    ----------
    config : TriggerConfig

    Members
    -------
    settings : ``In(TriggerSettings)``
        The selection; the rest is unused.
    read : ``Out(stream.Signature(counter_bits))``, done_read : ``In(1)``, read_row : ``In(RowLayout)``
        The selected counter, and its row when it has been read.
    refusals : ``In(RefusalSignature).array(2)``
        Of operations and of posted words.
    ticked, fired : ``In(1)``, busy : ``In(blocks)``
    status : ``Out(TriggerStatus)``
    """

    def __init__(self, config: TriggerConfig) -> None:
        self.config = config
        super().__init__({
            "settings": In(TriggerSettings(config)), "read": Out(stream.Signature(config.counter_bits)),
            "done_read": In(1), "read_row": In(RowLayout), "refusals": In(RefusalSignature(config)).array(2),
            "ticked": In(1), "fired": In(1), "busy": In(config.blocks), "status": Out(TriggerStatus(config)),
        })

    def elaborate(self, platform):
        m = Module()
        status, settings = self.status, self.settings
        m.d.comb += [status.busy.eq(self.busy), status.counts.ticked.eq(self.ticked),
                     status.counts.fired.eq(self.fired)]

        # A selection while a read is in flight: the earlier result is dropped.
        stale = Signal(2)
        with m.If(settings.select_valid):
            m.d.sync += [self.read.valid.eq(1), self.read.payload.eq(settings.select_counter), status.row_valid.eq(0)]
        with m.Elif(self.read.ready):
            m.d.sync += self.read.valid.eq(0)
        m.d.sync += stale.eq(stale + (self.read.valid & self.read.ready) - self.done_read)
        with m.If(self.done_read & (stale == 1) & ~self.read.valid & ~settings.select_valid):
            m.d.sync += [status.row.eq(self.read_row), status.row_valid.eq(1)]

        first, second = self.refusals
        m.d.comb += [status.refusal.valid.eq(first.valid | second.valid),
                     status.counts.refused.eq(first.valid + second.valid)]
        m.d.comb += [getattr(status.refusal, name).eq(Mux(first.valid, getattr(first, name), getattr(second, name)))
                     for name in ("block", "index", "code")]
        return m
