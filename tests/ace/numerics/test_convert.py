# SPDX-License-Identifier: Apache-2.0
"""Widen and Narrow alone; test_alu.py sends every 16-bit and 8-bit value, and values between them, through both."""

import math
import struct

import numpy as np
import pytest

from hw.ace.model.numerics import combine
from hw.ace.numerics.convert import Narrow, Widen
from hw.ace.numerics.formats import BYTE_FLOATS, FLOATS, DType, Op
from tests.ace.bench import stream_through
from tests.ace.numerics.operands import random_pairs, specials

LOWEST = {DType.FP32: 1, DType.FP16: 113, DType.BF16: 1, DType.E4M3: 121, DType.E5M2: 113}
"""The lowest exponent of each type's normal numbers, in FP32's encoding."""


def value(number, precision, bias=127):
    """Value of a finite unpacked number."""
    return (-1) ** number.sign * math.ldexp(number.significand, number.exponent - bias - (precision - 1))


def single(bits):
    return struct.unpack("<f", struct.pack("<I", int(bits)))[0]


@pytest.mark.parametrize("precision, mixed", [(24, True), (13, False)])
@pytest.mark.parametrize("dtype", LOWEST)
def test_widen(dtype, precision, mixed, seed):
    if dtype == DType.FP32 and not mixed:
        return
    corner, layout = specials(dtype), FLOATS[dtype]
    bits = np.concatenate([corner, random_pairs(np.random.default_rng(seed), dtype, 200)[0]])
    wide = combine(Op.MAX, bits, bits, a_type=dtype, o_type=DType.FP32)
    got = stream_through(Widen(precision=precision, mixed=mixed), [{"i": int(x), "dtype": dtype} for x in bits],
                         latency=0)
    for x, want, made in zip(bits.tolist(), wide, got, strict=True):
        magnitude = x & ~layout.sign
        assert made.sign == bool(x & layout.sign)
        assert (made.exponent == 255) == (magnitude >= layout.infinity)
        if made.exponent == 255:
            assert bool(made.significand & (1 << precision - 1) - 1) == bool(np.isnan(want.view(np.float32)))
            continue
        assert value(made, precision) == single(want)
        lowest = 1 if mixed else LOWEST[dtype]
        assert made.exponent == lowest or (made.exponent > lowest and made.significand >> precision - 1)


@pytest.mark.parametrize("dtype", [DType.FP16, DType.BF16, *BYTE_FLOATS])
def test_narrow(dtype, seed):
    bits = np.concatenate([specials(DType.FP32), random_pairs(np.random.default_rng(seed), DType.FP32, 200)[0],
                           # The end of FP16's range, and its subnormals.
                           np.arange(100 << 23, 145 << 23, (1 << 22) + 4097, dtype=np.uint32)])
    got = stream_through(Narrow(), [{"i": int(x), "dtype": dtype} for x in bits], latency=Narrow.LATENCY)
    want = combine(Op.MAX, bits, bits, a_type=DType.FP32, o_type=dtype)
    # FP8 is in the upper half.
    assert [one >> 8 for one in got] == want.tolist() if dtype in BYTE_FLOATS else got == want.tolist()
