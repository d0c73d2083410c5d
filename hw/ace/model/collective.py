# SPDX-License-Identifier: Apache-2.0
"""Golden model of the collectives: the contents of each rank's receive buffer, bit by bit.

It follows the meaning of each collective and the documented order of additions, element by element. The table of
collectives gives the lengths of buffers; programs, cutting, and the hardware's transfers make no difference.
"""

from collections.abc import Callable, Sequence
from functools import partial, reduce
from math import prod

import numpy as np
import numpy.typing as npt

from hw.ace.collectives import Collective
from hw.ace.config import COLUMN_BYTES, ONE_SHOT_BYTES
from hw.ace.numerics.formats import FLOATS, DType, Op, Reduction

from .arrays import Bits
from .numerics import combine, numpy_type, rounded

__all__ = ["results"]

_Owners = tuple[tuple[npt.NDArray[np.intp], ...], npt.NDArray[np.bool_]]
_Combined = Callable[[Bits, Bits], Bits]


def results(collective: Collective, shape: tuple[int, ...], inputs: Sequence[Bits], *, dtype: DType, count: int,
            op: Reduction = Reduction.SUM, root: tuple[int, ...] | None = None, widen: bool = False, both: bool = True,
            ordered: bool = False, one_shot: int = ONE_SHOT_BYTES) -> list[Bits | None]:
    """Receive buffers, in rank order: arrays of elements as bits, None where nothing is written.

    Parameters
    ----------
    collective : Collective
        The operation.
    shape : tuple of int
        Ranks along each dimension of the communicator.
    inputs : list of arrays of unsigned integers
        Each rank's send buffer, as bits of its elements; only the root's counts in a broadcast, none in a barrier.
    dtype : DType
        Type of the elements.
    count : int
        As in NCCL.
    op : Reduction
        Reduction of the elements of all ranks.
    root : tuple of int
        Coordinates of the root, for collectives that have one.
    widen : bool
        16-bit floats and FP8 are FP32 on the links.
    both : bool
        Half of the columns go down.
    ordered : bool
        Combine in rank order.
    one_shot : int
        Bytes of the longest all-reduce that is combined in the order of coordinates, in one dimension after the other.
    """
    ranks = prod(shape)
    if widen and not dtype.info.widens:
        raise ValueError(f"Only 16-bit floats and FP8 can be widened, not {dtype.name}")
    info = collective.info
    if not info.moves_data:
        return [None] * ranks
    at_root = None if root is None else int(np.ravel_multi_index(root, shape))
    sources = inputs
    if info.from_root:
        assert at_root is not None
        sources = [inputs[at_root]]
    sent = np.stack([_sized(one, info.sent(count, ranks)) for one in sources])
    if info.reduces:
        short = collective == Collective.ALL_REDUCE and count * dtype.info.bytes <= one_shot
        order = _in_rank_order if ordered else partial(_by_coordinates, shape=shape) if short else partial(
            _round_rings, shape=shape, at=_owners(collective, shape, count, dtype.info.bytes, root, both))
        made = _reduced(sent, order, dtype, op, widen)
    else:
        made = _there_and_back(sent, dtype, widen)
    received = _RECEIVED[collective](made, ranks)
    return [received[rank] if info.writes(at_root=rank == at_root) else None for rank in range(ranks)]


def _all(made: Bits, ranks: int) -> list[Bits]:
    """Every rank receives all blocks, or the reduction of all."""
    return [made.reshape(-1)] * ranks


def _own_block(made: Bits, ranks: int) -> list[Bits]:
    """Rank r receives block r of the reduction."""
    return list(made.reshape(ranks, -1))


def _block_of_each(made: Bits, ranks: int) -> list[Bits]:
    """Rank r receives block r of every rank."""
    return list(made.reshape(ranks, ranks, -1).swapaxes(0, 1).reshape(ranks, -1))


_RECEIVED = {
    Collective.ALL_REDUCE: _all,
    Collective.REDUCE_SCATTER: _own_block,
    Collective.ALL_GATHER: _all,
    Collective.ALL_TO_ALL: _block_of_each,
    Collective.BROADCAST: _all,
    Collective.REDUCE: _all,
}
"""Receive buffers of all ranks, from the send buffers, a row for each rank, or from their reduction."""


