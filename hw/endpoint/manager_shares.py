# SPDX-License-Identifier: Apache-2.0
"""Deficit round robin, in beats, among the few managers of the memory port.

MemoryPort's managers -> ManagerShares -> RoundRobin.  Latency: 0 from ``asking`` to ``candidates``, 2 from ``charge``.
Throughput: one charge per cycle.

All deficits are in flip-flops and are replenished together. :class:`hw.dma_engine.shares.Shares` follows the same
discipline for up to 64 queues in classes: there they are rows of a LUT RAM, replenished one by one, a cycle later.
"""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .config import WEIGHT_WIDTH

__all__ = ["QUANTUM", "ManagerShares"]

QUANTUM = 64
"""Beats per round for a weight of 1."""


class ManagerShares(wiring.Component):
    """Admit requesters in proportion to their weights; a lone requester is always admitted.

    A requester may go while its deficit is not negative. When the deficits of all that ask are negative, a new round
    adds ``weight * QUANTUM`` to each, up to that value: unused beats are not saved. Debts stay, so shares are exact in
    the long run, whatever the lengths of bursts.

    Parameters
    ----------
    count : int
        Requesters.

    Members
    -------
    asking : ``In(count)``
    candidates : ``Out(count)``
        Requesters that may go; combinational.
    charge : ``In(count)``, beats : ``In(9)``
        The requester that goes (one bit, or none), and its beats.
    weight : array of ``In(WEIGHT_WIDTH)``
        0 counts as 1.
    """

    def __init__(self, count: int) -> None:
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
