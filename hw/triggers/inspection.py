# SPDX-License-Identifier: Apache-2.0
"""State and events of the trigger counters, for the registers.

OperationMerge, TriggerPoster, BlockResets -> TriggerInspection -> registers.  Latency: 1 cycle for refusals, 0 for
everything else.
"""

from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.stream.shapes import ShapeLike

from .config import INDEX_WIDTH, TriggerConfig
from .layouts import CODE_WIDTH, RowLayout
from .ports import RefusalSignature, TriggerSettings, TriggerStatus

__all__ = ["TriggerInspection"]


class TriggerInspection(wiring.Component):
    """Read the selected counter through the stream of operations, and report refusals, at most one per cycle.

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
        Of two in one cycle, the first is reported at once, and the second in the next cycle without one.
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

        # The poster refuses at most every other cycle, so its refusal waits for a cycle without another one, or is
        # replaced by its next one.
        first, second = self.refusals
        waits = Signal()
        kept = _like(self.config)
        with m.If(second.valid):
            m.d.sync += [waits.eq(1), *(kept[name].eq(getattr(second, name)) for name in kept)]
        with m.Elif(~first.valid):
            m.d.sync += waits.eq(0)
        m.d.sync += [status.refusal.valid.eq(first.valid | waits)]
        for name, value in kept.items():
            m.d.sync += getattr(status.refusal, name).eq(Mux(first.valid, getattr(first, name), value))
        return m


def _like(config: TriggerConfig) -> dict[str, Signal]:
    shapes: dict[str, ShapeLike] = {"block": config.block_bits, "index": INDEX_WIDTH, "code": CODE_WIDTH}
    return {name: Signal(shape, name=f"kept_{name}") for name, shape in shapes.items()}
