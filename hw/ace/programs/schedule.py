# SPDX-License-Identifier: Apache-2.0
"""Programs: what each rank of a communicator sends, receives and adds, and when that is safe.

``plan`` makes a program, ``assemble`` the words of all programs of a rank and the directory of their addresses.
Pure functions: software runs them when it sets up a communicator.

A slot has a position for each rank, in rank order. Along one dimension of ``n`` ranks, block ``b`` of a range of
positions has those with coordinate ``b``: runs of contiguous positions, each moved by its own send.
"""

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, product
from math import prod
from typing import NamedTuple

from hw.ace.collectives import Collective, Numbered, OneShot, Ordered, those
from hw.ace.config import DIMENSIONS, MAX_RANKS, AceConfig
from hw.ace.words import RoleWord, SendWord, TransferWord

from . import one_shot, parts, rank_order
from .program import Phase, Program, encode, granted_ahead
from .ring import Ring, position_of

__all__ = ["ORDER", "Assembly", "Entry", "assemble", "plan", "role_of"]

C = Collective

ORDER = (*those(lambda info: not info.pairwise), *OneShot, *Ordered, *those(lambda info: info.pairwise))
"""The order of programs in the programs' memory: the longest last."""


class Entry(NamedTuple):
    """Directory entry: addresses of the programs, or of the tables of roles, for chunks that go up and down."""

    plus: int
    minus: int
    both: bool


@dataclass(frozen=True)
class Assembly:
    """All programs of a rank.

    Attributes
    ----------
    base : int
        Address of the first word.
    words : tuple of int
        Words to write from there on.
    directory : dict
        Collective, Ordered or OneShot -> :class:`Entry`.
    left_out : dict
        Collective, Ordered or OneShot -> why there is no program for it, as a sentence.
    """

    base: int
    words: tuple[int, ...]
    directory: dict[Numbered, Entry]
    left_out: dict[Numbered, str]


def role_of(collective: Numbered, coordinate: int, root: int, size: int, *, up: bool) -> int:
    """Role in one dimension of a rank at ``coordinate``: see :data:`~.words.ROLE_FIELDS`."""
    if isinstance(collective, Ordered):
        return rank_order.role_of(coordinate, root)
    behind = up == collective.info.from_root
    distance = (coordinate - root if behind else root - coordinate) % size
    return 0 if distance == 0 else 2 if distance == size - 1 else 1


def plan(collective: Numbered, shape: tuple[int, ...], dimensions: tuple[int, ...],
         coordinates: tuple[int, ...], *, up: bool = True, role: tuple[int, ...] | None = None,
         max_ranks: int = MAX_RANKS) -> Program:
    """Program of one rank for the chunks of one direction.

    Parameters
    ----------
    collective : Collective, Ordered or OneShot
        The collective.
    shape : tuple of int
        Ranks along each dimension of the communicator, 1 to 3 of them.
    dimensions : tuple of int
        Which dimension of the torus each of them is: ports ``2 * d`` and ``2 * d + 1``.
    coordinates : tuple of int
        Of this rank, in the communicator.
    up : bool
        Send to rising coordinates; otherwise to falling ones.
    role : tuple of int
        With a root: :func:`role_of` in each dimension. Then the coordinates matter only in rank order.
    max_ranks : int
        Above :data:`~.config.MAX_RANKS` a program cannot be encoded: for estimates without words.
    """
    _check(shape, dimensions, coordinates, max_ranks)
    if (role is not None) != collective.info.rooted or (role is not None and len(role) != len(shape)):
        raise ValueError(f"A program for {collective.name} in {len(shape)} dimensions cannot have the role {role!r}")
    if isinstance(collective, Ordered):
        return rank_order.plan(collective, shape, dimensions, coordinates, role)
    rings = [Ring(shape, number, coordinates, dimensions[number], up) for number, size in enumerate(shape) if size > 1]
    if isinstance(collective, OneShot):
        return one_shot.plan(rings)
    return _PLANS[collective](shape, coordinates, rings, role)


def assemble(config: AceConfig, shape: tuple[int, ...], dimensions: tuple[int, ...], coordinates: tuple[int, ...], *,
             both: bool = True, base: int = 0, collectives: Iterable[Numbered] = ORDER) -> Assembly:
    """Words and directory of a rank's programs, as :class:`Assembly`. Equal programs are stored once.

    A collective whose slot or words do not fit is left out; those named first have precedence.

    Parameters
    ----------
    both : bool
        Send half of the columns in each direction. A barrier has one chunk, which goes up; in rank order all chunks do.
    base : int
        First word that is free.
    """
    _check(shape, dimensions, coordinates)
    store = _Store(base, config.program_words)
    directory: dict[Numbered, Entry] = {}
    left_out: dict[Numbered, str] = {}
    for collective in collectives:
        both_directions = both and isinstance(collective, Collective) and collective.info.both_directions
        directions = (True, False) if both_directions else (True,)
        try:
            directory[collective], store = _assemble_one(store, config, collective, directions, shape, dimensions,
                                                         coordinates)
        except ValueError as error:
            left_out[collective] = str(error)
    return Assembly(base, store.words, directory, left_out)


