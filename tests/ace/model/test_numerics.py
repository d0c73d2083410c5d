# SPDX-License-Identifier: Apache-2.0
"""The golden model against exact fractions and against results written out by hand."""

from fractions import Fraction

import numpy as np
import pytest

from hw.ace.model.numerics import combine, combine_words, numpy_type
from hw.ace.numerics.formats import BYTE_FLOATS, FLOATS, DType, Op
from tests.ace.numerics.operands import all_pairs, random_pairs, specials


def exact(bits, layout):
    """Value of a finite number."""
    exponent = bits >> layout.fraction_width & (1 << layout.exponent_width) - 1
    significand = bits & (1 << layout.fraction_width) - 1 | bool(exponent) << layout.fraction_width
    value = Fraction(2) ** (max(exponent, 1) - layout.bias - layout.fraction_width) * significand
    return -value if bits & layout.sign else value


def rounded(value, layout):
    """Bits nearest to a value that is not zero; in a tie, the even one."""
    # Bits of finite numbers of one sign are in the order of their values, followed by infinity.
    low, high = 0, layout.infinity
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if exact(middle, layout) <= abs(value) else (low, middle)
    # Infinity stands for the next power of two.
    below, above = abs(value) - exact(low, layout), exact(high, layout) - abs(value)
    bits = low if below < above or (below == above and low % 2 == 0) else high
    return bits | (layout.sign if value < 0 else 0)


def limited(bits, layout):
    """Result of a value that may be beyond the greatest number."""
    if bits & ~layout.sign != layout.infinity:
        return bits
    return bits - 1 if layout.saturates else layout.nan if layout.finite else bits


@pytest.mark.parametrize("dtype", BYTE_FLOATS)
def test_fp8_sums_are_those_of_ml_dtypes(dtype):
    """All pairs: as ml_dtypes adds them, or their exact sum of 64 bits, saturated and rounded once."""
    layout, kind = FLOATS[dtype], numpy_type(dtype)
    a, b = all_pairs(np.arange(256, dtype=np.uint8))
    with np.errstate(all="ignore"):
        total = a.view(kind).astype(np.float64) + b.view(kind).astype(np.float64)
        if layout.saturates:
            greatest = float(np.uint8([layout.greatest]).view(kind)[0])
            total = np.where(np.isnan(total), total, np.sign(total) * np.minimum(np.abs(total), greatest))
            total = np.where(total == 0, a.view(kind).astype(np.float64) + b.view(kind).astype(np.float64), total)
        want = total.astype(kind) if layout.saturates else a.view(kind) + b.view(kind)
    want = np.where(np.isnan(want), np.uint8(layout.nan), want.view(np.uint8))
    assert np.array_equal(combine(Op.SUM, a, b, a_type=dtype), want)


@pytest.mark.parametrize("dtype", FLOATS)
def test_sums_are_those_of_fractions(dtype, seed):
    layout = FLOATS[dtype]
    rng = np.random.default_rng([seed, dtype])
    corner = np.stack(all_pairs(specials(dtype)))
    corner = corner[:, rng.choice(corner.shape[1], 1500, replace=False)]
    a, b = (np.concatenate(both) for both in zip(random_pairs(rng, dtype, 1500), corner, strict=True))
    got = combine(Op.SUM, a, b, a_type=dtype)
    for x, y, made in zip(a.tolist(), b.tolist(), got.tolist(), strict=True):
        if any(bits & ~layout.sign >= layout.infinity for bits in (x, y)):
            continue
        total = exact(x, layout) + exact(y, layout)
        if total:
            assert made == limited(rounded(total, layout), layout), f"{x:x} + {y:x}"
        else:
            assert made == (layout.sign if x == y == layout.sign else 0), f"{x:x} + {y:x}"


