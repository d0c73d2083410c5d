# SPDX-License-Identifier: Apache-2.0
"""Chakra traces with pairs of COMM_SEND and COMM_RECV as graphs over machines."""

import re

import pytest
from google.protobuf.proto import serialize_length_prefixed

from dmace.remote.execution import run_alone
from dmace.remote.plan import analyze
from dmace.remote.step import Step, open_devices
from hw.errors import UserError
from sim.remote.chakra import read_ranks
from sim.remote.double import FunctionalMachines
from sim.system.chakra.schema import AttributeProto, GlobalMetadata, NodeProto, NodeType

from .graphs import assert_same


def _write(folder, ranks):
    """Traces of nodes ``(id, type, dependencies, attributes)``."""
    for rank, nodes in enumerate(ranks):
        with (folder / f"trace.{rank}.et").open("wb") as file:
            serialize_length_prefixed(GlobalMetadata(version="0.0.4"), file)
            for number, kind, needs, attributes in nodes:
                serialize_length_prefixed(NodeProto(
                    id=number, type=NodeType[kind], data_deps=needs,
                    attr=[AttributeProto(name=name, int64_val=value) for name, value in attributes.items()]), file)
    return folder / "trace"


RANKS = (
    [(1, "COMP", [], {}), (2, "COMM_SEND", [1], {"comm_dst": 1, "comm_size": 5000, "comm_tag": 7}),
     (3, "COMM_SEND", [1], {"comm_dst": 1, "comm_size": 30, "comm_tag": 7}), (4, "COMP", [1], {}),
     (5, "COMM_RECV", [], {"comm_src": 1}), (6, "COMP", [5, 4], {})],
    [(1, "COMM_RECV", [], {"comm_src": 0, "comm_tag": 7}), (2, "COMM_RECV", [], {"comm_src": 0, "comm_tag": 7}),
     (3, "COMP", [1, 2], {}), (4, "COMM_SEND", [3], {"comm_dst": 0, "comm_size": 100})],
)


def test_a_trace_runs_on_machines(tmp_path, seed):
    graph = read_ranks(_write(tmp_path, RANKS))
    devices = open_devices(FunctionalMachines(2, seed=seed).machines)
    plan = analyze(graph, devices)
    assert [(block.name, block.payload.shape, block.source) for block in plan.blocks] == [
        ("0.1:2", (5000,), 0), ("0.1:3", (30,), 0), ("1.3:4", (100,), 1)]
    with Step(graph, plan, devices) as step:
        for _ in range(2):
            outcome = step.run({})
            assert_same(outcome.values, run_alone(graph, {}))
            assert outcome.sent_bytes == 5130 and outcome.copied_bytes == 0


@pytest.mark.parametrize("ranks, sentence", [
    ([[(1, "COMM_RECV", [], {"comm_src": 0})]],
     "node 1 of rank 0 receives tag 0 from rank 0, which has no such COMM_SEND."),
    ([[(1, "COMP", [], {}), (2, "COMM_SEND", [1], {"comm_dst": 3, "comm_size": 8})]],
     "node 2 of rank 0 sends tag 0 to rank 3, which has no such COMM_RECV."),
    ([[(1, "COMP", [], {}), (2, "COMM_SEND", [1], {"comm_size": 8})]], "node 2 has no attribute comm_dst."),
    ([[(1, "COMM_SEND", [], {"comm_dst": 0, "comm_size": 8}), (2, "COMM_RECV", [], {"comm_src": 0})]],
     "node 1 of rank 0 must depend on one COMP node, whose result it sends."),
    ([[(1, "COMP", [], {}), (2, "COMM_SEND", [1], {"comm_dst": 0, "comm_size": 0}),
       (3, "COMM_RECV", [], {"comm_src": 0})]], "comm_size of node 2 must be at least 1, not 0."),
])
def test_errors_are_sentences(tmp_path, ranks, sentence):
    with pytest.raises(UserError, match=f"^{re.escape(sentence)}$"):
        read_ranks(_write(tmp_path, ranks))


def test_files_are_checked(tmp_path):
    with pytest.raises(UserError, match=r"^there is no trace .*trace\.0\.et\.$"):
        read_ranks(tmp_path / "trace")
    with pytest.raises(UserError, match=r"trace\.0\.et: node 1 is of type 7; only COMP, COMM_SEND and COMM_RECV can be "
                                        r"run on machines\.$"):
        read_ranks(_write(tmp_path, [[(1, "COMM_COLL", [], {})]]))
    with pytest.raises(UserError, match=r"trace\.0\.et: node 1 needs a node 9, which does not exist\.$"):
        read_ranks(_write(tmp_path, [[(1, "COMP", [9], {})]]))
    (tmp_path / "trace.0.et").write_bytes(b"\xff" * 20)
    with pytest.raises(UserError, match=r"trace\.0\.et is no Chakra trace"):
        read_ranks(tmp_path / "trace")