@dataclass(frozen=True)
class _Store:
    """Program memory from ``base`` to ``end``: its words so far, and the address of each sequence of words."""

    base: int
    end: int
    words: tuple[int, ...] = ()
    known: tuple[tuple[tuple[int, ...], int], ...] = ()

    def put(self, words: Iterable[int]) -> tuple[int, "_Store"]:
        """Address of these words, and the store that has them."""
        words = tuple(words)
        if words in (known := dict(self.known)):
            return known[words], self
        address, free = self.base + len(self.words), self.end - self.base - len(self.words)
        if len(words) > free:
            raise ValueError(f"{len(words)} more words do not fit: {max(free, 0)} of the programs' memory are free")
        return address, replace(self, words=self.words + words, known=(*self.known, (words, address)))


def _assemble_one(store: _Store, config: AceConfig, collective: Numbered, directions: tuple[bool, ...],
                  shape: tuple[int, ...], dimensions: tuple[int, ...],
                  coordinates: tuple[int, ...]) -> tuple[Entry, _Store]:
    """A collective's directory entry, and the store with its programs."""
    addresses = []
    for up in directions:
        if not collective.info.rooted:
            address, store = store.put(encode(plan(collective, shape, dimensions, coordinates, up=up), config))
        else:
            # Trailing dimensions of one rank need no roles of their own.
            used = max((number + 1 for number, size in enumerate(shape) if size > 1), default=0)
            table = []
            for falling in product(range(3), repeat=used):
                role = (*reversed(falling), *(0,) * (len(shape) - used))
                if all(one in _roles(collective, at, size)
                       for one, at, size in zip(role, coordinates, shape, strict=True)):
                    program = plan(collective, shape, dimensions, coordinates, up=up, role=role)
                    address, store = store.put(encode(program, config))
                    table.append(RoleWord(address).pack())
                else:
                    table.append(table[0])
            address, store = store.put(table)
        addresses.append(address)
    return Entry(addresses[0], addresses[-1], len(directions) == 2), store


def _roles(collective: Numbered, coordinate: int, size: int) -> set[int]:
    """Roles that a rank can have in a dimension of ``size`` ranks."""
    return {role_of(collective, coordinate, root, size, up=True) for root in range(size)}


def _check(shape: tuple[int, ...], dimensions: tuple[int, ...], coordinates: tuple[int, ...],
           max_ranks: int = MAX_RANKS) -> None:
    if not 1 <= len(shape) <= DIMENSIONS:
        raise ValueError(f"A communicator must have 1 to {DIMENSIONS} dimensions, not {len(shape)}")
    if not all(isinstance(size, int) and size >= 1 for size in shape) or prod(shape) > max_ranks:
        raise ValueError(f"A communicator must have 1 to {max_ranks} ranks, not a shape of {shape!r}")
    if len(set(dimensions)) != len(shape) or len(dimensions) != len(shape) or \
            not set(dimensions) <= set(range(DIMENSIONS)):
        raise ValueError(f"Dimensions of the torus for a shape of {tuple(shape)!r} must be as many different numbers "
                         f"below {DIMENSIONS}, not {tuple(dimensions)!r}")
    if len(coordinates) != len(shape) or not all(0 <= at < size for at, size in zip(coordinates, shape, strict=True)):
        raise ValueError(f"Coordinates {tuple(coordinates)!r} are outside a shape of {tuple(shape)!r}")


def _pass_on(ring: Ring, own: Container[int] = (), *, scatter: bool = False, gather: bool = False) -> Phase:
    """Reduce-scatter, all-gather, or both without a phase change between them.

    A block's sum starts at the rank after its owner and ends at the owner; the owner and all ranks after it, except the
    last, forward the complete block. All receives are safe at once: data received at a position in the second round
    depends on data sent from there in the first.
    """
    steps = [(ring.at(-1 - step), 1) for step in range(ring.size - 1)] if scatter else []
    steps += [(ring.at(-step), 0) for step in range(ring.size - 1)] if gather else []
    sends: list[SendWord] = []
    for step, (coordinate, reduce) in enumerate(steps):
        runs = ring.block(coordinate, own)
        for position in runs:
            need = len(sends) - len(runs) + 1 if step else 0
            sends.append(SendWord(position, position, need, 0, reduce))
    return Phase(port=ring.port, span=ring.span, sends=tuple(sends), receives=len(sends), granted=len(sends))


