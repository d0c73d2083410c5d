# SPDX-License-Identifier: Apache-2.0
"""Rows of tables: pooled embeddings, their gradients, and a reduction into partial sums in memory.

Values have 4 bytes. Rows of embedding tables are drawn from a Zipf distribution with a fixed random seed.
"""

import numpy as np
import numpy.typing as npt

from sim.cache.trace import Kernel

__all__ = ["bias_gradient", "embedding", "embedding_backward"]

_VALUE, _LANES = 4, 64


def _indices(rows: int, bags: int, pooling: int, exponent: float) -> npt.NDArray[np.int64]:
    """Rows of each bag; the popular ones are spread over the table."""
    generator = np.random.default_rng(1)
    weights = 1 / np.arange(1, rows + 1) ** exponent
    drawn = generator.choice(rows, (bags, pooling), p=weights / weights.sum())
    return generator.permutation(rows)[drawn]


def embedding(rows: int = 1 << 15, width: int = 64, bags: int = 2560, pooling: int = 16,
              exponent: float = 1.0) -> Kernel:
    """The sum of some rows of a table for each bag; popular rows are reused."""
    kernel = Kernel("embedding", groups=8)
    length = width * _VALUE
    table = kernel.array("table", rows * length, "r")
    index = kernel.array("index", bags * pooling * _VALUE)
    output = kernel.array("output", bags * length)
    part = 4
    chosen = _indices(rows, bags, pooling, exponent)
    for first in range(0, bags, part):
        with kernel.group():
            kernel.load(index, first * pooling * _VALUE, part * pooling * _VALUE)
            kernel.compute(1)
            for bag in range(first, first + part):
                for row in chosen[bag]:
                    kernel.load(table, int(row) * length, length)
                kernel.compute(max(1, pooling * width // _LANES))
                kernel.store(output, bag * length, length)
    return kernel


def embedding_backward(rows: int = 1 << 14, width: int = 64, bags: int = 1536, pooling: int = 16,
                       exponent: float = 1.0) -> Kernel:
    """The gradient of a bag is added to its rows of the table in memory: each is loaded and stored."""
    kernel = Kernel("embedding-back", groups=8)
    length = width * _VALUE
    table = kernel.array("table", rows * length, "rw")
    gradient = kernel.array("gradient", bags * length)
    for bag, chosen in enumerate(_indices(rows, bags, pooling, exponent)):
        with kernel.group():
            kernel.load(gradient, bag * length, length)
            for row in chosen:
                kernel.load(table, int(row) * length, length)
            kernel.compute(max(1, pooling * width // _LANES))
            for row in chosen:
                kernel.store(table, int(row) * length, length)
    return kernel


def bias_gradient(batch: int = 768, features: int = 2048, part: int = 4) -> Kernel:
    """The sum of a matrix over its rows: a work group adds some rows to partial sums in memory."""
    kernel = Kernel("reduction", groups=4)
    length, chunk = features * _VALUE, 1024
    x = kernel.array("x", batch * length)
    sums = kernel.array("sums", length, "rw")
    for number, first in enumerate(range(0, batch, part)):
        with kernel.group():
            for at in range(0, length, chunk):
                at = (at + number * chunk) % length
                for row in range(first, first + part):
                    kernel.load(x, row * length + at, chunk)
                kernel.load(sums, at, chunk)
                kernel.compute(max(1, part * chunk // _VALUE // _LANES))
                kernel.store(sums, at, chunk)
    return kernel
