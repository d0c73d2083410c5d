# SPDX-License-Identifier: Apache-2.0
"""Round-robin choice among requesters.

Latency: 0, ``requests`` to ``grant`` is combinational.  Throughput: one grant per cycle.
"""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

__all__ = ["RoundRobin"]


class RoundRobin(wiring.Component):
    """Grant the first requester at or after a pointer that moves past each granted requester.

    A requester whose request stays set is granted after at most ``count - 1`` others. The grant follows ``requests`` in
    the same cycle and may change until ``advance`` takes it; to hold a stalled grant, mask the other requests meanwhile
    (as ``Merge`` does).

    Up to 4 requests and the pointer are 6 bits, so each bit of the grant is one 6-input LUT. For more requesters, the
    pointer is a mask of the requesters at or after it. Groups of 8 choose their first requester in parallel with the
    choice of the first group: at most 6 levels of 6-input LUTs for 64 requesters.

    Parameters
    ----------
    count : int
        Number of requesters, at least 1. Depth grows slowly up to 64.
    marks : bool
        With ``marks`` and ``marked``.

    Members
    -------
    requests : ``In(count)``
        One bit per requester.
    marks : ``In(count)``, marked : ``Out(1)``
        A property of each requester, and that of the granted one; 0 without a request. Faster than ``marks`` indexed
        with ``grant``, as each group looks up its own.
    advance : ``In(1)``
        The grant is taken in this cycle. Ignored without a request.
    grant : ``Out(range(count))``
        Number of the granted requester; 0 without a request.
    grant_onehot : ``Out(count)``
        The same in one-hot encoding; 0 without a request.
    valid : ``Out(1)``
        There is a request.

    Raises
    ------
    ValueError
        If ``count`` is not a positive integer.
    """

    _FEW = 4
    _GROUP = 8

    def __init__(self, count: int, *, marks: bool = False) -> None:
        if not isinstance(count, int) or count < 1:
            raise ValueError(f"RoundRobin count must be a positive integer, not {count!r}")
        self.count, self.has_marks = count, marks
        super().__init__({
            "requests": In(count),
            "advance": In(1),
            "grant": Out(range(count)),
            "grant_onehot": Out(count),
            "valid": Out(1),
            **({"marks": In(count), "marked": Out(1)} if marks else {}),
        })

    def elaborate(self, platform):
        m = Module()
        m.d.comb += self.valid.eq(self.requests.any())
        if self.count <= self._FEW:
            self._few(m)
        else:
            self._many(m)
        return m

    def _few(self, m):
        first = Signal(range(self.count))
        turns = [(*range(start, self.count), *range(start)) for start in range(self.count)]
        with m.Switch(first):
            for start, turn in enumerate(turns):
                with m.Case(start):
                    m.d.comb += [self.grant_onehot[position].eq(bit) for position, bit in zip(
                        turn, _lowest(Cat(self.requests[position] for position in turn)), strict=True)]
        m.d.comb += self.grant.eq(_number(self.grant_onehot))
        if self.has_marks:
            m.d.comb += self.marked.eq((self.grant_onehot & self.marks).any())
        with m.If(self.advance & self.valid):
            m.d.sync += first.eq(_number(Cat(self.grant_onehot[-1], self.grant_onehot[:-1])))

    def _many(self, m):
        # Requesters at or after the pointer come first.
        mask = Signal(self.count, init=-1)
        preferred = Signal(self.count)
        m.d.comb += preferred.eq(self.requests & mask)

        # Each group chooses independently: it is granted either for a preferred requester of its own, or when no group
        # has any.
        starts = range(0, self.count, self._GROUP)
        chosen = Signal(self.count)
        for at in starts:
            group = slice(at, min(at + self._GROUP, self.count))
            m.d.comb += chosen[group].eq(Mux(
                preferred[group].any(), _lowest(preferred[group]), _lowest(self.requests[group])))

        # The first group with preferred requesters, else the first with any.
        groups_preferred = Cat(preferred[at:at + self._GROUP].any() for at in starts)
        groups_any = Cat(self.requests[at:at + self._GROUP].any() for at in starts)
        group_onehot = Signal(len(starts))
        m.d.comb += group_onehot.eq(Mux(
            groups_preferred.any(), _lowest(groups_preferred), _lowest(groups_any)))

        # Combine both choices.
        position = Signal(range(min(self._GROUP, self.count)))
        for at, selected in zip(starts, group_onehot, strict=True):
            group = slice(at, min(at + self._GROUP, self.count))
            m.d.comb += self.grant_onehot[group].eq(Mux(selected, chosen[group], 0))
        m.d.comb += [
            position.eq(_either(Mux(selected, _number(chosen[at:at + self._GROUP]), 0)
                                for at, selected in zip(starts, group_onehot, strict=True))),
            self.grant.eq(Cat(position, _number(group_onehot))),
        ]
        if self.has_marks:
            m.d.comb += self.marked.eq((group_onehot & Cat(
                (chosen[at:at + self._GROUP] & self.marks[at:at + self._GROUP]).any() for at in starts)).any())

        # The requesters after the granted one are preferred next.
        after = Signal(self.count)
        for index, at in enumerate(starts):
            group = slice(at, min(at + self._GROUP, self.count))
            earlier = group_onehot[:index].any()
            m.d.comb += after[group].eq(Mux(
                group_onehot[index], _above(chosen[group]), earlier.replicate(group.stop - at)))
        with m.If(self.advance & self.valid):
            m.d.sync += mask.eq(after)


def _lowest(bits):
    """Lowest set bit of ``bits``, one-hot."""
    return Cat(bit & ~bits[:index].any() if index else bit for index, bit in enumerate(bits))


def _above(onehot):
    """All bits above the only bit set in ``onehot``."""
    return Cat(onehot[:index].any() for index in range(len(onehot)))


def _number(onehot):
    """Index of the only bit set in ``onehot``."""
    width = (len(onehot) - 1).bit_length()
    return Cat(
        Cat(bit for index, bit in enumerate(onehot) if index >> digit & 1).any()
        for digit in range(width))


def _either(values):
    """OR of all ``values``."""
    result = 0
    for value in values:
        result |= value
    return result
