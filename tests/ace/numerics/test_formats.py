import re

import pytest

from hw.ace.numerics.formats import (
    BYTE_FLOATS,
    FLOATS,
    OP_WIDTH,
    TYPE_WIDTH,
    DType,
    Op,
    check_types,
    elements,
    growth,
    width,
)


def test_codes_fit():
    assert max(DType) < 1 << TYPE_WIDTH and max(Op) < 1 << OP_WIDTH
    assert {dtype for dtype in DType if dtype & 8} == {DType.INT32, DType.INT8}
    assert {dtype for dtype in DType if dtype & 12 == 4} == set(BYTE_FLOATS)
    assert all(FLOATS[dtype].saturates == bool(dtype & 2) and FLOATS[dtype].finite == (not dtype & 1)
               for dtype in BYTE_FLOATS)


def test_widths():
    assert [width(dtype) for dtype in DType] == [32, 16, 16, 8, 8, 8, 8, 32, 8]
    assert [elements(*[dtype] * 3) for dtype in DType] == [1, 2, 2, 4, 4, 4, 4, 1, 4]
    assert [growth(dtype) for dtype in DType] == [0, 1, 1, 2, 2, 2, 2, 0, 0]
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
