# SPDX-License-Identifier: Apache-2.0
"""Random graphs over several machines, and the exact comparison of values."""

import numpy as np

from dmace.remote.graph import Graph
from dmace.remote.tensor import Tensor

SIZES = (3, 17, 40)


def random_graph(rng, machines, operations=14):
    """Matrices of ``rows`` rows, of which some are known only at run time, and a function that makes feeds."""
    graph = Graph()
    dynamic = rng.random() < 0.6
    tensors = []

    def tensor(name, rows, columns):
        return Tensor(name, (rows, columns), np.float32, (1, 0) if rng.random() < 0.3 else ())

    for number in range(3):
        rows = None if dynamic and number == 0 else int(rng.choice(SIZES))
        tensors.append(tensor(f"feed{number}", rows, int(rng.choice(SIZES))))
        graph.feed(tensors[-1], int(rng.integers(machines)))
    for number in range(operations):
        first, second = (tensors[rng.integers(len(tensors))] for _ in range(2))
        name, machine = f"t{number}", int(rng.integers(machines))
        kind = rng.integers(5)
        rows, columns = first.shape
        if kind == 0 and rows is not None:
            made = tensor(name, columns, rows)
            graph.add(name, np.transpose, [first.name], [made], machine)
        elif kind == 1 and rows is not None and rows * columns <= 1024:
            made = tensor(name, 1, rows * columns)
            graph.add(name, lambda value: value.reshape(1, -1), [first.name], [made], machine)
        elif kind == 2:
            made = tensor(name, rows, columns)
            writes = bool(rng.random() < 0.7)
            graph.add(name, _double if writes else lambda value: value * np.float32(2), [first.name], [made], machine,
                      writes=writes, shapes=lambda value: [value.shape])
        elif kind == 3 and columns <= SIZES[-1]:
            made = tensor(name, columns, columns)
            graph.add(name, lambda value: np.tanh(value.T @ value), [first.name], [made], machine)
        else:
            made = tensor(name, rows, columns)
            graph.add(name, lambda one, two: np.tanh(one + two.sum(dtype=np.float32)), [first.name, second.name],
                      [made], machine)
        tensors.append(made)
    graph.results = tuple(one.name for one in tensors[-5:])

    def feeds():
        return {name: rng.standard_normal([int(rng.integers(0, 20)) if size is None else size
                                           for size in graph.values[name].shape]).astype(np.float32)
                for name in graph.feeds}

    return graph, feeds


def _double(value, out):
    np.multiply(value, np.float32(2), out=out)


def assert_same(found, expected):
    """All values are equal bit for bit."""
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        one, two = np.asarray(found[name]), np.asarray(value)
        assert one.shape == two.shape and one.dtype == two.dtype, name
        assert np.array_equal(one.view(np.uint8) if one.ndim and one.flags.c_contiguous else one,
                              two.view(np.uint8) if two.ndim and two.flags.c_contiguous else two, equal_nan=True), name