def _sized(elements: Bits, length: int) -> Bits:
    if len(elements) != length:
        raise ValueError(f"A send buffer must have {length} elements, not {len(elements)}")
    return np.asarray(elements)


def _owners(collective: Collective, shape: tuple[int, ...], count: int, size: int, root: tuple[int, ...] | None,
            both: bool) -> _Owners:
    """Owner of each element, as an array of coordinates for each dimension, and whether the element goes up."""
    ranks = prod(shape)
    if collective == Collective.REDUCE_SCATTER:
        shard = np.repeat(np.arange(ranks), count)
        column = np.tile(np.arange(count), ranks) * size
        length = count * size
    else:
        shards = ranks if collective == Collective.ALL_REDUCE else 1
        length = -(-count * size // (COLUMN_BYTES * shards)) * COLUMN_BYTES
        shard, column = np.divmod(np.arange(count) * size, max(length, 1))
    half = -(-length // (2 * COLUMN_BYTES)) * COLUMN_BYTES if both else length
    if collective == Collective.REDUCE:
        assert root is not None
        shard = np.full(count, np.ravel_multi_index(root, shape))
    return np.unravel_index(shard, shape), column < half


def _reduced(sent: Bits, order: Callable[[Bits, _Combined], Bits], dtype: DType, op: Reduction, widen: bool) -> Bits:
    """Results of all elements of ``sent``, which has a row for each rank."""
    inside = DType.FP32 if widen else dtype
    values = order(_converted(sent, dtype, inside) if widen else sent,
                   partial(combine, Op.SUM if op == Reduction.AVG else Op(op), a_type=inside))
    if op == Reduction.AVG:
        values = _divided(values, len(sent), inside)
    return _converted(values, inside, dtype) if widen else values


def _in_rank_order(values: Bits, combined: _Combined) -> Bits:
    """((x[0] + x[1]) + x[2]) + ... of each column."""
    return reduce(combined, values)


def _by_coordinates(values: Bits, combined: _Combined, *, shape: tuple[int, ...]) -> Bits:
    """((x[0] + x[1]) + x[2]) + ... over the coordinates of the first dimension, then of these sums over the second."""
    values = values.reshape(*shape, -1)
    while values.ndim > 1:
        values = _in_rank_order(values, combined)
    return values


def _round_rings(values: Bits, combined: _Combined, *, shape: tuple[int, ...], at: _Owners) -> Bits:
    """Sum of each column, from the rank after its owner around to the owner, in one dimension after the other."""
    values, (owners, upper) = values.reshape(*shape, -1), at
    for dimension, size in enumerate(shape):
        def away(hops: int, values: Bits = values, dimension: int = dimension, size: int = size) -> Bits:
            coordinate = (owners[dimension] + np.where(upper, hops, -hops)) % size
            index = coordinate.reshape(*[1] * len(shape), -1)
            return np.take_along_axis(values, index, axis=dimension)

        made = away(1)
        for hops in range(2, size + 1):
            made = combined(made, away(hops))
        values = made
    return values.reshape(-1)


def _divided(bits: Bits, ranks: int, dtype: DType) -> Bits:
    """Each value divided by the number of ranks. A quotient of smaller floats is the same if rounded to FP32 first."""
    values = bits.view(numpy_type(dtype))
    if dtype not in FLOATS:
        wide = values.astype(np.int64)
        quotients: Bits = (np.sign(wide) * (np.abs(wide) // ranks)).astype(values.dtype).view(bits.dtype)
        return quotients
    with np.errstate(all="ignore"):
        return rounded(values.astype(np.float32) / np.float32(ranks), dtype)


def _converted(bits: Bits, from_type: DType, to_type: DType) -> Bits:
    return combine(Op.MAX, bits, bits, a_type=from_type, o_type=to_type)


def _there_and_back(bits: Bits, dtype: DType, widen: bool) -> Bits:
    """Elements that are moved without reduction: with ``widen``, NaNs become canonical."""
    return _converted(_converted(bits, dtype, DType.FP32), DType.FP32, dtype) if widen else bits
