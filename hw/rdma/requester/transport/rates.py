# SPDX-License-Identifier: Apache-2.0
"""Rate of each queue pair: CNPs halve it, time restores it.

CNPs -> Rates -> Sender, Pacer.  Latency: 3 cycles.  Throughput: one CNP per cycle in bursts of 4.
"""

from amaranth import *
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from hw.common.sweep import SweepSignature
from hw.common.table import Table
from hw.stream import Queue

from ...config import RdmaConfig
from ...ports import MarkSignature
from .layouts import settings_layout
from .ports import Opening, RowLookup

__all__ = ["LINE_RATE", "RATE_ROWS", "Rates"]

LINE_RATE, _STEP = 256, 8

RATE_ROWS = 2
"""Look-ups of the rate: of the pacer, and status."""

_TICKS = 8
"""Ticks from a change of a rate until it rises."""

_GUARD = 4
"""Ticks in the shortest time between two halvings."""

_TIME_WIDTH = 6

_CNPS = 4


class Rates(wiring.Component):
    """A CNP halves the rate of its queue pair, unless that was done less than 25.6 us ago, which is about half of the
    least time between two CNPs, so that none is too early.

    From 51.2 us to 57.6 us after its last change, the rate rises by 1/32 of the line rate. A CNP that finds four others
    waiting is dropped.

    Parameters
    ----------
    config : RdmaConfig

    Members
    -------
    init : ``In(SweepSignature)``, opening : ``In(Opening)``
    hold : ``In(1)``
    notified : ``In(MarkSignature)``
    settings : ``Out(RowLookup)``
    rates : ``In(RowLookup).array(RATE_ROWS)``
        256 is the line rate.
    limited : ``In(RowLookup)``
        The rate is less.
    """

    def __init__(self, config: RdmaConfig) -> None:
        self.config = config
        super().__init__({
            "init": In(SweepSignature(config)), "opening": In(Opening(config)), "hold": In(1),
            "notified": In(MarkSignature(config)), "settings": Out(RowLookup(config, settings_layout())),
            "rates": In(RowLookup(config, unsigned(9))).array(RATE_ROWS),
            "limited": In(RowLookup(config, unsigned(1))),
        })

    def elaborate(self, platform):
        m = Module()
        config, opening = self.config, self.opening
        # A tick is 6.4 us. `since`: tick of the last change; `halved`: the last change, until it rises again.
        layout = data.StructLayout({"rate": 9, "halved": 1, "since": _TIME_WIDTH})
        m.submodules.table = table = Table(layout, depth=config.queue_pairs, reads=2 + RATE_ROWS,
                                           init=SweepSignature(config), reset=LINE_RATE)
        wiring.connect(m, wiring.flipped(self.init), table.init)
        own, compared, *others = table.read
        for port, lookup in zip(others, self.rates, strict=True):
            m.d.comb += [port.addr.eq(lookup.qp), lookup.row.eq(port.data.rate)]
        m.d.comb += [compared.addr.eq(self.limited.qp), self.limited.row.eq(~compared.data.rate[-1])]

        period = config.timer_cycles * 25 // 16
        cycle, tick = Signal(range(period)), Signal(_TIME_WIDTH)
        m.d.sync += cycle.eq(Mux(cycle == period - 1, 0, cycle + 1))
        with m.If(cycle == period - 1):
            m.d.sync += tick.eq(tick + 1)

        # -- A CNP, or the next queue pair of the sweep; not the one whose row is being written.
        m.submodules.queue = queue = Queue(config.qp_bits, depth=_CNPS, ram="lut")
        swept, qp, cnp, begin = Signal(config.qp_bits), Signal(config.qp_bits), Signal(), Signal()
        valid, is_cnp, row, step_qp = Signal(), Signal(), Signal(layout), Signal(config.qp_bits)
        congestion = Signal()
        m.d.comb += [
            queue.i.valid.eq(self.notified.valid), queue.i.payload.eq(self.notified.qp),
            qp.eq(Mux(queue.o.valid, queue.o.payload, swept)), cnp.eq(queue.o.valid),
            begin.eq(~self.hold & ~(valid & (qp == step_qp))), queue.o.ready.eq(begin),
            own.addr.eq(qp), self.settings.qp.eq(qp),
        ]
        with m.If(begin & ~cnp):
            m.d.sync += swept.eq(swept + 1)
        m.d.sync += [valid.eq(begin), is_cnp.eq(cnp), row.eq(own.data), step_qp.eq(qp),
                     congestion.eq(self.settings.row.congestion)]

        new, elapsed = Signal(layout), Signal(_TIME_WIDTH)
        m.d.comb += [
            elapsed.eq(tick - row.since), new.rate.eq(row.rate), new.since.eq(tick),
            table.write.addr.eq(Mux(opening.valid, opening.qp, step_qp)), table.write.data.eq(new),
        ]
        with m.If(opening.valid):
            m.d.comb += [table.write.en.eq(1), new.rate.eq(LINE_RATE)]
        with m.Elif(is_cnp):
            m.d.comb += [
                table.write.en.eq(valid & congestion & (~row.halved | (elapsed > _GUARD))), new.halved.eq(1),
                new.rate.eq(Mux(row.rate == 1, 1, row.rate >> 1)),
            ]
        with m.Else():
            m.d.comb += [
                table.write.en.eq(valid & (elapsed > _TICKS) & (row.halved | ~row.rate[-1])),
                new.rate.eq(Mux(row.rate > LINE_RATE - _STEP, LINE_RATE, row.rate + _STEP)),
            ]
        return m
