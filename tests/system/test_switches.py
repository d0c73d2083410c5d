# SPDX-License-Identifier: Apache-2.0
"""Switches, leaves and spines, and reduction in the network, beside closed forms and an independent model."""

import re
from dataclasses import replace
from itertools import pairwise

import pytest

from hw.ace.words import Collective
from hw.errors import UserError
from sim.system import ENDPOINTS, LinkConfig, Machine, MachineConfig

C = Collective
RATE, LATENCY = 1e9, 2e-6
SIZE = 960_000


def switch(**values):
    return LinkConfig(**{"bytes_per_s": RATE, "latency_s": LATENCY, "kind": "switch"} | values)


def machine(shape, *links, switched="ring", endpoint="ideal", **values):
    """Whole steps, one chunk, no headers, endpoints that take no time, but for ``values``."""
    rules = {"header_bytes": 0, "packet_bytes": 1 << 40, "message_bytes": 1 << 40, "chunk_bytes": 1 << 40,
             "cut_through": False, "both": False, "order": "fifo"} | values
    return MachineConfig(shape=shape, endpoint=replace(ENDPOINTS[endpoint], switched=switched), links=links, **rules)


def seconds(config, collective, size, **options):
    ends = []
    made = Machine(config)
    made.issue(collective, size, done=ends.append, **options)
    made.run()
    return ends[0]


def expected(collective, algorithm, n, size=SIZE, rate=RATE, latency=LATENCY):
    """Closed forms, of the whole vector of ``size`` bytes."""
    part = (n - 1) / n * size / rate
    rounds = 2 if collective == C.ALL_REDUCE else 1
    if algorithm == "in-network" and collective != C.ALL_TO_ALL:
        # Each byte once up and once down, at the same time.
        return size / rate + latency
    if algorithm != "ring":
        return rounds * (part + latency)
    if collective == C.ALL_TO_ALL:
        return n * (n - 1) / 2 * size / n / rate + (n - 1) * latency
    return rounds * (part + (n - 1) * latency)


@pytest.mark.parametrize("n", [2, 3, 8, 64])
@pytest.mark.parametrize("algorithm", ["ring", "direct", "in-network"])
@pytest.mark.parametrize("collective", [C.ALL_REDUCE, C.REDUCE_SCATTER, C.ALL_GATHER, C.ALL_TO_ALL])
def test_closed_forms(collective, algorithm, n):
    config = machine((n,), switch(reduces=True), switched=algorithm)
    size = SIZE // n if collective.info.varying else SIZE
    assert seconds(config, collective, size) == pytest.approx(expected(collective, algorithm, n), rel=1e-6)


