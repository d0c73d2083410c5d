# SPDX-License-Identifier: Apache-2.0
"""Errors at random moments, and communicators in any order: which ranks report them, what continues, what recovers."""

import random

import numpy as np
import pytest

from dmace.drivers.ace import Share
from hw.ace.config import TINY
from hw.ace.words import Collective, CommunicatorState, Status
from sim.ace.cluster import Cluster, CollectiveFailed
from sim.ace.communicators import Communicator
from sim.ace.compare_errors import compare_errors
from sim.ace.endpoints import Link
from sim.ace.faults import Cut, Faults
from sim.ace.recovery import recover, revoke
from sim.ace.shared_library import build_library

pytestmark = pytest.mark.rtl

C = Collective
THREE = [Communicator((0, 1), Share(0, 2, 0, 4)), Communicator((0,), Share(2, 1, 4, 2)),
         Communicator((1,), Share(3, 1, 6, 2))]


def _all_reduce(cluster, count=5000, **options):
    return cluster.submit(C.ALL_REDUCE, [np.full(count, rank + 1, np.int32) for rank in range(cluster.size)], **options)


@pytest.mark.parametrize("errors", [
    pytest.param(12, marks=pytest.mark.long), pytest.param(200, marks=pytest.mark.soak)])
def test_random_errors(errors, seed):
    found = compare_errors(TINY, errors=errors, seed=seed, library=build_library(TINY), shapes=((2, 2), (3,)))
    assert found["first_mismatches"] == [] and found["mismatches"] == found["hangs"] == 0
    assert found["errors"] == errors and len(found["causes"]) == 4


def test_only_its_own_ranks_and_collectives():
    """One of two rows with the same number is revoked; the other, and the communicator over both, continue."""
    with Cluster(TINY, (2, 2), communicators=THREE, link=Link(latency=20)) as cluster:
        row, both = _all_reduce(cluster, communicator=2, queue=1), _all_reduce(cluster, queue=0)
        cluster.run(500)
        revoke(cluster, 2, rank=3)
        outcome, = cluster.wait(both)
        assert all((output == 10).all() for output in outcome.outputs)
        with pytest.raises(CollectiveFailed) as caught:
            cluster.wait(row)
        assert caught.value.statuses == [Status.OK, Status.OK, Status.REVOKED, Status.REVOKED]
        faults = recover(cluster, 2, ranks=[2, 3])
        assert {(fault.status, fault.rank) for fault in faults} == {(Status.REVOKED, 1)}
        outcome, = cluster.wait(_all_reduce(cluster, communicator=2, queue=1))
        assert [set(output) for output in outcome.outputs] == [{3}, {3}, {7}, {7}]


def test_commands_for_a_revoked_communicator():
    """They are refused with its status, on every rank; a communicator revoked without work can also be opened again."""
    with Cluster(TINY, (3,)) as cluster:
        revoke(cluster, 0, rank=2)
        cluster.run(1000)
        states = cluster.do(*(driver.communicator_state(0) for driver in cluster.drivers))
        assert {state.state for state in states} == {CommunicatorState.REVOKED}
        with pytest.raises(CollectiveFailed) as caught:
            cluster.wait(_all_reduce(cluster))
        assert caught.value.statuses == [Status.REVOKED] * 3
        pending = cluster.do(cluster.drivers[1].pending())[0]
        assert pending.lines() == ["communicator 0 is REVOKED: REVOKED at rank 2 of communicator 0",
                                   "queue 0 is held: REVOKED"]
        recover(cluster)
        outcome, = cluster.wait(_all_reduce(cluster))
        assert all((output == 6).all() for output in outcome.outputs)


def test_watchdog():
    """A missing rank ends the others' wait, and then finds its own command refused."""
    with Cluster(TINY, (3,)) as cluster:
        cluster.do(*(driver.write("WATCHDOG", cycles=2000) for driver in cluster.drivers))
        begin = cluster.cycle
        with pytest.raises(CollectiveFailed) as caught:
            cluster.wait(_all_reduce(cluster, delay=[0, 10_000, 0]))
        assert caught.value.statuses == [Status.TIMEOUT] * 3
        assert 10_000 < cluster.cycle - begin < 12_000
        # Both waited for the same time: each reports itself or the other.
        for fault in recover(cluster):
            assert fault.status == Status.TIMEOUT and fault.rank in (0, 2) and fault.named and fault.phase == 0
        # Longer than the time limit in total, but never without progress.
        outcome, = cluster.wait(_all_reduce(cluster, count=30_000))
        assert outcome.cycles > 10_000 and all((output == 6).all() for output in outcome.outputs)


@pytest.mark.parametrize(("shape", "port"), [((3,), 0), ((2, 2), 2)], ids=str)
def test_link_down(shape, port, seed):
    """A link that is cut times out after several tries: every rank receives the report, and nothing else ends; when the
    link is up again, so is the communicator."""
    rng = random.Random(seed)
    communicators = [Communicator(tuple(range(len(shape))), Share(0, 2, 0, 4)), Communicator((0,), Share(2, 2, 4, 4))]
    with Cluster(TINY, shape, communicators=communicators, link=Link(latency=20)) as cluster:
        ends, repaired = {(1, port), (cluster.neighbour(1, port), port ^ 1)}, cluster.cycle + 40_000
        cluster.set_faults(Faults(cuts=(Cut(1, port, rng.randrange(2000), 40_000),)))
        large, beside = (_all_reduce(cluster, count=20_000, communicator=number, queue=number) for number in range(2))
        if shape == (2, 2):
            # It does not use the link.
            outcome, = cluster.wait(beside)
            assert [set(output) for output in outcome.outputs] == [{4}, {6}, {4}, {6}]
        begin = cluster.cycle
        with pytest.raises(CollectiveFailed) as caught:
            cluster.wait(large)
        assert caught.value.statuses == [Status.LINK_DOWN] * cluster.size
        assert cluster.cycle - begin < 30_000
        cluster.clear_watches()
        cluster.run(repaired - cluster.cycle)
        cluster.do(*(cluster.drivers[rank].start_links([at]) for rank, at in ends))
        cluster.run(500)
        faults = recover(cluster)
        assert {(fault.status, (fault.rank, fault.port) in ends, fault.named) for fault in faults} == {
            (Status.LINK_DOWN, True, 1)}
        if shape == (3,):
            recover(cluster, 1)
        outcome, = cluster.wait(_all_reduce(cluster))
        assert all((output == sum(range(cluster.size + 1))).all() for output in outcome.outputs)


@pytest.mark.parametrize("rounds", [30, pytest.param(500, marks=pytest.mark.soak)])
def test_any_order(rounds, seed):
    """Three communicators; each rank posts their collectives in its own order."""
    rng = random.Random(seed)
    with Cluster(TINY, (2, 2), communicators=THREE, link=Link(latency=10), seed=seed) as cluster:
        for _ in range(rounds):
            pendings = [_all_reduce(cluster, count=rng.choice((1, 100, 700)), communicator=number,
                                    queue=min(number, 1), post=False) for number in range(3)]
            stores = []
            for rank, driver in enumerate(cluster.drivers):
                for pending in rng.sample(pendings, 3):
                    stores.append(driver.post(pending.queue, pending.commands[rank], delay=rng.choice((0, 50, 400))))
            cluster.do(*stores)
            whole, columns, rows = cluster.wait(*pendings, limit=50_000)
            assert all((output == 10).all() for output in whole.outputs)
            assert [set(output) for output in columns.outputs] == [{4}, {6}, {4}, {6}]
            assert [set(output) for output in rows.outputs] == [{3}, {3}, {7}, {7}]
