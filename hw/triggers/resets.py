# SPDX-License-Identifier: Apache-2.0
"""Reset of blocks: after ``rst`` of all, later on command of software.

Registers -> BlockResets -> OperationMerge, TriggerTable, PendingFirings.  Latency: 64 cycles per block, more if other
operations compete.
"""

from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from .config import COUNTERS_PER_BLOCK, INDEX_WIDTH, TriggerConfig
from .ports import TriggerSettings

__all__ = ["BlockResets"]

class BlockResets(wiring.Component):
    """Clear the rows of blocks, one after the other.

    From the cycle after the command on, a block accepts no ticks and no preparation, and no further firing of it is
    posted. It is ``busy`` until its rows are clear and its last word has been posted.

    Parameters
    ----------
    config : TriggerConfig

    Members
    -------
    settings : ``In(TriggerSettings)``
        The command; the rest is unused.
    active : ``In(blocks)``
        Block of a firing that is being posted.
    clear : ``Out(stream.Signature(counter_bits))``, cleared : ``In(1)``
        Rows to clear; a row was cleared.
    busy : ``Out(blocks)``
    """

    def __init__(self, config: TriggerConfig) -> None:
        self.config = config
        super().__init__({
            "settings": In(TriggerSettings(config)), "active": In(config.blocks),
            "clear": Out(stream.Signature(config.counter_bits)), "cleared": In(1), "busy": Out(config.blocks),
        })

    def elaborate(self, platform):
        m = Module()
        config = self.config
        waiting = Signal(config.blocks, init=-1)        # reset, and not yet begun to clear
        block, index = Signal(config.block_bits), Signal(INDEX_WIDTH)
        sweeping, outstanding = Signal(), Signal(range(COUNTERS_PER_BLOCK + 1))
        clearing, issued = Signal(), Signal()
        commanded = Signal(config.blocks)
        now = Signal(config.blocks)
        m.d.comb += [
            commanded.eq(Mux(self.settings.reset_valid, 1 << self.settings.reset_block, 0)),
            now.eq(Mux(clearing, 1 << block, 0)), issued.eq(self.clear.valid & self.clear.ready),
            self.busy.eq(waiting | now),
            self.clear.valid.eq(sweeping), self.clear.payload.eq(Cat(index, block)),
        ]
        m.d.sync += waiting.eq(waiting | commanded)
        m.d.sync += outstanding.eq(outstanding + issued - self.cleared)
        with m.If(issued):
            m.d.sync += index.eq(index + 1)
            with m.If(index.all()):
                m.d.sync += sweeping.eq(0)
        with m.If(clearing):
            # A firing that left before the reset is being posted until its queue accepts it.
            with m.If(~sweeping & (outstanding == 0) & ~self.active.bit_select(block, 1)):
                m.d.sync += clearing.eq(0)
        with m.Else():
            for number in reversed(range(config.blocks)):
                with m.If(waiting[number]):
                    m.d.sync += [
                        block.eq(number), clearing.eq(1), sweeping.eq(1),
                        waiting.eq((waiting | commanded) & ~(1 << number))]
        return m
