# SPDX-License-Identifier: Apache-2.0
"""The one-shot all-reduce: each rank gets what all ranks of a ring have, and adds it itself, in rank order.

In one dimension after the other, a rank's part goes up n // 2 hops and down the others. Each rank stores it at a
position of its own, so any order of arrival is good; then the lanes add all parts through the loopback, to that of
coordinate 0. A ring of n ranks takes n // 2 hops instead of 2 (n - 1), and carries n / 2 times the bytes.
"""

from collections.abc import Sequence

from hw.ace.words import SendWord, TransferWord

from .program import Phase, Program, granted_ahead
from .ring import Ring

__all__ = ["plan"]


def plan(rings: Sequence[Ring]) -> Program:
    """Program of one rank, as :func:`~.schedule.plan`."""
    home, used, phases = 0, 1, []
    for ring in rings:
        places = _Places(home, used)
        phases.append(_exchange(ring, places))
        home, used = places.at(ring.at(0), 0), used + ring.size - 1
    whole = (TransferWord(0, 0, 1),)
    return Program(positions=used, shards=1, src_whole=True, dst_whole=True, phases=granted_ahead(phases), early=True,
                   fills=whole, drains=(TransferWord(home, 0, 1),))


class _Places:
    """Positions in a dimension: a rank's own part is at ``home``, those of the others from ``first`` on. ``home`` is
    the same on all ranks of the ring, because they have the same coordinates in earlier dimensions."""

    def __init__(self, home: int, first: int) -> None:
        self.home, self.first = home, first

    def at(self, rank: int, part: int) -> int:
        """Position of a coordinate's part at the rank with another one."""
        return self.home if part == rank else self.first + part - (part > rank)


def _exchange(ring: Ring, places: _Places) -> Phase:
    """Round after round, forward what came from below to above, and the other way around; then add."""
    size, here, sends = ring.size, ring.at(0), []
    rising = size // 2
    falling = size - 1 - rising
    for hops in range(rising):
        for back, rounds, direction in ((0, rising, 1), (1, falling, -1)):
            if hops < rounds:
                part, there = ring.at(-direction * hops), ring.at(direction)
                sends.append(SendWord(places.at(here, part), places.at(there, part), hops, 0, 0, back))
    sends += [SendWord(places.at(here, part), places.at(here, 0), falling, 0, 1, back=1, local=1)
              for part in range(1, size)]
    return Phase(port=ring.port, span=1, both=falling > 0, sends=tuple(sends), receives=rising, granted=len(sends))
