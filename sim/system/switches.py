# SPDX-License-Identifier: Apache-2.0
"""Switches of a dimension: from the ranks' links to the ranks' links, and through links between leaves and spine.

::

    rank's link -> leaf -> link to the rank
                     |  -> link to the spine -> spine -> link to the other leaf -> link to the rank

Switches cut through: a link carries the first bytes of a transfer while later ones are arriving, unless it is busy, and
transfers leave in the order of their arrival. Their buffers are as large as needed.
"""

from collections import defaultdict
from collections.abc import Callable
from math import prod
from typing import Any, Protocol

from .background import Backlog
from .configuration import MachineConfig
from .grains import Grain, packets_of
from .kernel import Kernel, picoseconds, ticks_per_byte
from .ranks import Ranks

__all__ = ["DOWN", "FROM_SPINE", "TO_SPINE", "Output", "Switch", "Target"]

DOWN, TO_SPINE, FROM_SPINE = 22, 25, 28
"""Order of the decisions of links, after those of the endpoint; and the following ones, one for each dimension."""

Target = Callable[[int], Callable[..., object]]
"""The handler of an arrival, by rank."""

_Order = tuple[int, ...]


class _Machine(Protocol):
    """The part of the machine that its switches use."""

    kernel: Kernel
    config: MachineConfig
    ranks: Ranks


class Output:
    """One direction of a link behind a switch.

    Parameters
    ----------
    key : int
        Key of its decisions.
    bytes_per_s : float
    latency : int
        Picoseconds from the last byte on the link until it arrives.
    backlog : Backlog or None
        Other jobs.
    """

    def __init__(self, kernel: Kernel, key: int, bytes_per_s: float, latency: int, backlog: Backlog | None) -> None:
        self._kernel, self._key, self._latency, self._backlog = kernel, key, latency, backlog
        self.per_byte = ticks_per_byte(bytes_per_s)
        # When the link could have carried all of what has arrived, had it arrived in time.
        self._free = 0.0
        self._arrived: list[tuple[_Order, float, float, Callable[..., object], tuple[Any, ...]]] = []
        self.bytes = 0.0

    def carry(self, order: _Order, size: float, came: float, handler: Callable[..., object],
              *arguments: object) -> None:
        """Carry ``size`` bytes, whose last one is here and whose first came ``came`` picoseconds ago, then call
        ``handler(*arguments)``. Transfers of the same time leave in the order of ``order``."""
        self._arrived.append((order, size, came, handler, arguments))
        self._kernel.decide(self._key, self._choose)

    def _choose(self) -> None:
        now = self._kernel.now
        self._arrived.sort(key=lambda one: one[0])
        for _, size, came, handler, arguments in self._arrived:
            ticks = size * self.per_byte
            begin = max(self._free, now - came)
            others = self._backlog.before(begin, ticks) if self._backlog else 0.0
            self._free = begin + others + ticks
            self.bytes += size
            # A picosecond is the resolution of all times.
            self._kernel.at(max(now, round(self._free)) + self._latency, handler, *arguments)
        self._arrived.clear()


