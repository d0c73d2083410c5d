# SPDX-License-Identifier: Apache-2.0
"""Totals: event counts since ``rst``, in one LUT RAM.

engine -> Totals -> registers.  Latency: up to 17 cycles from an event to its total.  Throughput: every event, every
cycle.

Each event is first counted in a few bits; these counts are added to the totals in turn, one total per cycle.
"""

from collections.abc import Mapping

from amaranth import *
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from hw.common.sweep import SweepSignature
from hw.common.table import Table
from hw.dma_engine.config import DmaConfig

__all__ = ["TOTAL_WIDTH", "Totals"]

TOTAL_WIDTH = 32


class Totals(wiring.Component):
    """Count events, each in a row of its own; totals wrap.

    Parameters
    ----------
    config : DmaConfig
    events : dict
        Name -> its row, and how often it may happen in one cycle.

    Members
    -------
    init : ``In(SweepSignature)``
    happened : ``In``; a field per event
        How often, in this cycle.
    row : ``In``, total : ``Out(TOTAL_WIDTH)``
        Combinational.

    Raises
    ------
    ValueError
        If two events have the same row.
    """

    def __init__(self, config: DmaConfig, events: Mapping[str, tuple[int, int]]) -> None:
        self.config = config
        self.events = dict(events)
        rows = [row for row, _ in self.events.values()]
        if len(set(rows)) != len(rows):
            raise ValueError(f"Each total must have a row of its own, not {sorted(rows)}")
        self._row_bits = max(rows).bit_length()
        super().__init__({
            "init": In(SweepSignature(config)),
            "happened": In(data.StructLayout({name: most.bit_length() for name, (_, most) in self.events.items()})),
            "row": In(self._row_bits), "total": Out(TOTAL_WIDTH),
        })

    def elaborate(self, platform):
        m = Module()
        rows = 1 << self._row_bits
        m.submodules.totals = totals = Table(TOTAL_WIDTH, depth=rows, reads=2, init=SweepSignature(self.config))
        wiring.connect(m, wiring.flipped(self.init), totals.init)
        m.d.comb += [totals.read[0].addr.eq(self.row), self.total.eq(totals.read[0].data)]

        turn, at = Signal(self._row_bits), Signal(self._row_bits)
        amount = Signal(range(rows * max(most for _, most in self.events.values()) + 1))
        m.d.sync += [turn.eq(turn + 1), at.eq(turn), amount.eq(0)]
        for name, (row, most) in self.events.items():
            kept = Signal(range(rows * most + 1), name=f"{name}_kept")
            with m.If(turn == row):
                m.d.sync += [amount.eq(kept), kept.eq(self.happened[name])]
            with m.Else():
                m.d.sync += kept.eq(kept + self.happened[name])
        m.d.comb += [
            totals.read[1].addr.eq(at), totals.write.addr.eq(at), totals.write.en.eq(1),
            totals.write.data.eq(totals.read[1].data + amount),
        ]
        return m
