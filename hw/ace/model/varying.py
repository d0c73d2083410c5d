# SPDX-License-Identifier: Apache-2.0
"""Golden model of collectives with parts of different lengths: those of equal parts, on padded blocks.

They mean what they do in MPI: a block is the part of a rank's buffer for, or from, another rank; the positions of
blocks in buffers have no effect on results.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from hw.ace.collectives import Collective

from .arrays import Bits
from .collective import results

__all__ = ["blocks_received"]


def blocks_received(collective: Collective, shape: tuple[int, ...], blocks: Sequence[Sequence[Bits]],
                    counts: Sequence[int] | Sequence[Sequence[int]], **options: Any) -> list[list[Bits]]:
    """Blocks that each rank receives: from each rank, or only its own for a REDUCE_SCATTER.

    Parameters
    ----------
    collective : Collective
        One that has a varying form.
    shape : tuple of int
        Ranks along each dimension of the communicator.
    blocks : list of lists of arrays
        Blocks that each rank sends: one for each rank, or a single one for an ALL_GATHER.
    counts : list of int, or of lists of int
        Elements of the block for, or from, each rank; for an ALL_TO_ALL, ``counts[i][j]`` from i to j.
    **options
        Of :func:`~.model.results`.

    Elements are combined in the order of blocks that are all as long as the longest.
    """
    longest = int(np.max(counts))
    sent = [np.concatenate([_padded(block, longest) for block in row]) for row in blocks]
    made = [one for one in results(collective, shape, sent, count=longest, **options) if one is not None]
    lengths: Any = counts
    if not collective.info.receives_blocks:
        return [[one[:count]] for one, count in zip(made, lengths, strict=True)]
    lengths = np.transpose(counts) if collective.info.pairwise else [counts] * len(made)
    return [[one[at * longest:at * longest + count] for at, count in enumerate(row)]
            for one, row in zip(made, lengths, strict=True)]


def _padded(block: Bits, length: int) -> Bits:
    return np.concatenate([block, np.zeros(length - len(block), block.dtype)])
