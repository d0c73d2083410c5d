"""Values of some cycles ago."""

from amaranth import *

__all__ = ["delayed"]


def delayed(m, value, cycles, *, name, reset_less=True):
    """``value`` of ``cycles`` cycles ago; without reset unless asked for, so that it can become shift-register LUTs."""
    for number in range(1, cycles + 1):
        later = Signal(value.shape(), name=f"{name}_{number}", reset_less=reset_less)
        m.d.sync += later.eq(value)
        value = later
    return value
