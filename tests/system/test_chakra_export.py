# SPDX-License-Identifier: Apache-2.0
"""Exported traces against a decoder of its own: message classes from the published schema, written down here again, and
what ASTRA-sim's and Chakra's feeders do with nodes. Nothing of our reader and our schema is used.
"""

import ast
import json
import random

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, unknown_fields

from hw.ace.words import Collective
from hw.errors import UserError
from sim.system import chakra
from sim.system.graph import Graph, Kind, Node, Transfer, unroll
from sim.system.workloads import Exchange, Processor, Work, load

SCALARS = "double float int32 int64 uint32 uint64 sint32 sint64 fixed32 fixed64 sfixed32 sfixed64 bool string bytes"

ENUMERATIONS = {
    "NodeType": "INVALID_NODE METADATA_NODE MEM_LOAD_NODE MEM_STORE_NODE COMP_NODE COMM_SEND_NODE COMM_RECV_NODE "
                "COMM_COLL_NODE",
    "CollectiveCommType": "ALL_REDUCE REDUCE ALL_GATHER GATHER SCATTER BROADCAST ALL_TO_ALL REDUCE_SCATTER "
                          "REDUCE_SCATTER_BLOCK BARRIER"}

MESSAGES = {
    "GlobalMetadata": "version=1:string attr=2*:AttributeProto",
    "IOInfo": "values=1:string shapes=2:string types=3:string",
    "Node": "id=1:uint64 name=2:string type=3:NodeType ctrl_deps=4*:uint64 data_deps=5*:uint64 "
            "start_time_micros=6:uint64 duration_micros=7:uint64 inputs=8:IOInfo outputs=9:IOInfo "
            "attr=10*:AttributeProto",
    # A value is one of 30: 3 and 4 are a double and a list of doubles, 5 and 6 a float and a list, and so on.
    "AttributeProto": "name=1:string doc_string=2:string " + " ".join(
        f"{kind}_val={3 + 2 * place}?:{kind} {kind}_list={4 + 2 * place}?:{kind.title()}List"
        for place, kind in enumerate(SCALARS.split())),
    **{f"{kind.title()}List": f"values=1*:{kind}" for kind in SCALARS.split()}}


def decoder():
    field = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="published.proto", package="Published", syntax="proto3")
    for name, values in ENUMERATIONS.items():
        made = file.enum_type.add(name=name)
        for number, value in enumerate(values.split()):
            made.value.add(name=value, number=number)
    for name, fields in MESSAGES.items():
        message = file.message_type.add(name=name)
        if "?" in fields:
            message.oneof_decl.add(name="value")
        for text in fields.split():
            head, _, kind = text.partition(":")
            label, _, number = head.partition("=")
            made = message.field.add(name=label, number=int(number.strip("*?")), label=field.LABEL_REPEATED
                                     if "*" in number else field.LABEL_OPTIONAL)
            if kind in ENUMERATIONS or kind in MESSAGES:
                made.type = field.TYPE_ENUM if kind in ENUMERATIONS else field.TYPE_MESSAGE
                made.type_name = f".Published.{kind}"
            else:
                made.type = getattr(field, f"TYPE_{kind.upper()}")
            if "?" in number:
                made.oneof_index = 0
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return [message_factory.GetMessageClass(pool.FindMessageTypeByName(f"Published.{name}"))
            for name in ("GlobalMetadata", "Node")]


METADATA, NODE = decoder()

#: Attribute -> the field from which Chakra's feeder takes it.
FIELDS = {"is_cpu_op": "bool_val", "num_ops": "int64_val", "tensor_size": "uint64_val", "comm_type": "int64_val",
          "comm_priority": "int32_val", "comm_size": "int64_val", "comm_src": "int32_val", "comm_dst": "int32_val",
          "comm_tag": "int32_val", "pg_name": "string_val"}

#: Attributes without a default in ASTRA-sim.
REQUIRED = {4: {"is_cpu_op", "num_ops", "tensor_size"}, 5: {"comm_src", "comm_dst", "comm_tag", "comm_size"},
            6: {"comm_src", "comm_dst", "comm_tag", "comm_size"}, 7: {"comm_type", "comm_size"}}


def known(message):
    """No field that the schema does not have, at any depth."""
    assert not len(unknown_fields.UnknownFieldSet(message)), message
    for field, value in message.ListFields():
        if field.type == field.TYPE_MESSAGE:
            for one in value if field.is_repeated else [value]:
                known(one)


def decoded(path):
    """Metadata and nodes; a length is seven bits in each byte, the least significant first."""
    data, messages, at = path.read_bytes(), [], 0
    while at < len(data):
        size = shift = 0
        while True:
            size |= (data[at] & 127) << shift
            at, shift, more = at + 1, shift + 7, data[at] & 128
            if not more:
                break
        messages.append((NODE if messages else METADATA).FromString(data[at:at + size]))
        assert len(data) >= at + size
        at += size
    for message in messages:
        known(message)
    return messages[0], messages[1:]


