# SPDX-License-Identifier: Apache-2.0
"""A graph as Chakra traces."""

from collections.abc import Sequence
from math import prod
from pathlib import Path
from typing import Any

from google.protobuf.proto import serialize_length_prefixed

from sim.system.graph import Graph, Kind, Node
from sim.system.workloads import Processor

from .schema import VERSION, AttributeProto, CollectiveType, GlobalMetadata, NodeProto, NodeType

__all__ = ["write"]


def write(graph: Graph, prefix: str | Path, shape: Sequence[int], processor: Processor) -> list[Path]:
    """Write ``PREFIX.RANK.et`` for each rank, and return the paths.

    Parameters
    ----------
    graph : Graph
    prefix : str or Path
    shape : tuple of int
        Ranks along each dimension.
    processor : Processor
        Its roofline gives the compute time of a node.
    """
    metadata = GlobalMetadata(version=VERSION, attr=[
        _attribute("schema", string_val=f"symmetric, {graph.steps} steps"),
        _attribute("workload", string_val=graph.name), _attribute("source", string_val=graph.source),
        _attribute("steps", int64_val=graph.steps), _attribute("model_parallel", int64_val=graph.model_parallel)])
    messages = [metadata, *(_node(node, processor) for node in graph.nodes)]
    paths = [Path(f"{prefix}.{rank}.et") for rank in range(prod(shape))]
    for path in paths:
        with path.open("wb") as file:
            for message in messages:
                serialize_length_prefixed(message, file)
    return paths


def _attribute(name: str, **value: bool | int | float | str) -> Any:
    return AttributeProto(name=name, **value)


def _node(node: Node, processor: Processor) -> Any:
    made = NodeProto(id=node.number, name=f"{node.layer or 'node'}.{node.part or node.kind.value}.{node.step}",
                     data_deps=node.after, ctrl_deps=[] if node.previous is None else [node.previous])
    attributes = [_attribute("layer", string_val=node.layer), _attribute("part", string_val=node.part),
                  _attribute("step", int64_val=node.step), _attribute("is_cpu_op", bool_val=node.kind == Kind.DELAY)]
    if (exchange := node.exchange) is not None:
        made.type = NodeType.COMM_COLL
        attributes += [_attribute("comm_type", int64_val=CollectiveType[exchange.collective.name]),
                       _attribute("comm_size", int64_val=exchange.bytes),
                       _attribute("comm_priority", int32_val=node.priority),
                       _attribute("comm_group", string_val=exchange.group)]
    else:
        made.type = NodeType.COMP
        seconds = node.work.alone(processor)
        made.duration_micros = round(seconds * 1e6)
        if node.work.seconds is None:
            attributes.append(_attribute("roofline", bool_val=True))
        else:
            attributes.append(_attribute("duration_ns", double_val=node.work.seconds * 1e9))
        attributes += [_attribute("num_ops", int64_val=node.work.flops),
                       _attribute("tensor_size", uint64_val=node.work.memory_bytes)]
    made.attr.extend(attributes)
    return made
