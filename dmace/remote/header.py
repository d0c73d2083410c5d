# SPDX-License-Identifier: Apache-2.0
"""Fixed-size description of a tensor in memory: the metadata of dynamic allocation, and the header of a message."""

import struct
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt

from dmace.runtime.errors import DmaceError

from .tensor import DTYPES, MOST_DIMENSIONS, Shape, Tensor

__all__ = ["HEADER_BYTES", "Header"]

_FORMAT = struct.Struct(f"<QQQBB6x{MOST_DIMENSIONS}Q")

HEADER_BYTES = _FORMAT.size


class Header(NamedTuple):
    """Shape and type of a tensor, with up to three numbers.

    ======  ============================================================================================
    bytes   contents, little endian
    ======  ============================================================================================
    0, 8    ``offset``: of the payload in the sender's pool; or of a fragment in its tensor. ``length``: bytes of it
    16      ``number``: of the tensor, from 1 on
    24, 25  code of the type, number of dimensions; bytes 26 to 31 are 0
    32      8 sizes of 8 bytes; those beyond the dimensions are 0
    ======  ============================================================================================
    """

    offset: int
    length: int
    number: int
    code: int
    shape: Shape

    @classmethod
    def of(cls, tensor: Tensor, shape: Shape, *, offset: int, length: int, number: int) -> Self:
        return cls(offset, length, number, DTYPES.index(tensor.dtype), shape)

    def pack(self) -> bytes:
        sizes = (*self.shape, *[0] * (MOST_DIMENSIONS - len(self.shape)))
        return _FORMAT.pack(self.offset, self.length, self.number, self.code, len(self.shape), *sizes)

    @classmethod
    def unpack(cls, data: npt.NDArray[np.uint8]) -> Self:
        """Raises DmaceError for bytes that are no header."""
        offset, length, number, code, dimensions, *sizes = _FORMAT.unpack(data.tobytes())
        if code >= len(DTYPES) or dimensions > MOST_DIMENSIONS:
            raise DmaceError(f"A tensor's header must have one of {len(DTYPES)} types and at most {MOST_DIMENSIONS} "
                             f"dimensions, not type {code} and {dimensions} dimensions.")
        return cls(offset, length, number, code, tuple(sizes[:dimensions]))

    def check(self, tensor: Tensor, number: int) -> None:
        """Raise DmaceError unless it describes that tensor, with the expected number."""
        tensor.check(self.shape, DTYPES[self.code])
        if self.number != number:
            raise DmaceError(f"The header of tensor {tensor.name!r} must have the number {number}, not {self.number}.")