def attributes(node):
    made = {}
    for one in node.attr:
        which = one.WhichOneof("value")
        assert FIELDS.get(one.name, which) == which, one.name
        made[one.name] = getattr(one, which)
    return made


def feed(paths):
    """The same as ASTRA-sim does: free nodes in order, groups by name, messages by ranks and tag, until
    every node of every rank has been issued. Returns ``(rank, group's ranks, comm_type, bytes)`` of collectives."""
    ranks = [{node.id: node for node in decoded(path)[1]} for path in paths]
    found, sent, received = [], [], []
    for rank, nodes in enumerate(ranks):
        groups, done = {}, set()
        while len(done) < len(nodes):
            free = sorted(number for number, node in nodes.items()
                          if number not in done and set(node.data_deps) <= done)
            assert free, f"rank {rank} makes no progress"
            node = nodes[free[0]]
            its = attributes(node)
            assert node.type in (1, *REQUIRED) and REQUIRED.get(node.type, set()) <= set(its)
            assert node.type not in (5, 6, 7) or its["is_cpu_op"] is False
            if node.type == 1:
                for group in json.loads(node.inputs.values[2:-2]):
                    groups[str(int(group["pg_name"]))] = group["ranks"]
            elif node.type == 7:
                name = its.get("pg_name", "0")
                members = list(range(len(paths))) if name == "0" else groups[name]
                assert rank in members and str(int(name)) == name
                found.append((rank, tuple(members), its["comm_type"], its["comm_size"]))
            elif node.type in (5, 6):
                assert rank == its["comm_src" if node.type == 5 else "comm_dst"]
                (sent if node.type == 5 else received).append(tuple(
                    its[name] for name in ("comm_src", "comm_dst", "comm_tag", "comm_size")))
            done.add(node.id)
    assert sorted(sent) == sorted(received) and len(set(sent)) == len(sent)
    return found


