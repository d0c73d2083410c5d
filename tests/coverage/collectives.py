# SPDX-License-Identifier: Apache-2.0
"""Collectives of every bin: each kind with each number of elements, and each type with each operation.

Random ones would need hundreds to have all.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from hw.ace.collectives import Collective
from hw.ace.config import TINY
from hw.ace.model.collective import results
from hw.ace.numerics.formats import DType, Reduction, reductions, types, width
from hw.errors import UserError
from sim.ace.cluster import Cluster
from sim.ace.endpoints import Link, Memory
from sim.ace.shared_library import Library

__all__ = ["every_bin"]

COUNTS = (0, 1, 40, 300, 1100)
"""One of each class of elements (:data:`tests.coverage.bins.COUNTS`)."""

FEW = 21
SHAPE = (2,)


@dataclass(frozen=True)
class _One:
    collective: Collective
    count: int
    dtype: DType = DType.BF16
    op: Reduction = Reduction.SUM


def _wanted(stalls: bool) -> Iterator[_One]:
    for collective in Collective:
        for count in COUNTS if collective.info.moves_data else COUNTS[:1]:
            yield _One(collective, count)
    for dtype in types(TINY) if not stalls else ():
        for op in reductions(TINY):
            yield _One(Collective.ALL_REDUCE, FEW, dtype, op)


def every_bin(library: Library, *, stalls: bool, seed: int) -> None:
    """Run one of each, and compare all buffers with the golden model. Raises :class:`UserError` if one differs."""
    rng = np.random.default_rng(seed)
    share = 0.2 if stalls else 0
    with Cluster(TINY, SHAPE, library=library, seed=seed, link=Link(latency=5, stall=share),
                 memory=Memory(read_latency=20, write_latency=20, stall=share)) as cluster:
        for one in _wanted(stalls):
            _run(cluster, one, rng)


def _run(cluster: Cluster, one: _One, rng: np.random.Generator) -> None:
    info, kind = one.collective.info, np.dtype(f"u{width(one.dtype) // 8}")
    if not info.moves_data:
        cluster.collective(one.collective, count=0)
        return
    inputs = [rng.integers(0, 1 << 8 * kind.itemsize, info.sent(one.count, cluster.size), dtype=np.uint64).astype(kind)
              for _ in range(cluster.size)]
    root = (1,) if info.rooted else None
    outcome = cluster.collective(one.collective, inputs, count=one.count, dtype=one.dtype, op=one.op, root=root)
    made = results(one.collective, SHAPE, inputs, dtype=one.dtype, count=one.count, op=one.op, root=root,
                   one_shot=cluster.one_shot)
    for rank, (got, right) in enumerate(zip(outcome.outputs, made, strict=True)):
        if got is not right if got is None or right is None else not np.array_equal(got, right):
            raise UserError(f"{one} is wrong at rank {rank}.")
