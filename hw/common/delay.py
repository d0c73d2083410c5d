# SPDX-License-Identifier: Apache-2.0
"""Delay lines in flip-flops or LUT RAM."""

from typing import Any

from amaranth import *

from hw.common.table import Table

__all__ = ["delayed", "stored"]


def delayed(m: Module, value: Any, cycles: int, *, name: str, reset_less: bool = True) -> Any:
    """``value`` delayed by ``cycles`` cycles; without reset it can become shift-register LUTs."""
    for number in range(1, cycles + 1):
        later = Signal(value.shape(), name=f"{name}_{number}", reset_less=reset_less)
        m.d.sync += later.eq(value)
        value = later
    return value


def stored(m: Module, value: Any, cycles: int, *, name: str) -> Any:
    """``value`` delayed by ``cycles`` cycles, at least 2, in LUT RAM, for FPGAs without shift-register LUTs."""
    depth = 1 << (cycles - 1).bit_length()
    m.submodules[f"{name}_rows"] = rows = Table(value.shape(), depth=depth, reads=1, init=None)
    into, out = Signal(range(depth), init=cycles - 1, name=f"{name}_into"), Signal(range(depth), name=f"{name}_out")
    later = Signal(value.shape(), name=name, reset_less=True)
    m.d.sync += [into.eq(into + 1), out.eq(out + 1), later.eq(rows.read[0].data)]
    m.d.comb += [rows.write.en.eq(1), rows.write.addr.eq(into), rows.write.data.eq(value), rows.read[0].addr.eq(out)]
    return later
