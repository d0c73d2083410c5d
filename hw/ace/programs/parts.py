# SPDX-License-Identifier: Apache-2.0
"""Fills and drains in an order that lets the links begin before the last fill, and the drain before the last receive.
Plain Python.
"""

from collections.abc import Sequence
from itertools import groupby

from hw.ace.words import TransferWord

from .ring import Ring

__all__ = ["last_received", "scattered"]


def scattered(ring: Ring) -> tuple[TransferWord, ...]:
    """Fills of all positions for a reduce-scatter in ``ring``, the first dimension of more than one rank, with marks.

    Send k is the block k + 1 ranks behind, and receive k is combined with the block k + 2 ranks behind. Groups of
    blocks from there on, each but the last with a mark, as :data:`~hw.ace.words.TRANSFER_FIELDS` defines marks: number
    2, number 1, numbers 3 and 4, 5 to 8, and so on.
    """
    groups, behind = [[2], [1]], 2
    while behind < ring.size:
        groups.append(list(range(behind + 1, min(2 * behind, ring.size) + 1)))
        behind *= 2
    fills: list[TransferWord] = []
    for group in groups:
        fills += _runs(ring, [ring.at(-hops) for hops in group])
        fills[-1] = fills[-1]._replace(mark=int(group is not groups[-1]))
    return tuple(fills)


def last_received(ring: Ring) -> tuple[TransferWord, ...]:
    """Drains of all positions after an all-gather in ``ring``, the first dimension of more than one rank: that of the
    last receive, from the rank ahead in the order of the blocks, is by itself at the end."""
    last = ring.at(1)
    return (*_runs(ring, [block for block in range(ring.size) if block != last]), *_runs(ring, [last]))


def _runs(ring: Ring, blocks: Sequence[int]) -> list[TransferWord]:
    """Transfers of these blocks, each position with the shard of its number: as few as possible, in rising order."""
    numbered = enumerate(sorted(blocks))
    runs = [[block for _, block in run] for _, run in groupby(numbered, key=lambda item: item[1] - item[0])]
    return [TransferWord(run[0] * ring.span, run[0] * ring.span, len(run) * ring.span) for run in runs]