class Switch:
    """All switches of a dimension.

    If one rank represents all along the dimension, it sends and receives what each does. The links between leaves and
    spine are then its share of them, and each transfer uses the part that corresponds to the ranks for which it goes to
    another leaf, and of the latency of neighbours as much.

    Parameters
    ----------
    machine : Machine
    dimension : int

    Attributes
    ----------
    up_latency : int
        Picoseconds from a rank to the switch.
    down, to_spine, from_spine : dict
        Links, by rank or leaf.
    """

    def __init__(self, machine: _Machine, dimension: int) -> None:
        config, self._kernel, self.dimension = machine.config, machine.kernel, dimension
        self.config, self.link, self.ranks = config, config.dimension_links[dimension], config.shape[dimension]
        self.leaf_ranks = self.link.leaf_ranks or self.ranks
        self.leaves = self.ranks // self.leaf_ranks
        self.folded = config.fold and dimension not in config.distinct
        self._simulated = machine.ranks.representatives
        self._stride = prod(config.shape[dimension + 1:])
        half = picoseconds(self.link.latency_s) // 2
        self.up_latency, down_latency = half, picoseconds(self.link.latency_s) - half
        self._spine_latency = picoseconds(self.link.spine_latency_s) // 2
        self.down = {rank: Output(self._kernel, (DOWN + dimension) << 16 | rank,
                                  self.link.bytes_per_s / config.stragglers.link_factor(rank), down_latency, None)
                     for rank in self._simulated}
        self.to_spine, self.from_spine = self._spine(TO_SPINE), self._spine(FROM_SPINE)
        self._sent: defaultdict[int, int] = defaultdict(int)
        self._missing: dict[tuple[Any, ...], int] = {}

    def _spine(self, decision: int) -> dict[int, Output]:
        """A link between each leaf and the spine, by a number of the leaf, for the ranks that are simulated."""
        if self.leaves == 1:
            return {}
        groups = len({self._group(rank) for rank in self._simulated})
        rate = self.link.bytes_per_s / self.link.oversubscription
        rate *= (1 if self.folded else self.leaf_ranks) * (1 if self.link.rails else groups)
        background, latency = self.link.background, 0 if self.folded else self._spine_latency
        return {leaf: Output(self._kernel, (decision + self.dimension) << 16 | leaf, rate, latency,
                             Backlog(background) if background.load else None)
                for leaf in {self._leaf(rank) for rank in self._simulated}}

    def _at(self, rank: int) -> int:
        """Coordinate of a rank in the dimension."""
        return rank // self._stride % self.ranks

    def _group(self, rank: int) -> int:
        """First rank of a rank's group along the dimension."""
        return rank - self._at(rank) * self._stride

    def _leaf(self, rank: int) -> int:
        """Number of a rank's leaf: its first rank or, if all groups share it, that of the first group."""
        first = self._at(rank) // self.leaf_ranks * self.leaf_ranks * self._stride
        return first + (self._group(rank) if self.link.rails else 0)

    def peer(self, rank: int, hop: int) -> int:
        """Rank that is ``hop`` ranks away along the dimension, or that represents it."""
        return rank if self.folded else self._group(rank) + (self._at(rank) + hop) % self.ranks * self._stride

    # -- From one rank to another

    def forward(self, source: int, hop: int, wire: float, per_byte: float, target: Target,
                arguments: tuple[Any, ...]) -> None:
        """A transfer of ``wire`` bytes from ``source``, at ``per_byte`` picoseconds each, is at the leaf switch; its
        target is ``hop`` ranks away."""
        rank, crossing = self.peer(source, hop), self._crossing(source, hop)
        self._sent[source] += 1
        order = (self._sent[source], hop % self.ranks, source)
        came = wire * per_byte
        if not crossing:
            self._to_rank(order, wire, came, rank, target, arguments)
            return
        # Steps of a ring follow each other, and only some go through the spine. Transfers to others are independent, so
        # the latest counts.
        share = crossing if hop % self.ranks in (1, self.ranks - 1) else 1.0
        latency = round(2 * self._spine_latency * share) if self.folded else 0
        part, first, last = wire * crossing, self.to_spine[self._leaf(source)], self.from_spine[self._leaf(rank)]
        slowest = max(came, part * first.per_byte)

        def arrives() -> None:
            self._kernel.at(self._kernel.now + latency, self._to_rank, order, wire, slowest, rank, target, arguments)

        first.carry(order, part, came, last.carry, order, part, slowest, arrives)

    def _crossing(self, source: int, hop: int) -> float:
        """1 if a transfer goes to another leaf, otherwise 0; in a folded machine, the share of ranks for which it
        does."""
        m = self.leaf_ranks
        if self.leaves == 1:
            return 0.0
        sources = range(m) if self.folded else [self._at(source)]
        return sum(at // m != (at + hop) % self.ranks // m for at in sources) / len(sources)

    def _to_rank(self, order: _Order, wire: float, came: float, rank: int, target: Target,
                 arguments: tuple[Any, ...]) -> None:
        self.down[rank].carry(order, wire, came, target(rank), *arguments)

    # -- Adding and multicast

    def reduce(self, source: int, order: _Order, grain: Grain, per_byte: float, target: Target,
               arguments: tuple[Any, ...]) -> None:
        """A grain is at the leaf switch. When that of each rank is there, the sums go to all ranks.

        ``order`` is the same for the grains of all ranks that belong together, and for no others.
        """
        leaf, group = self._leaf(source), self._group(source)
        up, to_spine, from_spine, down = (self._wire(size) for size in self._sizes(grain))
        came = up * per_byte

        def to_ranks(leaf: int, came: float) -> None:
            for rank in self._members(group, leaf):
                self.down[rank].carry((*order, group), down, came, target(rank), *arguments)

        def at_spine() -> None:
            if self._complete(("spine", group, *order), self.leaves):
                for leaf in {self._leaf(rank) for rank in self._members(group, None)}:
                    link, size = self.from_spine[leaf], from_spine / share
                    slowest = max(came, size * link.per_byte)
                    link.carry((*order, group), size, slowest, spread, leaf, slowest)

        def spread(leaf: int, came: float) -> None:
            wait = 2 * self._spine_latency if self.folded else 0
            self._kernel.at(self._kernel.now + wait, to_ranks, leaf, came)

        # In a folded machine the links are a rank's share, and a leaf sends one sum for all of its ranks.
        share = self.leaf_ranks if self.folded else 1
        if not self._complete(("leaf", leaf, group, *order), self.leaf_ranks):
            return
        if self.leaves == 1:
            to_ranks(leaf, came)
        else:
            self.to_spine[leaf].carry((*order, group), to_spine / share, came, at_spine)

    def _complete(self, key: tuple[Any, ...], parts: int) -> bool:
        """One more part has arrived; whether that was the last one."""
        missing = self._missing.pop(key, 1 if self.folded else parts) - 1
        if missing:
            self._missing[key] = missing
        return not missing

    def _members(self, group: int, leaf: int | None) -> list[int]:
        """Ranks of a group, or those of them at a leaf."""
        if self.folded:
            return [group]
        ranks = [group + at * self._stride for at in range(self.ranks)]
        return [rank for rank in ranks if leaf is None or self._leaf(rank) == leaf]

    def _sizes(self, grain: Grain) -> tuple[int, int, int, int]:
        """Bytes from each rank, from a leaf, to a leaf, and to each rank."""
        up, down, inside = grain.size, grain.down, self.leaf_ranks
        if up == down:
            return up, up, up, down
        return (up, up, inside * down, down) if up > down else (up, inside * up, down, down)

    def _wire(self, size: int) -> int:
        return size + packets_of(self.config, size) * self.config.header_bytes
