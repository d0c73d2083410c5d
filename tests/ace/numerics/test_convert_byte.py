# SPDX-License-Identifier: Apache-2.0
"""The FP8 converters alone, with every number; test_alu.py sends all pairs through both and an adder."""

import numpy as np
import pytest

from hw.ace.model.numerics import combine, numpy_type
from hw.ace.numerics.convert_byte import NarrowByte, WidenByte
from hw.ace.numerics.formats import BYTE_FLOATS, FLOATS, DType, Op
from tests.ace.bench import stream_through
from tests.ace.numerics.test_convert import value

PRECISION = 6


@pytest.mark.parametrize("dtype", BYTE_FLOATS)
def test_widen_byte(dtype):
    layout, every = FLOATS[dtype], np.arange(256, dtype=np.uint8)
    lowest = 9 if layout.finite else 1
    got = stream_through(WidenByte(precision=PRECISION), [{"i": int(x), "dtype": dtype} for x in every], latency=0)
    for bits, want, made in zip(every.tolist(), every.view(numpy_type(dtype)).astype(float), got, strict=True):
        assert made.sign == bits >> 7
        assert (made.exponent == 31) == (not np.isfinite(want))
        if made.exponent == 31:
            assert bool(made.significand & (1 << PRECISION - 1) - 1) == np.isnan(want)
            continue
        assert value(made, PRECISION, bias=15) == want
        assert made.exponent == lowest or (made.exponent > lowest and made.significand >> PRECISION - 1)


@pytest.mark.parametrize("dtype", BYTE_FLOATS)
def test_narrow_byte(dtype):
    """All numbers. Those of the lowest exponent have no leading bit, as in FP16."""
    every = np.arange(1 << PRECISION + 5, dtype=np.uint32)
    got = stream_through(NarrowByte(precision=PRECISION), [{"i": int(x), "dtype": dtype} for x in every],
                         latency=NarrowByte.LATENCY)
    half = (every << (16 - PRECISION - 5)).astype(np.uint16)
    want = combine(Op.MAX, half, half, a_type=DType.FP16, o_type=dtype)
    assert got == want.tolist()
