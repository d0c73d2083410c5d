# SPDX-License-Identifier: Apache-2.0
"""Time between the packets of a queue pair that has less than the line rate.

Sender, Rates -> Pacer -> Sender.  Throughput: one queue pair is polled every second cycle.
"""

from amaranth import *
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out

from hw.common.sweep import SweepSignature
from hw.common.table import Table
from hw.stream import Queue

from ...config import RdmaConfig
from ...ports import MarkSignature
from .ports import Opening, PaceRequest, RowLookup
from .rates import LINE_RATE

__all__ = ["Pacer"]

_FRACTION = 4
_TIME_WIDTH = 20
_CREDIT_WIDTH = 8


class Pacer(wiring.Component):
    """Keep a queue pair from sending for as long as its last packet takes at its rate.

    Queue pairs that wait are polled in turn. A time starts at the end of the last one, or later by a multiple of 256
    cycles: the delay of polls and visits does not reduce the rate.

    Parameters
    ----------
    config : RdmaConfig

    Members
    -------
    init : ``In(SweepSignature)``, opening : ``In(Opening)``
    pace : ``In(PaceRequest)``
    rate : ``Out(RowLookup)``
    paced : ``In(RowLookup)``
        The queue pair waits, from the cycle after ``pace`` on.
    wake : ``Out(MarkSignature)``
        It waits no longer.
    """

    def __init__(self, config: RdmaConfig) -> None:
        self.config = config
        super().__init__({
            "init": In(SweepSignature(config)), "opening": In(Opening(config)), "pace": In(PaceRequest(config)),
            "rate": Out(RowLookup(config, unsigned(9))), "paced": In(RowLookup(config, unsigned(1))),
            "wake": Out(MarkSignature(config)),
        })

    def elaborate(self, platform):
        m = Module()
        config, pace, opening = self.config, self.pace, self.opening
        init, pairs, bits = SweepSignature(config), config.queue_pairs, config.qp_bits
        # A queue pair waits while its two bits differ: `begun` changes with a packet, `ended` with the end of its time.
        m.submodules.begun = begun = Table(1, depth=pairs, reads=3, init=init)
        m.submodules.ended = ended = Table(1, depth=pairs, reads=1, init=init)
        m.submodules.due = due = Table(_TIME_WIDTH, depth=pairs, reads=2, init=init)
        for table in (begun, ended, due):
            wiring.connect(m, wiring.flipped(self.init), table.init)
        now = Signal(_TIME_WIDTH)
        m.d.sync += now.eq(now + 1)
        m.d.comb += [
            begun.read[1].addr.eq(self.paced.qp), ended.read[0].addr.eq(self.paced.qp),
            self.paced.row.eq(begun.read[1].data != ended.read[0].data),
        ]

        # -- A packet: cycles per beat at the rate, times beats; then the end of its time.
        m.d.comb += [
            begun.read[0].addr.eq(pace.qp), begun.write.addr.eq(pace.qp), begun.write.en.eq(pace.valid),
            begun.write.data.eq(~begun.read[0].data), self.rate.qp.eq(pace.qp),
        ]
        most = LINE_RATE << _FRACTION
        m.submodules.intervals = intervals = memory.Memory(
            shape=range(most + 1), depth=LINE_RATE,
            init=[1 << _FRACTION, *(most // rate for rate in range(1, LINE_RATE))],
            attrs={"ram_style": "block"})
        # Row 0 is that of the line rate, which can just have been restored.
        interval = intervals.read_port()
        stages = [Signal(1 + bits, name=f"packet_{number}") for number in range(2)]
        cost = Signal.like(pace.cost)
        product = Signal((most + 1).bit_length() + len(pace.cost))
        base, last = Signal(_TIME_WIDTH), due.read[1].data[:_CREDIT_WIDTH]
        m.d.comb += [interval.addr.eq(self.rate.row), due.read[1].addr.eq(stages[0][1:])]
        m.d.sync += [
            stages[0].eq(Cat(pace.valid, pace.qp)), stages[1].eq(stages[0]), cost.eq(pace.cost),
            product.eq(interval.data * cost),
            base.eq(Cat(last, now[_CREDIT_WIDTH:] - (last > now[:_CREDIT_WIDTH]))),
        ]
        arrives, arrived = stages[1][0], stages[1][1:]
        m.d.comb += [
            due.write.en.eq(arrives | opening.valid), due.write.addr.eq(Mux(opening.valid, opening.qp, arrived)),
            due.write.data.eq(Mux(opening.valid, now, base + (product >> _FRACTION))),
        ]

        # -- The queue pairs that wait, each once.
        m.submodules.waiting = waiting = Queue(bits, depth=max(2, pairs))
        polled, qp, over, time = Signal(), Signal(bits), Signal(), Signal(_TIME_WIDTH)
        m.d.comb += [
            waiting.o.ready.eq(~polled), due.read[0].addr.eq(waiting.o.payload),
            time.eq(now - due.read[0].data),
            waiting.i.valid.eq(arrives | (polled & ~over)), waiting.i.payload.eq(Mux(arrives, arrived, qp)),
        ]
        with m.If(~polled):
            m.d.sync += [polled.eq(waiting.o.valid), qp.eq(waiting.o.payload), over.eq(~time[-1])]
        with m.Elif(over | ~arrives):
            m.d.sync += polled.eq(0)
        ends = Signal()
        m.d.comb += [
            ends.eq(polled & over), begun.read[2].addr.eq(qp),
            ended.write.en.eq(ends), ended.write.addr.eq(qp), ended.write.data.eq(begun.read[2].data),
        ]
        m.d.sync += [self.wake.valid.eq(ends), self.wake.qp.eq(qp)]
        return m
