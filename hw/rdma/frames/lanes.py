# SPDX-License-Identifier: Apache-2.0
"""Combinational helpers for byte lanes: bytes of numbers in network order, masks, rotation."""

from amaranth import *

__all__ = ["below", "by_lane", "bytes_of", "number_of", "rotated", "up_to"]


def bytes_of(value, count=None):
    """Bytes of a number of ``count`` bytes, in network order; the default is that of its width."""
    value = Value.cast(value)
    count = len(value) // 8 if count is None else count
    padded = Cat(value, C(0, 8 * count))[:8 * count]
    return [padded[8 * index:8 * index + 8] for index in reversed(range(count))]


def number_of(value, at, count):
    """The number whose ``count`` bytes in network order begin at byte ``at`` of ``value``."""
    return Cat(value[8 * index:8 * index + 8] for index in reversed(range(at, at + count)))


def below(count, lanes):
    """Mask of the lanes below ``count``."""
    return Cat(count > lane for lane in range(lanes))


def up_to(last, lanes):
    """Mask of the lanes up to ``last``, with it."""
    return Cat(last >= lane for lane in range(lanes))


def by_lane(m, lanes, one, other=0, *, name="spread"):
    """Bytes of ``one`` in the lanes whose bits are set, of ``other`` in those whose bits are not."""
    mask = Signal(8 * len(lanes), name=name)
    m.d.comb += mask.eq(Cat(lane.replicate(8) for lane in lanes))
    return (one & mask) | (other & ~mask)


def rotated(m, value, units, *, unit, right=False, name="turned"):
    """``value`` rotated to the left, or right, by a number of units of ``unit`` bits; radix 4: a LUT6 for two bits of
    ``units``.

    The number of units in ``value`` is a power of two; ``units`` has as many bits as such a number, or fewer.
    """
    for low in range(0, len(units), 2):
        turned = Signal(len(value), name=f"{name}_{low}")
        digit = units[low:low + 2]
        with m.Switch(digit):
            for number in range(1 << len(digit)):
                with m.Case(number):
                    distance = (number << low) * unit % len(value)
                    m.d.comb += turned.eq(value.rotate_right(distance) if right else value.rotate_left(distance))
        value = turned
    return value
