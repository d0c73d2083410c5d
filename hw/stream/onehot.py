# SPDX-License-Identifier: Apache-2.0
"""One-hot numbers: the value that one chooses, as an OR of ANDs, and its index.

Combinational. :func:`selected` has 2 levels of 6-input LUTs for up to 18 values, where a chain of conditional
assignments takes a level for each one or two.
"""

from collections.abc import Iterable, Sequence
from functools import reduce
from operator import or_

from amaranth import *
from amaranth.lib import data

from hw.stream.shapes import ShapeLike

__all__ = ["index_of", "selected"]


def selected(shape: ShapeLike, onehot: Iterable[Value], values: Iterable[Value | data.View]) -> Value | data.View:
    """The value whose bit is set; all zeros if none is.

    Parameters
    ----------
    shape : shape-like
        Shape of each value, and of the result: a view for a layout.
    onehot : iterable of Value
        A bit for each value.
    values : iterable of value-like

    Raises
    ------
    ValueError
        If there are not as many bits as values, or none.
    """
    width, bits, choices = Shape.cast(shape).width, list(onehot), list(values)
    if len(bits) != len(choices) or not bits:
        raise ValueError(f"selected() needs a bit for each of one value or more, not {len(bits)} for {len(choices)}")
    terms = [Mux(one, Value.cast(value), 0)[:width] for one, value in zip(bits, choices, strict=True)]
    # Groups that are a LUT each: of 3 terms, then of 6 results.
    group = 3
    while len(terms) > 1:
        terms = [reduce(or_, terms[at:at + group]) for at in range(0, len(terms), group)]
        group = 6
    found = Const(0, width) | terms[0]
    return data.View(shape, found[:width]) if isinstance(shape, data.Layout) else found[:width]


def index_of(onehot: Value | Sequence[Value], width: int) -> Value:
    """Index of the only bit that is set, in ``width`` bits; 0 if none is. Bits should be those of a signal: each is
    used up to ``width`` times."""
    return Cat(Cat(onehot[index] for index in range(len(onehot)) if index >> bit & 1).any() for bit in range(width))
