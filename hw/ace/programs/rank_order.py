# SPDX-License-Identifier: Apache-2.0
"""Programs for sums in rank order: a pipelined chain over the line of a one-dimensional communicator.

One phase takes sums up, from rank 0 to the last; each rank combines what it receives with its own elements. The next
phase takes results down. Every chunk does both, so each direction of each link carries every byte at most once.
"""

from math import prod

from hw.ace.collectives import Ordered
from hw.ace.words import SendWord, TransferWord

from .program import Phase, Program

__all__ = ["plan", "role_of"]


def role_of(coordinate: int, root: int) -> int:
    """Role of a rank of a REDUCE: 0 at the root's coordinate, 1 above it, 2 below it."""
    return 0 if coordinate == root else 1 if coordinate > root else 2


def plan(collective: Ordered, shape: tuple[int, ...], dimensions: tuple[int, ...], coordinates: tuple[int, ...],
         role: tuple[int, ...] | None) -> Program:
    """Program of one rank, as :func:`~.schedule.plan`. Raises ValueError if ranks are not in a line."""
    long = [number for number, size in enumerate(shape) if size > 1]
    if len(long) > 1:
        raise ValueError(f"Rank order needs a line of links from rank to rank, but a communicator of "
                         f"{'x'.join(map(str, shape))} ranks has more than one dimension")
    line, = long or (0,)
    size, rank, dimension = prod(shape), coordinates[line], dimensions[line]
    return _PLANS[collective](size, rank, dimension, None if role is None else role[line])


def _up(size: int, rank: int, dimension: int, *, span: int = 1) -> Phase:
    """All partial sums, in one send."""
    sends = (SendWord(0, 0, int(rank > 0), 0, 1),) if rank < size - 1 else ()
    receives = int(rank > 0)
    return Phase(port=2 * dimension, span=span, sends=sends, receives=receives, granted=receives)


def _down(dimension: int, *, receives: int, sends: int) -> Phase:
    """Results of as many positions as ``sends``, in order. The partial sum of each position was sent from there
    before."""
    return Phase(port=2 * dimension + 1, span=1, receives=receives, granted=receives,
                 sends=tuple(SendWord(position, position, position + 1 if receives else 0, 0, 0)
                             for position in range(sends)))


def _all_reduce(size: int, rank: int, dimension: int, role: int | None) -> Program:
    whole = (TransferWord(0, 0, 1),)
    phases = (_up(size, rank, dimension),
              _down(dimension, receives=int(rank < size - 1), sends=int(rank > 0)))
    return Program(positions=1, shards=1, split=True, src_whole=True, dst_whole=True, fills=whole, drains=whole,
                   phases=phases if size > 1 else ())


def _reduce(size: int, rank: int, dimension: int, role: int | None) -> Program:
    """Results go down as far as the root; ranks below it have no second phase."""
    whole = (TransferWord(0, 0, 1),)
    phases = [_up(size, rank, dimension)] if size > 1 else []
    if role != 2 and size > 1:
        phases.append(_down(dimension, receives=int(rank < size - 1), sends=int(role == 1)))
    return Program(positions=1, shards=1, split=True, src_whole=True, dst_whole=True, phases=tuple(phases),
                   fills=whole, drains=() if role else whole)


def _reduce_scatter(size: int, rank: int, dimension: int, role: int | None) -> Program:
    """Each rank keeps its own result and forwards those of lower ranks."""
    phases = (_up(size, rank, dimension, span=size),
              _down(dimension, receives=rank + 1 if rank < size - 1 else 0, sends=rank))
    return Program(positions=size, shards=size, src_whole=True, fills=(TransferWord(0, 0, size),),
                   drains=(TransferWord(rank, 0, 1),), phases=phases if size > 1 else ())


_PLANS = {
    Ordered.ALL_REDUCE: _all_reduce,
    Ordered.REDUCE_SCATTER: _reduce_scatter,
    Ordered.REDUCE: _reduce,
}
