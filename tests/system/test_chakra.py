# SPDX-License-Identifier: Apache-2.0
"""Chakra traces: written and read again, byte by byte against the wire format, from other writers, and bad ones."""

import re
import struct

import pytest
from google.protobuf.proto import serialize_length_prefixed

from hw.ace.words import Collective
from hw.errors import UserError
from sim.system import chakra
from sim.system.chakra.schema import AttributeProto, CollectiveType, GlobalMetadata, NodeProto, NodeType
from sim.system.graph import Graph, Kind, Node, unroll
from sim.system.workloads import LAYERED, Exchange, Processor, Work, load


@pytest.mark.parametrize("name", LAYERED)
def test_written_and_read(name, tmp_path):
    graph = unroll(load(name), 2)
    paths = chakra.write(graph, tmp_path / "run", (2, 2), Processor())
    assert [path.name for path in paths] == [f"run.{rank}.et" for rank in range(4)]
    assert chakra.read(tmp_path / "run") == graph
    assert chakra.read(paths[3]) == graph


def test_bytes_of_a_file(tmp_path):
    """Protobuf's wire format by hand: keys are ``number << 3 | type``; type 0: varint, 1: eight bytes, 2: a length."""
    exchange = Exchange(collective=Collective.ALL_TO_ALL, bytes=300)
    graph = Graph(name="g", nodes=(
        Node(number=0, kind=Kind.COMPUTE, layer="a", part="forward", work=Work(seconds=3e-6, memory_bytes=5)),
        Node(number=1, kind=Kind.COLLECTIVE, layer="a", part="forward", after=(0,), exchange=exchange, priority=1)))

    def field(number, value):
        return bytes([number << 3 | 2, len(value)]) + value

    def attribute(name, number, value):
        # Keys of fields above 15 take two bytes.
        kind = 2 if isinstance(value, bytes) and number == 29 else 1 if number == 3 else 0
        key = number << 3 | kind
        key = bytes([key]) if key < 128 else bytes([key & 127 | 128, key >> 7])
        return field(10, field(1, name) + key + (bytes([len(value)]) if kind == 2 else b"") + value)

    common = attribute(b"layer", 29, b"a") + attribute(b"part", 29, b"forward") + attribute(b"step", 9, b"\0")
    common += attribute(b"is_cpu_op", 27, b"\0")
    compute = field(2, b"a.forward.0") + b"\x18\x04" + b"\x38\x03" + common + \
        attribute(b"duration_seconds", 3, struct.pack("<d", 3e-6)) + attribute(b"num_ops", 9, b"\0") + \
        attribute(b"tensor_size", 13, b"\5")
    collective = b"\x08\x01" + field(2, b"a.forward.0") + b"\x18\x07" + field(5, b"\0") + common + \
        attribute(b"comm_type", 9, b"\6") + attribute(b"comm_size", 9, b"\xac\x02") + \
        attribute(b"comm_priority", 7, b"\1") + attribute(b"comm_group", 29, b"all")
    path, = chakra.write(graph, tmp_path / "one", (1,), Processor())
    content = path.read_bytes()
    size = content[0] if content[0] < 128 else (content[0] & 127) + (content[1] << 7)
    nodes = content[size + (1 if content[0] < 128 else 2):]

    def message(body):
        return bytes([len(body) & 127 | 128, len(body) >> 7]) + body
    assert nodes == message(compute) + message(collective)


def attribute(name, **value):
    return AttributeProto(name=name, **value)


def trace(path, *nodes):
    with path.open("wb") as file:
        for message in (GlobalMetadata(version="0.0.4"), *nodes):
            serialize_length_prefixed(message, file)
    return path


def collective(number, size=64, **more):
    return NodeProto(id=number, type=NodeType.COMM_COLL, attr=[
        attribute("comm_type", int64_val=CollectiveType.ALL_REDUCE), attribute("comm_size", uint64_val=size),
        *more.pop("attr", ())], **more)


def test_traces_of_other_writers(tmp_path):
    """IDs of any size and in any order, times in microseconds, any type of integer, all dimensions involved."""
    wide = AttributeProto(name="involved_dim")
    wide.bool_list.values.extend([True, True])
    path = trace(tmp_path / "w.0.et",
                 collective(900, data_deps=[70], attr=[wide]),
                 NodeProto(id=70, name="gemm", type=NodeType.COMP, duration_micros=12),
                 NodeProto(id=8, name="next", type=NodeType.COMP, data_deps=[900], attr=[
                     attribute("num_ops", int64_val=10**9), attribute("tensor_size", uint64_val=10**6)]))
    graph = chakra.read(path)
    first, second, third = graph.nodes
    assert (first.kind, first.work.seconds, first.layer) == (Kind.COMPUTE, 12e-6, "gemm")
    assert (second.kind, second.after, second.exchange.bytes) == (Kind.COLLECTIVE, (0,), 64)
    assert (third.previous, third.after, third.work) == (0, (1,), Work(flops=10**9, memory_bytes=10**6))


