# SPDX-License-Identifier: Apache-2.0
"""The Verilated lane against the golden model, bit by bit. ``--soak``: ten million pairs of each kind."""

from itertools import product

import numpy as np
import pytest

from hw.ace.model.numerics import combine, combine_words
from hw.ace.numerics.alu import Lane
from hw.ace.numerics.formats import BYTE_FLOATS, FLOATS, DType, Op, width
from sim.ace.lanes import build_lanes, control
from tests.ace.numerics.operands import all_pairs, factors, random_pairs, specials, words
from tests.harness.cell import run_cell

pytestmark = pytest.mark.rtl

MIXED = [types for types in product(FLOATS, repeat=3) if len(set(types)) > 1]
SOME_MIXED = [types for types in MIXED if not set(types) & set(BYTE_FLOATS)] + [
    types for fp8 in BYTE_FLOATS for types in (
        (fp8, fp8, DType.FP32), (DType.FP32, fp8, fp8), (DType.FP16, DType.BF16, fp8), (DType.FP16, fp8, DType.BF16))]
"""All types without FP8, and those with FP8, for each operand and result."""
BATCH = 1_000_000


@pytest.fixture(scope="module")
def lanes():
    return build_lanes()


def _name(value):
    return "-".join(one.name for one in value) if isinstance(value, tuple) else value.name


each_type = pytest.mark.parametrize("dtype", DType, ids=_name)
each_op = pytest.mark.parametrize("op", Op, ids=_name)


def check(lanes, op, a, b, a_type, b_type=None, o_type=None):
    """Send words through the lane and compare; report the first differences."""
    got = lanes.run(a, b, control(op, a_type, b_type, o_type))
    want = combine_words(op, a, b, a_type=a_type, b_type=b_type, o_type=o_type)
    wrong = np.flatnonzero(got != want)
    assert not len(wrong), f"{len(wrong)} of {len(got)}: {op.name} of " + "; ".join(
        f"{a[at]:08x} and {b[at]:08x} gives {got[at]:08x}, not {want[at]:08x}" for at in wrong[:3])


@each_op
@each_type
def test_corners(lanes, dtype, op):
    a, b = all_pairs(specials(dtype))
    check(lanes, op, words(a), words(b), dtype)


@each_op
def test_all_pairs_of_bytes(lanes, op):
    a, b = all_pairs(np.arange(256, dtype=np.uint8))
    check(lanes, op, words(a), words(b), DType.INT8)


@each_op
@pytest.mark.parametrize("dtype", BYTE_FLOATS, ids=_name)
def test_all_pairs_of_fp8(lanes, dtype, op):
    """Each pair in each byte of a word, beside other pairs."""
    a, b = all_pairs(np.arange(256, dtype=np.uint8))
    places = [0, 10_007, 20_011, 40_009]
    a, b = (np.stack([np.roll(side, by) for by in places], axis=1).reshape(-1) for side in (a, b))
    check(lanes, op, words(a), words(b), dtype)


@each_op
@each_type
def test_random(lanes, dtype, op, seed, soak):
    # Minimum and maximum only select an operand; sum and product need more numbers.
    count = 10 * BATCH if soak else 200_000 if op in (Op.SUM, Op.PROD) else 50_000
    rng = np.random.default_rng([seed, dtype, op])
    for batch in range(0, count, BATCH):
        pairs = factors if op == Op.PROD and dtype in FLOATS else random_pairs
        a, b = pairs(rng, dtype, min(BATCH, count - batch))
        check(lanes, op, words(a), words(b), dtype)


@pytest.mark.parametrize("types", SOME_MIXED, ids=_name)
def test_mixed_types(lanes, types, seed, soak):
    rng = np.random.default_rng([seed, *types])
    a_type, b_type, _ = types
    for op in Op:
        count = BATCH if soak else 4_000
        a, b = random_pairs(rng, DType.FP32, count)
        # Bits above an element are ignored.
        a_corner, b_corner = (rng.choice(specials(dtype), count).astype(np.uint32) for dtype in (a_type, b_type))
        noise = rng.integers(0, 1 << 32, count, dtype=np.uint64) << np.uint64(width(a_type))
        a_corner |= noise.astype(np.uint32)
        check(lanes, op, np.concatenate([a, a_corner, a, a_corner]), np.concatenate([b, b_corner, b_corner, b]), *types)


@pytest.mark.parametrize("dtype", [DType.FP16, DType.BF16, *BYTE_FLOATS], ids=_name)
def test_every_narrow_value_is_widened_exactly(lanes, dtype):
    values = np.arange(1 << width(dtype), dtype=np.uint32)
    for zero in (FLOATS[dtype].sign, 0):
        check(lanes, Op.SUM, values, np.full_like(values, zero), dtype, dtype, DType.FP32)
    check(lanes, Op.MAX, values, values, dtype, dtype, DType.FP32)
    # And back to the narrow type.
    wide = combine(Op.MAX, values, values, a_type=dtype, o_type=DType.FP32)
    check(lanes, Op.MIN, wide, wide, DType.FP32, DType.FP32, dtype)