@pytest.mark.parametrize("algorithm, sent", [("ring", 2 * 7 / 8), ("direct", 2 * 7 / 8), ("in-network", 1)])
def test_bytes_of_each_rank(algorithm, sent):
    made = Machine(machine((8,), switch(reduces=True), switched=algorithm, endpoint="noovl"))
    made.issue(C.ALL_REDUCE, SIZE)
    made.run()
    statistics = made.statistics()
    assert [link["payload_bytes"] for link in statistics["links"]] == [sent * SIZE]
    memory = statistics["memory"][0]
    if algorithm == "in-network":
        parts = Machine(made.config)
        parts.issue(C.REDUCE_SCATTER, SIZE // 8)
        parts.run()
        moved = parts.statistics()["memory"][0]
        assert (moved["read_bytes"], moved["write_bytes"]) == (SIZE, SIZE // 8)
    # A conventional endpoint reads two bytes for each that it sends to be added, otherwise one.
    reads = {"ring": 3 * 7 / 8, "direct": 3 * 7 / 8, "in-network": 1}[algorithm]
    assert memory["read_bytes"] == reads * SIZE and memory["write_bytes"] == sent * SIZE


@pytest.mark.parametrize("algorithm", ["ring", "direct", "in-network"])
def test_both_directions_share_a_link(algorithm):
    """Halves in both directions do not double the bandwidth."""
    one, both = (seconds(machine((8,), switch(latency_s=0, reduces=True), switched=algorithm, both=value,
                                 message_bytes=2000, chunk_bytes=SIZE // 20), C.ALL_REDUCE, SIZE)
                 for value in (False, True))
    assert both == pytest.approx(one, rel=0.05)


def test_domains_and_rails():
    """Reduce-scatter in the domain, all-reduce of its part along the rails, all-gather in the domain."""
    domain, rail = switch(bytes_per_s=9 * RATE, latency_s=1e-6, reduces=True), switch()
    for algorithm in ("ring", "direct", "in-network"):
        found = seconds(machine((4, 8), domain, rail, switched=algorithm), C.ALL_REDUCE, SIZE)
        inside = expected(C.REDUCE_SCATTER, algorithm, 4, rate=9 * RATE, latency=1e-6)
        rails = expected(C.ALL_REDUCE, "direct" if algorithm == "in-network" else algorithm, 8, SIZE // 4)
        assert found == pytest.approx(2 * inside + rails, rel=1e-6)


@pytest.mark.parametrize("endpoint, algorithm", [
    ("ideal", "ring"), ("ideal", "direct"), ("ideal", "in-network"), ("commopt", "direct"), ("commopt", "in-network"),
    ("noovl", "ring"), ("ace", "ring"), ("wide", "ring")])
@pytest.mark.parametrize("links", [
    (switch(bytes_per_s=2e11, reduces=True), switch(bytes_per_s=2e10)),
    (LinkConfig(bytes_per_s=1e11, latency_s=1e-7), switch(bytes_per_s=2e10, reduces=True))])
def test_one_rank_represents_all(endpoint, algorithm, links):
    config = MachineConfig(shape=(3, 4), endpoint=replace(ENDPOINTS[endpoint], switched=algorithm), links=links,
                           chunk_bytes=16384)
    ends = []
    for fold in (True, False):
        made, found = Machine(config.with_(fold=fold)), {}
        for number, (collective, size) in enumerate(((C.ALL_REDUCE, 200_000), (C.ALL_TO_ALL, 7_000),
                                                     (C.REDUCE_SCATTER, 9_000), (C.ALL_GATHER, 7_777))):
            made.issue(collective, size, done=lambda _, number=number, made=made, found=found:
                       found.update({number: made.kernel.now}))
        made.run()
        ends.append((found, [link for link in made.statistics()["links"] if not link["rank"]]))
    assert ends[0] == ends[1] and len(ends[0][0]) == 4


@pytest.mark.parametrize("algorithm", ["ring", "direct", "in-network"])
@pytest.mark.parametrize("distinct", [(0,), (1,)])
def test_ranks_that_differ_along_a_dimension(algorithm, distinct):
    """Groups issue collectives of different sizes; those along the other dimension are alike."""
    links = (switch(reduces=True, bytes_per_s=3 * RATE), switch(reduces=True))
    config = machine((3, 4), *links, switched=algorithm, message_bytes=2000, chunk_bytes=24_000)
    ends = []
    for folded in (config.with_(distinct=distinct), config.with_(fold=False)):
        made, found = Machine(folded), {}
        for at in range(config.shape[distinct[0]]):
            group = [rank for rank in range(12) if made.coordinates(rank, distinct) == (at,)]
            made.issue(C.ALL_REDUCE, 12_000 * (1 + at), dimensions=(1 - distinct[0],), ranks=group,
                       done=lambda _, at=at, made=made, found=found: found.update({at: made.kernel.now}))
        made.issue(C.ALL_TO_ALL, 5_000, done=lambda _, made=made, found=found: found.update({"all": made.kernel.now}))
        made.run()
        ends.append(found)
    assert ends[0] == ends[1] and len(ends[0]) == config.shape[distinct[0]] + 1


# -- Leaves and spine

def slots(n, leaf, oversubscription, cells):
    """Slots for a direct reduce-scatter, in slots of a cell on a rank's link, independently of the simulator: each rank
    sends ``cells`` to the next one, then to the one after it, and so on; links forward what waits, first come first
    served."""
    queues = {(name, at): [] for name, count in (("out", n // leaf), ("in", n // leaf), ("down", n))
              for at in range(count)}
    trunk, credits = leaf / oversubscription, dict.fromkeys(queues, 0.0)
    sent, received, slot = 0, 0, 0
    while received < n * (n - 1) * cells:
        slot += 1
        moved = []
        for (name, at), queue in queues.items():
            rate = 1.0 if name == "down" else trunk
            credits[name, at] = min(credits[name, at] + rate, rate + len(queue))
            while queue and credits[name, at] >= 1 - 1e-9:
                credits[name, at] -= 1
                moved.append((name, queue.pop(0)))
            if not queue:
                credits[name, at] = min(credits[name, at], 1.0)
        for name, to in moved:
            if name == "down":
                received += 1
            else:
                queues[("in", to // leaf) if name == "out" else ("down", to)].append(to)
        if sent < (n - 1) * cells:
            hop = sent // cells + 1
            for rank in range(n):
                to = (rank + hop) % n
                queues[("out", rank // leaf) if rank // leaf != to // leaf else ("down", to)].append(to)
            sent += 1
    return slot


@pytest.mark.parametrize("n, leaf", [(8, 4), (8, 2), (12, 3), (16, 4)])
@pytest.mark.parametrize("oversubscription", [1.0, 2.0, 4.0])
def test_direct_over_a_spine(n, leaf, oversubscription):
    link = switch(latency_s=0, leaf_ranks=leaf, oversubscription=oversubscription)
    config = machine((n,), link, switched="direct", message_bytes=2000, chunk_bytes=SIZE)
    size = SIZE // n
    every = seconds(config.with_(fold=False), C.REDUCE_SCATTER, size)
    cells = size // 2000
    assert every == pytest.approx(slots(n, leaf, oversubscription, cells) * 2000 / RATE, rel=0.008)
    # A rank that represents all is as limited by the spine as all are in the mean, at least.
    one = seconds(config, C.REDUCE_SCATTER, size)
    least = max((n - 1) / n, (n - leaf) / n * oversubscription) * SIZE / RATE
    assert least * (1 - 1e-6) <= one
    assert one == pytest.approx(every, rel=0.001)


@pytest.mark.parametrize("oversubscription, slower", [(1, 1), (4, 1), (8, 2), (12, 3)])
def test_ring_over_a_spine(oversubscription, slower):
    """One rank of each leaf sends to another leaf, so the spine limits a ring where it is oversubscribed by more than
    the ranks of a leaf."""
    link = switch(latency_s=0, leaf_ranks=4, oversubscription=oversubscription)
    for fold in (True, False):
        config = machine((16,), link, fold=fold, cut_through=True, message_bytes=2000)
        found = seconds(config, C.REDUCE_SCATTER, SIZE // 16)
        assert found == pytest.approx(slower * 15 / 16 * SIZE / RATE, rel=0.04)


def test_latency_of_the_spine():
    link = switch(leaf_ranks=4, spine_latency_s=3e-6)
    for fold in (True, False):
        # Direct: the latest is from another leaf. On a ring, any 15 steps in a row include three or four from leaf to
        # leaf, and all of the latest chain's four; a rank that represents all has the mean.
        direct = seconds(machine((16,), link, switched="direct", fold=fold), C.REDUCE_SCATTER, SIZE // 16)
        assert direct == pytest.approx(15 / 16 * SIZE / RATE + LATENCY + 3e-6, rel=1e-6)
        ring = seconds(machine((16,), link, fold=fold), C.REDUCE_SCATTER, SIZE // 16)
        assert ring == pytest.approx(15 * (SIZE / 16 / RATE + LATENCY) + (15 / 4 if fold else 4) * 3e-6, rel=1e-6)


@pytest.mark.parametrize("oversubscription, slower", [(1, 1), (4, 1), (8, 2)])
def test_leaves_add_before_the_spine(oversubscription, slower):
    """A leaf sends one sum for all of its ranks."""
    link = switch(leaf_ranks=4, oversubscription=oversubscription, reduces=True, spine_latency_s=1e-6)
    for fold in (True, False):
        config = machine((16,), link, switched="in-network", fold=fold, message_bytes=SIZE // 200)
        found = seconds(config, C.ALL_REDUCE, SIZE)
        assert found == pytest.approx(slower * SIZE / RATE + LATENCY + 1e-6, rel=0.02)
        # Every rank gets its own sum of a reduce-scatter, so links down to a leaf carry those of its ranks only.
        found = seconds(config, C.REDUCE_SCATTER, SIZE // 16)
        assert found == pytest.approx(slower * SIZE / RATE + LATENCY + 1e-6, rel=0.02)
        made = Machine(config)
        made.issue(C.REDUCE_SCATTER, SIZE // 16)
        made.run()
        of = SIZE / 4 if fold else SIZE
        spine = made.switches[0]
        assert [out.bytes for out in spine.to_spine.values()] == pytest.approx([of] * len(spine.to_spine))
        assert [out.bytes for out in spine.from_spine.values()] == pytest.approx([of / 4] * len(spine.from_spine))
        # 16 bytes take no time but the latency.
        assert seconds(config, C.ALL_REDUCE, 16) == pytest.approx(LATENCY + 1e-6, rel=0.02)


def test_rails_have_links_of_their_own():
    """Two groups of ranks, one of which is idle: the other may use all links of leaves that both share."""
    times = {}
    for rails in (True, False):
        link = switch(latency_s=0, leaf_ranks=2, oversubscription=4, rails=rails)
        config = machine((2, 4), switch(), link, switched="direct", fold=False, message_bytes=4000)
        times[rails, "one"] = seconds(config, C.REDUCE_SCATTER, SIZE // 4, dimensions=(1,), ranks=(0, 1, 2, 3))
        times[rails, "all"] = seconds(config, C.REDUCE_SCATTER, SIZE // 4, dimensions=(1,))
    assert times[True, "one"] == times[True, "all"] == pytest.approx(times[False, "all"], rel=0.03)
    assert times[True, "one"] == pytest.approx(4 / 2 * SIZE / RATE, rel=0.03)
    assert times[False, "one"] == pytest.approx(2 / 2 * SIZE / RATE, rel=0.03)


# -- Puts

def test_puts_meet_at_the_receiver():
    made, ends = Machine(machine((4,), switch(latency_s=0), fold=False, message_bytes=10_000)), []
    for source in (1, 2, 3):
        made.put(source, 0, SIZE, engine="hardware", done=ends.append)
    made.run()
    alone, again = Machine(machine((4,), switch(latency_s=0), fold=False, message_bytes=10_000)), []
    alone.put(1, 0, SIZE, engine="hardware", done=again.append)
    alone.run()
    assert max(ends) - again[0] == pytest.approx(2 * SIZE / RATE, rel=0.01)


def test_a_put_is_one_hop():
    """A rank that represents all sends to the rank as far away."""
    ends = []
    for target in (1, 5):
        made = Machine(machine((8,), switch()))
        made.put(0, target, 1000, done=ends.append)
        made.run()
        assert made.statistics()["links"][0]["payload_bytes"] == 1000
    assert ends[0] == ends[1]


# -- Roots, and bad input

def test_roots_and_barriers_go_along_a_ring():
    config = machine((4,), switch(), switched="direct", fold=False)
    for both in (False, True):
        # The root sends everything once, or half of it in each direction.
        assert seconds(config.with_(both=both), C.BROADCAST, SIZE) > SIZE / RATE
    assert 0 < seconds(config.with_(packet_bytes=256), C.BARRIER, 0) < 20 * LATENCY


@pytest.mark.parametrize("make, error", [
    (lambda: switch(kind="mesh"), "kind of a link must be one of ring, switch, not 'mesh'."),
    (lambda: LinkConfig(bytes_per_s=1e9, latency_s=0, leaf_ranks=2),
     "leaf_ranks=2 is for links of the kind switch, not ring."),
    (lambda: LinkConfig(bytes_per_s=1e9, latency_s=0, reduces=True),
     "reduces=true is for links of the kind switch, not ring."),
    (lambda: switch(oversubscription=2),
     "oversubscription=2 is for links with a spine, so leaf_ranks must not be none."),
    (lambda: switch(rails=False), "rails=false is for links with a spine, so leaf_ranks must not be none."),
    (lambda: switch(leaf_ranks=2, oversubscription=0.5),
     "oversubscription of a link must be a number from 1 to 1e+06, not 0.5."),
    (lambda: machine((6,), switch(leaf_ranks=4)), "leaf_ranks of links.0 must divide 6 ranks evenly, not be 4."),
    (lambda: machine((6,), switch(), switched="tree"),
     "switched of the endpoint ideal must be one of ring, direct, in-network, not 'tree'."),
    (lambda: MachineConfig(shape=(4,), endpoint=replace(ENDPOINTS["ace"], switched="direct"), links=switch()),
     "switched=direct is not for an accelerator, whose programs are rings, so not for the endpoint ace."),
    (lambda: MachineConfig(shape=(4,), endpoint="ace", links=switch(), whole_packets=True),
     "whole_packets=true is for the accelerator's own links, which are rings, so not for links of the kind switch."),
    (lambda: machine((4,), switch(), algorithm="flat"),
     "algorithm and blocking are rules of simulators of rings; with links of the kind switch they must be hierarchical "
     "and false, not flat and false."),
])
def test_bad_networks(make, error):
    with pytest.raises(UserError, match=f"^{re.escape(error)}$"):
        make()


def test_oversubscription_never_helps():
    times = [seconds(machine((8,), switch(leaf_ranks=2, oversubscription=value), switched="direct", message_bytes=4000),
                     C.ALL_TO_ALL, 10_000) for value in (1, 1.5, 2, 3, 8)]
    assert all(before <= after for before, after in pairwise(times)) and times[0] < times[-1]
