# SPDX-License-Identifier: Apache-2.0
"""Deficit round robin, in beats, among the managers of the memory port.

MemoryPort's managers -> ManagerShares -> RoundRobin.  Latency: 0 from ``requesting`` to ``candidates``, 2 from
``charge``.  Throughput: one charge per cycle.

The deficits are flip-flops, all replenished in the same cycle. :class:`hw.dma_engine.frontend.shares.Shares` applies
the same discipline to up to 64 queues in classes: there the deficits are rows of a LUT RAM, and a queue gets its
quantum when it is first charged in a round.
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

    A requester is admitted while its deficit is not negative. When all active requesters have negative deficits, a new
    round adds ``weight * QUANTUM`` to each negative deficit and sets the others to ``weight * QUANTUM``: unused beats
    do not accumulate. An overdraft carries over to the next round, so shares are exact in the long run, whatever the
    burst lengths.

    Parameters
    ----------
    count : int
        Requesters.

    Members
    -------
    requesting : ``In(count)``
    candidates : ``Out(count)``
        Admitted requesters; combinational.
    charge : ``In(count)``, beats : ``In(9)``
        The granted requester, one-hot or 0, and the beats to charge it.
    weight : array of ``In(WEIGHT_WIDTH)``
        0 counts as 1.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        super().__init__({
            "requesting": In(count), "candidates": Out(count), "charge": In(count), "beats": In(9),
            "weight": In(WEIGHT_WIDTH).array(count),
        })

    def elaborate(self, platform):
        m = Module()
        most = ((1 << WEIGHT_WIDTH) - 1) * QUANTUM
        charge, beats = Signal.like(self.charge), Signal.like(self.beats)
        m.d.sync += [charge.eq(self.charge), beats.eq(self.beats)]

        solvent, over, alone, bits = Signal(self.count), Signal(), Signal(), list(self.requesting)
        others = [Cat(other for other in bits if other is not requesting).any() for requesting in bits]
        m.d.comb += [
            alone.eq(Cat(requesting & ~some for requesting, some in zip(bits, others, strict=True)).any()),
            self.candidates.eq(self.requesting & (solvent | alone.replicate(self.count))),
            over.eq(self.requesting.any() & ~(self.requesting & solvent).any()),
        ]
        for index in range(self.count):
            left = Signal(signed(most.bit_length() + 2), name=f"left_{index}")
            share = Signal(range(most + 1), name=f"share_{index}")
            m.d.comb += solvent[index].eq(~left[-1])
            m.d.sync += share.eq(Mux(self.weight[index] == 0, 1, self.weight[index]) * QUANTUM)
            m.d.sync += left.eq(Mux(over, Mux(left[-1], left + share, share), left) - Mux(charge[index], beats, 0))
        return m
