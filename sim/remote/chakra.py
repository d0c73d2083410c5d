# SPDX-License-Identifier: Apache-2.0
"""Chakra execution traces of several ranks, with COMM_SEND and COMM_RECV nodes, as a graph over machines.

A trace has sizes and dependencies, and no data: each operation that computes writes a pattern that depends on its name
and on all bytes of its inputs, so that a run shows whether every byte has crossed. Rank n is machine n.

===================  ============================================================================================
node                 meaning
===================  ============================================================================================
COMP                 an operation. Its results are the payloads of the COMM_SEND nodes that depend on it
COMM_SEND            ``comm_size`` bytes to rank ``comm_dst``, with ``comm_tag``
COMM_RECV            bytes from rank ``comm_src``; the n-th of a source and tag matches the n-th COMM_SEND there
===================  ============================================================================================
"""

import hashlib
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from google.protobuf.message import DecodeError
from google.protobuf.proto import parse_length_prefixed

from dmace.remote.graph import Graph
from dmace.remote.tensor import Tensor
from hw.errors import UserError
from sim.system.chakra.schema import GlobalMetadata, Node, NodeProto, NodeType

__all__ = ["read_ranks"]

Bytes = npt.NDArray[np.uint8]


def read_ranks(prefix: str | Path) -> Graph:
    """Graph of the traces ``PREFIX.0.et``, ``PREFIX.1.et``, ...

    Raises
    ------
    UserError
        For files that are missing or no traces, nodes of other types, and sends and receives that do not match.
    """
    paths: list[Path] = []
    while (path := Path(f"{prefix}.{len(paths)}.et")).is_file():
        paths.append(path)
    if not paths:
        raise UserError(f"there is no trace {prefix}.0.et.")
    ranks = [_nodes(path) for path in paths]
    payloads = _payloads(ranks)
    graph = Graph()
    results: list[str] = []
    for rank, nodes in enumerate(ranks):
        for node in nodes.values():
            if node.type != NodeType.COMP:
                continue
            name = f"{rank}.{node.id}"
            sent = [payload for payload in payloads.values() if payload.producer == (rank, node.id)]
            outputs = [Tensor(f"{name}:{payload.name}", (payload.size,), np.dtype(np.uint8)) for payload in sent]
            outputs.append(Tensor(name, (8,), np.dtype(np.uint8)))
            needs = list(dict.fromkeys(_value(rank, nodes, payloads, need)
                                       for need in (*node.ctrl_deps, *node.data_deps)))
            graph.add(name, _pattern(name, len(needs)), needs, outputs, rank, writes=True)
            results.append(name)
    graph.results = tuple(results)
    return graph


class _Payload:
    """A message: the node that produces it, and its bytes."""

    def __init__(self, producer: tuple[int, int], name: str, size: int) -> None:
        self.producer, self.name, self.size = producer, name, size


def _nodes(path: Path) -> dict[int, Node]:
    with path.open("rb") as file:
        try:
            metadata = parse_length_prefixed(GlobalMetadata, file)
            nodes: dict[int, Node] = {}
            while (node := parse_length_prefixed(NodeProto, file)) is not None:
                nodes[node.id] = node
        except (DecodeError, ValueError) as error:
            raise UserError(f"{path} is no Chakra trace: {error}.") from None
    if metadata is None:
        raise UserError(f"{path} is no Chakra trace.")
    for node in nodes.values():
        if node.type not in (NodeType.COMP, NodeType.COMM_SEND, NodeType.COMM_RECV):
            raise UserError(f"{path}: node {node.id} is of type {node.type}; only COMP, COMM_SEND and COMM_RECV can be "
                            "run on machines.")
        for need in (*node.ctrl_deps, *node.data_deps):
            if need not in nodes:
                raise UserError(f"{path}: node {node.id} needs a node {need}, which does not exist.")
    return nodes


def _payloads(ranks: Sequence[Mapping[int, Node]]) -> dict[tuple[int, int], _Payload]:
    """Rank and id of each COMM_RECV -> its message."""
    sends: dict[tuple[int, int, int], list[Node]] = defaultdict(list)
    for rank, nodes in enumerate(ranks):
        for node in nodes.values():
            if node.type == NodeType.COMM_SEND:
                sends[rank, _number(node, "comm_dst"), _number(node, "comm_tag", 0)].append(node)
    found: dict[tuple[int, int], _Payload] = {}
    for rank, nodes in enumerate(ranks):
        for node in nodes.values():
            if node.type != NodeType.COMM_RECV:
                continue
            source, tag = _number(node, "comm_src"), _number(node, "comm_tag", 0)
            waiting = sends[source, rank, tag]
            if not waiting:
                raise UserError(f"node {node.id} of rank {rank} receives tag {tag} from rank {source}, which has no "
                                "such COMM_SEND.")
            send = waiting.pop(0)
            needs = [*send.ctrl_deps, *send.data_deps]
            if len(needs) != 1 or ranks[source][needs[0]].type != NodeType.COMP:
                raise UserError(f"node {send.id} of rank {source} must depend on one COMP node, whose result it sends.")
            if (size := _number(send, "comm_size")) < 1:
                raise UserError(f"comm_size of node {send.id} must be at least 1, not {size}.")
            found[rank, node.id] = _Payload((source, needs[0]), f"{send.id}", size)
    for (source, target, tag), waiting in sends.items():
        if waiting:
            raise UserError(f"node {waiting[0].id} of rank {source} sends tag {tag} to rank {target}, which has no "
                            "such COMM_RECV.")
    return found


def _value(rank: int, nodes: Mapping[int, Node], payloads: Mapping[tuple[int, int], _Payload], need: int) -> str:
    """Name of the value that a dependency on a node stands for."""
    node = nodes[need]
    if node.type == NodeType.COMM_RECV:
        payload = payloads[rank, need]
        return f"{payload.producer[0]}.{payload.producer[1]}:{payload.name}"
    if node.type == NodeType.COMM_SEND:
        raise UserError(f"a node of rank {rank} depends on COMM_SEND node {need}; a send has no result.")
    return f"{rank}.{need}"


def _pattern(name: str, count: int) -> Callable[..., None]:
    """A call that fills outputs with bytes that follow from the operation's name and its inputs."""
    def call(*values: Bytes) -> None:
        inputs, outputs = values[:count], values[count:]
        digest = hashlib.blake2b(name.encode(), digest_size=8)
        for value in inputs:
            digest.update(value.tobytes())
        generator = np.random.Generator(np.random.PCG64(int.from_bytes(digest.digest(), "little")))
        for output in outputs:
            output[...] = generator.integers(0, 256, output.size, np.uint8)

    return call


def _number(node: Node, name: str, default: int | None = None) -> int:
    for attribute in node.attr:
        if attribute.name == name:
            which = attribute.WhichOneof("value")
            value: Any = getattr(attribute, which) if which else None
            if isinstance(value, int) and not isinstance(value, bool):
                return value
            raise UserError(f"{name} of node {node.id} must be an integer, not {value!r}.")
    if default is None:
        raise UserError(f"node {node.id} has no attribute {name}.")
    return default
