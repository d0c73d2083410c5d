# SPDX-License-Identifier: Apache-2.0
"""Execution traces of ``torch.profiler.ExecutionTraceObserver``: JSON, a node for each call, with its tensors.

A node names the call that it is part of (``ctrl_deps``, one number) and has ``inputs`` and ``outputs`` (values, shapes
and types) and attributes. A tensor's value is ``[id, storage, offset, elements, bytes of one, device]``. Numbers grow
with the start of a call. Schemata 1.0.2-chakra.0.0.4 to 1.1.1-chakra.0.0.4.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any

from hw.errors import UserError

from .files import load_json

__all__ = ["Call", "Tensor", "read_calls"]

SCHEMATA = ("1.0.2-chakra.0.0.4", "1.0.3-chakra.0.0.4", "1.1.0-chakra.0.0.4", "1.1.1-chakra.0.0.4")

WHAT = "an execution trace of PyTorch"

MOST_BYTES = 1 << 60
"""The most that a tensor has."""


@dataclass(frozen=True)
class Tensor:
    """A tensor: its storage's number, shape, and bytes of an element."""

    storage: int
    shape: tuple[int, ...]
    element: int

    @property
    def bytes(self) -> int:
        return prod(self.shape) * self.element


@dataclass(kw_only=True)
class Call:
    """A node of an execution trace.

    Parameters
    ----------
    id, parent : int
        ``parent`` is the node that it is part of.
    name : str
    values : tuple
        Of the inputs.
    types : tuple of str
        Of the inputs.
    inputs, outputs : tuple
        For each input and output, its tensors.
    attributes : dict
    children : list of Call
        In the order of their start.
    """

    id: int
    parent: int
    name: str
    values: tuple[Any, ...]
    types: tuple[str, ...]
    inputs: tuple[tuple[Tensor, ...], ...]
    outputs: tuple[tuple[Tensor, ...], ...]
    attributes: Mapping[str, Any]
    children: list["Call"] = field(default_factory=list)

    @property
    def schema(self) -> str:
        """Its operator's schema; empty for annotations and autograd's nodes."""
        return str(self.attributes.get("op_schema", ""))

    def argument(self, name: str) -> Any:
        """Value of an input by its name in the schema; None if it has no such input."""
        number = self.position(name)
        return None if number is None else self.values[number]

    def tensors(self, name: str) -> tuple[Tensor, ...]:
        """Tensors of an input by its name in the schema."""
        number = self.position(name)
        return () if number is None else self.inputs[number]

    def position(self, name: str) -> int | None:
        """Number of an input by its name in the schema; None if it has no such input."""
        inside = self.schema.partition("(")[2].rpartition(") ->")[0]
        # Commas inside of brackets belong to a type.
        names = [part.split("=")[0].split()[-1] for part in re.split(r",\s*(?![^(\[]*[)\]])", inside) if part.split()]
        names = [one for one in names if one != "*"]
        return names.index(name) if name in names and names.index(name) < len(self.values) else None

    def walk(self) -> Iterator["Call"]:
        """Itself and all calls inside, in the order of their start."""
        stack = [self]
        while stack:
            one = stack.pop()
            yield one
            stack += reversed(one.children)


def read_calls(path: Path) -> list[Call]:
    """Calls of threads, each with the calls inside, of a file ``.json`` or ``.json.gz``.

    Raises
    ------
    UserError
        If the file is cut off or anything else.
    """
    made = load_json(path, WHAT)
    if isinstance(made, Mapping) and "traceEvents" in made:
        raise UserError(f"{path} is a trace of torch.profiler.profile; besides it, the file of an "
                        "ExecutionTraceObserver is needed.")
    if not isinstance(made, Mapping) or not isinstance(made.get("nodes"), list) or "schema" not in made:
        raise UserError(f"{path} is not {WHAT}: it has no schema and no nodes.")
    if made["schema"] not in SCHEMATA:
        raise UserError(f"{path} has the schema {made['schema']!r}; {SCHEMATA[0]} to {SCHEMATA[-1]} can be read.")
    calls: dict[int, Call] = {}
    for number, node in enumerate(made["nodes"]):
        try:
            call = _call(node)
        except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError, RecursionError) as error:
            raise UserError(f"{path}: node {number} of the list is not as the observer writes it "
                            f"({type(error).__name__}: {error}).") from None
        if call.id in calls:
            raise UserError(f"{path} has two nodes of number {call.id}.")
        calls[call.id] = call
    roots: list[Call] = []
    for number in sorted(calls):
        call = calls[number]
        if call.parent == number:
            continue
        if call.parent not in calls:
            raise UserError(f"{path}: node {number} is part of a node {call.parent}, which is not in the trace.")
        if call.parent > number:
            raise UserError(f"{path}: node {number} is part of node {call.parent}, which began later.")
        if calls[call.parent].parent == call.parent:
            roots.append(call)
        else:
            calls[call.parent].children.append(call)
    if not roots:
        raise UserError(f"{path} has no calls.")
    return roots


def _call(node: Mapping[str, Any]) -> Call:
    inputs, outputs = node["inputs"], node["outputs"]
    attributes = {one["name"]: one["value"] for one in node["attrs"]}
    _integer(attributes.get("rf_id", 0))
    return Call(id=_integer(node["id"]), parent=_integer(node["ctrl_deps"]), name=str(node["name"]),
                values=tuple(inputs["values"]), types=tuple(map(str, inputs["types"])),
                inputs=_tensors(inputs), outputs=_tensors(outputs), attributes=attributes)


def _integer(value: Any) -> int:
    if type(value) is not int:
        raise ValueError(f"{value!r} is not an integer")
    return value


def _tensors(one: Mapping[str, Any]) -> tuple[tuple[Tensor, ...], ...]:
    values, shapes, types = one["values"], one["shapes"], one["types"]
    if not len(values) == len(shapes) == len(types):
        raise ValueError("values, shapes and types are not of one length")
    return tuple(tuple(_inside(value, shape)) if "Tensor" in kind else ()
                 for value, shape, kind in zip(values, shapes, types, strict=True))


def _inside(value: Sequence[Any], shape: Sequence[Any]) -> Iterator[Tensor]:
    """The tensor that a value is, or those of a list."""
    if not isinstance(value, list):
        return
    if len(value) == 6 and isinstance(value[5], str) and all(isinstance(part, int) for part in value[:5]):
        made = Tensor(_integer(value[1]), tuple(map(_integer, shape)), _integer(value[4]))
        if not 0 <= made.bytes <= MOST_BYTES or min(made.shape, default=0) < 0:
            raise ValueError(f"a tensor has the shape {list(shape)}")
        yield made
        return
    for part, its in zip(value, shape, strict=True):
        yield from _inside(part, its)
