# SPDX-License-Identifier: Apache-2.0
"""One operation of a graph: its call, and the checks of its values."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from dmace.runtime.errors import DmaceError

from .conversion import arranged
from .graph import Graph, Operation
from .tensor import Shape, Tensor

__all__ = ["Allocate", "execute", "fed", "run_alone"]

Allocate = Callable[[Tensor, Shape], npt.NDArray[Any]]
"""An array for an output of an operation that writes its outputs."""


def fed(graph: Graph, name: str, feeds: Mapping[str, Any]) -> Any:
    """The value that a step is given under a name, in its tensor's order.

    Raises DmaceError if it is missing or of another shape or type.
    """
    if name not in feeds:
        raise DmaceError(f"The step needs a value for {name!r}.")
    tensor = graph.values[name]
    return feeds[name] if tensor is None else arranged(graph.conversion, tensor, feeds[name])


def fresh(tensor: Tensor, shape: Shape) -> npt.NDArray[Any]:
    """An array of a tensor, in ordinary memory."""
    return tensor.view(np.empty(tensor.count(shape), np.uint8), shape)


def execute(graph: Graph, operation: Operation, inputs: Sequence[Any], allocate: Allocate = fresh) -> list[Any]:
    """Values of an operation's outputs, each in its tensor's order."""
    tensors = [graph.values[name] for name in operation.outputs]
    if operation.writes:
        described = [tensor for tensor in tensors if tensor is not None]
        shapes = [tensor.known for tensor in described]
        if operation.shapes is not None:
            shapes = [tuple(shape) for shape in operation.shapes(*inputs)]
        made = []
        for tensor, shape in zip(described, shapes, strict=True):
            assert shape is not None
            tensor.check(shape)
            made.append(graph.conversion.from_array(allocate(tensor, shape)))
        operation.call(*inputs, *made)
        return made
    value = operation.call(*inputs)
    values = [value] if len(tensors) == 1 else list(value)
    if len(values) != len(tensors):
        raise DmaceError(f"Operation {operation.name!r} must return {len(tensors)} values, not {len(values)}.")
    return [value if tensor is None else arranged(graph.conversion, tensor, value)
            for tensor, value in zip(tensors, values, strict=True)]


def run_alone(graph: Graph, feeds: Mapping[str, Any]) -> dict[str, Any]:
    """Results of a step in this process alone, without machines: name -> value."""
    values = {name: fed(graph, name, feeds) for name in graph.feeds}
    for operation in graph.sorted():
        outputs = execute(graph, operation, [values[name] for name in operation.inputs])
        values |= dict(zip(operation.outputs, outputs, strict=True))
    return {name: values[name] for name in graph.results}
