"""Three terms by one adder.

Latency: combinational, one 3-input LUT before the adder.
"""

__all__ = ["carry_save"]


def carry_save(one, two, three):
    """Two values with the sum of three; the second one is even, so that 1 may be ORed to it."""
    return one ^ two ^ three, ((one & two) | (three & (one | two))) << 1
