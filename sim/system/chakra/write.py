# SPDX-License-Identifier: Apache-2.0
"""A graph as Chakra traces that ASTRA-sim and Chakra's own tools read.

Their feeder knows some attributes by name and takes each from one field: ``is_cpu_op`` (bool), ``num_ops`` and
``comm_size`` and ``comm_type`` (int64), ``tensor_size`` (uint64), ``comm_priority``, ``comm_src``, ``comm_dst`` and
``comm_tag`` (int32), ``pg_name`` (string, an integer in decimal). It orders nodes by ``data_deps``. Process groups are
in a METADATA node, which nodes without needs wait for. ``duration_micros`` is an integer, so fractions of a microsecond
are lost to others (:func:`rounding`); our attribute ``duration_seconds`` has the exact time.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

from google.protobuf.proto import serialize_length_prefixed

from hw.errors import UserError
from sim.system.configuration import MachineConfig
from sim.system.graph import Graph, Kind, Node
from sim.system.training import dimensions_for
from sim.system.workloads import GROUPS, Exchange, Processor

from . import groups
from .schema import VERSION, AttributeProto, CollectiveType, GlobalMetadata, NodeProto, NodeType

__all__ = ["Rounding", "rounding", "write"]

MOST_OPERATIONS = (1 << 63) - 1


@dataclass(frozen=True)
class Rounding:
    """Computation whose time is no whole number of microseconds: nodes, of how many, and the change of their total
    time by rounding as a share of the total."""

    nodes: int
    of: int
    change: float


def rounding(graph: Graph, processor: Processor) -> Rounding:
    """:class:`Rounding` of ``duration_micros`` in the traces of a graph."""
    # A receive waits for a node of another rank, and has no duration.
    exact = [node.work.alone(processor) * 1e6 for node in graph.nodes if node.kind in (Kind.COMPUTE, Kind.DELAY) and
             all(graph.nodes[need].rank == node.rank for need in node.needs)]
    changed = [(time, round(time)) for time in exact if time != round(time)]
    total = sum(exact)
    return Rounding(len(changed), len(exact),
                    abs(sum(whole - time for time, whole in changed)) / total if total else 0.0)


def write(graph: Graph, prefix: str | Path, shape: Sequence[int], processor: Processor) -> list[Path]:
    """Write ``PREFIX.RANK.et`` for each rank, and return the paths.

    Parameters
    ----------
    graph : Graph
    prefix : str or Path
    shape : sequence of int
        Ranks along each dimension.
    processor : Processor
        Its roofline gives the compute time of a node.

    Raises
    ------
    UserError
        For numbers that the format cannot have, and files that cannot be written.
    """
    writing = _Writing(graph, tuple(shape), processor)
    paths = [Path(f"{prefix}.{rank}.et") for rank in range(prod(shape))]
    for rank, path in enumerate(paths):
        try:
            with path.open("wb") as file:
                for message in writing.messages(rank):
                    serialize_length_prefixed(message, file)
        except OSError as error:
            raise UserError(f"the trace {path} cannot be written: {error.strerror}.") from None
    return paths


def _attribute(name: str, **value: bool | int | float | str) -> Any:
    return AttributeProto(name=name, **value)


def _receives(node: Node) -> bool:
    return node.kind == Kind.DELAY and node.work.seconds == 0


class _Writing:
    def __init__(self, graph: Graph, shape: tuple[int, ...], processor: Processor) -> None:
        self.graph, self.shape, self.processor = graph, shape, processor
        self.strides = [prod(shape[number + 1:]) for number in range(len(shape))]
        self.names: dict[tuple[int, ...], str] = {}
        exchanges = {node.exchange for node in graph.nodes if node.exchange}
        self.dimensions: dict[Exchange, tuple[int, ...]] = dict.fromkeys(exchanges, ())
        if prod(shape) > 1:
            config = MachineConfig(shape=shape, fold=False)
            self.dimensions = {exchange: dimensions_for(exchange, graph, config) for exchange in exchanges}
        # Integers from 1 on, as 0 is the group of all ranks.
        for along in sorted(set(self.dimensions.values())):
            if prod(shape[number] for number in along) < prod(shape):
                for rank in range(prod(shape)):
                    self.names.setdefault(self.group(rank, along), str(len(self.names) + 1))
        self.by_rank: dict[int | None, list[Node]] = {}
        for node in graph.nodes:
            self.by_rank.setdefault(node.rank, []).append(node)

    def coordinates(self, rank: int) -> tuple[int, ...]:
        return tuple(rank // stride % size for stride, size in zip(self.strides, self.shape, strict=True))

    def number(self, coordinates: Sequence[int]) -> int:
        return sum(at * stride for at, stride in zip(coordinates, self.strides, strict=True))

    def group(self, rank: int, along: Sequence[int]) -> tuple[int, ...]:
        """Ranks that a rank reaches along dimensions."""
        mine = self.coordinates(rank)
        return tuple(self.number(at) for at in product(*(
            range(size) if number in along else (mine[number],) for number, size in enumerate(self.shape))))

    def folded(self) -> tuple[int, ...]:
        """Dimensions along which ranks do the same."""
        distinct = self.graph.distinct
        return () if distinct is None else tuple(one for one in range(len(self.shape)) if one not in distinct)

    def representative(self, rank: int) -> int:
        mine = self.coordinates(rank)
        return self.number([0 if number in self.folded() else at for number, at in enumerate(mine)])

    def moved(self, other: int, rank: int) -> int:
        """The rank that is to ``rank`` as ``other`` is to its representative."""
        return other + rank - self.representative(rank)

    def messages(self, rank: int) -> Iterator[Any]:
        graph = self.graph
        alike = "symmetric, " if None in self.by_rank else ""
        yield GlobalMetadata(version=VERSION, attr=[
            _attribute("schema", string_val=f"{alike}{graph.steps} steps"),
            _attribute("workload", string_val=graph.name), _attribute("source", string_val=graph.source),
            _attribute("steps", int64_val=graph.steps), _attribute("model_parallel", int64_val=graph.model_parallel)])
        mine = {ranks: name for ranks, name in self.names.items() if rank in ranks}
        metadata: list[int] = []
        if mine:
            metadata = [len(graph.nodes)]
            node = NodeProto(id=metadata[0], name=groups.METADATA, type=NodeType.METADATA,
                             attr=[_attribute("is_cpu_op", bool_val=False)])
            node.inputs.values = groups.written({name: ranks for ranks, name in mine.items()})
            node.inputs.shapes, node.inputs.types = "[[]]", "['String']"
            yield node
        for one in self.by_rank.get(None, ()):
            yield self.node(one, rank, mine, metadata)
        representative = self.representative(rank)
        # Number of a send -> id of the node that receives it on this rank.
        received: dict[int, int] = {}
        for one in self.by_rank.get(representative, ()):
            sends = [graph.nodes[need] for need in one.needs if graph.nodes[need].rank != one.rank]
            if _receives(one) and len(sends) == 1 and sends[0].number not in received:
                received[sends[0].number] = one.number
                yield self.node(one, rank, mine, metadata, receives=sends[0])
                continue
            for send in sends:
                yield from self.receive(send, rank, received, metadata)
            yield self.node(one, rank, mine, [*(received[send.number] for send in sends)] or metadata)
        for send in graph.nodes:
            if send.transfer is not None and send.transfer.target == representative:
                yield from self.receive(send, rank, received, metadata)

    def receive(self, send: Node, rank: int, received: dict[int, int], metadata: Sequence[int]) -> Iterator[Any]:
        """A node that receives what a node of another rank sends, unless there is one."""
        if send.number in received:
            return
        if send.kind != Kind.SEND:
            raise UserError(f"rank {rank} waits for node {send.number} ({send.layer}) of rank {send.rank}, which is no "
                            "message; Chakra has only messages between ranks.")
        # Ids up to the number of nodes are those of nodes and of the metadata.
        received[send.number] = len(self.graph.nodes) + 1 + send.number
        made = NodeProto(id=received[send.number], name=f"{send.layer or 'node'}.receive.{send.step}",
                         data_deps=metadata)
        made.attr.extend([_attribute("layer", string_val=send.layer), _attribute("part", string_val=send.part),
                          _attribute("step", int64_val=send.step), _attribute("is_cpu_op", bool_val=False)])
        self.message(made, send, rank, NodeType.COMM_RECV)
        yield made

    def node(self, node: Node, rank: int, names: Mapping[tuple[int, ...], str], more: Sequence[int], *,
             receives: Node | None = None) -> Any:
        """A node as a message. ``more`` are ids that it needs: those of receives, or metadata."""
        local = [need for need in node.needs if self.graph.nodes[need].rank == node.rank]
        foreign = len(local) != len(node.needs)
        made = NodeProto(id=node.number, name=f"{node.layer or 'node'}.{node.part or node.kind.value}.{node.step}",
                         data_deps=sorted([*local, *more] if foreign and receives is None else local or more))
        made.attr.extend([
            _attribute("layer", string_val=node.layer), _attribute("part", string_val=node.part),
            _attribute("step", int64_val=node.step),
            _attribute("is_cpu_op", bool_val=node.kind == Kind.DELAY and receives is None)])
        if receives is not None:
            self.message(made, receives, rank, NodeType.COMM_RECV)
        elif node.kind == Kind.SEND:
            self.message(made, node, rank, NodeType.COMM_SEND)
        elif node.exchange is not None:
            self.collective(made, node, node.exchange, rank, names)
        else:
            self.computation(made, node)
        return made

    def message(self, made: Any, send: Node, rank: int, kind: NodeType) -> None:
        assert send.transfer is not None and send.rank is not None
        made.type = kind
        sends = kind == NodeType.COMM_SEND
        peer = self.moved(send.transfer.target if sends else send.rank, rank)
        source, target = (rank, peer) if sends else (peer, rank)
        made.attr.extend([
            _attribute("comm_src", int32_val=source), _attribute("comm_dst", int32_val=target),
            _attribute("comm_tag", int32_val=send.number), _attribute("comm_size", int64_val=send.transfer.bytes)])

    def collective(self, made: Any, node: Node, exchange: Exchange, rank: int,
                   names: Mapping[tuple[int, ...], str]) -> None:
        made.type = NodeType.COMM_COLL
        made.attr.extend([
            _attribute("comm_type", int64_val=CollectiveType[exchange.collective.name]),
            _attribute("comm_size", int64_val=exchange.bytes),
            _attribute("comm_priority", int32_val=node.priority)])
        if exchange.root is not None:
            made.attr.append(_attribute("comm_root", int32_val=exchange.root))
        name = names.get(self.group(rank, self.dimensions[exchange]))
        if name is not None:
            made.attr.append(_attribute("pg_name", string_val=name))
        if node.rank is None and exchange.group in GROUPS and not exchange.ranks:
            made.attr.append(_attribute("comm_group", string_val=exchange.group))

    def computation(self, made: Any, node: Node) -> None:
        work = node.work
        made.type = NodeType.COMP
        made.duration_micros = round(work.alone(self.processor) * 1e6)
        if not 0 <= work.flops <= MOST_OPERATIONS or not 0 <= work.memory_bytes <= MOST_OPERATIONS:
            raise UserError(f"node {node.number} ({node.layer}) has {max(work.flops, work.memory_bytes):,} operations "
                            f"or bytes; a Chakra trace has at most {MOST_OPERATIONS:,}.")
        if work.seconds is None:
            made.attr.append(_attribute("roofline", bool_val=True))
        else:
            made.attr.append(_attribute("duration_seconds", double_val=work.seconds))
        made.attr.extend([_attribute("num_ops", int64_val=work.flops),
                          _attribute("tensor_size", uint64_val=work.memory_bytes)])