def _all_reduce_phases(rings: Sequence[Ring]) -> tuple[Phase, ...]:
    if len(rings) <= 1:
        return tuple(_pass_on(ring, scatter=True, gather=True) for ring in rings)
    first, *others = rings
    *reducing, last = (_pass_on(ring, (first.number,), scatter=True, gather=True) for ring in others)
    # The last phase replaces only what the first one has sent.
    return (_pass_on(first, scatter=True), *reducing, *granted_ahead((last, _pass_on(first, gather=True))))


def _all_reduce(shape: tuple[int, ...], coordinates: tuple[int, ...], rings: Sequence[Ring],
                role: tuple[int, ...] | None) -> Program:
    whole = (TransferWord(0, 0, prod(shape)),)
    return Program(positions=prod(shape), shards=prod(shape), split=True, src_whole=True, dst_whole=True,
                   fills=parts.scattered(rings[0]) if rings else whole,
                   drains=parts.last_received(rings[0]) if rings else whole,
                   phases=_all_reduce_phases(rings), parts=bool(rings))


def _reduce_scatter(shape: tuple[int, ...], coordinates: tuple[int, ...], rings: Sequence[Ring],
                    role: tuple[int, ...] | None) -> Program:
    ranks = prod(shape)
    fills = parts.scattered(rings[0]) if rings else (TransferWord(0, 0, ranks),)
    return Program(positions=ranks, shards=ranks, src_whole=True, fills=fills,
                   drains=(TransferWord(position_of(coordinates, shape), 0, 1),),
                   phases=tuple(_pass_on(ring, range(ring.number), scatter=True) for ring in rings))


def _all_gather(shape: tuple[int, ...], coordinates: tuple[int, ...], rings: Sequence[Ring],
                role: tuple[int, ...] | None) -> Program:
    ranks = prod(shape)
    return Program(positions=ranks, shards=ranks, dst_whole=True, drains=(TransferWord(0, 0, ranks),), early=True,
                   fills=(TransferWord(position_of(coordinates, shape), 0, 1),),
                   phases=granted_ahead(_pass_on(ring, range(ring.number), gather=True) for ring in reversed(rings)))


def _barrier(shape: tuple[int, ...], coordinates: tuple[int, ...], rings: Sequence[Ring],
             role: tuple[int, ...] | None) -> Program:
    """A rank with ``k`` receives knows that the ``k`` ranks before it have started. The data sent does not matter."""
    phases = [Phase(port=ring.port, span=1, sends=tuple(SendWord(0, 0, step, 0, 0) for step in range(ring.size - 1)),
                    receives=ring.size - 1, granted=ring.size - 1) for ring in rings]
    return Program(positions=1, shards=1, split=True, phases=granted_ahead(phases), early=True)


def _link(ring: Ring, *, receives: bool, sends: bool, reduce: bool) -> Phase:
    """A rank's part of a chain."""
    send = SendWord(0, 0, int(receives), 0, int(reduce))
    return Phase(port=ring.port, span=1, sends=(send,) * sends, receives=int(receives), granted=int(receives))


def _broadcast(shape: tuple[int, ...], coordinates: tuple[int, ...], rings: Sequence[Ring],
               role: tuple[int, ...] | None) -> Program:
    """Along the root's line, then from all its ranks along the next dimension, and so on.

    A rank that joins late has empty phases first: phase numbers must agree along a chain.
    """
    assert role is not None
    phases = []
    for number, ring in enumerate(rings):
        joined = all(role[later.number] == 0 for later in rings[number + 1:])
        mine = role[ring.number]
        phases.append(_link(ring, receives=joined and mine != 0, sends=joined and mine != 2, reduce=False))
    whole = (TransferWord(0, 0, 1),)
    return Program(positions=1, shards=1, split=True, src_whole=True, dst_whole=True, phases=tuple(phases),
                   fills=() if any(role) else whole, drains=whole, early=True)


def _reduce(shape: tuple[int, ...], coordinates: tuple[int, ...], rings: Sequence[Ring],
            role: tuple[int, ...] | None) -> Program:
    """Along all lines towards the root's plane, then in it towards the root's line, then to the root."""
    assert role is not None
    phases = []
    for number, ring in enumerate(rings):
        if any(role[earlier.number] for earlier in rings[:number]):
            break
        phases.append(_link(ring, receives=role[ring.number] != 2, sends=role[ring.number] != 0, reduce=True))
    whole = (TransferWord(0, 0, 1),)
    return Program(positions=1, shards=1, split=True, src_whole=True, dst_whole=True, phases=tuple(phases),
                   fills=whole, drains=() if any(role) else whole)


