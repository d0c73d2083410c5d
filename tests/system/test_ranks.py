# SPDX-License-Identifier: Apache-2.0
"""Ranks that differ: one for each stage against all of them, sub-groups, sends, and collectives that ranks join."""

import pytest

from hw.ace.words import Collective
from hw.errors import UserError
from sim.system.configuration import LinkConfig, MachineConfig
from sim.system.graph import Graph, Kind, Node, Transfer
from sim.system.machine import Machine
from sim.system.ranks import Ranks
from sim.system.training import train
from sim.system.workloads import Exchange, Work

C = Collective
SHAPE = (4, 3)


def pipeline(stages, every):
    """Nodes of a small pipeline, of the ranks of stage 0, 1, 2 in dimension 1: all of them or the first of each."""
    nodes = []

    def add(**more):
        nodes.append(Node(number=len(nodes), **more))
        return len(nodes) - 1

    previous, sent = {}, {}
    for part in ("one", "two"):
        for stage in range(stages):
            for rank in [stage + stages * at for at in range(SHAPE[0] if every else 1)]:
                needs = () if (part, stage, rank - 1) not in sent else (sent[part, stage, rank - 1],)
                last = previous[rank] = add(
                    kind=Kind.COMPUTE, rank=rank, previous=previous.get(rank), after=needs, part=part,
                    work=Work(flops=10**8 * (stage + 1), memory_bytes=10**6))
                for collective, size in ((C.ALL_REDUCE, 100_000 + 7777 * stage), (C.ALL_GATHER, 33_000)):
                    last = add(kind=Kind.COLLECTIVE, rank=rank, after=(last,), part=part,
                               exchange=Exchange(collective=collective, bytes=size, group="tensor"))
                if stage + 1 < stages:
                    sent[part, stage + 1, rank] = add(kind=Kind.SEND, rank=rank, after=(last,), part=part,
                                                      transfer=Transfer(target=rank + 1, bytes=50_000))
                else:
                    add(kind=Kind.COLLECTIVE, rank=rank, after=(last,), part=part,
                        exchange=Exchange(collective=C.REDUCE_SCATTER, bytes=64_000, group="tensor"))
    return Graph(name="small", nodes=tuple(nodes), groups={"tensor": (0,)}, distinct=None if every else (1,))


@pytest.mark.parametrize("endpoint", ["noovl", "commopt", "ace", "ideal"])
def test_one_rank_of_each_stage_represents_all(endpoint):
    config = MachineConfig(shape=SHAPE, endpoint=endpoint)
    stages = train(pipeline(3, False), Machine(config.with_(distinct=(1,))))
    every = train(pipeline(3, True), Machine(config.with_(fold=False)))
    alike = {(span.node.rank, span.node.part, span.node.kind, span.node.exchange): (span.begin, span.end)
             for span in stages.spans}
    for span in every.spans:
        key = span.node.rank % 3, span.node.part, span.node.kind, span.node.exchange
        assert alike[key] == (span.begin, span.end)
    assert stages.seconds == every.seconds
    assert stages.computed == pytest.approx(every.computed)
    sent = {link["rank"] % 3: 0 for link in every.statistics["links"]}
    for link in every.statistics["links"]:
        sent[link["rank"] % 3] += link["payload_bytes"]
    for rank in range(3):
        assert 4 * sum(one["payload_bytes"] for one in stages.statistics["links"] if one["rank"] == rank) == sent[rank]


@pytest.mark.parametrize("endpoint", ["commopt", "ace", "ideal"])
def test_collectives_of_all_stages(endpoint):
    """Along the dimension in which ranks differ, too; they begin at different times."""
    ends = []
    for config in (MachineConfig(shape=SHAPE, endpoint=endpoint, distinct=(1,)),
                   MachineConfig(shape=SHAPE, endpoint=endpoint, fold=False)):
        machine = Machine(config)
        pending = machine.prepare(C.ALL_REDUCE, 200_000)
        for rank in pending.members:
            machine.at(1e-6 * (rank % 3), lambda rank=rank, pending=pending: pending.join(rank))
        machine.run()
        ends.append({rank: pending.handle.ends[rank] for rank in range(3)})
    assert ends[0] == ends[1]


def test_send_by_hand():
    link = LinkConfig(bytes_per_s=1e9, latency_s=1e-6)
    machine = Machine(MachineConfig(shape=(2, 5), endpoint="ideal", links=(link, link), distinct=(1,), header_bytes=0,
                                    message_bytes=1000))
    # Two hops down from 1 to 4; one latency and one message more for the second.
    handles = [machine.send(0, 1, 10_000), machine.send(1, 4, 10_000)]
    machine.run()
    assert handles[0].end == pytest.approx(11e-6)
    assert handles[1].end == pytest.approx(13e-6)
    assert [sum(link["payload_bytes"] for link in machine.statistics()["links"] if link["rank"] == rank)
            for rank in range(5)] == [20_000 if rank == 0 else 10_000 if rank == 1 else 0 for rank in range(5)]


