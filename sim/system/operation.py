# SPDX-License-Identifier: Apache-2.0
"""A collective that was issued: how it is cut into chunks, and how far each rank is."""

from collections import deque
from collections.abc import Callable, Collection, Iterable
from math import prod
from typing import Protocol

from hw.ace.collectives import Collective
from hw.ace.config import COLUMN_BYTES
from hw.ace.programs.program import Program
from hw.ace.programs.schedule import role_of

from .coarse import cut
from .configuration import MachineConfig
from .routes import Route, piece_bytes

__all__ = ["Operation", "directions", "parts_of"]


class _Machine(Protocol):
    """The part of the machine that operations use."""

    config: MachineConfig

    def coordinates(self, rank: int, dimensions: Iterable[int]) -> tuple[int, ...]:
        ...

    def program(self, collective: Collective, shape: tuple[int, ...], dimensions: tuple[int, ...],
                coordinates: tuple[int, ...], up: bool) -> Program:
        ...

    def route(self, made: Program, piece: int) -> Route:
        ...


class Operation:
    """
    Attributes
    ----------
    number : int
        In the order of issue.
    key : tuple
        Age at ports: what goes first has the smaller one.
    members : collection of int
        Ranks that take part, as they are represented.
    communicator : int
        Number of that set of ranks.
    chunks : int
        Of each rank.
    begun, ended : dict
        Chunks, by rank.
    divides : bool
        The accelerator divides the buffer by the number of shards, because one column for each does not suffice.
    """

    def __init__(self, machine: _Machine, number: int, key: tuple[float, ...], collective: Collective, size: int,
                 dimensions: tuple[int, ...], members: Collection[int], root: tuple[int, ...] | None,
                 ended: Callable[[int, bool], object], communicator: int = 0) -> None:
        self.machine, self.number, self.key, self.communicator = machine, number, key, communicator
        self.collective, self.size, self.dimensions, self.members = collective, size, dimensions, members
        self.shape = tuple(machine.config.shape[dimension] for dimension in dimensions)
        self.root = root
        self.begun, self.ended = dict.fromkeys(members, 0), dict.fromkeys(members, 0)
        self._left, self._notify = len(members), ended
        self._programs: dict[tuple[tuple[int, ...], bool], Program] = {}
        self._split, self.divides, self._longest = False, False, 1
        self._pieces = self._cut()
        self.chunks = len(self._pieces)

    def finished(self, rank: int) -> None:
        self._left -= 1
        self._notify(rank, self._left == 0)

    def route(self, rank: int, index: int) -> Route:
        """The :class:`Route` of a chunk."""
        up, piece, _ = self._pieces[index]
        return self.machine.route(self._program(rank, up), piece)

    def moved(self, index: int, positions: int) -> int:
        """Bytes of a chunk between memory and ``positions`` places: less than all where the last shards are short."""
        _, piece, whole = self._pieces[index]
        return min(positions * piece, whole) if self._split else positions * piece

    def weight(self, index: int) -> int:
        """Chunks of full fineness that a chunk replaces."""
        return -(-self._pieces[index][1] // self._longest)

    def _program(self, rank: int, up: bool) -> Program:
        coordinates = self.machine.coordinates(rank, self.dimensions)
        if self.collective.info.rooted:
            assert self.root is not None
            coordinates = tuple(role_of(self.collective, at, root, size, up=up)
                                for at, root, size in zip(coordinates, self.root, self.shape, strict=True))
        if (coordinates, up) not in self._programs:
            self._programs[coordinates, up] = self.machine.program(self.collective, self.shape, self.dimensions,
                                                                   coordinates, up)
        return self._programs[coordinates, up]

    def _cut(self) -> list[tuple[bool, int, int]]:
        """``(up, piece, whole)`` of each chunk, with columns of the upper and the lower half alternating, as the
        accelerator cuts them; ``whole`` is the number of bytes of the buffer in all of its shards."""
        config, first = self.machine.config, next(iter(self.members))
        if not self.size and self.collective.info.moves_data:
            return []
        if prod(self.shape) == 1 and config.kind.engine != "sram":
            return []
        made = self._program(first, True)
        self._split = made.split
        step, longest, shard, shards = parts_of(config, made, self.size)
        self.divides, self._longest = made.split and shard > step, longest
        if not self.collective.info.moves_data:
            return [(True, min(longest, config.packet_bytes), 0)]
        up, down = map(deque, directions(config, made, self.size))
        pieces, at, goes_down = [], [0, sum(up)], False
        while up or down:
            goes_down = bool(down) and (goes_down or not up)
            piece = (down if goes_down else up).popleft()
            pieces.append((not goes_down, piece, _inside(self.size, shard, shards, at[goes_down], piece)))
            at[goes_down] += piece
            goes_down = not goes_down
        return pieces


def parts_of(config: MachineConfig, made: Program, size: int) -> tuple[int, int, int, int]:
    """Unit in which a buffer is cut, longest piece of a chunk, length of a shard, and number of shards; in bytes."""
    step = 1 if config.kind.engine != "sram" else COLUMN_BYTES
    longest, shards = piece_bytes(config, made), made.shards if made.split else 1
    shard = -(-size // (step * shards)) * step
    if config.chunks is not None:
        longest = max(step, shard // config.chunks // step * step)
    return step, longest, shard, shards


def directions(config: MachineConfig, made: Program, size: int) -> tuple[list[int], list[int]]:
    """Lengths of the chunks' pieces in each of the two directions; in bytes."""
    step, longest, shard, _ = parts_of(config, made, size)
    half = -(-shard // (2 * step)) * step if config.both else shard
    most, phases = config.most_chunks, max(1, len(made.phases))
    up, down = (cut(part, longest, most and most * phases, phases) for part in (half, shard - half))
    return up, down


def _inside(size: int, shard: int, shards: int, column: int, piece: int) -> int:
    """Bytes of columns ``column`` to ``column + piece`` of all shards that are in a buffer of ``size`` bytes."""
    full = min(shards, max(0, (size - column - piece) // shard + 1))
    left = min(piece, max(0, size - full * shard - column)) if full < shards else 0
    return full * piece + left
