# SPDX-License-Identifier: Apache-2.0
"""Kernels: their bytes are those of their shapes, and their regions' attributes follow from their accesses."""

from collections import Counter
from functools import cache
from itertools import pairwise

import numpy as np
import pytest

from sim.cache.kernels import KERNELS, layers, products, tables
from sim.cache.trace import ALIGNMENT, Kernel

LOAD, STORE, COMPUTE = 0, 1, 2


@cache
def kernel_of(name):
    return KERNELS[name].kernel(quick=True)


def bytes_of(kernel):
    """Bytes of loads and of stores of each array."""
    found = Counter()
    for operation in kernel.operations:
        if operation["kind"] in (LOAD, STORE):
            array = kernel.arrays[int(operation["address"]) // ALIGNMENT - 1]
            assert array.base <= operation["address"] <= array.base + array.length - operation["amount"]
            found[array.name, "rw"[operation["kind"]]] += int(operation["amount"])
    return dict(found)


def lines_of(kernel):
    """Line -> letters of its accesses in order, of operations of whole lines and parts of them."""
    seen = {}
    for operation in kernel.operations:
        if operation["kind"] in (LOAD, STORE):
            first, end = int(operation["address"]), int(operation["address"] + operation["amount"])
            for line in range(first // 64, -(-end // 64)):
                seen.setdefault(line, []).append("rw"[operation["kind"]])
    return seen


@pytest.mark.parametrize("name", KERNELS)
def test_regions_allocate_what_is_accessed_again(name):
    kernel = kernel_of(name)
    assert kernel.name == name
    again, accessed = {array.name: Counter() for array in kernel.arrays}, Counter()
    for line, letters in lines_of(kernel).items():
        array = next(array for array in kernel.arrays if array.base <= line * 64 < array.base + array.length)
        again[array.name].update(set(letters[:-1]))
        accessed[array.name] += 1
    for array in kernel.arrays:
        for letter in "rw":
            share = again[array.name][letter] / accessed[array.name]
            assert share >= 0.05 if letter in array.reused else share <= 0.01, (array.name, letter, share)


@pytest.mark.parametrize("name", KERNELS)
def test_arrays_are_apart_and_aligned(name):
    arrays = kernel_of(name).arrays
    assert all(array.base % ALIGNMENT == 0 for array in arrays)
    assert all(first.base + first.length <= second.base for first, second in pairwise(arrays))


def test_bytes_of_gemm():
    rows, columns, depth = 128, 192, 64
    kernel = products.gemm(rows, columns, depth, tile=64, step=32)
    product = rows * columns * depth
    assert bytes_of(kernel) == {("A", "r"): product // 64 * 4, ("B", "r"): product // 64 * 4,
                                ("C", "w"): rows * columns * 4}
    operations = kernel.operations
    assert operations["amount"][operations["kind"] == COMPUTE].sum() == product // 64


def test_bytes_of_the_other_products():
    assert bytes_of(products.fully_connected(16, 128, 96, 32)) == {
        ("W", "r"): 128 * 96 * 4, ("x", "r"): 3 * 16 * 128 * 4, ("y", "w"): 16 * 96 * 4}
    assert bytes_of(products.convolution(1, 8, 4, 28, 7)) == {
        ("x", "r"): 4 * 8 * 9 * 128, ("w", "r"): 4 * 4 * 8 * 9 * 4, ("y", "w"): 4 * 28 * 128}
    steps, hidden, batch = 3, 64, 16
    assert bytes_of(products.gru(batch, hidden, steps, 4)) == {
        ("h", "r"): steps * 4 * batch * hidden * 4, ("h", "w"): steps * batch * hidden * 4,
        ("w", "r"): steps * 3 * hidden * hidden * 4, ("x", "r"): steps * 3 * batch * hidden * 4}


def test_bytes_of_layers():
    plane = 64 * 64 * 4
    assert bytes_of(layers.activation(4)) == {("x", "r"): 4 * plane, ("y", "w"): 4 * plane}
    assert bytes_of(layers.activation_backward(4)) == {("y", "r"): 4 * plane, ("dy", "r"): 4 * plane,
                                                       ("dx", "w"): 4 * plane}
    assert bytes_of(layers.lrn(1, 8)) == {("x", "r"): 8 * plane, ("y", "w"): 8 * plane}
    assert bytes_of(layers.batch_norm(2, 3)) == {("x", "r"): 2 * 6 * 4096, ("y", "w"): 6 * 4096}
    assert bytes_of(layers.batch_norm_backward(2, 3)) == {("x", "r"): 2 * 6 * 4096, ("dy", "r"): 2 * 6 * 4096,
                                                          ("dx", "w"): 6 * 4096}
    assert bytes_of(layers.softmax(5)) == {("x", "r"): 3 * 5 * 16384, ("y", "w"): 5 * 16384}
    rows = 3 * 64 - 2                   # of three rows each, two at the borders
    assert bytes_of(layers.pooling(2)) == {("x", "r"): 2 * rows * 256, ("y", "w"): 2 * plane}
    assert bytes_of(layers.pooling_backward(2)) == {("dy", "r"): 2 * plane, ("dx", "r"): 2 * rows * 256,
                                                    ("dx", "w"): 2 * rows * 256}


def test_bytes_of_tables():
    assert bytes_of(tables.embedding(1024, 64, 8, 16)) == {
        ("index", "r"): 8 * 16 * 4, ("table", "r"): 8 * 16 * 256, ("output", "w"): 8 * 256}
    assert bytes_of(tables.embedding_backward(1024, 64, 8, 16)) == {
        ("gradient", "r"): 8 * 256, ("table", "r"): 8 * 16 * 256, ("table", "w"): 8 * 16 * 256}
    assert bytes_of(tables.bias_gradient(16, 512, 4)) == {
        ("x", "r"): 16 * 2048, ("sums", "r"): 4 * 2048, ("sums", "w"): 4 * 2048}


def test_popular_rows_are_spread_over_the_table():
    kernel = tables.embedding(1 << 15, 64, 256, 16)
    table = kernel.arrays[0]
    operations = kernel.operations
    rows = [(int(address) - table.base) // 256 for address in operations["address"]
            if table.base <= address < table.base + table.length]
    popular = [row for row, _ in Counter(rows).most_common(32)]
    assert Counter(rows).most_common(1)[0][1] > 0.05 * len(rows)
    assert np.std(popular) > 0.2 * (1 << 15)


def test_an_access_beyond_its_array_is_refused():
    kernel = Kernel("k", groups=1)
    x = kernel.array("x", 128)
    with pytest.raises(ValueError, match=r"^k accesses bytes 64 to 191 of x, which has 128$"), kernel.group():
        kernel.load(x, 64, 128)
    with pytest.raises(ValueError, match=r"^k accesses bytes 0 to -1 of x, which has 128$"), kernel.group():
        kernel.store(x, 0, 0)


def test_a_kernel_has_256_pcs():
    kernel = Kernel("k", groups=1)
    x = kernel.array("x", 64)
    with kernel.group():
        for site in range(256):
            kernel.load(x, 0, 64, str(site))
        kernel.load(x, 0, 64, "0")
        with pytest.raises(ValueError, match=r"^k has more than 256 loads and stores$"):
            kernel.load(x, 0, 64, "256")
