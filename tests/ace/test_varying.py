# SPDX-License-Identifier: Apache-2.0
"""Parts of different lengths: the contents of all parts, and no access beside them."""

import random
from functools import cache

import numpy as np
import pytest

from hw.ace.collectives import Collective, those
from hw.ace.config import TINY
from hw.ace.model.varying import blocks_received
from hw.ace.numerics.formats import DType, Reduction
from hw.errors import UserError
from sim.ace.buffers import BEFORE
from sim.ace.cluster import Cluster
from sim.ace.endpoints import Link
from sim.ace.shared_library import build_library
from sim.ace.varying import Extents, extents, placed, scattered, skewed

C = Collective
PADDING = np.frombuffer(bytes([BEFORE]) * 4, np.uint32)[0]


@cache
def _library():
    return build_library(TINY)


def _blocks(rng, parts):
    return [[rng.standard_normal(count).astype(np.float32).view(np.uint32) for count, _ in row] for row in parts.send]


def test_model_knows_what_mpi_says(seed):
    rng = np.random.default_rng(seed)
    counts = [3, 0, 7, 50]
    parts = extents(C.ALL_GATHER, counts)
    assert parts.send == [[(3, 0)], [(0, 0)], [(7, 0)], [(50, 0)]]
    assert parts.receive == [[(3, 0), (0, 3), (7, 3), (50, 10)]] * 4
    blocks = _blocks(rng, parts)
    for got in blocks_received(C.ALL_GATHER, (4,), blocks, counts, dtype=DType.FP32):
        assert all(np.array_equal(one, block) for one, (block,) in zip(got, blocks, strict=True))

    matrix = [[row + 2 * column for column in range(4)] for row in range(4)]
    parts = extents(C.ALL_TO_ALL, matrix)
    blocks = _blocks(rng, parts)
    for rank, got in enumerate(blocks_received(C.ALL_TO_ALL, (2, 2), blocks, matrix, dtype=DType.FP32)):
        assert [len(one) for one in got] == [row[rank] for row in matrix]
        assert all(np.array_equal(one, blocks[source][rank]) for source, one in enumerate(got))

    parts = extents(C.REDUCE_SCATTER, counts)
    ones = [[np.full(count, rank + 1, np.int32).view(np.uint32) for count, _ in row]
            for rank, row in enumerate(parts.send)]
    got = blocks_received(C.REDUCE_SCATTER, (4,), ones, counts, dtype=DType.INT32)
    assert [one.tolist() for one, in got] == [[10] * count for count in counts]


def test_rows_of_a_rank():
    parts = Extents([[(1, 0)], [(2, 0)]], [[(1, 5), (2, 0)]] * 2)
    assert parts.count == 2
    assert parts.rows(1) == [((2, 0), (1, 5)), ((0, 0), (2, 0))]


def test_placed():
    assert placed([[1, 2], [], [3]], [(2, 3), (0, 99), (1, 0)], 7).tolist() == [3, 7, 7, 1, 2]


@pytest.mark.rtl
@pytest.mark.parametrize("shape", [(3,), (2, 3)], ids=lambda shape: "x".join(map(str, shape)))
def test_on_a_cluster(shape, seed):
    """Whole receive buffers, including the previous contents of gaps between parts."""
    rng, bits = random.Random(seed), np.random.default_rng(seed)
    with Cluster(TINY, shape, library=_library(), link=Link(latency=5), seed=seed) as cluster:
        for collective in those(lambda info: info.varying) * 2:
            most = rng.choice((5, 700))
            counts = [skewed(rng, cluster.size, most) for _ in range(cluster.size)] \
                if collective.info.pairwise else skewed(rng, cluster.size, most)
            parts = extents(collective, counts, scattered(rng))
            blocks = _blocks(bits, parts)
            want = blocks_received(collective, shape, blocks, counts, dtype=DType.FP32, op=Reduction.SUM)
            outcome = cluster.collective(
                collective, [placed(*row, PADDING) for row in zip(blocks, parts.send, strict=True)],
                dtype=DType.FP32, extents=parts, src_skew=rng.randrange(16), dst_skew=rng.randrange(16))
            for rank, got in enumerate(outcome.outputs):
                assert np.array_equal(got, placed(want[rank], parts.receive[rank], PADDING)), (collective, counts, rank)
            for rank, memory in enumerate(outcome.statistics["memories"]):
                assert memory["write_bytes"] == 8 + 4 * sum(count for count, _ in parts.receive[rank])


@pytest.mark.rtl
def test_wrong_arguments_are_reported():
    with Cluster(TINY, (2,), library=_library()) as cluster:
        inputs = [np.zeros(9, np.uint32)] * 2
        with pytest.raises(UserError, match=r"^ALL_REDUCE has no parts of different lengths\.$"):
            cluster.submit(C.ALL_REDUCE, inputs, dtype=DType.INT32, extents=extents(C.ALL_GATHER, [9, 9]))
        with pytest.raises(UserError, match=r"^A collective with parts of different lengths cannot be done in place"):
            cluster.submit(C.ALL_GATHER, inputs, dtype=DType.INT32, extents=extents(C.ALL_GATHER, [9, 9]),
                           in_place=True)
