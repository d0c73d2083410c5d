# SPDX-License-Identifier: Apache-2.0
"""Descriptions of tensors: what is known of shape, type and memory order before a step."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from dmace.runtime.errors import DmaceError
from hw.common.sizes import is_integer

__all__ = ["DTYPES", "MOST_DIMENSIONS", "Shape", "Tensor"]

MOST_DIMENSIONS = 8

Shape = tuple[int, ...]

DTYPES: tuple[np.dtype[Any], ...] = (*map(np.dtype, (
    "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "float16", "float32", "float64",
    "complex64", "complex128", "bool")), np.dtype(ml_dtypes.bfloat16))
"""Element types; a type's position is its code in messages."""


@dataclass(frozen=True)
class Tensor:
    """A tensor of a graph.

    Parameters
    ----------
    name : str
    shape : tuple of int or None
        None for a size that may differ from step to step. At most 8 dimensions.
    dtype : data type of NumPy
    order : tuple of int, optional
        Dimensions in memory, the outermost first; by default C order.
    scalar : bool
        Its values are Python numbers; it has no dimensions.
    """

    name: str
    shape: tuple[int | None, ...]
    dtype: np.dtype[Any]
    order: tuple[int, ...] = ()
    scalar: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "dtype", np.dtype(self.dtype))
        object.__setattr__(self, "shape", tuple(self.shape))
        object.__setattr__(self, "order", tuple(self.order) or tuple(range(len(self.shape))))
        if self.dtype not in DTYPES:
            raise DmaceError(f"Tensor {self.name!r} must have elements of one of the types "
                             f"{', '.join(map(str, DTYPES))}, not {self.dtype}.")
        if len(self.shape) > MOST_DIMENSIONS:
            raise DmaceError(f"Tensor {self.name!r} must have at most {MOST_DIMENSIONS} dimensions, "
                             f"not {len(self.shape)}.")
        for size in self.shape:
            if size is not None and not is_integer(size, 0, (1 << 63) - 1):
                raise DmaceError(f"A size of tensor {self.name!r} must be an integer of 0 or more, or None, "
                                 f"not {size!r}.")
        if sorted(self.order) != list(range(len(self.shape))):
            raise DmaceError(f"The order of tensor {self.name!r} must name each of its {len(self.shape)} dimensions "
                             f"once, not {self.order!r}.")

    @property
    def known(self) -> Shape | None:
        """The shape, if all of it is known before the step."""
        sizes = tuple(size for size in self.shape if size is not None)
        return sizes if len(sizes) == len(self.shape) else None

    def count(self, shape: Sequence[int]) -> int:
        """Bytes of a tensor of this type with that shape."""
        return prod(shape) * self.dtype.itemsize

    def check(self, shape: Sequence[int], dtype: npt.DTypeLike | None = None) -> None:
        """Raise DmaceError for a shape or type that contradicts the description."""
        fits = len(shape) == len(self.shape) and all(
            is_integer(size, 0, (1 << 63) - 1) and known in (None, size)
            for size, known in zip(shape, self.shape, strict=True))
        if not fits:
            wanted = ", ".join("any" if size is None else str(size) for size in self.shape)
            raise DmaceError(f"Tensor {self.name!r} must have the shape ({wanted}), not {tuple(shape)!r}.")
        if dtype is not None and np.dtype(dtype) != self.dtype:
            raise DmaceError(f"Tensor {self.name!r} must have elements of type {self.dtype}, not {np.dtype(dtype)}.")

    def view(self, memory: npt.NDArray[np.uint8], shape: Sequence[int]) -> npt.NDArray[Any]:
        """Bytes of a memory, as many as the tensor has, as an array of that shape in the tensor's order."""
        stored = memory.view(self.dtype).reshape([shape[dimension] for dimension in self.order])
        return stored.transpose(np.argsort(self.order)) if self.order else stored

    def arrange(self, value: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The array in the tensor's order, without a copy if it is so already."""
        if value.transpose(self.order).flags.c_contiguous:
            return value
        made = self.view(np.empty(value.nbytes, np.uint8), value.shape)
        made[...] = value
        return made
