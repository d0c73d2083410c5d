# SPDX-License-Identifier: Apache-2.0
"""A dimension of a communicator as one of its ranks sees it: ports, positions in a slot, blocks. Plain Python."""

from collections.abc import Container
from dataclasses import dataclass
from itertools import product
from math import prod

__all__ = ["Ring", "position_of"]


@dataclass(frozen=True)
class Ring:
    """A dimension of the communicator as one of its ranks sees it."""

    shape: tuple[int, ...]
    number: int
    coordinates: tuple[int, ...]
    dimension: int
    up: bool

    @property
    def size(self) -> int:
        return self.shape[self.number]

    @property
    def port(self) -> int:
        return 2 * self.dimension + (not self.up)

    @property
    def span(self) -> int:
        """Number of contiguous positions with equal coordinates in this and earlier dimensions."""
        return prod(self.shape[self.number + 1:])

    def at(self, hops: int) -> int:
        """Coordinate of the rank ``hops`` hops away in the direction of sending."""
        return (self.coordinates[self.number] + (hops if self.up else -hops)) % self.size

    def block(self, coordinate: int, own: Container[int] = ()) -> list[int]:
        """First positions of the runs that make up a block, restricted to positions whose coordinates in the dimensions
        ``own`` are the rank's."""
        choices = [[coordinate] if number == self.number else [self.coordinates[number]] if number in own
                   else range(self.shape[number]) for number in range(self.number + 1)]
        return [position_of(chosen, self.shape[:self.number + 1]) * self.span for chosen in product(*choices)]


def position_of(coordinates: tuple[int, ...], shape: tuple[int, ...]) -> int:
    """Rank at these coordinates, the last dimension's the fastest."""
    position = 0
    for coordinate, size in zip(coordinates, shape, strict=True):
        position = position * size + coordinate
    return position
