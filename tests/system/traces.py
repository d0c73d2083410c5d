# SPDX-License-Identifier: Apache-2.0
"""Chakra traces in a few words, for tests."""

from google.protobuf.proto import serialize_length_prefixed

from sim.system.chakra.schema import AttributeProto, CollectiveType, GlobalMetadata, NodeProto, NodeType

__all__ = ["attribute", "collective", "compute", "message", "process_groups", "trace", "traces"]


def attribute(name, **value):
    return AttributeProto(name=name, **value)


def trace(path, *nodes):
    with path.open("wb") as file:
        for one in (GlobalMetadata(version="0.0.4"), *nodes):
            serialize_length_prefixed(one, file)
    return path


def traces(folder, *ranks):
    """Traces of ranks 0, 1, ...; the name for ``chakra.read``."""
    for rank, nodes in enumerate(ranks):
        trace(folder / f"t.{rank}.et", *nodes)
    return f"chakra:{folder / 't'}"


def compute(number, micros=1, after=()):
    return NodeProto(id=number, name=f"compute {number}", type=NodeType.COMP, duration_micros=micros, data_deps=after)


def collective(number, size=64, *, kind=CollectiveType.ALL_REDUCE, group=None, after=(), attr=()):
    named = [] if group is None else [attribute("pg_name", string_val=group)]
    return NodeProto(id=number, type=NodeType.COMM_COLL, data_deps=after, attr=[
        attribute("comm_type", int64_val=kind), attribute("comm_size", uint64_val=size), *named, *attr])


def message(number, kind, peer, size=64, *, tag=0, after=()):
    """``kind`` is SEND or RECV."""
    return NodeProto(id=number, type=NodeType[f"COMM_{kind}"], data_deps=after, attr=[
        attribute("comm_dst" if kind == "SEND" else "comm_src", int32_val=peer), attribute("comm_tag", int32_val=tag),
        attribute("comm_size", int64_val=size)])


def process_groups(number, text):
    made = NodeProto(id=number, name="## process_group:init ##", type=NodeType.METADATA)
    made.inputs.values = text
    return made
