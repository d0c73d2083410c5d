# SPDX-License-Identifier: Apache-2.0
"""Golden model of a lane: results of operations on two elements, bit by bit, by NumPy and ml_dtypes.

Operands and results are the bits in memory, in arrays of unsigned integers. It shares ``formats`` with the
hardware and nothing else.
"""

from typing import Any

import ml_dtypes  # noqa: F401  It registers its types with NumPy.
import numpy as np
import numpy.typing as npt

from hw.ace.numerics.formats import BYTE_FLOATS, FLOATS, DType, Op, check_types, width

from .arrays import Bits, Values

__all__ = ["combine", "combine_words", "element_type", "numpy_type", "rounded"]

_NUMPY = {dtype: np.dtype(dtype.info.numpy) for dtype in DType}


def numpy_type(dtype: DType) -> np.dtype[Any]:
    """NumPy's type of a :class:`DType`."""
    return _NUMPY[dtype]


def element_type(kind: np.dtype[Any]) -> DType | None:
    """The first :class:`DType` that is NumPy's ``kind``, or None."""
    return next((dtype for dtype, known in _NUMPY.items() if known == kind), None)


def combine(op: Op, a: Bits, b: Bits, *, a_type: DType, b_type: DType | None = None,
            o_type: DType | None = None) -> Bits:
    """Bits of the result for each pair of elements.

    Parameters
    ----------
    op : Op
        The operation.
    a, b : arrays of unsigned integers
        Elements as bits.
    a_type, b_type, o_type : DType
        Types of the operands and of the result; by default the same as the first.
    """
    b_type, o_type = a_type if b_type is None else b_type, a_type if o_type is None else o_type
    check_types(a_type, b_type, o_type)
    x, y = _values(a, a_type), _values(b, b_type)
    if o_type not in FLOATS:
        return _bits({Op.SUM: np.add, Op.MIN: np.minimum, Op.MAX: np.maximum, Op.PROD: np.multiply}[op](x, y), o_type)
    with np.errstate(all="ignore"):
        if not a_type == b_type == o_type or o_type in BYTE_FLOATS:
            x, y = x.astype(np.float32), y.astype(np.float32)
        result = x + y if op == Op.SUM else x * y if op == Op.PROD else _least_or_greatest(op, x, y)
    return rounded(result, o_type)


def rounded(values: Values, dtype: DType) -> Bits:
    """Bits of floating-point values, rounded to ``dtype``: NaNs canonical, and within its range if it saturates."""
    layout = FLOATS[dtype]
    with np.errstate(all="ignore"):
        if layout.saturates:
            greatest = _values([layout.greatest], dtype).astype(values.dtype)
            values = np.clip(values, -greatest, greatest)
        result = values.astype(_NUMPY[dtype])
        nan = np.isnan(result)
    return np.where(nan, np.array(layout.nan, _unsigned(dtype)), _bits(result, dtype))


def combine_words(op: Op, a: Bits, b: Bits, *, a_type: DType, b_type: DType | None = None,
                  o_type: DType | None = None) -> npt.NDArray[np.uint32]:
    """As :func:`combine`, for 32-bit words of as many elements as a lane takes."""
    b_type, o_type = a_type if b_type is None else b_type, a_type if o_type is None else o_type
    check_types(a_type, b_type, o_type)
    if a_type == b_type == o_type:
        whole = _unsigned(o_type)
        made = combine(op, np.ascontiguousarray(a, np.uint32).view(whole),
                       np.ascontiguousarray(b, np.uint32).view(whole), a_type=a_type)
        return made.view(np.uint32)
    made = combine(op, _low(a, a_type), _low(b, b_type), a_type=a_type, b_type=b_type, o_type=o_type)
    return made.astype(np.uint32)


def _least_or_greatest(op: Op, x: Values, y: Values) -> Values:
    """NumPy propagates NaNs; of two zeros it returns either, so the result depends on their signs here."""
    function, sign = (np.minimum, np.logical_or) if op == Op.MIN else (np.maximum, np.logical_and)
    zeros = (x == 0) & (y == 0)
    zero = np.where(sign(np.signbit(x), np.signbit(y)), -0.0, 0.0).astype(x.dtype)
    return np.where(zeros, zero, function(x, y))


def _unsigned(dtype: DType) -> np.dtype[np.unsignedinteger]:
    return np.dtype(f"u{width(dtype) // 8}")


def _values(bits: npt.ArrayLike, dtype: DType) -> Values:
    return np.ascontiguousarray(bits, _unsigned(dtype)).view(_NUMPY[dtype])


def _bits(values: Values, dtype: DType) -> Bits:
    return values.view(_unsigned(dtype))


def _low(words: Bits, dtype: DType) -> Bits:
    return (np.asarray(words, np.uint32) & ((1 << width(dtype)) - 1)).astype(_unsigned(dtype))
