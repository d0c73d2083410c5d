# SPDX-License-Identifier: Apache-2.0
"""Native words of a transfer that may be longer than the length field of one."""

from hw.dma_engine.words import NativeWord

__all__ = ["PIECE_BYTES", "copies"]

PIECE_BYTES = (1 << 28) - 4096
"""Bytes of each word of a long transfer but the last: a multiple of 4096, so that all pieces have one alignment."""


def copies(source: tuple[int, int], destination: tuple[int, int], length: int,
           piece: int = PIECE_BYTES) -> list[NativeWord]:
    """Words that copy ``length`` bytes between ``(region, offset)`` pairs, none for 0 bytes."""
    return [NativeWord.copy(src=(source[0], source[1] + first), dst=(destination[0], destination[1] + first),
                            length=min(piece, length - first), flags=0)
            for first in range(0, length, piece)]