WRITTEN = [
    (DType.FP32, Op.SUM, 0x3F800000, 0x33800000, 0x3F800000),       # 1 + 2**-24: a tie, to even
    (DType.FP32, Op.SUM, 0x3F800001, 0x33800000, 0x3F800002),       # the next one: a tie, to even
    (DType.FP32, Op.SUM, 0x3F800000, 0x33800001, 0x3F800001),       # more than a tie
    (DType.FP32, Op.SUM, 0x00800000, 0x80000001, 0x007FFFFF),       # least normal - least subnormal
    (DType.FP32, Op.SUM, 0x7F7FFFFF, 0x73000000, 0x7F800000),       # half a unit beyond the greatest
    (DType.FP32, Op.SUM, 0x7F7FFFFF, 0x72FFFFFF, 0x7F7FFFFF),
    (DType.FP32, Op.SUM, 0x3F800000, 0xBF800000, 0x00000000),       # 1 - 1
    (DType.FP32, Op.SUM, 0x80000000, 0x80000000, 0x80000000),
    (DType.FP32, Op.SUM, 0x7F800000, 0xFF800000, 0x7FC00000),       # infinity - infinity
    (DType.FP32, Op.SUM, 0xFF800000, 0x7F7FFFFF, 0xFF800000),
    (DType.FP32, Op.SUM, 0xFF800001, 0x3F800000, 0x7FC00000),       # signalling NaN
    (DType.FP16, Op.SUM, 0x7BFF, 0x4C00, 0x7C00),                   # 65504 + 16
    (DType.FP16, Op.SUM, 0x7C00, 0xFC00, 0x7E00),
    (DType.FP16, Op.SUM, 0x0001, 0x0001, 0x0002),
    (DType.BF16, Op.SUM, 0x3F80, 0x3B80, 0x3F80),                   # 1 + 2**-8: a tie, to even
    (DType.BF16, Op.SUM, 0xFFC1, 0x0000, 0x7FC0),
    (DType.FP32, Op.MIN, 0x00000000, 0x80000000, 0x80000000),
    (DType.FP32, Op.MAX, 0x80000000, 0x00000000, 0x00000000),
    (DType.FP32, Op.MAX, 0x80000000, 0x80000000, 0x80000000),
    (DType.FP16, Op.MIN, 0xFE01, 0xFC00, 0x7E00),
    (DType.BF16, Op.MAX, 0x7F80, 0x7F81, 0x7FC0),
    (DType.BF16, Op.MIN, 0xFF80, 0x7F80, 0xFF80),
    (DType.E4M3, Op.SUM, 0x7E, 0x58, 0x7E),                         # 448 + 16: a tie, to even
    (DType.E4M3, Op.SUM, 0xFE, 0xD9, 0x7F),                         # -448 - 18: beyond the greatest
    (DType.E4M3_SAT, Op.SUM, 0xFE, 0xD9, 0xFE),
    (DType.E4M3_SAT, Op.SUM, 0xFF, 0x00, 0x7F),
    (DType.E4M3, Op.SUM, 0x08, 0x81, 0x07),                         # least normal - least subnormal
    (DType.E5M2, Op.SUM, 0x7B, 0x6C, 0x7C),                         # 57344 + 4096: a tie, to even
    (DType.E5M2, Op.SUM, 0xFB, 0xEB, 0xFB),                         # and less than a tie
    (DType.E5M2_SAT, Op.SUM, 0x7B, 0x7B, 0x7B),
    (DType.E5M2_SAT, Op.SUM, 0x7C, 0x00, 0x7B),
    (DType.E5M2_SAT, Op.SUM, 0x7C, 0xFC, 0x7E),                     # infinity - infinity
    (DType.E5M2_SAT, Op.MIN, 0xFC, 0x00, 0xFB),
    (DType.E4M3, Op.MAX, 0x7F, 0x7E, 0x7F),
    (DType.E5M2, Op.MAX, 0x80, 0x00, 0x00),
    (DType.INT32, Op.SUM, 0x7FFFFFFF, 1, 0x80000000),
    (DType.INT32, Op.MIN, 0x7FFFFFFF, 0x80000000, 0x80000000),
    (DType.INT8, Op.SUM, 0x80, 0xFF, 0x7F),
    (DType.INT8, Op.MAX, 0x80, 0x7F, 0x7F),
]


@pytest.mark.parametrize("dtype, op, a, b, o", WRITTEN)
def test_written_out(dtype, op, a, b, o):
    assert [combine(op, [x], [y], a_type=dtype).tolist() for x, y in ((a, b), (b, a))] == [[o], [o]]


def test_words():
    assert combine_words(Op.SUM, [0x7F010203], [0x01FF0101], a_type=DType.INT8).tolist() == [0x80000304]
    assert combine_words(Op.SUM, [0x3F803F80], [0x40003F80], a_type=DType.BF16).tolist() == [0x40404000]
    # Types that differ: one element; the bits above it are ignored.
    assert combine_words(Op.SUM, [0xDEAD3F80], [0x40000000], a_type=DType.BF16, b_type=DType.FP32,
                         o_type=DType.FP32).tolist() == [0x40400000]
    assert combine_words(Op.MAX, [0x3F800000], [0xFFFF3C00], a_type=DType.FP32, b_type=DType.FP16,
                         o_type=DType.BF16).tolist() == [0x3F80]
