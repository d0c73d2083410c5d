# SPDX-License-Identifier: Apache-2.0
"""The golden model of collectives against sums in a scalar loop, and against results that no order changes."""

import re
from fractions import Fraction
from itertools import product
from math import prod

import numpy as np
import pytest

from hw.ace.collectives import Collective, those
from hw.ace.model.collective import results
from hw.ace.model.numerics import combine, numpy_type
from hw.ace.numerics.formats import FLOATS, DType, Op, Reduction, growth, width
from tests.ace.numerics.operands import random_pairs

C = Collective
SMALL = [dtype for dtype in DType if growth(dtype)]
REDUCING = those(lambda info: info.reduces)


def name(value):
    return value.name


def random_shape(rng):
    return tuple(int(one) for one in rng.integers(1, 5, rng.integers(1, 4)))


def random_root(rng, shape):
    return tuple(int(rng.integers(size)) for size in shape)


def random_inputs(rng, collective, shape, dtype, count):
    return [random_pairs(rng, dtype, collective.info.sent(count, prod(shape)))[1] for _ in range(prod(shape))]


def values(bits, dtype):
    return np.ascontiguousarray(bits).view(numpy_type(dtype))


def in_order(terms, shape, owner, step, fixed=()):
    """Sum of ``terms[coordinates]``, the last dimension outermost: sums along it of sums along the earlier ones."""
    dimension = len(shape) - 1 - len(fixed)
    if dimension < 0:
        return terms[tuple(reversed(fixed))]
    total = None
    for hops in range(1, shape[dimension] + 1):
        at = (owner[dimension] + step * hops) % shape[dimension]
        one = in_order(terms, shape, owner, step, (*fixed, at))
        total = one if total is None else total + one
    return total


def by_coordinates(terms, shape):
    """Sums over the first dimension, from coordinate 0 on; then sums of these."""
    for size in shape:
        sums = {}
        for at in sorted(terms):
            assert at[0] < size
            sums[at[1:]] = sums[at[1:]] + terms[at] if at[1:] in sums else terms[at]
        terms = sums
    return terms[()]


