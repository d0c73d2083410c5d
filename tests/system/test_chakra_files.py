# SPDX-License-Identifier: Apache-2.0
"""Files that are no traces, or parts of one: a sentence each, whatever the bytes."""

import gzip
import random
import re

import pytest

from hw.errors import UserError
from sim.system import chakra
from sim.system.chakra.schema import NodeProto, NodeType

from .traces import collective, compute, process_groups, trace, traces


def test_a_trace_that_is_cut_off(tmp_path):
    """At every length: a sentence, or the nodes before the end of a message."""
    path = trace(tmp_path / "t.et", compute(1), collective(2, after=(1,)), compute(3, after=(2,)))
    data = path.read_bytes()
    whole = len(chakra.read(path).nodes)
    sentences, fewer = set(), 0
    for size in range(len(data)):
        path.write_bytes(data[:size])
        try:
            fewer += len(chakra.read(path).nodes) < whole
        except UserError as error:
            sentences.add(re.sub(r"\d+", "N", str(error).removeprefix(str(path))))
    assert sentences == {
        " is no Chakra trace, as it is empty.", " is no Chakra trace, or has no nodes.",
        " is no Chakra trace: it does not begin with a message and its length.", " is cut off in message N, at byte N."}
    assert fewer == 2


def test_damaged_bytes(tmp_path, seed):
    """Never anything but a graph or a sentence."""
    random.seed(seed)
    path = trace(tmp_path / "t.et", process_groups(0, '[{"pg_name": "1", "ranks": []}]'), compute(1), collective(2))
    data = bytearray(path.read_bytes())
    refused = 0
    for _ in range(400):
        damaged = bytearray(data)
        for _ in range(random.choice((1, 1, 3))):
            damaged[random.randrange(len(data))] = random.randrange(256)
        path.write_bytes(damaged)
        try:
            chakra.read(path)
        except UserError:
            refused += 1
    assert 100 < refused < 400


def test_other_kinds_of_files(tmp_path):
    good = trace(tmp_path / "good.et", compute(1)).read_bytes()
    cases = {
        b"": r"is no Chakra trace, as it is empty\.",
        gzip.compress(good): r"is compressed by gzip; decompress it first\.",
        b"\x89PNG\r\n\x1a\n" + bytes(100): r"is no Chakra trace: .*\.",
        b"PK\x03\x04": r"is no Chakra trace: .*\.",
        b'{"schema": "1.1.1-chakra.0.0.4", "nodes": []}':
            r"is JSON and no Chakra trace in protobuf; PyTorch's own traces are read as pytorch:PREFIX\.",
        b"\xff" * 30: r"is no Chakra trace: it does not begin with a message and its length\.",
        b"\x02\x0a\x05": r"is no Chakra trace: message 0, at byte 0, cannot be decoded\.",
        b"\x00" + b"\x02\x0a\x05": r"is no Chakra trace: message 1, at byte 1, cannot be decoded\.",
    }
    for data, sentence in cases.items():
        path = tmp_path / "x.et"
        path.write_bytes(data)
        with pytest.raises(UserError) as caught:
            chakra.read(path)
        assert re.fullmatch(re.escape(f"{path} ") + sentence, str(caught.value)), str(caught.value)


def test_missing_ranks(tmp_path):
    name = traces(tmp_path, [compute(1)], [compute(1)], [compute(1)])
    (tmp_path / "t.1.et").unlink()
    with pytest.raises(UserError, match=r"^there is no trace .*t\.1\.et, but one of rank 2\.$"):
        chakra.read(name)
    (tmp_path / "t.0.et").unlink()
    with pytest.raises(UserError, match=r"^there is no trace .*t\.0\.et, but one of rank 2\.$"):
        chakra.read(name)
    with pytest.raises(UserError, match=r"^there is no trace .*other\.0\.et\.$"):
        chakra.read(tmp_path / "other")


def test_nodes_that_cannot_be_run(tmp_path):
    cases = {
        r".*: node 3 is of type 42; only COMP, COMM_COLL, COMM_SEND and COMM_RECV can be run\.":
            (NodeProto(id=3, type=42),),
        r".*: node 3 is of type 0; only COMP, COMM_COLL, COMM_SEND and COMM_RECV can be run\.": (NodeProto(id=3),),
        r".*: node 3 has no comm_dst\.": (NodeProto(id=3, type=NodeType.COMM_SEND),),
        r".* has nothing but metadata\.": (process_groups(1, ""),),
        r".*: node 1 needs itself, by way of node 1\.": (compute(1, after=(1,)),),
        r".*: node 3 needs itself, by way of node 1\.":
            (compute(1, after=(2,)), compute(2, after=(3,)), compute(3, after=(1,))),
    }
    for sentence, nodes in cases.items():
        with pytest.raises(UserError) as caught:
            chakra.read(trace(tmp_path / "t.et", *nodes))
        assert re.fullmatch(sentence, str(caught.value)), str(caught.value)


def test_many_nodes_that_need_each_other(tmp_path):
    """A chain as long as Python's stack would not be, written backwards."""
    count = 3000
    path = trace(tmp_path / "t.et", *(compute(number, after=(number + 1,) if number < count else ())
                                      for number in range(1, count + 1)))
    graph = chakra.read(path)
    assert [node.layer for node in graph.nodes[:2]] == [f"compute {count}", f"compute {count - 1}"]


def test_calls_that_a_converter_left_out(tmp_path):
    """A call around others is a ``ctrl_dep``; Chakra's converter drops some and leaves their numbers."""
    inner = compute(4)
    inner.ctrl_deps.append(3)
    path = trace(tmp_path / "t.et", inner, NodeProto(id=5, type=NodeType.COMP, ctrl_deps=[4], duration_micros=1))
    assert [node.previous for node in chakra.read(path).nodes] == [None, 0]


def test_settings_of_traces(tmp_path):
    path = trace(tmp_path / "t.et", compute(1))
    with pytest.raises(UserError, match=r"^the traces .*t\.et have no setting 'batch'; they have groups\.$"):
        chakra.read(path, batch=3)
    with pytest.raises(UserError, match=r"^the traces pytorch:x have no setting 'batch'; they have groups and "
                                        r"durations\.$"):
        chakra.read("pytorch:x", batch=3)
    with pytest.raises(UserError, match=r"^durations of a trace must be auto, recorded, shapes, not 'guess'\.$"):
        chakra.read("pytorch:x", durations="guess")
    for text, sentence in ((b"[1]", r"it is not a JSON object of names and ranks\."), (b'{"1": [0', r"it is cut off\."),
                           (b'{"1": x}', r"it is not JSON \(line 1: Expecting value\)\.")):
        (tmp_path / "groups.json").write_bytes(text)
        with pytest.raises(UserError, match=rf"^.*groups\.json is not a communicator file: {sentence}$"):
            chakra.read(path, groups=str(tmp_path / "groups.json"))
