# SPDX-License-Identifier: Apache-2.0
"""A training step as a graph: a perceptron of three layers, forward, backward and SGD, its layers on several machines.

Activations cross to the next machine, gradients of activations to the previous one. Where batches differ in length, the
shapes of both are not known before the step.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from dmace.remote.graph import Graph
from dmace.remote.tensor import Tensor
from hw.errors import UserError

__all__ = ["initial_weights", "training_graph"]

Floats = npt.NDArray[np.float32]


def initial_weights(sizes: Sequence[int], seed: int = 1) -> dict[str, Floats]:
    """Weights w0, w1, ... and biases b0, b1, ... of layers between consecutive sizes, by name."""
    rng = np.random.default_rng(seed)
    made: dict[str, Floats] = {}
    for number, (rows, columns) in enumerate(pairwise(sizes)):
        made[f"w{number}"] = (rng.standard_normal((rows, columns)) * np.sqrt(2 / rows)).astype(np.float32)
        made[f"b{number}"] = np.zeros((1, columns), np.float32)
    return made


def training_graph(sizes: Sequence[int], machines: Sequence[int], batch: int | None, rate: float = 0.5) -> Graph:
    """Graph of a step on ``x`` and one-hot ``y``; results are ``loss``, and the new weights and biases: w0+, b0+, ...

    Parameters
    ----------
    sizes : sequence of int
        Inputs, hidden units of each layer, classes.
    machines : sequence of int
        Machine of each layer.
    batch : int or None
        Rows of ``x``, or None if they differ from step to step.
    """
    layers = len(sizes) - 1
    if layers < 1 or len(machines) != layers:
        raise UserError(f"There must be at least one layer and a machine for each, not {len(machines)} machines for "
                        f"{layers} layers.")
    graph = Graph()

    def tensor(name: str, *shape: int | None) -> Tensor:
        return Tensor(name, shape, np.dtype(np.float32))

    def rows_like(columns: int) -> Any:
        return lambda value, *others: [(value.shape[0], columns)]

    graph.feed(tensor("x", batch, sizes[0]), machines[0])
    graph.feed(tensor("y", batch, sizes[-1]), machines[-1])
    for number in range(layers):
        graph.feed(tensor(f"w{number}", sizes[number], sizes[number + 1]), machines[number])
        graph.feed(tensor(f"b{number}", 1, sizes[number + 1]), machines[number])
    inputs = ["x", *(f"h{number}" for number in range(layers - 1))]
    for number, machine in enumerate(machines):
        last = number == layers - 1
        graph.add(f"layer{number}", _linear if last else _layer, [inputs[number], f"w{number}", f"b{number}"],
                  [tensor("logits" if last else f"h{number}", batch, sizes[number + 1])], machine, writes=True,
                  shapes=rows_like(sizes[number + 1]))
    graph.add("softmax", _cross_entropy, ["logits", "y"],
              [tensor(f"d{layers - 1}", batch, sizes[-1]), tensor("loss", 1)], machines[-1])
    step = np.float32(rate)
    for number in reversed(range(layers)):
        machine = machines[number]
        if number:
            graph.add(f"back{number}", _back, [f"d{number}", f"w{number}"],
                      [tensor(f"g{number}", batch, sizes[number])], machine, writes=True,
                      shapes=rows_like(sizes[number]))
            graph.add(f"mask{number}", _mask, [f"g{number}", inputs[number]],
                      [tensor(f"d{number - 1}", batch, sizes[number])], machines[number - 1])
        graph.add(f"update{number}", lambda value, delta, weight: weight - step * (value.T @ delta),
                  [inputs[number], f"d{number}", f"w{number}"],
                  [tensor(f"w{number}+", sizes[number], sizes[number + 1])], machine)
        graph.add(f"shift{number}", lambda delta, bias: bias - step * delta.sum(axis=0, keepdims=True),
                  [f"d{number}", f"b{number}"], [tensor(f"b{number}+", 1, sizes[number + 1])], machine)
    graph.results = ("loss", *(f"{kind}{number}+" for number in range(layers) for kind in "wb"))
    return graph


def _linear(value: Floats, weight: Floats, bias: Floats, out: Floats) -> None:
    np.matmul(value, weight, out=out)
    np.add(out, bias, out=out)


def _layer(value: Floats, weight: Floats, bias: Floats, out: Floats) -> None:
    _linear(value, weight, bias, out)
    np.maximum(out, 0, out=out)


def _cross_entropy(logits: Floats, labels: Floats) -> tuple[Floats, Floats]:
    """Gradient of the mean cross entropy, and the mean."""
    shifted = logits - logits.max(axis=1, keepdims=True)
    logarithms = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    rows = np.float32(len(labels))
    return (np.exp(logarithms) - labels) / rows, -(logarithms * labels).sum(keepdims=True).reshape(1) / rows


def _back(delta: Floats, weight: Floats, out: Floats) -> None:
    np.matmul(delta, weight.T, out=out)


def _mask(gradient: Floats, hidden: Floats) -> Floats:
    return gradient * (hidden > 0)
