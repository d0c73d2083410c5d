# SPDX-License-Identifier: Apache-2.0
"""The operations of arXiv 2305.06942 on real data: the result of each task, and the reference.

========================  =====================================================================================
embedding + all-to-all    pooled rows of a rank's table go to the ranks of their samples
GEMM + all-to-all         tiles of a matrix product go back to the ranks of their tokens
GEMV + all-reduce         each rank has some columns of the matrix; the partial sums are added
========================  =====================================================================================

Tasks compute their parts one by one. The reference is computed for whole arrays, independently
of slices and tasks. Sums of floating point are in one fixed order, so that all bits are determined.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hw.ace.collectives import Collective
from hw.ace.numerics.formats import DType
from hw.errors import UserError

__all__ = ["ELEMENTS", "MOST_TASKS", "OPERATIONS", "Operation", "Sizes", "make"]

ELEMENTS = {"int32": DType.INT32, "fp32": DType.FP32}

MOST_TASKS = 256
"""Tasks of a slice."""

_Array = npt.NDArray[Any]

_TABLE_ROWS, _WIDEST_ROW = 256, 16


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """Sizes of an operation.

    Parameters
    ----------
    ranks : int
    slices : int
        For each target of an all-to-all, or of the whole result of an all-reduce.
    tasks : int
        Of a slice.
    slice_bytes : int
        A multiple of 8 bytes per task.
    depth : int
        Rows that are pooled, or terms of each element of a product.
    element : str
        ``int32`` or ``fp32``.
    """

    ranks: int
    slices: int
    tasks: int
    slice_bytes: int
    depth: int = 8
    element: str = "int32"

    def __post_init__(self) -> None:
        if self.element not in ELEMENTS:
            raise UserError(f"Elements must be {' or '.join(ELEMENTS)}, not {self.element!r}.")
        for name, high in (("ranks", 4), ("slices", 64), ("tasks", MOST_TASKS), ("depth", 256)):
            low = 2 if name == "ranks" else 1
            if not low <= getattr(self, name) <= high:
                raise UserError(f"The number of {name} must be from {low} to {high}, not {getattr(self, name)}."
                                if name != "depth" else f"The depth must be from 1 to {high}, not {self.depth}.")
        if not 8 * self.tasks <= self.slice_bytes <= 1 << 20 or self.slice_bytes % (8 * self.tasks):
            raise UserError(f"A slice must be a multiple of 8 bytes for each of its {self.tasks} tasks and at most "
                            f"1 MiB, not {self.slice_bytes:,} bytes.")

    @property
    def part_elements(self) -> int:
        """Elements of a task's result."""
        return self.slice_bytes // self.tasks // 4


@dataclass(frozen=True)
class Operation:
    """An operation on given data.

    Attributes
    ----------
    name : str
    collective : Collective
        ALL_TO_ALL or ALL_REDUCE.
    sizes : :class:`Sizes`
    parts : array of bytes, ranks x targets x slices x tasks x bytes
        Result of each task; an all-reduce has one target.
    reference : array of bytes, ranks x sources x slices x bytes
        Receive buffer of each rank, by the rank that computed it. For an all-reduce, the result of each rank before it,
        with one source.
    """

    name: str
    collective: Collective
    sizes: Sizes
    parts: npt.NDArray[np.uint8]
    reference: npt.NDArray[np.uint8]

    @property
    def targets(self) -> int:
        return int(self.parts.shape[1])


def _pooled(rows: _Array) -> _Array:
    """Sum over the last axis but one, in the order of its indices."""
    total = rows[..., 0, :].copy()
    for index in range(1, rows.shape[-2]):
        total += rows[..., index, :]
    return total


def _random(rng: np.random.Generator, sizes: Sizes, *shape: int) -> _Array:
    if sizes.element == "int32":
        return rng.integers(-(1 << 31), 1 << 31, shape, np.int32)
    return rng.standard_normal(shape, np.float32)


def _by_rank(sizes: Sizes, targets: int, part: Callable[[int, int], _Array]) -> npt.NDArray[np.uint8]:
    """``part(rank, number)`` of each task, in the order of targets, slices and tasks."""
    count = targets * sizes.slices * sizes.tasks
    made = np.stack([np.stack([part(rank, number).reshape(-1) for number in range(count)])
                     for rank in range(sizes.ranks)])
    return made.view(np.uint8).reshape(sizes.ranks, targets, sizes.slices, sizes.tasks, -1)


