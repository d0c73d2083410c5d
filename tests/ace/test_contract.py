# SPDX-License-Identifier: Apache-2.0
"""Statements of docs/ace.md about programs and results that no other test checks."""

from itertools import product
from math import prod

import numpy as np
import pytest

from hw.ace.config import MAX_RANKS, ROOT_WIDTH
from hw.ace.model.collective import results
from hw.ace.numerics.formats import DType, Reduction, width
from hw.ace.programs.schedule import plan
from hw.ace.words import Collective

C = Collective

TYPES = [(DType.FP32, False), (DType.BF16, False), (DType.BF16, True), (DType.FP16, True)]


def _inputs(rng, ranks, count, dtype):
    """Numbers of similar magnitude, so that sums are rounded."""
    values = rng.standard_normal((ranks, count)).astype(np.float32).view(np.uint32)
    if dtype == DType.FP16:
        return list(values.view(np.float32).astype(np.float16).view(np.uint16))
    return list(values if dtype == DType.FP32 else (values >> 16).astype(np.uint16))


def _both_directions(rng, shape, count, block, dtype, widen, op):
    """An all-reduce, and a reduce-scatter and all-gather with blocks of at least the same size."""
    ranks = prod(shape)
    inputs = _inputs(rng, ranks, ranks * block, dtype)
    kind = {"dtype": dtype, "widen": widen, "one_shot": 0}
    reduced = results(C.ALL_REDUCE, shape, [one[:count] for one in inputs], count=count, op=op, **kind)
    blocks = results(C.REDUCE_SCATTER, shape, inputs, count=block, op=op, **kind)
    gathered = results(C.ALL_GATHER, shape, blocks, count=block, **kind)
    return np.stack(reduced), np.stack(gathered)[:, :count]


@pytest.mark.parametrize(("dtype", "widen"), TYPES)
@pytest.mark.parametrize("shape", [(3,), (5,), (4, 2), (3, 3), (2, 3, 2)])
@pytest.mark.parametrize("op", [Reduction.SUM, Reduction.AVG])
def test_all_reduce_is_reduce_scatter_and_all_gather_of_its_shards(shape, dtype, widen, op, seed):
    rng = np.random.default_rng(seed)
    size = width(dtype) // 8
    for count in rng.integers(1, 3000, 5):
        shard = 64 * -(-count * size // (64 * prod(shape))) // size
        reduced, gathered = _both_directions(rng, shape, int(count), int(shard), dtype, widen, op)
        assert (reduced == gathered).all()


def test_other_blocks_have_other_owners(seed):
    rng = np.random.default_rng(seed)
    reduced, gathered = _both_directions(rng, (3,), 3 * 500, 500, DType.FP32, False, Reduction.SUM)
    assert (reduced != gathered).any()
    assert np.allclose(reduced.view(np.float32), gathered.view(np.float32), atol=1e-5)


@pytest.mark.parametrize("shape", [(2,), (2, 2), (2, 1, 2), (2, 2, 2)])
def test_no_order_matters_where_dimensions_have_two_ranks(shape, seed):
    rng = np.random.default_rng(seed)
    for block in (1, 7, 100):
        reduced, gathered = _both_directions(rng, shape, prod(shape) * block, block, DType.FP32, False, Reduction.SUM)
        assert (reduced == gathered).all()


SHAPES = [*((size,) for size in range(2, 33)), (2, 2), (4, 2), (3, 3), (5, 3), (2, 1, 3), (2, 2, 2), (4, 2, 2),
          (2, 3, 4)]


@pytest.mark.parametrize("collective", [one for one in C if not one.info.rooted])
def test_sends_wait_for_lower_ones_only(collective):
    """Sends with equal numbers on all ranks of a ring, so that the lowest can always be done."""
    for shape, up in product(SHAPES, (True, False)):
        ranks = product(*map(range, shape)) if prod(shape) <= 12 else [(0,) * len(shape)]
        for coordinates in ranks:
            program = plan(collective, shape, tuple(range(len(shape))), coordinates, up=up)
            for phase in program.phases:
                granted = phase.granted
                for number, send in enumerate(phase.sends):
                    assert send.need <= number < granted
                    granted += send.grants
                assert granted == phase.receives == len(phase.sends)


def test_one_shape_has_more_roots_than_can_be_named():
    shapes = [shape for shape in product(range(1, MAX_RANKS + 1), repeat=3) if prod(shape) <= MAX_RANKS]
    assert [shape for shape in shapes if sum((size - 1).bit_length() for size in shape) > ROOT_WIDTH] == [(5, 5, 5)]
