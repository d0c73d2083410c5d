# SPDX-License-Identifier: Apache-2.0
import re
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

from hw.ace.config import TINY
from hw.ace.numerics.formats import (
    BYTE_FLOATS,
    DTYPES,
    FLOATS,
    OP_WIDTH,
    TYPE_WIDTH,
    WORD_WIDTH,
    DType,
    Op,
    check_types,
    elements,
    growth,
    types,
    width,
)


def test_each_has_a_row():
    assert list(DTYPES) == list(DType)


@pytest.mark.parametrize("dtype", DType, ids=lambda dtype: dtype.name)
def test_layout_is_that_of_numpy(dtype):
    info, kind = dtype.info, np.dtype(dtype.info.numpy)
    assert info.bytes == kind.itemsize
    if not info.is_float:
        assert np.iinfo(kind).min == -1 << (info.bits - 1)
        return
    known, layout = ml_dtypes.finfo(kind), info.layout
    assert (known.nexp, known.nmant, known.bits) == (layout.exponent_width, layout.fraction_width, info.bits)
    greatest, nan = np.array([layout.greatest, layout.nan], f"u{info.bytes}").view(kind)
    assert greatest == known.max and np.isnan(nan)


@pytest.mark.parametrize("fp8", [False, True])
def test_options(fp8):
    left_out = set(DType) - set(types(replace(TINY, fp8=fp8)))
    assert left_out == (set() if fp8 else set(BYTE_FLOATS))


def test_types_of_two_bytes_can_be_widened():
    """The decoder relies on it."""
    assert all(dtype.info.widens for dtype in DType if dtype.info.bytes == 2)


def test_codes_fit():
    assert max(DType) < 1 << TYPE_WIDTH and max(Op) < 1 << OP_WIDTH
    assert all(bool(dtype & 8) != dtype.info.is_float for dtype in DType)
    assert {dtype for dtype in DType if dtype & 12 == 4} == set(BYTE_FLOATS)
    assert all(FLOATS[dtype].saturates == bool(dtype & 2) and FLOATS[dtype].finite == (not dtype & 1)
               for dtype in BYTE_FLOATS)


def test_widths():
    for dtype in DType:
        assert width(dtype) * elements(dtype, dtype, dtype) == WORD_WIDTH
        assert width(dtype) << growth(dtype) == (WORD_WIDTH if dtype.info.widens else width(dtype))
    assert [dtype for dtype in DType if growth(dtype)] == [dtype for dtype in FLOATS if dtype != DType.FP32]
    assert elements(DType.BF16, DType.FP32, DType.FP32) == elements(DType.BF16, DType.BF16, DType.FP32) == 1


@pytest.mark.parametrize("dtype", FLOATS)
def test_nan_is_positive_and_quiet(dtype):
    layout = FLOATS[dtype]
    assert layout.nan == layout.infinity | 1 << (layout.fraction_width - 1)
    assert layout.nan & layout.sign == 0


@pytest.mark.parametrize("types, message", [
    ((DType.FP32, DType.INT32, DType.FP32),
     "Types of operands and result must be equal unless all are floating-point, not FP32, INT32 and FP32"),
    ((DType.INT8, DType.INT8, DType.INT32),
     "Types of operands and result must be equal unless all are floating-point, not INT8, INT8 and INT32"),
    ((DType.FP32, 0, DType.FP32), "An element type must be a DType, not 0"),
])
def test_wrong_types(types, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        check_types(*types)