def _exchanged(sizes: Sizes, outputs: list[_Array]) -> npt.NDArray[np.uint8]:
    """Receive buffers of an all-to-all of whole outputs."""
    blocks = np.stack([output.reshape(sizes.ranks, -1) for output in outputs])
    received = np.ascontiguousarray(blocks.swapaxes(0, 1))
    return received.view(np.uint8).reshape(sizes.ranks, sizes.ranks, sizes.slices, sizes.slice_bytes)


def _embedding(sizes: Sizes, rng: np.random.Generator) -> Operation:
    width = next(width for width in range(_WIDEST_ROW, 0, -1) if sizes.part_elements % width == 0)
    vectors = sizes.part_elements // width
    count = sizes.ranks * sizes.slices * sizes.tasks * vectors
    tables = [_random(rng, sizes, _TABLE_ROWS, width) for _ in range(sizes.ranks)]
    samples = [rng.integers(0, _TABLE_ROWS, (count, sizes.depth)) for _ in range(sizes.ranks)]

    def part(rank: int, number: int) -> _Array:
        return np.stack([_pooled(tables[rank][sample])
                         for sample in samples[rank][number * vectors:(number + 1) * vectors]])

    whole = [np.add.accumulate(table[chosen], axis=1, dtype=table.dtype)[:, -1]
             for table, chosen in zip(tables, samples, strict=True)]
    return Operation("embedding + all-to-all", Collective.ALL_TO_ALL, sizes, _by_rank(sizes, sizes.ranks, part),
                     _exchanged(sizes, whole))


def _product(matrix: _Array, other: _Array) -> _Array:
    """``matrix @ other``, each element the sum of its terms in order."""
    return _pooled(matrix[..., :, :, None] * other[..., None, :, :])


def _gemm(sizes: Sizes, rng: np.random.Generator) -> Operation:
    columns = next(columns for columns in range(_WIDEST_ROW, 0, -1) if sizes.part_elements % columns == 0)
    rows = sizes.part_elements // columns
    count = sizes.ranks * sizes.slices * sizes.tasks * rows
    tokens = [_random(rng, sizes, count, sizes.depth) for _ in range(sizes.ranks)]
    experts = [_random(rng, sizes, sizes.depth, columns) for _ in range(sizes.ranks)]

    def part(rank: int, number: int) -> _Array:
        return _product(tokens[rank][number * rows:(number + 1) * rows], experts[rank])

    whole = []
    for left, right in zip(tokens, experts, strict=True):
        total = left[:, :1] * right[:1]
        for term in range(1, sizes.depth):
            total = total + left[:, term:term + 1] * right[term:term + 1]
        whole.append(total)
    return Operation("GEMM + all-to-all", Collective.ALL_TO_ALL, sizes, _by_rank(sizes, sizes.ranks, part),
                     _exchanged(sizes, whole))


def _gemv(sizes: Sizes, rng: np.random.Generator) -> Operation:
    rows = sizes.part_elements
    count = sizes.slices * sizes.tasks * rows
    matrices = [_random(rng, sizes, count, sizes.depth) for _ in range(sizes.ranks)]
    vectors = [_random(rng, sizes, sizes.depth, 1) for _ in range(sizes.ranks)]

    def part(rank: int, number: int) -> _Array:
        return _product(matrices[rank][number * rows:(number + 1) * rows], vectors[rank])

    partial = [np.add.accumulate(matrix * vector[:, 0], axis=1, dtype=matrix.dtype)[:, -1]
               for matrix, vector in zip(matrices, vectors, strict=True)]
    reference = np.stack(partial).view(np.uint8).reshape(sizes.ranks, 1, sizes.slices, sizes.slice_bytes)
    return Operation("GEMV + all-reduce", Collective.ALL_REDUCE, sizes, _by_rank(sizes, 1, part), reference)


OPERATIONS: dict[str, Callable[[Sizes, np.random.Generator], Operation]] = {
    "embedding": _embedding, "gemm": _gemm, "gemv": _gemv}


def make(name: str, sizes: Sizes, *, seed: int = 1) -> Operation:
    """An operation on random data."""
    return OPERATIONS[name](sizes, np.random.default_rng(seed))
