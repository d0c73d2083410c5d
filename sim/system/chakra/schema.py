# SPDX-License-Identifier: Apache-2.0
"""Messages of MLCommons Chakra's execution traces.

Public schema: https://github.com/mlcommons/chakra, schema/protobuf/et_def.proto, package ChakraProtoMsg. Numbers of
fields and of enumerators are those of the schema; fields that are not here are kept by protobuf when a message is
read. ``Tensor`` is left out: no other message refers to it.
"""

import enum
from collections.abc import Iterable
from typing import Any, Protocol

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

__all__ = ["VERSION", "Attribute", "AttributeProto", "Attributed", "CollectiveType", "GlobalMetadata", "Node",
           "NodeProto", "NodeType"]

VERSION = "0.0.4"
_PACKAGE = "ChakraProtoMsg"


class NodeType(enum.IntEnum):
    METADATA = 1
    MEM_LOAD = 2
    MEM_STORE = 3
    COMP = 4
    COMM_SEND = 5
    COMM_RECV = 6
    COMM_COLL = 7


class CollectiveType(enum.IntEnum):
    ALL_REDUCE = 0
    REDUCE = 1
    ALL_GATHER = 2
    GATHER = 3
    SCATTER = 4
    BROADCAST = 5
    ALL_TO_ALL = 6
    REDUCE_SCATTER = 7
    REDUCE_SCATTER_BLOCK = 8
    BARRIER = 9


class Attribute(Protocol):
    """An ``AttributeProto``; ``WhichOneof("value")`` names the field that is set."""

    name: str

    def WhichOneof(self, group: str, /) -> str | None:
        ...


class Attributed(Protocol):
    """A message with attributes."""

    attr: Iterable[Attribute]


class Inputs(Protocol):
    """An ``IOInfo``: texts."""

    values: str


class Node(Attributed, Protocol):
    """A ``NodeProto``."""

    id: int
    name: str
    type: int
    ctrl_deps: list[int]
    data_deps: list[int]
    duration_micros: int
    inputs: Inputs


_SCALARS = ("double", "float", "int32", "int64", "uint32", "uint64", "sint32", "sint64", "fixed32", "fixed64",
            "sfixed32", "sfixed64", "bool", "string", "bytes")

_MESSAGES: dict[str, list[tuple[Any, ...]]] = {
    **{f"{kind.capitalize()}List": [("values", 1, kind, "repeated")] for kind in _SCALARS},
    "AttributeProto": [
        ("name", 1, "string"), ("doc_string", 2, "string"),
        *((f"{kind}_val", 3 + 2 * number, kind, "value") for number, kind in enumerate(_SCALARS)),
        *((f"{kind}_list", 4 + 2 * number, f"{kind.capitalize()}List", "value")
          for number, kind in enumerate(_SCALARS))],
    "GlobalMetadata": [("version", 1, "string"), ("attr", 2, "AttributeProto", "repeated")],
    "IOInfo": [("values", 1, "string"), ("shapes", 2, "string"), ("types", 3, "string")],
    # The type is an enumeration of the schema; on the wire that is an int32.
    "Node": [
        ("id", 1, "uint64"), ("name", 2, "string"), ("type", 3, "int32"), ("ctrl_deps", 4, "uint64", "repeated"),
        ("data_deps", 5, "uint64", "repeated"), ("start_time_micros", 6, "uint64"), ("duration_micros", 7, "uint64"),
        ("inputs", 8, "IOInfo"), ("outputs", 9, "IOInfo"), ("attr", 10, "AttributeProto", "repeated")],
}
"""Fields: name, number, type, and ``repeated`` or the ``oneof`` that they are in."""


def _classes() -> list[Any]:
    kinds = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="et_def_subset.proto", package=_PACKAGE, syntax="proto3")
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, number, kind, *where in fields:
            made = message.field.add(name=field, number=number, label=kinds.LABEL_OPTIONAL)
            if kind in _MESSAGES:
                made.type, made.type_name = kinds.TYPE_MESSAGE, f".{_PACKAGE}.{kind}"
            else:
                made.type = getattr(kinds, f"TYPE_{kind.upper()}")
            if where == ["repeated"]:
                made.label = kinds.LABEL_REPEATED
            elif where:
                if not message.oneof_decl:
                    message.oneof_decl.add(name=where[0])
                made.oneof_index = 0
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return [message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{name}"))
            for name in ("AttributeProto", "GlobalMetadata", "Node")]


AttributeProto, GlobalMetadata, NodeProto = _classes()