@pytest.mark.parametrize("collective", REDUCING, ids=name)
def test_order_of_additions(collective, seed):
    """FP32, where the order matters: element by element, according to the documented rule."""
    rng = np.random.default_rng([seed, collective])
    for _ in range(30):
        shape, count, both = random_shape(rng), int(rng.integers(1, 80)), bool(rng.integers(2))
        ranks, root = prod(shape), random_root(rng, shape)
        places = list(product(*map(range, shape)))
        inputs = [rng.standard_normal(count * ranks if collective == C.REDUCE_SCATTER else count).astype(np.float32)
                  for _ in range(ranks)]
        one_shot = int(rng.choice((0, 4 * count - 1, 4 * count)))
        got = results(collective, shape, [one.view(np.uint32) for one in inputs], dtype=DType.FP32, count=count,
                      root=root, both=both, one_shot=one_shot)
        short = collective == C.ALL_REDUCE and one_shot == 4 * count
        shards = {C.ALL_REDUCE: ranks, C.REDUCE: 1}.get(collective)
        shard_bytes = count * 4 if shards is None else 64 * -(-count * 4 // (64 * shards))
        for element in range(len(inputs[0])):
            shard, column = divmod(element * 4, shard_bytes)
            owner = root if collective == C.REDUCE else places[shard]
            upper = not both or column < 64 * -(-shard_bytes // 128)
            terms = {at: one[element] for at, one in zip(places, inputs, strict=True)}
            want = by_coordinates(terms, shape) if short else in_order(terms, shape, owner, 1 if upper else -1)
            for rank in range(ranks):
                if collective == C.REDUCE and places[rank] != root:
                    assert got[rank] is None
                elif collective != C.REDUCE_SCATTER:
                    assert values(got[rank], DType.FP32)[element] == want
                elif rank == shard:
                    assert values(got[rank], DType.FP32)[element % count] == want


def test_order_by_hand():
    """Three ranks: 1, 2 ** 24 and -2 ** 24 give 0 or 1, depending on the order."""
    inputs = [np.full(96, one, np.float32).view(np.uint32) for one in (1.0, 2.0 ** 24, -2.0 ** 24)]
    # Shards have 128 bytes: 16 elements up, 16 down. Owner 0: (x1 + x2) + x0, (x2 + x1) + x0. Owner 1:
    # (x2 + x0) + x1 and (x0 + x2) + x1: 1 - 2 ** 24 is exact. Owner 2: 1 + 2 ** 24 is not.
    got, *_ = results(C.ALL_REDUCE, (3,), inputs, dtype=DType.FP32, count=96, one_shot=0)
    assert values(got, DType.FP32).tolist() == [1.0] * 64 + [0.0] * 32
    # One-shot, of at most 384 bytes: (x0 + x1) + x2.
    got, *_ = results(C.ALL_REDUCE, (3,), inputs, dtype=DType.FP32, count=96, one_shot=384)
    assert values(got, DType.FP32).tolist() == [0.0] * 96
    got = results(C.REDUCE, (3,), inputs, dtype=DType.FP32, count=96, root=(2,))
    assert got[:2] == [None, None] and values(got[2], DType.FP32).tolist() == [0.0] * 96
    # Four ranks, where the direction matters: ((x1 + x2) + x3) + x0 and ((x3 + x2) + x1) + x0.
    inputs = [np.full(64, one, np.float32).view(np.uint32) for one in (0.0, 1.0, 2.0 ** 24, -2.0 ** 24)]
    got = results(C.REDUCE, (4,), inputs, dtype=DType.FP32, count=64, root=(0,))
    assert values(got[0], DType.FP32).tolist() == [0.0] * 32 + [1.0] * 32
    got = results(C.REDUCE, (4,), inputs, dtype=DType.FP32, count=64, root=(0,), both=False)
    assert values(got[0], DType.FP32).tolist() == [0.0] * 64


@pytest.mark.parametrize("dtype", [DType.INT32, DType.INT8], ids=name)
@pytest.mark.parametrize("op", Reduction, ids=name)
def test_integers(op, dtype, seed):
    """Results do not depend on the order. Sums and products wrap."""
    rng = np.random.default_rng([seed, op, dtype])
    for collective in REDUCING:
        for _ in range(30):
            shape, count = random_shape(rng), int(rng.integers(1, 300))
            ranks, root = prod(shape), random_root(rng, shape)
            inputs = random_inputs(rng, collective, shape, dtype, count)
            got = results(collective, shape, inputs, dtype=dtype, count=count, op=op, root=root)
            table = np.stack([values(one, dtype) for one in inputs])
            if op in (Op.MIN, Op.MAX):
                want = table.min(axis=0) if op == Op.MIN else table.max(axis=0)
            elif op == Op.PROD:
                want = table.prod(axis=0, dtype=table.dtype)
            else:
                want = table.sum(axis=0, dtype=table.dtype)
            if op == Reduction.AVG:
                want = np.array([int(Fraction(int(one), ranks)) for one in want], table.dtype)
            for rank, one in enumerate(got):
                if collective == C.REDUCE and rank != np.ravel_multi_index(root, shape):
                    assert one is None
                else:
                    mine = want.reshape(ranks, -1)[rank] if collective == C.REDUCE_SCATTER else want
                    assert np.array_equal(values(one, dtype), mine)


@pytest.mark.parametrize("dtype", DType, ids=name)
def test_moved_only(dtype, seed):
    rng = np.random.default_rng([seed, dtype])
    for _ in range(20):
        shape, count = random_shape(rng), int(rng.integers(0, 50))
        ranks, root = prod(shape), random_root(rng, shape)
        one = random_inputs(rng, C.ALL_GATHER, shape, dtype, count)
        for got in results(C.ALL_GATHER, shape, one, dtype=dtype, count=count):
            assert np.array_equal(got, np.concatenate(one))
        source = one[np.ravel_multi_index(root, shape)]
        only = [sent if sent is source else None for sent in one]
        for got in results(C.BROADCAST, shape, only, dtype=dtype, count=count, root=root):
            assert np.array_equal(got, source)
        every = random_inputs(rng, C.ALL_TO_ALL, shape, dtype, count)
        for rank, got in enumerate(results(C.ALL_TO_ALL, shape, every, dtype=dtype, count=count)):
            assert np.array_equal(got, np.concatenate([sent[rank * count:][:count] for sent in every]))
        assert results(C.BARRIER, shape, [None] * ranks, dtype=dtype, count=0) == [None] * ranks


@pytest.mark.parametrize("dtype", SMALL, ids=name)
@pytest.mark.parametrize("one_shot", [0, 1 << 20])
def test_widened_sums_are_rounded_once(dtype, one_shot, seed):
    rng = np.random.default_rng([seed, dtype])
    for op in (Op.SUM, Op.MAX):
        inputs = [random_pairs(rng, dtype, 512)[1] for _ in range(4)]
        got, *_ = results(C.ALL_REDUCE, (4,), inputs, dtype=dtype, count=512, op=op, widen=True, one_shot=one_shot)
        # Longer shards have the same elements here.
        wide = [combine(Op.MAX, one, one, a_type=dtype, o_type=DType.FP32) for one in inputs]
        whole, *_ = results(C.ALL_REDUCE, (4,), wide, dtype=DType.FP32, count=512, op=op, one_shot=one_shot)
        assert np.array_equal(got, combine(Op.MAX, whole, whole, a_type=DType.FP32, o_type=dtype))


def test_widening_shows():
    """Half a unit in the last place plus half a unit: lost if added separately, a unit together."""
    for dtype in (DType.FP16, DType.BF16, DType.E4M3, DType.E5M2):
        half = 2.0 ** -(FLOATS[dtype].fraction_width + 1)
        inputs = [np.full(8, one, numpy_type(dtype)).view(f"u{width(dtype) // 8}") for one in (half, 1.0, half)]
        what = dict(dtype=dtype, count=8, root=(0,))
        assert values(results(C.REDUCE, (3,), inputs, **what)[0], dtype).tolist() == [1.0] * 8
        assert values(results(C.REDUCE, (3,), inputs, widen=True, **what)[0], dtype).tolist() == [1.0 + 2 * half] * 8


@pytest.mark.parametrize("dtype", SMALL, ids=name)
def test_what_moved_only_does_to_nan(dtype):
    signalling = np.array([FLOATS[dtype].infinity | FLOATS[dtype].sign | 1], f"u{width(dtype) // 8}")
    assert results(C.BROADCAST, (2,), [signalling, None], dtype=dtype, count=1, root=(0,))[1] == signalling
    assert results(C.BROADCAST, (2,), [signalling, None], dtype=dtype, count=1, root=(0,), widen=True)[1] == \
        FLOATS[dtype].nan


@pytest.mark.parametrize("widen", [False, True])
@pytest.mark.parametrize("dtype", FLOATS, ids=name)
def test_mean_is_the_nearest(dtype, widen, seed):
    """A quotient is no farther from the exact one than its neighbours, and even in a tie."""
    if widen and dtype == DType.FP32:
        return
    rng = np.random.default_rng([seed, dtype])
    for ranks in (1, 2, 3, 7, 16, 100):
        inputs = random_inputs(rng, C.ALL_REDUCE, (ranks,), dtype, 60)
        what = dict(dtype=dtype, count=60, widen=widen)
        total = results(C.ALL_REDUCE, (ranks,), inputs, **what)[0]
        mean = results(C.ALL_REDUCE, (ranks,), inputs, op=Reduction.AVG, **what)[0]
        if widen:
            # The exact sum is lost; that of one rank and zeros is not.
            zeros = [inputs[0], *[np.zeros_like(inputs[0])] * (ranks - 1)]
            total = inputs[0]
            mean = results(C.ALL_REDUCE, (ranks,), zeros, op=Reduction.AVG, **what)[0]
        for one, quotient in zip(total, mean, strict=True):
            check_quotient(one, quotient, ranks, dtype)


def check_quotient(bits, quotient, ranks, dtype):
    layout = FLOATS[dtype]
    value = float(values(np.array([bits]), dtype)[0])
    if np.isnan(value):
        assert quotient == layout.nan
        return
    if not np.isfinite(value):
        assert quotient == (int(bits) - 1 if layout.saturates else bits)
        return
    exact = abs(Fraction(value)) / ranks
    magnitude = int(quotient) & ~layout.sign
    assert magnitude == quotient or value < 0 or bits & layout.sign

    def off(at):
        return abs(Fraction(float(values(np.array([at], f"u{width(dtype) // 8}"), dtype)[0])) - exact)

    for other in (magnitude - 1, magnitude + 1):
        if 0 <= other < layout.infinity:
            assert off(magnitude) < off(other) or (off(magnitude) == off(other) and magnitude % 2 == 0)


def test_not_a_number_and_overflow():
    bits = np.array([0x7F800000, 0x7F7FFFFF, 0x7F800001], np.uint32)
    other = np.array([0xFF800000, 0x7F7FFFFF, 0], np.uint32)
    got, _ = results(C.ALL_REDUCE, (2,), [bits, other], dtype=DType.FP32, count=3)
    assert [hex(one) for one in got] == ["0x7fc00000", "0x7f800000", "0x7fc00000"]


def test_many_cases(seed, soak):
    rng = np.random.default_rng(seed)
    for _ in range(5000 if soak else 300):
        collective, shape = C(rng.choice(those(lambda info: info.moves_data))), random_shape(rng)
        dtype = DType(rng.choice(DType))
        count = int(rng.integers(0, 100))
        got = results(collective, shape, random_inputs(rng, collective, shape, dtype, count), dtype=dtype, count=count,
                      op=Reduction(rng.choice(Reduction)),
                      root=random_root(rng, shape) if collective.info.rooted else None,
                      widen=growth(dtype) > 0 and bool(rng.integers(2)), both=bool(rng.integers(2)))
        length = collective.info.received(count, prod(shape))
        assert all(one is None or (one.shape == (length,) and one.itemsize == width(dtype) // 8) for one in got)


@pytest.mark.parametrize("message, make", [
    ("Only 16-bit floats and FP8 can be widened, not FP32",
     lambda: results(C.ALL_REDUCE, (1,), [np.zeros(1, np.uint32)], dtype=DType.FP32, count=1, widen=True)),
    ("A send buffer must have 8 elements, not 4",
     lambda: results(C.REDUCE_SCATTER, (2,), [np.zeros(4, np.uint8)] * 2, dtype=DType.INT8, count=4)),
    ("A send buffer must have 4 elements, not 8",
     lambda: results(C.BROADCAST, (1,), [np.zeros(8, np.uint8)], dtype=DType.INT8, count=4, root=(0,))),
])
def test_errors(message, make):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        make()
