# SPDX-License-Identifier: Apache-2.0
"""Chakra traces of ranks that differ: process groups, messages, and what cannot be matched."""

import json
import re

import pytest

from hw.errors import UserError
from sim.system import chakra, timeline
from sim.system.chakra.schema import CollectiveType
from sim.system.chakra.shapes import fitting, is_torus
from sim.system.experiment import Experiment
from sim.system.graph import Kind

from .traces import attribute, collective, compute, message, process_groups, trace, traces

PAIRS = """['[{"pg_name": "0", "ranks": []}, {"pg_name": "1", "ranks": [0, 1]}, {"pg_name": "2", "ranks": [2, 3]}]']"""


def run(workload, shape=(2, 2), endpoint="ace", **settings):
    return Experiment(workload=workload, shape=shape, endpoint=endpoint, settings=settings).run()


def pairs(folder, *ranks):
    """Four ranks with the groups of :data:`PAIRS`."""
    return traces(folder, *([process_groups(0, PAIRS), *nodes] for nodes in ranks))


def test_a_group_runs_on_its_own_ranks(tmp_path):
    """Two pairs reduce while two ranks also compute; a collective of all ranks would be slower and wait."""
    ranks = [[compute(1, 50 * (rank // 2)), collective(2, 1 << 20, group="1" if rank < 2 else "2", after=(1,))]
             for rank in range(4)]
    graph = chakra.read(pairs(tmp_path, *ranks), (2, 2))
    assert {(node.rank, node.exchange.ranks) for node in graph.nodes if node.exchange} == {
        (0, (0, 1)), (1, (0, 1)), (2, (2, 3)), (3, (2, 3))}
    made = run(f"chakra:{tmp_path / 't'}")
    ends = {span.node.rank: span.end for span in made.spans if span.node.exchange}
    assert ends[0] == pytest.approx(ends[1]) and ends[2] == pytest.approx(ends[3])
    # The second pair begins 50 us later, which no group of all ranks would show.
    assert ends[2] - ends[0] == pytest.approx(50e-6, rel=1e-6)
    whole = [[compute(1, 50 * (rank // 2)), collective(2, 1 << 20, after=(1,))] for rank in range(4)]
    (tmp_path / "all").mkdir()
    together = run(traces(tmp_path / "all", *whole))
    every = {span.end for span in together.spans if span.node.exchange}
    assert min(every) > 50e-6 > ends[0]


def test_groups_of_a_communicator_file(tmp_path):
    name = traces(tmp_path, *([collective(1, 4096, group="5" if rank in (0, 2) else "6")] for rank in range(4)))
    (tmp_path / "groups.json").write_text(json.dumps({"5": [0, 2], "6": [1, 3]}))
    graph = chakra.read(name, (2, 2), groups=str(tmp_path / "groups.json"))
    assert {node.exchange.ranks for node in graph.nodes} == {(0, 2), (1, 3)}
    assert run(name, **{"workload.groups": str(tmp_path / "groups.json")}).seconds > 0
    with pytest.raises(UserError, match=r"^.*t\.0\.et: node 1: there is no process group '5'; the trace has none\.$"):
        chakra.read(name, (2, 2))


def test_all_ranks_alike_are_one(tmp_path):
    """Group 0, and a group with all ranks, on traces that do not differ: a node stands for all."""
    text = """['[{"pg_name": "7", "ranks": [0, 1, 2, 3]}]']"""
    nodes = [process_groups(9, text), collective(1, 64), collective(2, 64, group="0"), collective(3, 64, group="7")]
    graph = chakra.read(traces(tmp_path, *[nodes] * 4), (4,))
    assert [node.rank for node in graph.nodes] == [None] * 3
    # ASTRA-sim's generators number nodes across ranks.
    other = [[compute(10 * rank + 1), collective(10 * rank + 2, after=(10 * rank + 1,))] for rank in range(4)]
    for nodes in other:
        nodes[0].name = "same"
    assert [node.needs for node in chakra.read(traces(tmp_path, *other), (4,)).nodes] == [(), (0,)]


@pytest.mark.parametrize("root", [0, 2])
def test_a_broadcast_has_a_root(tmp_path, root):
    """The root is the first to end."""
    nodes = [[collective(1, 1 << 20, kind=CollectiveType.BROADCAST, attr=[attribute("comm_root", int32_val=root)]),
              compute(2, rank)] for rank in range(4)]
    made = run(traces(tmp_path, *nodes), (4,), "ideal")
    ends = {span.node.rank: span.end for span in made.spans if span.node.exchange}
    assert min(ends, key=lambda rank: ends[rank]) == root


def test_messages_of_pipeline_stages(tmp_path):
    """A stage computes 10 us, sends, and the next computes 20 us; back the same. Two micro-batches overlap."""
    first = [compute(1, 10), message(2, "SEND", 1, 1000, tag=5, after=(1,)),
             compute(3, 10, after=(1,)), message(4, "SEND", 1, 3000, tag=5, after=(3,)),
             message(5, "RECV", 1, 2000, tag=6), compute(6, 10, after=(5, 3))]
    # The receives are written before the sends, and in the order in which they match.
    last = [message(1, "RECV", 0, 1000, tag=5), compute(2, 20, after=(1,)), message(3, "RECV", 0, 3000, tag=5),
            compute(4, 20, after=(3, 2)), message(5, "SEND", 0, 2000, tag=6, after=(4,))]
    name = traces(tmp_path, first, last)
    graph = chakra.read(name, (2,))
    assert [(node.rank, node.transfer.target, node.transfer.bytes) for node in graph.nodes if node.transfer] == [
        (0, 1, 1000), (0, 1, 3000), (1, 0, 2000)]
    made = run(name, (2,), "ideal")
    spans = {(span.node.rank, span.node.layer): span for span in made.spans}
    send = spans[0, ""]
    assert send.node.kind in (Kind.SEND, Kind.DELAY)
    second, third = spans[1, "compute 2"], spans[1, "compute 4"]
    assert second.begin > 10e-6 and third.begin == pytest.approx(second.end)
    # Each rank's waiting and computing add up to the whole.
    assert sum(times.exposed for times in made.layers()) == pytest.approx(made.exposed)
    assert sum(times.other for times in made.layers()) * 2 == pytest.approx(sum(made.busy().values()))
    threads = [event["args"]["name"] for event in timeline.chrome({"ideal": made})["traceEvents"]
               if event["name"] == "thread_name"]
    assert threads == ["rank 0: compute", "rank 0: waiting for", "rank 1: compute", "rank 1: waiting for"]
    # Links take the rest: far less than a computation.
    assert 60e-6 < made.seconds < 62e-6
    # Traces written from it give the same time.
    chakra.write(graph, tmp_path / "copy", (2,), Experiment(workload=name, shape=(2,)).processor())
    assert run(f"chakra:{tmp_path / 'copy'}", (2,), "ideal").seconds == made.seconds


MIXED = [collective(1, 64, group="1")]

UNMATCHED = {
    "no send": ([[message(1, "RECV", 1)], [compute(1)]], (2,),
                r".*t\.0\.et: node 1 receives from rank 1 with tag 0, and .*t\.1\.et has no such COMM_SEND\."),
    "other tag": ([[message(1, "RECV", 1, tag=3)], [message(1, "SEND", 0, tag=4)]], (2,),
                  r".*t\.0\.et: node 1 receives from rank 1 with tag 3, and .*t\.1\.et has no such COMM_SEND\."),
    "second": ([[message(1, "RECV", 1), message(2, "RECV", 1)], [message(1, "SEND", 0)]], (2,),
               r".*t\.0\.et: node 2 receives from rank 1 with tag 0, and .*t\.1\.et has no such COMM_SEND left\."),
    "no receive": ([[message(4, "SEND", 1, tag=2)], [compute(1)]], (2,),
                   r".*t\.0\.et: node 4 sends to rank 1 with tag 2, and .*t\.1\.et has no such COMM_RECV\."),
    "sizes": ([[message(1, "RECV", 1, 64)], [message(1, "SEND", 0, 65)]], (2,),
              r".*t\.0\.et: node 1 receives 64 bytes, and .*t\.1\.et: node 1 sends 65\."),
    "itself": ([[message(1, "SEND", 0)], [compute(1)]], (2,),
               r".*t\.0\.et: node 1: rank 0 cannot exchange messages with rank 0; there are ranks 0 to 1\."),
    "no rank": ([[message(1, "SEND", 2)], [compute(1)]], (2,),
                r".*t\.0\.et: node 1: rank 0 cannot exchange messages with rank 2; there are ranks 0 to 1\."),
    "deadlock": ([[message(1, "RECV", 1), message(2, "SEND", 1, after=(1,))],
                  [message(1, "RECV", 0), message(2, "SEND", 0, after=(1,))]], (2,),
                 r"ranks wait for each other: .*t\.0\.et: node 1, which needs .*t\.1\.et: node 2, which needs "
                 r".*t\.1\.et: node 1, which needs .*t\.0\.et: node 2, which needs .*t\.0\.et: node 1\."),
    "crossed collectives": (
        [[collective(1, 8), compute(3), message(2, "RECV", 1)],
         [message(2, "SEND", 0, after=(1,)), collective(1, 8, after=(4,)), message(4, "RECV", 0)]], (2,),
        r".*t\.1\.et: node 4 receives from rank 0 with tag 0, and .*t\.0\.et has no such COMM_SEND\."),
    "fewer collectives": ([[collective(1), collective(2)], [collective(1)]], (2,),
                          r"rank 1 takes part in 1 collectives of process group '0', and rank 0 in 2\."),
    "other size": ([[collective(1, 64)], [collective(1, 65)]], (2,),
                   r"collective 0 of process group '0' is ALL_REDUCE of 65 bytes at .*t\.1\.et: node 1, and ALL_REDUCE "
                   r"of 64 bytes at .*t\.0\.et: node 1\."),
    "ranks": ([[compute(1)], [compute(2)]], (4,),
              r"there are traces of 2 ranks, .*t\.0\.et and so on, and 4 are 4\."),
}


@pytest.mark.parametrize("case", UNMATCHED)
def test_what_does_not_match(tmp_path, case):
    ranks, shape, sentence = UNMATCHED[case]
    with pytest.raises(UserError) as caught:
        chakra.read(traces(tmp_path, *ranks), shape)
    assert re.fullmatch(sentence, str(caught.value)), str(caught.value)


def test_collectives_in_crossed_order_are_found(tmp_path):
    """Each rank waits for one group's collective before another's, in opposite orders."""
    text = """['[{"pg_name": "1", "ranks": [0, 1]}, {"pg_name": "2", "ranks": [1, 0]}]']"""
    name = traces(tmp_path, [process_groups(0, text), collective(1, group="1"), collective(2, group="2", after=(1,))],
                  [process_groups(0, text), collective(1, group="2"), collective(2, group="1", after=(1,))])
    with pytest.raises(UserError, match=r"^ranks wait for each other: .*t\.0\.et: node 1, which needs .*\.$"):
        chakra.read(name, (2,))


def test_bad_groups(tmp_path):
    cases = {
        r".*: process group '1' has rank 5, and there are traces of 2 ranks\.": '[{"pg_name": "1", "ranks": [0, 5]}]',
        r".*: process group '1' has rank 1 twice\.": '[{"pg_name": "1", "ranks": [1, 1]}]',
        r".*: process group '1' must have a list of ranks, not all\.": '[{"pg_name": "1", "ranks": "all"}]',
        r".*: a process group has no pg_name: \{'ranks': \[0\]\}\.": '[{"ranks": [0]}]',
        r".*: its process groups are not a JSON list: '\[\{\"pg_name\"'\.": '[{"pg_name"',
        r".*: process group '0' has rank 2, and there are traces of 2 ranks\.":
            '[{"pg_name": "0", "ranks": [], "group_size": 4}]',
        r".*: rank 0 is not in process group '1'\.": '[{"pg_name": "1", "ranks": [1]}]',
        r".*: there is no process group '1'; the trace has 3\.": '[{"pg_name": "3", "ranks": []}]',
    }
    for number, (sentence, text) in enumerate(cases.items()):
        (tmp_path / str(number)).mkdir()
        name = traces(tmp_path / str(number), *[[process_groups(0, text), *MIXED]] * 2)
        with pytest.raises(UserError) as caught:
            chakra.read(name, (2,))
        assert re.fullmatch(sentence, str(caught.value)), str(caught.value)
    first, second = (json.dumps([{"pg_name": "1", "ranks": ranks}]) for ranks in ([0], [0, 1]))
    with pytest.raises(UserError, match=r"^process group '1' has ranks 0 in .*t\.0\.et, and 0, 1 in .*t\.1\.et\.$"):
        chakra.read(traces(tmp_path, [process_groups(0, first), *MIXED], [process_groups(0, second), *MIXED]), (2,))


def test_groups_that_are_no_ring(tmp_path):
    """Pairs 0, 1 and 2, 3 are rows of 2x2 and nothing of a ring of four; 0, 3 and 1, 2 are nothing anywhere."""
    name = pairs(tmp_path, *([collective(1, group="1" if rank < 2 else "2")] for rank in range(4)))
    with pytest.raises(UserError, match=r"^process group '1' of ranks 0, 1 is no ring or torus along dimensions of 4; "
                                        r"on 2x2 all groups are\.$"):
        chakra.read(name, (4,))
    text = '[{"pg_name": "1", "ranks": [0, 3]}, {"pg_name": "2", "ranks": [1, 2]}]'
    (tmp_path / "odd").mkdir()
    name = traces(tmp_path / "odd", *([process_groups(0, text), collective(1, group=group)] for group in "1221"))
    with pytest.raises(UserError, match=r"^process group '1' of ranks 0, 3 is no ring or torus along dimensions of "
                                        r"2x2; there is no shape on which all groups of the traces are\.$"):
        chakra.read(name, (2, 2))


def test_shapes():
    assert is_torus([0, 1, 2, 3], (2, 4)) and is_torus([1, 5], (2, 4)) and is_torus(range(8), (2, 4))
    assert is_torus([3], (2, 4)) and not is_torus([0, 1], (2, 4)) and not is_torus([0, 5], (2, 4))
    assert not is_torus([0, 1, 2, 4, 5, 6], (2, 4))
    assert fitting([[0, 4, 8, 12], [0, 1]], 16) == (4, 2, 2)
    assert fitting([[0, 1, 2, 3]], 16) == (4, 4)
    assert fitting([[0, 3]], 4) is None


def test_a_message_in_the_trace_of_another_rank(tmp_path):
    wrong = message(1, "SEND", 1)
    wrong.attr.append(attribute("comm_src", int32_val=1))
    with pytest.raises(UserError, match=r"^.*t\.0\.et: node 1 is a COMM_SEND of rank 1 in the trace of rank 0\.$"):
        chakra.read(traces(tmp_path, [wrong], [message(1, "RECV", 0)]), (2,))
    with pytest.raises(UserError, match=r"^.*one\.et is the trace of one rank, and has messages or process groups; "
                                        r"name all traces by chakra:PREFIX\.$"):
        chakra.read(trace(tmp_path / "one.et", message(1, "SEND", 1)), (2,))
