# SPDX-License-Identifier: Apache-2.0
"""A Chakra trace in protobuf, as a :class:`~sim.system.chakra.trace.Trace`."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hw.ace.words import Collective
from hw.errors import UserError
from sim.system.workloads import GROUPS, Work

from . import groups, schema
from .files import messages
from .schema import CollectiveType, NodeType
from .trace import Event, Trace, ordered

__all__ = ["MOST_NANOSECONDS", "read_trace"]

MOST_NANOSECONDS = 1e15
"""Eleven days."""

RUN = (NodeType.COMP, NodeType.COMM_COLL, NodeType.COMM_SEND, NodeType.COMM_RECV)


def read_trace(path: Path, rank: int | None = None) -> Trace:
    """A trace ``FILE.et`` of a rank; None: of all.

    Raises
    ------
    UserError
        For a file that is none, and for nodes that cannot be run.
    """
    metadata, nodes = messages(path)
    named = _attributes(metadata)
    known = {node.id: node for node in nodes}
    if len(known) != len(nodes):
        raise UserError(f"{path} has two nodes of one id.")
    found: dict[str, tuple[int, ...]] = {}
    events: dict[int, Event] = {}
    # Needs of each node; those of metadata, which takes no time, pass to its users.
    needs: dict[int, list[int]] = {}
    # Chakra's converter names a call that it has left out as the one around those inside.
    deps = {node.id: [*(need for need in node.ctrl_deps if need in known), *node.data_deps] for node in nodes}
    for number in ordered(deps, path):
        node = known[number]
        where = f"{path}: node {node.id}"
        mine: list[int] = []
        for need in dict.fromkeys(deps[number]):
            mine += [need] if need in events else needs[need]
        needs[number] = mine
        if node.type == NodeType.METADATA:
            if "process_group:init" in node.name and node.inputs.values:
                found |= groups.parsed(node.inputs.values, where)
            continue
        try:
            events[number] = _event(node, rank, tuple(sorted(set(mine))))
        except UserError as error:
            raise UserError(f"{where}{error}") from None
    if not events:
        raise UserError(f"{path} has nothing but metadata.")
    return Trace(path=path, events=tuple(events.values()), groups=found,
                 name=str(named.get("workload", path.name)), source=str(named.get("source", "")),
                 steps=max(1, _whole(named, "steps", 1, where=f"{path}: ")),
                 model_parallel=_whole(named, "model_parallel", 1, where=f"{path}: "))


def _event(node: schema.Node, rank: int | None, needs: tuple[int, ...]) -> Event:
    if node.type not in set(RUN):
        kind = NodeType(node.type).name if node.type in set(NodeType) else str(node.type)
        raise UserError(f" is of type {kind}; only COMP, COMM_COLL, COMM_SEND and COMM_RECV can be run.")
    attributes = _attributes(node)
    common: dict[str, Any] = {
        "id": node.id, "type": NodeType(node.type), "layer": str(attributes.get("layer", node.name)),
        "part": str(attributes.get("part", "")), "step": _whole(attributes, "step", 0), "needs": needs}
    if node.type == NodeType.COMP:
        return Event(work=_work(node, attributes), delay=bool(attributes.get("is_cpu_op")), **common)
    if node.type == NodeType.COMM_COLL:
        return _collective(attributes, common)
    sends = node.type == NodeType.COMM_SEND
    own, other = ("comm_src", "comm_dst") if sends else ("comm_dst", "comm_src")
    if rank is not None and _whole(attributes, own, rank) != rank:
        raise UserError(f" is a {NodeType(node.type).name} of rank {attributes[own]} in the trace of rank {rank}.")
    if other not in attributes:
        raise UserError(f" has no {other}.")
    return Event(peer=_whole(attributes, other, -1, low=0), tag=_whole(attributes, "comm_tag", 0),
                 bytes=_whole(attributes, "comm_size", 0, low=1), **common)


def _work(node: schema.Node, attributes: Mapping[str, Any]) -> Work:
    flops = _whole(attributes, "num_ops", 0, low=0)
    if "duration_seconds" in attributes:
        seconds: float | None = attributes["duration_seconds"]
        _nanoseconds(seconds * 1e9 if isinstance(seconds, int | float) else seconds)
    elif "duration_ns" in attributes:
        seconds = _nanoseconds(attributes["duration_ns"]) / 1e9
    elif attributes.get("roofline", flops > 0):
        seconds = None
    else:
        seconds = _nanoseconds(node.duration_micros * 1000) / 1e9
    return Work(seconds=seconds, flops=flops, memory_bytes=_whole(attributes, "tensor_size", 0, low=0))


def _collective(attributes: Mapping[str, Any], common: dict[str, Any]) -> Event:
    kind = _whole(attributes, "comm_type", -1)
    names = {one.value: one.name for one in CollectiveType} | {CollectiveType.REDUCE_SCATTER_BLOCK: "REDUCE_SCATTER"}
    if names.get(kind) not in Collective.__members__:
        raise UserError(f": its comm_type {names.get(kind, kind)} is none that can be run.")
    size = _whole(attributes, "comm_size", 0)
    if size < 1 and names[kind] != "BARRIER":
        raise UserError(f": an exchange must have 1 byte or more, not {size}.")
    if not all(_list(attributes, "involved_dim")):
        raise UserError(": its involved_dim leaves out dimensions of a network that the trace does not describe; name "
                        "the ranks by pg_name.")
    group = attributes.get("comm_group", "")
    if group and group not in GROUPS:
        raise UserError(f": its comm_group must be all, model or data, not {group!r}.")
    name = attributes.get("pg_name", "")
    if not isinstance(name, str):
        raise UserError(f": its pg_name must be a text, not {name!r}.")
    # In traces of ours that all ranks share, pg_name is for other readers.
    return Event(collective=Collective[names[kind]], bytes=max(1, size), pg_name="" if group else name,
                 comm_group=group,
                 priority=_whole(attributes, "comm_priority", 0),
                 root=_whole(attributes, "comm_root", 0, low=0) if "comm_root" in attributes else None, **common)


def _attributes(message: schema.Attributed) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for attribute in message.attr:
        which = attribute.WhichOneof("value")
        value: Any = getattr(attribute, which) if which else None
        made[attribute.name] = list(value.values) if which and which.endswith("_list") else value
    return made


def _whole(attributes: Mapping[str, Any], name: str, default: int, *, low: int | None = None, where: str = ": ") -> int:
    value = attributes.get(name, default)
    if not isinstance(value, int) or (low is not None and value < low):
        raise UserError(f"{where}{name} must be an integer{'' if low is None else f' of {low} or more'}, "
                        f"not {value!r}.")
    return int(value)


def _list(attributes: Mapping[str, Any], name: str) -> Sequence[Any]:
    value = attributes.get(name, [])
    return value if isinstance(value, list) else [value]


def _nanoseconds(value: object) -> float:
    if not isinstance(value, int | float) or not 0 <= value <= MOST_NANOSECONDS:
        raise UserError(f": its duration must be a number from 0 to {MOST_NANOSECONDS:g} nanoseconds, not {value!r}.")
    return value
