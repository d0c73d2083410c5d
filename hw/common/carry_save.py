# SPDX-License-Identifier: Apache-2.0
"""Carry-save addition: three terms with one carry chain.

Latency: combinational, one 3-input LUT before the adder.
"""

__all__ = ["carry_save"]


def carry_save(one, two, three):
    """Two values whose sum is that of the three; bit 0 of the second is 0 and may serve as a carry in."""
    return one ^ two ^ three, ((one & two) | (three & (one | two))) << 1
