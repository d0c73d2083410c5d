# SPDX-License-Identifier: Apache-2.0
"""Graphs of operations and tensors, with the machine of each operation."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from dmace.runtime.errors import DmaceError

from .conversion import NUMPY, Conversion
from .tensor import Shape, Tensor

__all__ = ["Graph", "Operation"]


@dataclass(frozen=True)
class Operation:
    """An operation of a graph.

    Parameters
    ----------
    name : str
    call : callable
        Receives the values of ``inputs``, and returns the value of the output, or a sequence of those of several. With
        ``writes`` it receives arrays for the outputs behind the inputs, writes them, and its result is ignored.
    inputs, outputs : tuple of str
        Names of values.
    machine : int or None
        None while it is not assigned.
    writes : bool
        An output that crosses machines is then written directly into registered memory.
    shapes : callable, optional
        With ``writes``, if a shape is not known before the step: receives the inputs, returns the shape of each output.
    """

    name: str
    call: Callable[..., Any]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    machine: int | None
    writes: bool = False
    shapes: Callable[..., Sequence[Shape]] | None = None


class Graph:
    """A step of work: values that are fed to it, operations, results.

    Parameters
    ----------
    conversion : Conversion
        Of the operations' values.

    Attributes
    ----------
    values : dict
        Name -> :class:`Tensor`, or None for a value that is no tensor and so cannot cross machines.
    feeds : dict
        Name -> machine of the values that a step is given.
    operations : list of Operation
        In any order.
    results : tuple of str
        Values that a step returns.
    """

    def __init__(self, conversion: Conversion = NUMPY) -> None:
        self.conversion = conversion
        self.values: dict[str, Tensor | None] = {}
        self.feeds: dict[str, int | None] = {}
        self.operations: list[Operation] = []
        self.results: tuple[str, ...] = ()
        self._names: set[str] = set()

    def feed(self, tensor: Tensor, machine: int | None) -> str:
        """A value that each step is given, on a machine; returns its name."""
        self._define(tensor.name, tensor)
        self.feeds[tensor.name] = machine
        return tensor.name

    def add(self, name: str, call: Callable[..., Any], inputs: Iterable[str], outputs: Iterable[Tensor | str],
            machine: int | None, *, writes: bool = False,
            shapes: Callable[..., Sequence[Shape]] | None = None) -> Operation:
        """Add an :class:`Operation`. An output that is only a name is a value that is no tensor."""
        if name in self._names:
            raise DmaceError(f"The graph has two operations of the name {name!r}.")
        described = list(outputs)
        if writes:
            for output in described:
                if isinstance(output, str):
                    raise DmaceError(f"Operation {name!r} writes its outputs, so output {output!r} must be a tensor.")
                if output.known is None and shapes is None:
                    raise DmaceError(f"Operation {name!r} writes its outputs, so it needs the shape of tensor "
                                     f"{output.name!r} before the step, or a function that computes it.")
        self._names.add(name)
        for output in described:
            if isinstance(output, str):
                self._define(output, None)
            else:
                self._define(output.name, output)
        names = tuple(output if isinstance(output, str) else output.name for output in described)
        self.operations.append(Operation(name, call, tuple(inputs), names, machine, writes, shapes))
        return self.operations[-1]

    def _define(self, name: str, tensor: Tensor | None) -> None:
        if name in self.values:
            raise DmaceError(f"The graph has two values of the name {name!r}.")
        self.values[name] = tensor

    def producers(self) -> dict[str, Operation]:
        """Name of each value that is not fed -> its operation."""
        return {output: operation for operation in self.operations for output in operation.outputs}

    def sorted(self) -> list[Operation]:
        """Operations, each after those that it needs, otherwise in the order in which they were added.

        Raises
        ------
        DmaceError
            For a cycle, which it names, an input that no operation produces, and a result that does not exist.
        """
        producers = self.producers()
        for result in self.results:
            if result not in self.values:
                raise DmaceError(f"The graph has no value {result!r}, which is to be a result.")
        order: list[Operation] = []
        done: set[str] = set()
        for first in self.operations:
            path: list[tuple[Operation, list[Operation]]] = []
            self._push(path, first, producers, done)
            while path:
                operation, needed = path[-1]
                if needed:
                    self._push(path, needed.pop(0), producers, done)
                else:
                    path.pop()
                    done.add(operation.name)
                    order.append(operation)
        return order

    def _push(self, path: list[tuple[Operation, list[Operation]]], operation: Operation,
              producers: dict[str, Operation], done: set[str]) -> None:
        if operation.name in done:
            return
        names = [entry.name for entry, _ in path]
        if operation.name in names:
            cycle = [*names[names.index(operation.name):], operation.name]
            raise DmaceError(f"The graph has a cycle: {' needs '.join(map(repr, cycle))}.")
        for name in operation.inputs:
            if name not in self.values:
                raise DmaceError(f"Operation {operation.name!r} needs {name!r}, which no operation produces and which "
                                 "is not fed.")
        path.append((operation, [producers[name] for name in operation.inputs if name in producers]))
