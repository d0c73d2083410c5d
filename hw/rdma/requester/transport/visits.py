# SPDX-License-Identifier: Apache-2.0
"""Order in which a stage visits the queue pairs that have work: round robin.

Strobes of other stages -> Visits -> a stage with three cycles per visit.  Latency: 4 cycles from a strobe to the visit.
Throughput: one visit per cycle; one queue pair is visited every third cycle.
"""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.stream import RoundRobin

from ...config import RdmaConfig
from ...ports import MarkSignature

__all__ = ["Visits"]

_GROUP, _LARGE_GROUP = 16, 32
_MOST_GROUPS = 16


class Visits(wiring.Component):
    """Remember which queue pairs have work, and visit each of them.

    A strobe for a queue pair is never lost: one visit or more begins after it. No queue pair is visited again before
    the third cycle after the beginning of its last visit, when a row that the visit has written can be read.

    Groups of queue pairs are served round robin: those that have work at the time when their group is chosen, once
    each.

    Parameters
    ----------
    config : RdmaConfig
    wakes : int
        Inputs ``wake``.
    budget : int
        Visits of a queue pair in succession, before others are visited; power of two.

    Members
    -------
    wake : ``In(MarkSignature).array(wakes)``
        The queue pair has work.
    go : ``In(1)``, hold : ``In(1)``
        Visits may begin in the next cycle, unless all stages hold.
    visit : ``Out(MarkSignature)``
        A visit begins.
    again : ``In(1)``
        The visit that began two cycles before has found more work for its queue pair.
    """

    def __init__(self, config: RdmaConfig, *, wakes: int, budget: int = 8) -> None:
        self.config, self.wakes, self.budget = config, wakes, budget
        mark = MarkSignature(config)
        super().__init__({"wake": In(mark).array(wakes), "go": In(1), "hold": In(1),
                          "visit": Out(mark), "again": In(1)})

    def elaborate(self, platform):
        m = Module()
        pairs, bits = self.config.queue_pairs, self.config.qp_bits
        size = min(pairs, _GROUP if pairs <= _GROUP * _MOST_GROUPS else _LARGE_GROUP)
        groups, low = pairs // size, (size - 1).bit_length()

        # -- Queue pairs with work, and the group that is served next.
        want = Signal(pairs)
        m.submodules.choice = choice = RoundRobin(groups)
        chosen, some = Signal(range(groups)), Signal()
        load = Signal()
        m.d.comb += [
            choice.requests.eq(Cat(want[at:at + size].any() for at in range(0, pairs, size))),
            choice.advance.eq(load | ~some),
        ]
        with m.If(choice.advance):
            m.d.sync += [chosen.eq(choice.grant), some.eq(choice.valid)]

        # -- The members of the group that are still to be visited.
        members, group = Signal(size), Signal(range(groups))
        first, number = Signal(size), Signal(low)
        candidate = Signal(bits)
        m.d.comb += [
            first.eq(members & -members), number.eq(_number(first)),
            candidate.eq(Cat(number, group)),
        ]

        # -- Visits in progress.
        stages = [self.visit, *(MarkSignature(self.config).create(path=(f"stage_{number}",)) for number in (1, 2))]
        counts = [Signal(range(self.budget), name=f"count_{number}") for number in range(3)]
        for (one, count), (after, after_count) in zip(zip(stages, counts, strict=True),
                                                      zip(stages[1:], counts[1:], strict=False), strict=False):
            m.d.sync += [after.valid.eq(one.valid), after.qp.eq(one.qp), after_count.eq(count)]
        last = stages[2]
        go, continues, clash, take, defer = Signal(), Signal(), Signal(), Signal(), Signal()
        m.d.comb += [
            go.eq(self.go & ~self.hold),
            continues.eq(self.again & go & (counts[2] != self.budget - 1)),
            clash.eq(Cat(one.valid & (one.qp == candidate) for one in stages[:2]).any()),
            take.eq(members.any() & go & ~continues & ~clash),
            # It is being visited: others need not wait for it. It stays in line, to be next after its budget.
            defer.eq(members.any() & clash),
            load.eq(some & ((members & ~first) == 0) & (take | defer | ~members.any())),
        ]
        m.d.sync += [
            self.visit.valid.eq(take | continues), self.visit.qp.eq(Mux(continues, last.qp, candidate)),
            counts[0].eq(Mux(continues, counts[2] + 1, 0)),
        ]
        with m.If(load):
            m.d.sync += [members.eq(want.word_select(chosen, size)), group.eq(chosen)]
        with m.Elif(take | defer):
            m.d.sync += members.eq(members & ~first)

        # -- New work, and queue pairs that have more work than may be done in succession.
        new = Signal(pairs)
        terms = [Mux(wake.valid, 1 << wake.qp, 0)[:pairs] for wake in self.wake]
        terms += [Mux(self.again & ~continues, 1 << last.qp, 0)[:pairs], Mux(defer, 1 << candidate, 0)[:pairs]]
        taken = Cat((load & (chosen == number)).replicate(size) for number in range(groups))
        for term in terms:
            new = new | term
        m.d.sync += want.eq((want & ~taken) | new)
        return m


def _number(onehot):
    """Index of the only bit set in ``onehot``."""
    return Cat(Cat(bit for index, bit in enumerate(onehot) if index >> digit & 1).any()
               for digit in range((len(onehot) - 1).bit_length()))
