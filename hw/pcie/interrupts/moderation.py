# SPDX-License-Identifier: Apache-2.0
"""Moderation: the least time between two messages of one vector.

MessageSender -> Moderation -> MessageSender.  Latency: a vector is released up to ``vectors`` + 2 cycles after its
time.
"""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.common.table import Table

from ..config import PcieConfig

__all__ = ["INTERVAL_WIDTH", "Moderation"]

INTERVAL_WIDTH = 16


class Moderation(wiring.Component):
    """Withhold each vector for ``interval`` cycles after its message.

    The time of the last message of each vector is in LUT RAM; one vector is compared per cycle. A vector that is
    withheld is released before the clock of messages has gone through all its values, so ages are unique.

    Parameters
    ----------
    config : PcieConfig

    Members
    -------
    interval : ``In(16)``
        Cycles; 0 for none. It may change at any time, and then holds for the vectors that are withheld, too.
    start : ``In(1)``
        Strobe: ``vector`` is chosen for a message.
    sending : ``In(1)``, vector : ``In(range(config.vectors))``
        Its message is not accepted yet: its time starts in the last such cycle. It follows ``start`` directly.
    withheld : ``Out(config.vectors)``
    """

    def __init__(self, config: PcieConfig) -> None:
        self.vectors = config.vectors
        super().__init__({
            "interval": In(INTERVAL_WIDTH), "start": In(1), "sending": In(1), "vector": In(range(self.vectors)),
            "withheld": Out(self.vectors),
        })

    def elaborate(self, platform):
        m = Module()
        width = INTERVAL_WIDTH + 1
        now, row = Signal(width), Signal(range(self.vectors))
        m.submodules.times = times = Table(width, depth=self.vectors, reads=1, init=None)
        m.d.sync += [now.eq(now + 1), row.eq(row + 1)]
        m.d.comb += [
            times.write.en.eq(self.start | self.sending), times.write.addr.eq(self.vector), times.write.data.eq(now),
            times.read[0].addr.eq(row),
        ]
        age, compared, checked = Signal(width, reset_less=True), Signal(range(self.vectors), reset_less=True), Signal()
        m.d.sync += [
            age.eq(now - times.read[0].data), compared.eq(row), checked.eq(self.withheld.bit_select(row, 1)),
        ]
        over = Signal()
        m.d.comb += over.eq(checked & (age >= self.interval))
        for number in range(self.vectors):
            with m.If(self.start & (self.vector == number)):
                m.d.sync += self.withheld[number].eq(self.interval != 0)
            with m.Elif(over & (compared == number)):
                m.d.sync += self.withheld[number].eq(0)
        return m
