# SPDX-License-Identifier: Apache-2.0
"""Strobes of a beat: its first and its last strobed byte, and the number of ranges of strobed bytes.

Latency: 0, combinational.  ``GroupLayout`` is half of the work, to be registered: three levels of choices of two for
groups of 8 strobes, then as many as are left for the beat.
"""

from collections.abc import Callable, Sequence
from functools import reduce
from itertools import pairwise
from typing import Any

from amaranth import *
from amaranth.lib import data

from ..config import PcieConfig

__all__ = ["StrobeSummary", "strobes_layout", "summarise"]

_GROUP = 8

GroupLayout = data.StructLayout({"any": 1, "first": 3, "last": 3, "start": 1, "starts": 1})
"""A group of strobes: first and last set one; whether ranges start here, one and more than one."""


def strobes_layout(config: PcieConfig) -> data.StructLayout:
    """Summary of a beat's strobes. A range that starts with the beat's first byte is no start in ``groups``.

    ``bottom``, ``top``: strobe of the beat's first and last byte.
    """
    return data.StructLayout({
        "groups": data.ArrayLayout(GroupLayout, config.beat_bytes // _GROUP), "bottom": 1, "top": 1})


def summarise(summary, strobes):
    """Assignments of ``summary``, a view of ``strobes_layout``, from a beat's strobes."""
    starts = [Const(0, 1), *(~before & strobe for before, strobe in pairwise(strobes))]
    for number, group in enumerate(summary.groups):
        part = slice(number * _GROUP, (number + 1) * _GROUP)
        ones = [(strobe, Const(0, 0)) for strobe in strobes[part]]
        yield group.any.eq(strobes[part].any())
        yield group.first.eq(_halved(ones, _first)[1])
        yield group.last.eq(_halved(ones, _last)[1])
        some, several = _halved([(start, Const(0, 1)) for start in starts[part]], _count)
        yield from (group.start.eq(some), group.starts.eq(several))
    yield from (summary.bottom.eq(strobes[0]), summary.top.eq(strobes[-1]))


class StrobeSummary:
    """Values of a beat from its registered summary.

    Parameters
    ----------
    summary : View
        Of ``strobes_layout``.
    """

    def __init__(self, summary: Any) -> None:
        groups = list(summary.groups)
        self.any = reduce(lambda one, other: one | other, (group.any for group in groups))
        self.first = _halved([(group.any, group.first) for group in groups], _first)[1]
        self.last = _halved([(group.any, group.last) for group in groups], _last)[1]
        self.start, self.starts = _halved([(group.start, group.starts) for group in groups], _count)


def _halved(parts: Sequence[tuple[Any, Any]], merge: Callable[..., tuple[Any, Any]]) -> tuple[Any, Any]:
    """Merge neighbours until one is left; their number is a power of two."""
    while len(parts) > 1:
        parts = [merge(*low, *high) for low, high in zip(parts[::2], parts[1::2], strict=True)]
    return parts[0]


def _first(low_any, low, high_any, high):
    return low_any | high_any, Cat(Mux(low_any, low, high), ~low_any) if len(low) else ~low_any


def _last(low_any, low, high_any, high):
    return low_any | high_any, Cat(Mux(high_any, high, low), high_any) if len(low) else high_any


def _count(low, low_several, high, high_several):
    return low | high, low_several | high_several | low & high
