# SPDX-License-Identifier: Apache-2.0
"""Buffers whose parts are of different lengths: extents of each rank, and blocks put in their places."""

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np
import numpy.typing as npt

from hw.ace.collectives import Collective

__all__ = ["Extent", "Extents", "extents", "placed", "scattered", "skewed"]

Extent = tuple[int, int]
"""Count and displacement of a part of a buffer, in elements."""


@dataclass(frozen=True)
class Extents:
    """A collective's parts of the send buffer and of the receive buffer, for each rank of the communicator."""

    send: list[list[Extent]]
    receive: list[list[Extent]]

    @property
    def count(self) -> int:
        """The largest count, as the command has it."""
        return max(count for side in (self.send, self.receive) for parts in side for count, _ in parts)

    def rows(self, rank: int) -> list[tuple[Extent, Extent]]:
        """Extents of the send and receive buffer, for each row of a rank's table; a buffer of one part has one."""
        send, receive = self.send[rank], self.receive[rank]
        length = max(len(send), len(receive))
        return list(zip(*(parts + [(0, 0)] * (length - len(parts)) for parts in (send, receive)), strict=True))


def extents(collective: Collective, counts: Any,
            displacements: Callable[[list[int]], Iterable[int]] | None = None) -> Extents:
    """:class:`Extents` of a collective.

    Parameters
    ----------
    collective : Collective
        One that has a varying form.
    counts : list of int, or of lists of int
        As in :func:`hw.ace.model.varying.blocks_received`.
    displacements : callable, optional
        Makes a list of displacements of a list of counts; by default one part follows the other.
    """
    position = displacements or (lambda parts: [0, *accumulate(parts)][:-1])

    def row(lengths: Iterable[int]) -> list[Extent]:
        parts = [int(part) for part in lengths]
        return list(zip(parts, map(int, position(parts)), strict=True))

    info = collective.info
    if info.pairwise:
        return Extents([row(parts) for parts in counts], [row(parts) for parts in np.transpose(counts)])
    many, own = [row(counts)] * len(counts), [[(int(count), 0)] for count in counts]
    return Extents(many if info.sends_blocks else own, many if info.receives_blocks else own)


def placed(blocks: Sequence[npt.NDArray[Any]], parts: Sequence[Extent], filler: Any, *,
           length: int | None = None) -> npt.NDArray[Any]:
    """An array that has the blocks in their places, and ``filler`` in all others."""
    length = max((count + position for count, position in parts if count), default=0) if length is None else length
    made = np.full(length, filler)
    for block, (count, position) in zip(blocks, parts, strict=True):
        if count:
            made[position:position + count] = block
    return made


def scattered(rng: random.Random) -> Callable[[list[int]], list[int]]:
    """For :func:`extents`: parts in any order with gaps between them, by a ``random.Random``."""
    def position(counts: list[int]) -> list[int]:
        positions, at = [0] * len(counts), 0
        for part in rng.sample(range(len(counts)), len(counts)):
            at += rng.choice((0, 0, rng.randrange(30)))
            positions[part] = at
            at += counts[part]
        return positions

    return position


def skewed(rng: random.Random, ranks: int, most: int) -> list[int]:
    """Counts of some ranks' parts: often 0, often all with one rank."""
    kind = rng.randrange(4)
    if kind == 0:
        return [most if rank == kind else 0 for rank in rng.sample(range(ranks), ranks)]
    return [rng.choice((0, rng.randint(0, most), rng.randint(0, most >> 3)) if kind == 1 else (rng.randint(0, most),))
            for _ in range(ranks)]
