# SPDX-License-Identifier: Apache-2.0
"""Golden model of collectives whose parts are of different lengths: those of equal parts, of padded blocks.

MPI's meaning of each: a block is what one rank's buffer has for, or of, another; where blocks lie in buffers makes no
difference to what becomes of them.
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
    """What each rank receives, as a list of blocks: of each rank, or only its own of a REDUCE_SCATTER.

    Parameters
    ----------
    collective : Collective
        One that has a varying form.
    shape : tuple of int
        Ranks along each dimension of the communicator.
    blocks : list of lists of arrays
        What each rank sends: a block for each rank, or one of an ALL_GATHER.
    counts : list of int, or of lists of int
        Elements of the block that is for a rank, or of it; of an ALL_TO_ALL, ``counts[i][j]`` from i to j.
    **options
        Of :func:`~.model.results`.

    Elements are combined in the order of a block that is as long as the longest of all.
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