def nodes_of(calls):
    """Graph of ``(rank, collective, bytes, ranks)``: each waits for the one before on the rank."""
    nodes, last = [], {}
    for rank, collective, size, ranks in calls:
        nodes.append(Node(number=len(nodes), kind=Kind.COLLECTIVE, rank=rank, after=last.get(rank, ()),
                          exchange=Exchange(collective=collective, bytes=size, ranks=ranks)))
        last[rank] = (len(nodes) - 1,)
    return Graph(name="calls", nodes=tuple(nodes))


@pytest.mark.parametrize("endpoint", ["noovl", "commopt", "ace", "ideal"])
def test_sub_groups_that_wait_for_each_other(endpoint):
    """Ranks 0 and 1 reduce in their row while 2 and 3 do other things; then columns, then all."""
    rows, columns, every = ((0, 1), (2, 3)), ((0, 2), (1, 3)), (0, 1, 2, 3)
    calls = [(rank, C.ALL_REDUCE, 40_000, rows[0]) for rank in rows[0]]
    calls += [(rank, C.ALL_REDUCE, size, rows[1]) for size in (400_000, 300_000) for rank in rows[1]]
    calls += [(rank, C.ALL_REDUCE, 50_000, column) for column in columns for rank in column]
    calls += [(rank, C.ALL_GATHER, 8_000, every) for rank in (3, 1, 2, 0)]
    run = train(nodes_of(calls), Machine(MachineConfig(shape=(2, 2), endpoint=endpoint, fold=False)))
    ends = [span.end for span in run.spans]
    assert ends[0] == ends[1] < min(ends[2:])
    # The columns begin when the slower row has ended.
    assert min(ends[6:10]) > max(ends[2:6])
    assert min(ends[10:]) > max(ends[6:10])


def test_spans_of_a_collective_that_ranks_join_one_after_the_other():
    """That of a rank begins when it joins, and not with the first rank's."""
    seconds = {0: 1e-6, 1: 3e-6}
    nodes = [Node(number=rank, kind=Kind.COMPUTE, rank=rank, work=Work(seconds=time)) for rank, time in seconds.items()]
    nodes += [Node(number=2 + rank, kind=Kind.COLLECTIVE, rank=rank, after=(rank,),
                   exchange=Exchange(collective=C.ALL_REDUCE, bytes=1000, ranks=(0, 1))) for rank in seconds]
    machine = Machine(MachineConfig(shape=(2,), endpoint="ideal", fold=False))
    run = train(Graph(name="calls", nodes=tuple(nodes)), machine)
    assert [span.begin for span in run.spans[2:]] == pytest.approx(list(seconds.values()))


def test_errors():
    ranks = Ranks(MachineConfig(shape=(2, 2, 2), fold=False))
    assert ranks.dimensions((0, 1, 4, 5)) == (0, 2) and ranks.dimensions((6,)) == ()
    with pytest.raises(UserError, match=r"^The ranks 0, 3 are no group that can be run: it must be all ranks of 2x2x2 "
                                        r"along some of its dimensions\. Choose a shape in which they are\.$"):
        ranks.dimensions((0, 3))
    with pytest.raises(UserError, match=r"^There are ranks 0 to 7, not 8\.$"):
        ranks.dimensions((0, 8))
    config = MachineConfig(shape=(2, 2), fold=False)
    with pytest.raises(UserError, match=r"^rank 1 takes part in ALL_GATHER of 10 bytes \(\) where rank 0 of its group "
                                        r"does in ALL_REDUCE of 10 \(\)\.$"):
        train(nodes_of([(0, C.ALL_REDUCE, 10, (0, 1)), (1, C.ALL_GATHER, 10, (0, 1))]), Machine(config))
    with pytest.raises(UserError, match=r"^1 collectives never end \(ALL_REDUCE\): not all of their ranks have issued "
                                        r"them\.$"):
        train(nodes_of([(0, C.ALL_REDUCE, 10, (0, 1))]), Machine(config))
    folded = Machine(MachineConfig(shape=(2, 2), distinct=(1,)))
    with pytest.raises(UserError, match=r"^Rank 0 cannot take part without rank 2, which does the same on this folded "
                                        r"machine; fold=False simulates each rank\.$"):
        folded.prepare(C.ALL_REDUCE, 10, dimensions=(1,), ranks=(0, 1))
    with pytest.raises(UserError, match=r"^distinct must be dimensions of 2, counted from 0, not \(3,\)\.$"):
        MachineConfig(shape=(2, 2), distinct=(3,))
    pending = folded.prepare(C.ALL_REDUCE, 10)
    pending.join(2)
    with pytest.raises(UserError, match=r"^Rank 0 cannot join a collective of which it is no member, or twice\.$"):
        pending.join(0)