def compute(*attributes):
    return NodeProto(id=3, type=NodeType.COMP, attr=attributes)


def test_bad_traces(tmp_path):
    one, loop = NodeProto(id=1, type=NodeType.COMP), NodeProto(id=1, type=NodeType.COMP, data_deps=[2])
    narrow = AttributeProto(name="involved_dim")
    narrow.bool_list.values.extend([True, False])
    cases = {
        r".*: node 2 needs itself, by way of node 1\.":
            (loop, NodeProto(id=2, type=NodeType.COMP, data_deps=[1])),
        r".*: node 1 needs a node 2, which is not in the trace\.": (loop,),
        r".* has two nodes of one id\.": (one, one),
        r".* is no Chakra trace, or has no nodes\.": (),
        r".*: node 3 is of type MEM_LOAD; only COMP, COMM_COLL, COMM_SEND and COMM_RECV can be run\.":
            (NodeProto(id=3, type=NodeType.MEM_LOAD),),
        r".*: node 3: its comm_type -1 is none that can be run\.": (NodeProto(id=3, type=NodeType.COMM_COLL),),
        r".*: node 3: its comm_type GATHER is none that can be run\.":
            (NodeProto(id=3, type=NodeType.COMM_COLL, attr=[attribute("comm_type", int64_val=3)]),),
        r".*: node 3: an exchange must have 1 byte or more, not 0\.": (collective(3, 0),),
        r".*: node 3: its involved_dim leaves out dimensions of a network that the trace does not describe; name the "
        r"ranks by pg_name\.":
            (collective(3, attr=[narrow]),),
        r".*: node 3: comm_priority must be an integer, not 'high'\.":
            (collective(3, attr=[attribute("comm_priority", string_val="high")]),),
        r".*: node 3: its duration must be a number from 0 to 1e\+15 nanoseconds, not inf\.":
            (compute(attribute("duration_ns", double_val=float("inf"))),),
        r".*: node 3: its duration must be a number from 0 to 1e\+15 nanoseconds, not nan\.":
            (compute(attribute("duration_ns", double_val=float("nan"))),),
        r".*: node 3: its duration must be a number from 0 to 1e\+15 nanoseconds, not 1e\+300\.":
            (compute(attribute("duration_ns", double_val=1e300)),),
        r".*: node 3: its duration must be a number from 0 to 1e\+15 nanoseconds, not 'soon'\.":
            (compute(attribute("duration_ns", string_val="soon")),),
        r".*: node 3: its duration must be a number from 0 to 1e\+15 nanoseconds, not 18446744073709551615000\.":
            (NodeProto(id=3, type=NodeType.COMP, duration_micros=2**64 - 1),),
        r".*: node 3: num_ops must be an integer of 0 or more, not -1\.":
            (compute(attribute("num_ops", int64_val=-1)),),
        r".*: node 3: num_ops must be an integer of 0 or more, not 1e\+300\.":
            (compute(attribute("num_ops", double_val=1e300)),),
        r".*: node 3: tensor_size must be an integer of 0 or more, not -5\.":
            (compute(attribute("tensor_size", int64_val=-5)),),
    }
    for number, (sentence, nodes) in enumerate(cases.items()):
        path = trace(tmp_path / f"{number}.et", *nodes)
        with pytest.raises(UserError) as caught:
            chakra.read(path)
        assert re.fullmatch(sentence, str(caught.value))


def test_files_that_are_not_traces(tmp_path):
    with pytest.raises(UserError, match=r"^there is no trace .*missing\.0\.et\.$"):
        chakra.read(tmp_path / "missing")
    with pytest.raises(UserError, match=r"^the trace .*missing\.et cannot be read: No such file or directory\.$"):
        chakra.read(tmp_path / "missing.et")
    (tmp_path / "text.et").write_bytes(b"\x7fnot a trace")
    with pytest.raises(UserError, match=r"^.*text\.et is no Chakra trace: .*\.$"):
        chakra.read(tmp_path / "text.et")
