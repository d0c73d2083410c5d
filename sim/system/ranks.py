# SPDX-License-Identifier: Apache-2.0
"""Ranks of a torus: coordinates, neighbours, groups, and the ranks that represent those that do the same."""

from collections.abc import Collection, Iterable
from functools import cache
from itertools import product
from math import prod

from hw.errors import UserError

from .configuration import MachineConfig

__all__ = ["Ranks"]


class Ranks:
    """
    Parameters
    ----------
    config : MachineConfig
        With ``fold``, ranks whose coordinates are equal in ``distinct`` do the same. One of them, whose other
        coordinates are 0, represents them. Without ``fold`` each represents itself.

    Attributes
    ----------
    representatives : tuple of int
        Ranks that are simulated, in ascending order.
    """

    def __init__(self, config: MachineConfig) -> None:
        self._config, self.shape = config, config.shape
        self._strides = [prod(self.shape[dimension + 1:]) for dimension in range(len(self.shape))]
        self._kept = [not config.fold or dimension in config.distinct for dimension in range(len(self.shape))]
        self.representatives = tuple(self._number(at) for at in product(
            *(range(size) if kept else range(1) for size, kept in zip(self.shape, self._kept, strict=True))))
        self._places = {rank: place for place, rank in enumerate(self.representatives)}
        self._members, self._closure = cache(self._find_members), cache(self._find_closure)

    def coordinates(self, rank: int, dimensions: Iterable[int]) -> tuple[int, ...]:
        """Coordinates of a rank in these dimensions."""
        return tuple(rank // self._strides[dimension] % self.shape[dimension] for dimension in dimensions)

    def representative(self, rank: int) -> int:
        """The rank that is simulated for this one."""
        self.check(rank)
        every = self.coordinates(rank, range(len(self.shape)))
        return self._number(at if kept else 0 for at, kept in zip(every, self._kept, strict=True))

    def place(self, rank: int) -> int:
        """Position of a rank's representative in ``representatives``."""
        if rank not in self._places:
            rank = self.representative(rank)
        return self._places[rank]

    def neighbour(self, rank: int, port: int) -> int:
        """Representative of the rank at the other end of a port's link: port ``2 d`` is on the side of rising
        coordinates of dimension d."""
        every = list(self.coordinates(rank, range(len(self.shape))))
        every[port // 2] = (every[port // 2] + (-1 if port % 2 else 1)) % self.shape[port // 2]
        return self.representative(self._number(every))

    def check(self, rank: int) -> None:
        """Raise :class:`UserError` if there is no such rank."""
        if not 0 <= rank < self._config.ranks:
            raise UserError(f"There are ranks 0 to {self._config.ranks - 1}, not {rank!r}.")

    def members(self, dimensions: tuple[int, ...], ranks: Iterable[int] | None) -> Collection[int]:
        """Representatives of ``ranks``, or all, for a collective along these dimensions. The same object for the same
        ranks.

        Raises
        ------
        UserError
            If not all of a group, or not all ranks that do the same, are among ``ranks``.
        """
        return self._members(dimensions, None if ranks is None else tuple(ranks))

    def _find_members(self, dimensions: tuple[int, ...], ranks: tuple[int, ...] | None) -> Collection[int]:
        every: Collection[int] = self.representatives
        if len(every) == self._config.ranks:
            every = range(self._config.ranks)
        if ranks is None:
            return every
        chosen = set(ranks)
        for rank in sorted(chosen):
            self.check(rank)
            if (other := self._missing(rank, dimensions, chosen)) is not None:
                raise UserError(f"Rank {rank} cannot take part without rank {other}, which is of its group.")
            folded = tuple(number for number, kept in enumerate(self._kept) if not kept)
            if (other := self._missing(rank, folded, chosen)) is not None:
                raise UserError(f"Rank {rank} cannot take part without rank {other}, which does the same on this "
                                "folded machine; fold=False simulates each rank.")
        made = tuple(sorted({self.representative(rank) for rank in chosen}))
        return every if len(made) == len(every) else made

    def _missing(self, rank: int, dimensions: tuple[int, ...], chosen: set[int]) -> int | None:
        """The first rank that is equal to ``rank`` in all other dimensions, but not chosen."""
        every = list(self.coordinates(rank, range(len(self.shape))))
        for inside in product(*(range(self.shape[dimension]) for dimension in dimensions)):
            for dimension, at in zip(dimensions, inside, strict=True):
                every[dimension] = at
            if (other := self._number(every)) not in chosen:
                return other
        return None

    def closure(self, rank: int, dimensions: tuple[int, ...]) -> tuple[int, ...]:
        """All ranks of the group of a rank along these dimensions, and all ranks that do the same as those, in
        ascending order."""
        return self._closure(rank, dimensions)

    def _find_closure(self, rank: int, dimensions: tuple[int, ...]) -> tuple[int, ...]:
        self.check(rank)
        at = self.coordinates(rank, range(len(self.shape)))
        return tuple(self._number(one) for one in product(*(
            range(size) if number in dimensions or not kept else (at[number],)
            for number, (size, kept) in enumerate(zip(self.shape, self._kept, strict=True)))))

    def dimensions(self, ranks: Iterable[int]) -> tuple[int, ...]:
        """Dimensions along which a list of ranks is a whole ring or torus.

        Raises
        ------
        UserError
            If it is none.
        """
        chosen = set(ranks)
        for rank in chosen:
            self.check(rank)
        if not chosen:
            raise UserError("A group must have 1 rank or more, not none.")
        first = min(chosen)
        found = tuple(
            number for number, size in enumerate(self.shape)
            if size > 1 and len({self.coordinates(rank, (number,)) for rank in chosen}) == size)
        if len(chosen) != prod(self.shape[number] for number in found) or \
                self._missing(first, found, chosen) is not None:
            shape = "x".join(map(str, self.shape))
            raise UserError(f"The ranks {', '.join(map(str, sorted(chosen)))} are no group that can be run: it must be "
                            f"all ranks of {shape} along some of its dimensions. Choose a shape in which they are.")
        return found

    def _number(self, coordinates: Iterable[int]) -> int:
        return sum(at * stride for at, stride in zip(coordinates, self._strides, strict=True))
