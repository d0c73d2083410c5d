# SPDX-License-Identifier: Apache-2.0
"""Quotients by NumPy and ml_dtypes; those of 16-bit floats are rounded from a quotient of sufficient precision."""

import numpy as np

from hw.ace.model.numerics import numpy_type
from hw.ace.numerics.formats import FLOATS

__all__ = ["quotients"]


def quotients(dtype, bits, divisors):
    """Bits of each element divided by its divisor; for 0, unchanged."""
    values, some = bits.view(numpy_type(dtype)), np.maximum(divisors, 1)
    if dtype in FLOATS:
        with np.errstate(all="ignore"):
            wide = values.astype(np.float32 if values.itemsize == 4 else np.float64)
            quotient = wide / some.astype(wide.dtype)
            if FLOATS[dtype].saturates:
                greatest = wide.dtype.type(bits.dtype.type([FLOATS[dtype].greatest]).view(values.dtype)[0])
                quotient = np.where(np.isinf(wide), np.copysign(greatest, wide), quotient)
            made = quotient.astype(values.dtype).view(bits.dtype)
        made = np.where(np.isnan(wide), bits.dtype.type(FLOATS[dtype].nan), made)
    else:
        wide = values.astype(np.int64)
        made = (np.sign(wide) * (np.abs(wide) // some)).astype(values.dtype).view(bits.dtype)
    return np.where(divisors == 0, bits, made)