def _all_to_all(shape: tuple[int, ...], coordinates: tuple[int, ...], rings: Sequence[Ring],
                role: tuple[int, ...] | None) -> Program:
    """Exchange in one dimension after the other: pieces for a coordinate are replaced by pieces from that coordinate.

    ``where`` has the position of the piece with each index, and ``spare`` the unused positions.
    """
    ranks = prod(shape)
    where = list(range(ranks))
    spare = list(range(ranks, ranks + max((ranks - ranks // ring.size for ring in rings), default=0)))
    phases = []
    for ring in rings:
        phases.append(_exchange(ring, where, spare))
        if ring.size == 2:
            # Received pieces are in spare positions; the positions of sent pieces are now spare.
            moved = [start + position for start in ring.block(ring.at(1)) for position in range(ring.span)]
            for number, index in enumerate(moved):
                where[index], spare[number] = spare[number], where[index]
    return Program(positions=ranks + len(spare), shards=ranks, src_whole=True, dst_whole=True, phases=tuple(phases),
                   fills=(TransferWord(0, 0, ranks),), drains=_runs(where), early=True)


def _exchange(ring: Ring, where: list[int], spare: list[int]) -> Phase:
    """All-to-all in a ring: step ``k`` forwards blocks that have made ``k - 1`` hops, those with the farthest target
    first.

    In step ``k``, ``n - k`` blocks arrive. The last is at its target and gets the position of the block that was sent
    to its source. The others are sent in the next step; those of odd steps are stored in spare positions, those of even
    steps in positions that later ones get at their target, except the first: otherwise the last step would wait for
    itself.
    """
    size, runs = ring.size, len(ring.block(0))

    def free(number: int) -> list[int]:
        return [spare[(number * runs + run) * ring.span] for run in range(runs)]

    def home(rank: int, hops: int) -> list[int]:
        return [where[position] for position in ring.block(ring.at(rank + hops))]

    def landing(rank: int, step: int, number: int) -> list[int]:
        """Positions of a block that arrives at the rank ``rank`` hops away."""
        if number == size - step - 1:
            return home(rank, -step) if size > 2 else free(0)
        if step % 2 or not number:
            return free(number if step % 2 else size - 2)
        return home(rank, -(step + 1 + number))

    moves: list[tuple[int, int, int]] = []
    landings: list[int] = []
    for step in range(1, size):
        for number in range(size - step):
            sources = home(0, size - 1 - number) if step == 1 else landing(0, step - 1, number)
            for source, target in zip(sources, landing(1, step, number), strict=True):
                # The receive with the same number in the previous step.
                need = len(moves) + 1 - (size - step + 1) * runs
                moves.append((source, target, max(0, need)))
            landings += landing(0, step, number)
    granted, grants = _grants(moves, landings)
    sends = tuple(SendWord(*move, more, 0) for move, more in zip(moves, grants, strict=True))
    return Phase(port=ring.port, span=ring.span, sends=sends, receives=len(landings), granted=granted)


def _grants(moves: Sequence[tuple[int, int, int]], landings: Sequence[int]) -> tuple[int, list[int]]:
    """Number of receives that are safe at once, and the further number after each send, which frees its position."""
    grants = [0] * (len(moves) + 1)
    left: dict[int, int] = {}
    sent, last = 0, -1
    for number, position in enumerate(landings):
        while sent < len(moves) and moves[sent][2] <= number:
            left[moves[sent][0]] = sent
            sent += 1
        last = max(last, left.get(position, -1))
        grants[last + 1] += 1
    return grants[0], grants[1:]


def _runs(where: list[int]) -> tuple[TransferWord, ...]:
    """Drains that move the piece of each index to the shard of that number."""
    groups = [list(group) for _, group in groupby(enumerate(where), key=lambda item: item[1] - item[0])]
    return tuple(TransferWord(group[0][1], group[0][0], len(group)) for group in groups)


_PLANS = {
    C.ALL_REDUCE: _all_reduce,
    C.REDUCE_SCATTER: _reduce_scatter,
    C.ALL_GATHER: _all_gather,
    C.ALL_TO_ALL: _all_to_all,
    C.BROADCAST: _broadcast,
    C.REDUCE: _reduce,
    C.BARRIER: _barrier,
}