def test_a_workload_with_groups(tmp_path):
    """The transformer's model and data groups on 2x2: pairs, named by integers, in every rank's metadata."""
    graph = unroll(load("transformer"), 1)
    paths = chakra.write(graph, tmp_path / "t", (2, 2), Processor())
    metadata, nodes = decoded(paths[0])
    assert metadata.version == "0.0.4" and {one.name for one in metadata.attr} >= {"schema"}
    assert len(nodes) == len(graph.nodes) + any(node.exchange and node.exchange.group != "all" for node in graph.nodes)
    found = feed(paths)
    kinds = Collective.ALL_REDUCE, Collective.ALL_GATHER, Collective.ALL_TO_ALL
    assert len(found) == 4 * sum(node.kind == Kind.COLLECTIVE for node in graph.nodes) and kinds
    size = graph.model_parallel or 4
    for (rank, members, _, count), node in zip(
            found, 4 * [node for node in graph.nodes if node.exchange], strict=True):
        assert count == node.exchange.bytes and rank in members
        assert len(members) == {"all": 4, "model": size, "data": 4 // size}[node.exchange.group]


def test_ranks_that_differ(tmp_path):
    """Two stages along dimension 0, each of two ranks that do the same: four files, with messages between the pairs."""
    exchange = Exchange(collective=Collective.ALL_REDUCE, bytes=300, ranks=(0, 1))
    graph = Graph(name="stages", distinct=(0,), nodes=(
        Node(number=0, kind=Kind.COMPUTE, rank=0, layer="a", work=Work(seconds=1e-6)),
        Node(number=1, kind=Kind.SEND, rank=0, layer="a", after=(0,), transfer=Transfer(target=2, bytes=70)),
        Node(number=2, kind=Kind.DELAY, rank=2, layer="b", after=(1,), work=Work(seconds=0.0)),
        Node(number=3, kind=Kind.COMPUTE, rank=2, layer="b", after=(2,), work=Work(seconds=None, flops=10**9)),
        Node(number=4, kind=Kind.COLLECTIVE, rank=0, layer="a", after=(0,), exchange=exchange)))
    paths = chakra.write(graph, tmp_path / "t", (2, 2), Processor())
    assert feed(paths) == [(0, (0, 1), 0, 300), (1, (0, 1), 0, 300)]
    messages = {rank: [(node.type, attributes(node)["comm_src"], attributes(node)["comm_dst"]) for node in
                       decoded(path)[1] if node.type in (5, 6)] for rank, path in enumerate(paths)}
    assert messages == {0: [(5, 0, 2)], 1: [(5, 1, 3)], 2: [(6, 0, 2)], 3: [(6, 1, 3)]}
    again = chakra.read(tmp_path / "t", (2, 2))
    assert [node.transfer for node in again.nodes if node.transfer] == [
        Transfer(target=2, bytes=70), Transfer(target=3, bytes=70)]
    assert {node.exchange.ranks for node in again.nodes if node.exchange} == {(0, 1)}
    assert [node.work for node in again.nodes if node.work.flops] == 2 * [Work(flops=10**9)]


def test_a_collective_that_waits_for_a_message(tmp_path):
    """Whatever waits for another rank's send waits for a receive of its own; a send that nothing uses is received."""
    graph = Graph(name="stages", nodes=(
        Node(number=0, kind=Kind.SEND, rank=0, layer="a", transfer=Transfer(target=1, bytes=70)),
        Node(number=1, kind=Kind.SEND, rank=0, layer="a", transfer=Transfer(target=1, bytes=80)),
        Node(number=2, kind=Kind.COLLECTIVE, rank=1, layer="b", after=(0,),
             exchange=Exchange(collective=Collective.ALL_REDUCE, bytes=300)),
        Node(number=3, kind=Kind.COMPUTE, rank=1, layer="b", after=(0, 2), work=Work(seconds=1e-6)),
        Node(number=4, kind=Kind.COLLECTIVE, rank=0, layer="a",
             exchange=Exchange(collective=Collective.ALL_REDUCE, bytes=300))))
    paths = chakra.write(graph, tmp_path / "t", (2,), Processor())
    assert feed(paths) == [(0, (0, 1), 0, 300), (1, (0, 1), 0, 300)]
    nodes = {node.id: node for node in decoded(paths[1])[1]}
    receives = {attributes(node)["comm_size"]: number for number, node in nodes.items() if node.type == 6}
    assert set(receives) == {70, 80}
    assert list(nodes[2].data_deps) == [receives[70]] and sorted(nodes[3].data_deps) == [2, receives[70]]
    with pytest.raises(UserError, match=r"^rank 1 waits for node 0 \(a\) of rank 0, which is no message; Chakra has "
                                        r"only messages between ranks\.$"):
        chakra.write(Graph(name="g", nodes=(
            Node(number=0, kind=Kind.COMPUTE, rank=0, layer="a", work=Work(seconds=1e-6)),
            Node(number=1, kind=Kind.COMPUTE, rank=1, after=(0,), work=Work(seconds=1e-6)))),
            tmp_path / "t", (2,), Processor())


def test_durations_are_exact(tmp_path, seed):
    """Any time comes back as it was; others see whole microseconds, and how much that changes is known."""
    random.seed(seed)
    times = [0.0, 1e-9, 0.1, 2.5e-6, 123.456e-6, *(random.uniform(0, 1e-3) for _ in range(50))]
    graph = Graph(name="times", nodes=tuple(
        Node(number=number, kind=Kind.COMPUTE, layer="a", previous=number - 1 if number else None,
             work=Work(seconds=time)) for number, time in enumerate(times)))
    path, *_ = chakra.write(graph, tmp_path / "t", (2,), Processor())
    assert [node.work.seconds for node in chakra.read(path).nodes] == times
    micros = [node.duration_micros for node in decoded(path)[1]]
    assert micros == [round(time * 1e6) for time in times]
    lost = chakra.rounding(graph, Processor())
    assert (lost.nodes, lost.of) == (sum(time * 1e6 != round(time * 1e6) for time in times), len(times))
    assert lost.change == pytest.approx(abs(sum(micros) - sum(times) * 1e6) / (sum(times) * 1e6))
    whole = Graph(name="whole", nodes=(Node(number=0, kind=Kind.COMPUTE, work=Work(seconds=3e-6)),))
    assert chakra.rounding(whole, Processor()).nodes == 0


def test_what_the_format_cannot_have(tmp_path):
    def one(**more):
        return Graph(name="g", nodes=(Node(number=0, kind=Kind.COMPUTE, layer="a", work=Work(**more)),))
    with pytest.raises(UserError, match=r"^node 0 \(a\) has 9,223,372,036,854,775,808 operations or bytes; a Chakra "
                                        r"trace has at most 9,223,372,036,854,775,807\.$"):
        chakra.write(one(flops=1 << 63), tmp_path / "t", (2,), Processor())
    with pytest.raises(UserError, match=r"^the trace .*no/t\.0\.et cannot be written: No such file or directory\.$"):
        chakra.write(one(seconds=1.0), tmp_path / "no" / "t", (2,), Processor())


def test_metadata_is_text_as_python_writes_it(tmp_path):
    """ASTRA-sim strips two characters on each side and reads JSON; Chakra's converter wrote a Python list of texts."""
    graph = unroll(load("transformer"), 1)
    path, *_ = chakra.write(graph, tmp_path / "t", (2, 2), Processor())
    values = next(node.inputs.values for node in decoded(path)[1] if node.type == 1)
    assert json.loads(ast.literal_eval(values)[0]) == json.loads(values[2:-2])
