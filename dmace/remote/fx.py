# SPDX-License-Identifier: Apache-2.0
"""Graphs of PyTorch, as ``torch.fx`` traces them; needs the extra ``torch``.

Modules of ``torch.fx.symbolic_trace`` and ``torch.fx.experimental.proxy_tensor.make_fx`` are read, so a traced function
may contain the backward pass and the optimizer. Shapes of values are those that the module has for example inputs; a
size that differs between two examples is not known before the step.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from dmace.runtime.errors import DmaceError

from .graph import Graph
from .tensor import Shape, Tensor

if TYPE_CHECKING:
    from torch.fx import GraphModule, Node

__all__ = ["TORCH", "from_fx"]

Machines = Mapping[str, int] | Callable[["Node"], int | None]
"""Machine of a node by its name, or a function of the node; None for a node that is not assigned."""


class _Torch:
    """PyTorch's tensors of the CPU, which share memory with NumPy's arrays. NumPy has no bfloat16 of its own."""

    def to_array(self, value: Any) -> npt.NDArray[Any]:
        torch = _import()
        if not isinstance(value, torch.Tensor):
            return np.asarray(value)
        value = value.detach()
        if value.dtype == torch.bfloat16:
            array: npt.NDArray[Any] = value.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
            return array
        found: npt.NDArray[Any] = value.numpy()
        return found

    def from_array(self, array: npt.NDArray[Any]) -> Any:
        torch = _import()
        if array.dtype == ml_dtypes.bfloat16:
            return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
        return torch.from_numpy(array)


TORCH = _Torch()


def from_fx(module: "GraphModule", machines: Machines, *examples: Sequence[Any]) -> Graph:
    """A graph of a traced module.

    Parameters
    ----------
    module : torch.fx.GraphModule
        Its operations must not change their inputs.
    machines : mapping or callable
        Machine of each node, parameters and inputs included; a node that takes an element of a tuple is on the machine
        of the tuple.
    *examples : sequences of inputs
        One or several; their sizes may differ where shapes are not known before the step.

    Raises
    ------
    DmaceError
        Without an example, for a node that is not assigned or changes its inputs, and for data types that cannot cross.
    """
    torch = _import()
    if not examples:
        raise DmaceError("The shapes of a traced module need at least one sequence of example inputs.")
    shapes = [_values(module, example) for example in examples]
    graph = Graph(TORCH)
    names: list[str] = []
    for node in module.graph.nodes:
        if node.op == "output":
            names = [leaf.name for leaf in _leaves(node.args)]
            continue
        described = _described(node.name, [found[node.name] for found in shapes])
        machine = _machine(node, machines, graph)
        if node.op == "placeholder":
            if described is None:
                raise DmaceError(f"Input {node.name!r} of the module must be a tensor or a number.")
            graph.feed(described, machine)
            continue
        if _mutates(node):
            raise DmaceError(f"Node {node.name!r} changes its input in place, so the module cannot be partitioned.")
        out = _out_variant(node) if described is not None and described.known is not None else None
        graph.add(node.name, _call(module, node, out), [needed.name for needed in node.all_input_nodes],
                  [node.name if described is None else described], machine, writes=out is not None)
    graph.results = tuple(dict.fromkeys(names))
    del torch
    return graph


def _import() -> Any:
    try:
        import torch
        import torch.fx
    except ModuleNotFoundError:
        raise DmaceError("PyTorch is not installed; pip install 'dmace[torch]' installs it.") from None
    return torch


def _values(module: "GraphModule", example: Sequence[Any]) -> dict[str, Any]:
    """Name of each node -> its value for example inputs."""
    from torch.fx import Interpreter

    found: dict[str, Any] = {}

    class Recorder(Interpreter):    # type: ignore[misc]  # PyTorch's types are not used
        def run_node(self, n: "Node") -> Any:
            found[n.name] = value = super().run_node(n)
            return value

    Recorder(module).run(*example)
    return found


def _described(name: str, values: Sequence[Any]) -> Tensor | None:
    """Description of a value from its examples, or None if it is neither a tensor nor a number."""
    torch = _import()
    first = values[0]
    if isinstance(first, bool | int | float):
        return Tensor(name, (), TORCH.to_array(first).dtype, scalar=True)
    if not isinstance(first, torch.Tensor):
        return None
    shapes: list[Shape] = [tuple(value.shape) for value in values]
    if any(len(shape) != len(shapes[0]) or value.dtype != first.dtype
           for shape, value in zip(shapes, values, strict=True)):
        raise DmaceError(f"Node {name!r} must have the same type and number of dimensions for all examples.")
    sizes = tuple(column[0] if len(set(column)) == 1 else None for column in zip(*shapes, strict=True))
    longest = max(values, key=lambda value: int(value.numel()))
    order = sorted(range(longest.dim()), key=lambda dimension: -int(longest.stride(dimension)))
    return Tensor(name, sizes, TORCH.to_array(first).dtype, tuple(order))


def _machine(node: "Node", machines: Machines, graph: Graph) -> int | None:
    import operator

    if node.op == "call_function" and node.target is operator.getitem:
        source = node.all_input_nodes[0].name
        if graph.values[source] is None:
            return next(made.machine for made in graph.operations if source in made.outputs)
    return machines.get(node.name) if isinstance(machines, Mapping) else machines(node)


def _mutates(node: "Node") -> bool:
    if node.op == "call_method":
        return str(node.target).endswith("_") and not str(node.target).endswith("__")
    schema = getattr(node.target, "_schema", None)
    return bool(schema is not None and schema.is_mutable) or bool(node.kwargs.get("inplace"))


def _out_variant(node: "Node") -> Callable[..., Any] | None:
    """The operation that writes its result into a given tensor, if there is one with the same arguments."""
    schema, packet = (getattr(node.target, name, None) for name in ("_schema", "overloadpacket"))
    if node.op != "call_function" or schema is None or packet is None:
        return None
    wanted = [(argument.name, str(argument.type)) for argument in schema.arguments]
    for name in packet.overloads():
        candidate = getattr(packet, name)
        arguments = candidate._schema.arguments
        if arguments and arguments[-1].name == "out" and wanted == [
                (argument.name, str(argument.type)) for argument in arguments[:-1]]:
            found: Callable[..., Any] = candidate
            return found
    return None


def _call(module: "GraphModule", node: "Node", out: Callable[..., Any] | None) -> Callable[..., Any]:
    """The node as a function of its input values and, with ``out``, of the tensor to write."""
    torch = _import()
    inputs = list(node.all_input_nodes)

    def call(*values: Any) -> Any:
        by_node = dict(zip(inputs, values, strict=False))
        arguments = torch.fx.node.map_arg(node.args, by_node.__getitem__)
        keywords = torch.fx.node.map_arg(node.kwargs, by_node.__getitem__)
        with torch.no_grad():
            if out is not None:
                return out(*arguments, **keywords, out=values[-1])
            if node.op == "get_attr":
                return _attribute(module, str(node.target))
            if node.op == "call_module":
                return module.get_submodule(str(node.target))(*arguments, **keywords)
            if node.op == "call_method":
                return getattr(arguments[0], str(node.target))(*arguments[1:], **keywords)
            return node.target(*arguments, **keywords)

    return call


def _attribute(module: "GraphModule", path: str) -> Any:
    value: Any = module
    for name in path.split("."):
        value = getattr(value, name)
    return value.detach() if hasattr(value, "detach") else value


def _leaves(arguments: Any) -> list["Node"]:
    """All nodes in the result of a module."""
    torch = _import()
    found: list[Node] = []
    torch.fx.node.map_arg(arguments, found.append)
    return found