@pytest.mark.parametrize("dtype", [DType.FP16, DType.BF16, *BYTE_FLOATS], ids=_name)
def test_narrowing_around_every_tie(lanes, dtype):
    """Each value, the midpoint to the next, and the values next to both."""
    values = np.arange(1 << width(dtype), dtype=np.uint32)
    wide = combine(Op.MAX, values, values, a_type=dtype, o_type=DType.FP32)
    ends = wide[:-1].view(np.float32).astype(np.float64), wide[1:].view(np.float32).astype(np.float64)
    with np.errstate(all="ignore"):
        middle = np.where(np.isfinite(ends[0]) & np.isfinite(ends[1]), (ends[0] + ends[1]) / 2, ends[0])
    middle = middle.astype(np.float32).view(np.uint32)
    # The midpoint of the greatest finite value and its successor.
    layout = FLOATS[dtype]
    last = int(wide[layout.infinity - 1])
    over = np.array([last + (1 << (22 - layout.fraction_width))], np.uint32)
    a = np.concatenate([x + np.uint32(d & 0xFFFFFFFF) for x in (wide, middle, over, over | 0x80000000)
                        for d in (-1, 0, 1)])
    check(lanes, Op.SUM, a, np.full_like(a, 0x80000000), DType.FP32, DType.FP32, dtype)


def test_types_change_with_every_word(lanes, seed):
    rng = np.random.default_rng(seed)
    kinds = [(op, *types) for op in Op for types in [(dtype,) * 3 for dtype in DType] + MIXED]
    count = 60_000
    chosen = rng.integers(0, len(kinds), count)
    a, b = random_pairs(rng, DType.FP32, count)
    controls = np.array([control(*kind) for kind in kinds], np.uint32)
    got = lanes.run(a, b, controls[chosen])
    for number, (op, a_type, b_type, o_type) in enumerate(kinds):
        at = np.flatnonzero(chosen == number)
        want = combine_words(op, a[at], b[at], a_type=a_type, b_type=b_type, o_type=o_type)
        assert np.array_equal(got[at], want), (op, a_type, b_type, o_type)


@each_op
@pytest.mark.parametrize("dtype", FLOATS, ids=_name)
def test_operands_may_be_swapped(lanes, dtype, op):
    """Exchanged operands give the same bits, NaNs and zeros included."""
    a, b = map(words, all_pairs(specials(dtype)))
    kind = control(op, dtype)
    assert np.array_equal(lanes.run(a, b, kind), lanes.run(b, a, kind))


@pytest.mark.parametrize("op", [Op.MIN, Op.MAX], ids=_name)
@pytest.mark.parametrize("dtype", FLOATS, ids=_name)
def test_least_and_greatest_of_three_in_any_order(lanes, dtype, op, seed):
    a, b, c = np.random.default_rng(seed).choice(specials(dtype), (3, 20_000))
    kind = control(op, dtype)

    def of(x, y):
        return lanes.run(x, y, kind)

    a, b, c = words(a), words(b), words(c)
    assert np.array_equal(of(of(a, b), c), of(a, of(b, c)))


def test_products_without_fp8(seed):
    """Such a lane has no parts for FP8, and its multipliers are shared by fewer types."""
    dut, rng = Lane(products=True, fp8=False), np.random.default_rng(seed)
    cases = [(op, dtype, *(int(value) for value in pair)) for op, dtype in product(Op, set(DType) - set(BYTE_FLOATS))
             for pair in zip(*(factors if op == Op.PROD and dtype in FLOATS else random_pairs)(rng, dtype, 8),
                             strict=True)]

    async def body(ctx):
        got = []
        for at in range(len(cases) + dut.LATENCY):
            if at >= dut.LATENCY:
                got.append(ctx.get(dut.o))
            if at < len(cases):
                op, dtype, a, b = cases[at]
                for name, value in (("op", op), ("a", a), ("b", b), ("a_type", dtype), ("b_type", dtype),
                                    ("o_type", dtype)):
                    ctx.set(getattr(dut, name), int(value))
            await ctx.tick()
        for (op, dtype, a, b), word in zip(cases, got, strict=True):
            want = combine_words(op, np.array([a], np.uint32), np.array([b], np.uint32), a_type=dtype)[0]
            assert word == want, f"{op.name} of {dtype.name}: {a:08x} and {b:08x} gives {word:08x}, not {want:08x}"

    run_cell(dut, body)
