# SPDX-License-Identifier: Apache-2.0
"""Values of a graph's operations as arrays: those of NumPy, or of another library that shares memory with NumPy."""

from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from .tensor import Tensor

__all__ = ["NUMPY", "Conversion", "arranged", "shares"]


class Conversion(Protocol):
    """Conversions without copies."""

    def to_array(self, value: Any) -> npt.NDArray[Any]:
        """A tensor or number as an array, of its own memory where it has some."""

    def from_array(self, array: npt.NDArray[Any]) -> Any:
        """A tensor in the memory of an array."""


class _NumPy:
    def to_array(self, value: Any) -> npt.NDArray[Any]:
        return np.asarray(value)

    def from_array(self, array: npt.NDArray[Any]) -> Any:
        return array


NUMPY: Conversion = _NumPy()


def arranged(conversion: Conversion, tensor: Tensor, value: Any) -> Any:
    """A value in the tensor's order, without a copy if it is so already. Raises DmaceError for a value of another shape
    or type."""
    if tensor.scalar:
        return value
    array = conversion.to_array(value)
    tensor.check(array.shape, array.dtype)
    made = tensor.arrange(array)
    return value if made is array else conversion.from_array(made)


def shares(conversion: Conversion, value: Any, memory: npt.NDArray[np.uint8]) -> bool:
    """Whether a value, or a part of one that is a sequence, may be in that memory."""
    return any(np.may_share_memory(array, memory) for array in _arrays(conversion, value))


def _arrays(conversion: Conversion, value: Any) -> Iterator[npt.NDArray[Any]]:
    if isinstance(value, tuple | list):
        for part in value:
            yield from _arrays(conversion, part)
    elif hasattr(value, "shape"):
        yield conversion.to_array(value)
