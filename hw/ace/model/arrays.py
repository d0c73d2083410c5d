# SPDX-License-Identifier: Apache-2.0
"""Types of the arrays that the golden model takes and returns."""

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Bits", "Values"]

Bits = npt.NDArray[np.unsignedinteger]
"""Elements as bits in memory."""

Values = npt.NDArray[Any]
"""Elements as numbers, of a type of NumPy or of ml_dtypes."""
