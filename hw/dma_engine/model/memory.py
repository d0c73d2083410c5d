# SPDX-License-Identifier: Apache-2.0
"""The golden model's memory: sparse bytes, each defined or undefined."""

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from hw.common.sizes import PAGE_BYTES

__all__ = ["Memory"]


class Memory:
    """Sparse bytes at 64-bit addresses, each defined or undefined. Bytes never written read as 0."""

    def __init__(self) -> None:
        self._data: dict[int, bytearray] = {}
        self._undefined: dict[int, npt.NDArray[np.bool_]] = {}

    def _spans(self, address: int, length: int) -> Iterator[tuple[int, int, int, int]]:
        """``(page, first byte in it, bytes, position in the whole)`` of each page in a range."""
        position = 0
        while position < length:
            first = (address + position) % PAGE_BYTES
            size = min(PAGE_BYTES - first, length - position)
            yield address + position - first, first, size, position
            position += size

    def read(self, address: int, length: int) -> bytes:
        data = bytearray(length)
        for page, first, size, position in self._spans(address, length):
            if page in self._data:
                data[position:position + size] = self._data[page][first:first + size]
        return bytes(data)

    def undefined(self, address: int, length: int) -> npt.NDArray[np.bool_] | None:
        """Mask of the undefined bytes of a range, as a NumPy array of bool, or None if all are defined."""
        if not self._undefined:
            return None
        mask = np.zeros(length, dtype=bool)
        for page, first, size, position in self._spans(address, length):
            if page in self._undefined:
                mask[position:position + size] = self._undefined[page][first:first + size]
        return mask if mask.any() else None

    def gather(self, pieces: Sequence[tuple[int, int]]) -> tuple[bytes, npt.NDArray[np.bool_] | None]:
        """Concatenated bytes of ``(address, length)`` pieces, and the mask of the undefined ones."""
        data = b"".join(self.read(*piece) for piece in pieces)
        masks = [self.undefined(*piece) for piece in pieces]
        if all(mask is None for mask in masks):
            return data, None
        return data, np.concatenate([np.zeros(length, dtype=bool) if mask is None else mask
                                     for mask, (_, length) in zip(masks, pieces, strict=True)])

    def write(self, address: int, data: bytes, undefined: npt.NDArray[np.bool_] | None = None) -> None:
        """Store bytes; those that ``undefined`` marks become undefined, the others defined."""
        for page, first, size, position in self._spans(address, len(data)):
            if page not in self._data:
                self._data[page] = bytearray(PAGE_BYTES)
            self._data[page][first:first + size] = data[position:position + size]
            if undefined is not None and page not in self._undefined:
                self._undefined[page] = np.zeros(PAGE_BYTES, dtype=bool)
            if page in self._undefined:
                mask = False if undefined is None else undefined[position:position + size]
                self._undefined[page][first:first + size] = mask
                if not self._undefined[page].any():
                    del self._undefined[page]

    def discard(self, address: int, length: int) -> None:
        """Make a range undefined."""
        self.write(address, self.read(address, length), np.ones(length, dtype=bool))

    def pages(self) -> list[int]:
        """Addresses of all pages that were ever written."""
        return sorted(self._data)

    def differences(self, address: int, data: bytes) -> list[int]:
        """Addresses of the bytes in which ``data``, found at ``address``, differs from memory."""
        expected = np.frombuffer(self.read(address, len(data)), dtype=np.uint8)
        wrong = expected != np.frombuffer(bytes(data), dtype=np.uint8)
        undefined = self.undefined(address, len(data))
        if undefined is not None:
            wrong &= ~undefined
        return [address + int(position) for position in np.flatnonzero(wrong)]
