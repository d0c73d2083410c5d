# SPDX-License-Identifier: Apache-2.0
"""Chakra traces as a graph."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from google.protobuf.message import DecodeError
from google.protobuf.proto import parse_length_prefixed

from hw.ace.words import Collective
from hw.errors import UserError
from sim.system.graph import Graph, Kind, Node
from sim.system.workloads import GROUPS, Exchange, Work

from . import schema
from .schema import CollectiveType, GlobalMetadata, NodeProto, NodeType

__all__ = ["read"]

MOST_NANOSECONDS = 1e15
"""Eleven days."""


def read(name: str | Path) -> Graph:
    """:class:`Graph` of a trace ``FILE.et``, or of traces ``NAME.0.et``, ``NAME.1.et``, ..., which must be alike.

    A collective's group is ``comm_group``, where that is one of ours; else ``involved_dim`` must have all dimensions
    or be absent. Raises :class:`UserError` for a file that is none, and for nodes that are not of a step that all
    ranks do alike.
    """
    path = Path(name)
    paths = [path] if path.suffix == ".et" else _ranks(path)
    try:
        contents = [one.read_bytes() for one in paths]
    except OSError as error:
        raise UserError(f"the trace {error.filename} cannot be read: {error.strerror}.") from None
    for one, content in zip(paths[1:], contents[1:], strict=True):
        if content != contents[0]:
            raise UserError(f"the trace {one} is not like {paths[0]}; only steps that all ranks do alike can be run.")
    metadata, nodes = _messages(paths[0])
    attributes = _attributes(metadata)
    order = _sorted(nodes, paths[0])
    graph: list[Node] = []
    numbers = {node.id: number for number, node in enumerate(order)}
    previous: int | None = None
    for node in order:
        made = _node(node, numbers, paths[0])
        if made.kind == Kind.COMPUTE:
            # A processor computes one node at a time, in the order of the file.
            made = replace(made, previous=previous, after=tuple(need for need in made.after if need != previous))
            previous = made.number
        graph.append(made)
    return Graph(name=attributes.get("workload", path.name), nodes=tuple(graph),
                 steps=max(1, _whole(attributes, "steps", 1)),
                 model_parallel=_whole(attributes, "model_parallel", 1),
                 source=attributes.get("source", f"Chakra trace {paths[0].name}"))


def _ranks(prefix: Path) -> list[Path]:
    paths = sorted(prefix.parent.glob(f"{prefix.name}.*.et"))
    if not paths:
        raise UserError(f"there is no trace {prefix}.0.et.")
    return paths


def _messages(path: Path) -> tuple[schema.Attributed, list[schema.Node]]:
    with path.open("rb") as file:
        try:
            metadata = parse_length_prefixed(GlobalMetadata, file)
            nodes: list[schema.Node] = []
            while (node := parse_length_prefixed(NodeProto, file)) is not None:
                nodes.append(node)
        except (DecodeError, ValueError) as error:
            raise UserError(f"{path} is no Chakra trace: {error}.") from None
    if metadata is None or not nodes:
        raise UserError(f"{path} is no Chakra trace, or has no nodes.")
    return metadata, nodes


def _sorted(nodes: Sequence[schema.Node], path: Path) -> list[schema.Node]:
    """Nodes in the order of the file, but each after those that it needs."""
    known = {node.id: node for node in nodes}
    if len(known) != len(nodes):
        raise UserError(f"{path} has two nodes of one id.")
    order: list[schema.Node] = []
    state: dict[int, str] = {}
    for first in nodes:
        stack = [first]
        while stack:
            node = stack[-1]
            needs = [*node.ctrl_deps, *node.data_deps]
            if missing := [need for need in needs if need not in known]:
                raise UserError(f"{path}: node {node.id} needs a node {missing[0]}, which is not there.")
            waiting = [need for need in needs if state.get(need) != "done"]
            if state.get(node.id) == "done":
                stack.pop()
            elif not waiting:
                state[node.id] = "done"
                order.append(node)
                stack.pop()
            elif any(state.get(need) == "open" for need in waiting):
                raise UserError(f"{path}: node {node.id} needs itself, by way of node "
                                f"{next(need for need in waiting if state.get(need) == 'open')}.")
            else:
                state[node.id] = "open"
                stack += [known[need] for need in waiting]
    return order


def _node(node: schema.Node, numbers: Mapping[int, int], path: Path) -> Node:
    attributes = _attributes(node)
    common: dict[str, Any] = {
        "number": numbers[node.id], "layer": str(attributes.get("layer", node.name)),
        "part": str(attributes.get("part", "")), "step": _whole(attributes, "step", 0),
        "after": tuple(sorted({numbers[need] for need in (*node.ctrl_deps, *node.data_deps)}))}
    where = f"{path}: node {node.id}"
    try:
        if node.type == NodeType.COMM_COLL:
            return Node(kind=Kind.COLLECTIVE, exchange=_exchange(attributes),
                        priority=_whole(attributes, "comm_priority", 0), **common)
    except UserError as error:
        raise UserError(f"{where}: {error}") from None
    if node.type == NodeType.METADATA:
        return Node(kind=Kind.DELAY, work=Work(seconds=0.0), **common)
    if node.type != NodeType.COMP:
        kind = NodeType(node.type).name if node.type in set(NodeType) else str(node.type)
        raise UserError(f"{where} is of type {kind}; only COMP and COMM_COLL can be run.")
    seconds: float | None
    try:
        if "duration_ns" in attributes:
            seconds = _nanoseconds(attributes["duration_ns"]) / 1e9
        else:
            roofline = attributes.get("roofline", _whole(attributes, "num_ops", 0, low=0) > 0)
            seconds = None if roofline else _nanoseconds(node.duration_micros * 1000) / 1e9
        work = Work(seconds=seconds, flops=_whole(attributes, "num_ops", 0, low=0),
                    memory_bytes=_whole(attributes, "tensor_size", 0, low=0))
    except UserError as error:
        raise UserError(f"{where}: {error}") from None
    return Node(kind=Kind.DELAY if attributes.get("is_cpu_op") else Kind.COMPUTE, work=work, **common)


def _exchange(attributes: Mapping[str, Any]) -> Exchange:
    kind = _whole(attributes, "comm_type", -1)
    names = {one.value: one.name for one in CollectiveType} | {CollectiveType.REDUCE_SCATTER_BLOCK: "REDUCE_SCATTER"}
    if names.get(kind) not in Collective.__members__:
        raise UserError(f"its comm_type {names.get(kind, kind)} is none that can be run.")
    group = attributes.get("comm_group", "all")
    if group not in GROUPS or not all(attributes.get("involved_dim", [True])):
        raise UserError("it has a group of its own; only comm_group all, model and data can be run.")
    return Exchange(collective=Collective[names[kind]], bytes=_whole(attributes, "comm_size", 0), group=group)


def _attributes(message: schema.Attributed) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for attribute in message.attr:
        which = attribute.WhichOneof("value")
        value: Any = getattr(attribute, which) if which else None
        made[attribute.name] = list(value.values) if which == "bool_list" else value
    return made


def _whole(attributes: Mapping[str, Any], name: str, default: int, *, low: int | None = None) -> int:
    value = attributes.get(name, default)
    if not isinstance(value, int) or (low is not None and value < low):
        raise UserError(f"{name} must be an integer{'' if low is None else f' of {low} or more'}, not {value!r}.")
    return int(value)


def _nanoseconds(value: object) -> float:
    if not isinstance(value, int | float) or not 0 <= value <= MOST_NANOSECONDS:
        raise UserError(f"its duration must be a number from 0 to {MOST_NANOSECONDS:g} nanoseconds, not {value!r}.")
    return value
