# SPDX-License-Identifier: Apache-2.0
"""Groups of ranks on a torus: whether they are rings or tori of it, and on which shapes they are."""

from collections.abc import Iterable, Iterator, Sequence
from math import prod

__all__ = ["fitting", "is_torus"]

MOST_DIMENSIONS = 4


def is_torus(ranks: Iterable[int], shape: Sequence[int]) -> bool:
    """Whether these ranks are all that a rank reaches along some of the dimensions; the last dimension counts rank by
    rank, as in :mod:`sim.system.machine`."""
    chosen = set(ranks)
    coordinates: list[set[int]] = []
    for number, size in enumerate(shape):
        stride = prod(shape[number + 1:])
        coordinates.append({rank // stride % size for rank in chosen})
    if any(len(its) not in (1, size) for its, size in zip(coordinates, shape, strict=True)):
        return False
    return len(chosen) == prod(map(len, coordinates))


def fitting(groups: Iterable[Sequence[int]], count: int) -> tuple[int, ...] | None:
    """A shape of ``count`` ranks, with as few dimensions as possible, on which all groups are rings or tori; None if
    there is none of up to four dimensions."""
    every = [tuple(one) for one in groups]
    for most in range(1, MOST_DIMENSIONS + 1):
        for shape in _factors(count, most):
            if all(is_torus(one, shape) for one in every):
                return shape
    return None


def _factors(count: int, most: int) -> Iterator[tuple[int, ...]]:
    """All shapes of ``count`` ranks of exactly this number of dimensions of two or more."""
    if most == 1:
        if count > 1:
            yield count,
        return
    for first in range(2, count // 2 + 1):
        if count % first == 0:
            yield from ((first, *rest) for rest in _factors(count // first, most - 1))
