# SPDX-License-Identifier: Apache-2.0
"""Rotation of a beat by double words: one level of LUT6 for each two bits of the amount."""

from amaranth import *

from hw.pcie.config import DWORD_BYTES

__all__ = ["DWORD_WIDTH", "rotated", "table"]

DWORD_WIDTH = 8 * DWORD_BYTES


def rotated(m: Module, beat: Value, amount: Value, *, name: str) -> Value:
    """``beat`` with the DW of position p at position p + ``amount``, modulo the positions of the beat."""
    for low in range(0, len(amount), 2):
        part = amount[low:low + 2]
        layer = Signal(len(beat), name=f"{name}_{low}")
        m.d.comb += layer.eq(Array(
            beat.rotate_left(DWORD_WIDTH * (step << low)) for step in range(1 << len(part)))[part])
        beat = layer
    return beat


def table(index: Value, values: list[int]) -> Value:
    """Constant number ``index`` of a list."""
    width = max(1, max(values).bit_length())
    return Array(C(value, width) for value in values)[index]
