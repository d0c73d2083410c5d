# SPDX-License-Identifier: Apache-2.0
"""One machine's part of a step: its operations in order, each when its inputs have arrived."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy.typing as npt

from .conversion import shares
from .execution import execute, fed, fresh
from .future import Turns
from .graph import Graph, Operation
from .incoming import Incoming
from .outgoing import Outgoing
from .tensor import Shape, Tensor

__all__ = ["Worker"]


class Worker:
    """A machine's part.

    Parameters
    ----------
    graph : Graph
    number : int
        Of the machine.
    order : sequence of Operation
        Its operations, in the order of the plan.
    outgoing, incoming : sequences
        Its blocks, in the order in which transfers are requested.

    Attributes
    ----------
    copied_bytes : int
        Bytes that were copied into registered memory in the step in progress, because their operation did not write
        them there.
    """

    def __init__(self, graph: Graph, number: int, order: Sequence[Operation], outgoing: Sequence[Outgoing],
                 incoming: Sequence[Incoming]) -> None:
        self._graph, self._number, self._order = graph, number, order
        self.outgoing, self.incoming = outgoing, incoming
        self._sent_in = {tensor.name: block for block in outgoing for tensor in block.block.tensors}
        self._received_in = {tensor.name: block for block in incoming for tensor in block.block.tensors}
        self._last_use = {name: position for position, operation in enumerate(order) for name in operation.inputs}
        self._own = {name for name, machine in graph.feeds.items() if machine == number}
        self._own |= {name for operation in order for name in operation.outputs}
        self._values: dict[str, Any] = {}
        self.copied_bytes = 0

    def step(self, feeds: Mapping[str, Any]) -> Turns[dict[str, Any]]:
        """Run all operations; the results that this machine produces, name -> value."""
        self._values, self.copied_bytes = {}, 0
        results: dict[str, Any] = {}
        arrived: set[Incoming] = set()
        for outgoing in self.outgoing:
            outgoing.begin()
        for incoming in self.incoming:
            incoming.begin()
        given = [name for name in self._graph.feeds if name in self._own]
        yield from self._produce(given, [fed(self._graph, name, feeds) for name in given], results)
        for position, operation in enumerate(self._order):
            for name in operation.inputs:
                if name in self._received_in and (incoming := self._received_in[name]) not in arrived:
                    arrived.add(incoming)
                    self._values |= yield from incoming.receive()
            for name in operation.outputs:
                if name in self._sent_in:
                    yield from self._sent_in[name].free()
            outputs = execute(self._graph, operation, [self._values[name] for name in operation.inputs], self._allocate)
            yield from self._produce(operation.outputs, outputs, results, operation)
            del outputs
            self._discard(position)
        return results

    def _allocate(self, tensor: Tensor, shape: Shape) -> npt.NDArray[Any]:
        """An array for an output: registered memory if it crosses."""
        made = self._sent_in[tensor.name].allocate(tensor, shape) if tensor.name in self._sent_in else None
        return fresh(tensor, shape) if made is None else made

    def _produce(self, names: Sequence[str], values: Sequence[Any], results: dict[str, Any],
                 operation: Operation | None = None) -> Turns[None]:
        """Keep values, put those that cross into registered memory, and start complete blocks."""
        complete: list[str] = []
        for name, value in zip(names, values, strict=True):
            self._values[name] = value
            tensor, outgoing = self._graph.values[name], self._sent_in.get(name)
            if outgoing is not None and tensor is not None:
                if operation is None:
                    yield from outgoing.free()
                array = self._graph.conversion.to_array(value)
                copied = outgoing.store(tensor, array.astype(tensor.dtype, copy=False))
                # In memory that this process cannot address, it stores for an operation that would write there itself.
                self.copied_bytes += 0 if operation is not None and operation.writes else copied
                complete.append(name)
            if name in self._graph.results:
                results[name] = self._kept(tensor, value)
        # Blocks in the order of the plan: the first that is needed is requested first.
        for outgoing in self.outgoing:
            for name in complete:
                if self._sent_in[name] is outgoing:
                    outgoing.complete(name)

    def _kept(self, tensor: Tensor | None, value: Any) -> Any:
        """A copy of a result: it outlives the step, and registered memory does not."""
        if tensor is None or tensor.scalar:
            return value
        array = self._graph.conversion.to_array(value)
        return self._graph.conversion.from_array(tensor.arrange(array.copy(order="K")))

    def _discard(self, position: int) -> None:
        """Drop values after their last use, then release blocks of which no remaining value is a part or a view."""
        self._values = {name: value for name, value in self._values.items()
                        if self._last_use.get(name, -1) > position}
        for incoming in self.incoming:
            if (memory := incoming.memory) is None:
                continue
            if not any(shares(self._graph.conversion, value, memory) for value in self._values.values()):
                incoming.release()
