# SPDX-License-Identifier: Apache-2.0
"""Collectives over faulty links; and the options that configure the faults."""

from functools import cache

import numpy as np
import pytest

from hw.ace.config import TINY
from hw.ace.words import Collective, LinkState, Status
from hw.errors import UserError
from sim.ace.cluster import TRIES, Cluster, CollectiveFailed
from sim.ace.compare import compare
from sim.ace.endpoints import Link
from sim.ace.faults import Cut, Faults, counted, parse
from sim.ace.shared_library import build_library


@cache
def library():
    return build_library(TINY)


def _sum(cluster, count=3000, **options):
    inputs = [np.arange(count, dtype=np.int32) * (rank + 1) for rank in range(cluster.size)]
    outcome = cluster.collective(Collective.ALL_REDUCE, inputs, **options)
    assert all(np.array_equal(output, sum(inputs)) for output in outcome.outputs)
    return outcome


def _reported(cluster, name):
    return sum(getattr(status, name) for port in cluster.link_states() for status in port)


@pytest.mark.rtl
@pytest.mark.parametrize(("faults", "done", "reported"), [
    ({"loss": 0.03}, "lost", "replays"), ({"corrupt": 0.03}, "corrupted", "crc_errors"),
    ({"dup": 0.1}, "duplicated", "duplicates"), ({"delay": 0.05}, "delayed", None),
    ({"late": 0.1, "late_cycles": 500}, "late", "duplicates"), ({"reorder": 0.05}, "reordered", "replays")])
def test_results_are_right(faults, done, reported, seed):
    with Cluster(TINY, (3,), link=Link(latency=7), library=library(), faults=Faults(**faults), seed=seed) as cluster:
        counts = counted(_sum(cluster).statistics)
        assert counts[done] and not any(number for name, number in counts.items() if name != done)
        assert reported is None or _reported(cluster, reported)
        assert not any(status.state == LinkState.DOWN for port in cluster.link_states() for status in port)


@pytest.mark.rtl
@pytest.mark.parametrize("number", [
    0, pytest.param(1, marks=pytest.mark.long),
    *(pytest.param(number, marks=pytest.mark.soak) for number in range(2, 12))])
def test_copies_that_come_thousands_of_packets_later(number, seed):
    """20 % of packets are duplicated, up to 30,000 cycles later."""
    faults = Faults(late=0.2, late_cycles=30_000)
    with Cluster(TINY, (3,), link=Link(latency=7), library=library(), faults=faults,
                 seed=seed + 1000 * number) as cluster:
        for count in (3000, 30_000, 60_000, 3000):
            _sum(cluster, count)
        assert counted(cluster.statistics())["late"] > 1000 and _reported(cluster, "stale") > 100
        assert not any(status.state == LinkState.DOWN for port in cluster.link_states() for status in port)


@pytest.mark.rtl
def test_a_link_that_is_cut_for_a_while(seed):
    cut = Cut(0, 0, 2500, 4500)
    with Cluster(TINY, (2,), library=library(), faults=Faults(cuts=(cut,)), seed=seed) as cluster:
        outcome = _sum(cluster, 20_000)
        assert counted(outcome.statistics)["cut"] >= 2 and _reported(cluster, "timeouts")
        _sum(cluster)


@pytest.mark.rtl
def test_a_link_that_is_cut_permanently_times_out():
    with Cluster(TINY, (3,), library=library()) as cluster:
        _sum(cluster, 100)
        cluster.set_faults(Faults(cuts=(Cut(0, 0, 0),)))
        time_limit = (TRIES + 2) * cluster.do(cluster.drivers[0].read("LINK_PATIENCE"))[0]["timeout"]
        with pytest.raises(CollectiveFailed) as caught:
            _sum(cluster, 1000, limit=time_limit)
        assert caught.value.statuses == [Status.LINK_DOWN] * 3
        cluster.clear_watches()
        cluster.run(time_limit)
        # Both ends have sent data.
        down = {(rank, port) for rank, ports in enumerate(cluster.link_states())
                for port, status in enumerate(ports) if status.state == LinkState.DOWN}
        assert down == {(0, 0), (1, 1)}
        assert cluster.do(*(driver.read("LINK_DOWN") for driver in cluster.drivers)) == [
            {"ports": 1}, {"ports": 2}, {"ports": 0}]


@pytest.mark.rtl
def test_random_collectives(seed):
    found = compare(TINY, collectives=20, seed=seed, faults=True, library=library(), shapes=((2, 2),))
    assert (found["mismatches"], found["hangs"], found["first_mismatches"]) == (0, 0, [])


def test_spec():
    text = "loss=1e-3,corrupt=0.5,dup=1e-4,delay=1e-3:20,late=0.2:900,reorder=0.1:30,down=3:-1@500-900,down=0:+0@7"
    assert parse(text) == Faults(
        loss=1e-3, corrupt=0.5, dup=1e-4, delay=1e-3, delay_cycles=20, late=0.2, late_cycles=900,
        reorder=0.1, reorder_cycles=30, cuts=(Cut(3, 3, 500, 900), Cut(0, 0, 7)))


@pytest.mark.parametrize(("text", "sentence"), [
    ("los=1", "--faults knows loss, corrupt, dup, delay, late, reorder and down, not 'los'."),
    ("", "--faults knows loss, corrupt, dup, delay, late, reorder and down, not ''."),
    ("loss=1", "A share of packets must be from 0 to 0.5, but loss is 1."),
    ("loss=0,loss=0", "--faults has loss twice."),
    ("loss=nan", "A share of packets must be from 0 to 0.5, but loss is nan."),
    ("dup=x", "--faults: dup must be a share of packets, like 1e-3, not 'x'."),
    ("dup=0:5", "--faults: 'dup=0:5' must be like loss=1e-3, or delay=1e-3:200 with cycles."),
    ("delay=0:-5", "--faults: 'delay=0:-5' must be like loss=1e-3, or delay=1e-3:200 with cycles."),
    ("delay=0.1:0", "A delay must be from 1 to 1,000,000 cycles, not 0."),
    ("late=0.1:0", "The delay of a late copy must be from 1 to 1,000,000 cycles, not 0."),
    ("reorder=0.1:2000000", "The delay of a reordered packet must be from 1 to 1,000,000 cycles, not 2,000,000."),
    ("down=3", "--faults: down must be like 3:+0@5000 or 3:-1@5000-9000, not '3'."),
    ("down=3:+0@9-9", "--faults: a link that is down from cycle 9 must come up later than that, not at 9."),
])
def test_wrong_spec(text, sentence):
    with pytest.raises(UserError) as caught:
        parse(text)
    assert str(caught.value) == sentence


@pytest.mark.parametrize(("cut", "sentence"), [
    (Cut(9, 0, 1), "There is no rank 9 among 4, so none of its links can be down."),
    (Cut(0, 3, 1), "There is no link in dimension 1 of a torus of 4, so none can be down."),
])
def test_cuts_that_cannot_be(cut, sentence):
    with pytest.raises(UserError) as caught:
        Faults(cuts=(cut,)).check((4,))
    assert str(caught.value) == sentence
