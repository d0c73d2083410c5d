"""Who may go next, of a few who ask: deficit round robin in beats.

Latency: 0 from ``asking`` to ``candidates``; what is charged counts from the next cycle but one.
"""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .config import WEIGHT_WIDTH

__all__ = ["QUANTUM", "Shares"]

QUANTUM = 64
"""Beats that a weight of 1 stands for in a round."""


class Shares(wiring.Component):
    """Let each of those who ask have beats by its weight; who asks alone has all.

    Everybody has some beats left, or owes some. Who owes none may go. When all who ask owe some, a round is over, and
    each gets ``weight * QUANTUM`` more, but has at most that many: what was not asked for is not saved up. Debts stay,
    so shares are exact in the long run, whatever the lengths of bursts.

    Parameters
    ----------
    count : int
        Who may ask.

    Members
    -------
    asking : ``In(count)``
    candidates : ``Out(count)``
        Those who may go; combinational.
    charge : ``In(count)``, beats : ``In(9)``
        Who goes (one bit, or none), and with how many beats.
    weight : array of ``In(WEIGHT_WIDTH)``
        0 counts as 1.
    """

    def __init__(self, count):
        self.count = count
        super().__init__({
            "asking": In(count), "candidates": Out(count), "charge": In(count), "beats": In(9),
            "weight": In(WEIGHT_WIDTH).array(count),
        })

    def elaborate(self, platform):
        m = Module()
        most = ((1 << WEIGHT_WIDTH) - 1) * QUANTUM
        charge, beats = Signal.like(self.charge), Signal.like(self.beats)
        m.d.sync += [charge.eq(self.charge), beats.eq(self.beats)]

        solvent, over, alone, bits = Signal(self.count), Signal(), Signal(), list(self.asking)
        others = [Cat(other for other in bits if other is not asking).any() for asking in bits]
        m.d.comb += [
            alone.eq(Cat(asking & ~some for asking, some in zip(bits, others, strict=True)).any()),
            self.candidates.eq(self.asking & (solvent | alone.replicate(self.count))),
            over.eq(self.asking.any() & ~(self.asking & solvent).any()),
        ]
        for index in range(self.count):
            left = Signal(signed(most.bit_length() + 2), name=f"left_{index}")
            share = Signal(range(most + 1), name=f"share_{index}")
            m.d.comb += solvent[index].eq(~left[-1])
            m.d.sync += share.eq(Mux(self.weight[index] == 0, 1, self.weight[index]) * QUANTUM)
            m.d.sync += left.eq(Mux(over, Mux(left[-1], left + share, share), left) - Mux(charge[index], beats, 0))
        return m
