# SPDX-License-Identifier: Apache-2.0
"""The requester transport with peers behind networks that lose, duplicate and reorder packets."""

import random
from dataclasses import replace

import pytest

from hw.rdma.config import TINY
from hw.rdma.fault import Fault
from tests.rdma.peer import rnr
from tests.rdma.requester_world import World

CONFIGS = [pytest.param(TINY, id="selective"),
           pytest.param(replace(TINY, selective=False), id="go-back-N", marks=pytest.mark.long)]

MASK = (1 << 24) - 1


def _faulty_world(rng, config, **options):
    return World(config, seed=rng.randrange(1 << 30), loss=rng.choice((0, .01, .1, .3)),
                 duplicate=rng.choice((0, .05, .3)), reorder=rng.choice((0, .05, .5)),
                 jitter=rng.choice((10, 100, 500)), send=rng.choice((1, .3)), retire=rng.choice((1, .5, .1)),
                 returned=rng.choice((1, .3)), **options)


def _habits(rng, peer):
    """How a peer acknowledges, and how often it is not ready."""
    coalesce, volunteer, busy = rng.choice((0, 0, .5, .9)), rng.choice((0, .3, 1)), rng.choice((0, 0, .1))
    peer.coalesce = lambda packet: rng.random() < coalesce
    peer.volunteer = lambda packet: rng.random() < volunteer
    peer.refuse = lambda packet: rnr(1) if rng.random() < busy else None


def _open(rng, world, qp, **options):
    before = world.pairs.get(qp)
    psn = rng.choice((rng.randrange(1 << 24), MASK - rng.randrange(200))) if before is None else (
        before.next_psn + (1 << 22) & MASK)
    world.open(qp, psn=psn, **{
        "timeout": rng.choice((1, 2)), "max_reads": rng.choice((0, 1, 3, 15)),
        "selective": world.config.selective and rng.random() < .5} | options)
    _habits(rng, world.pairs[qp].peer)


def _random_posts(rng, world, rounds):
    for _ in range(rounds):
        for _ in range(rng.randrange(6)):
            world.post(rng.randrange(world.config.queue_pairs), count=rng.choice((1, 3, 20)), read=rng.random() < .3)
        world.run(rng.choice((100, 1000)))
        yield


def _deliver_all(seed, config, rounds):
    rng = random.Random(seed)
    world = _faulty_world(rng, config)
    for qp in range(config.queue_pairs):
        _open(rng, world, qp)
    for _ in _random_posts(rng, world, rounds):
        pass
    world.drain(3_000_000)
    counts = world.bench.counts()
    for qp, pair in world.pairs.items():
        assert [fault for _, fault in pair.faults] in ([], [Fault.RETRIES])
        assert pair.faults or (not pair.failed and pair.peer.expected == pair.next_psn == world.bench.status(qp)[1])
    assert counts["retired"] == sum(pair.retired + pair.failed for pair in world.pairs.values())
    assert counts["sent"] - counts["retransmitted"] <= counts["retired"]
    return world


@pytest.mark.parametrize("config", CONFIGS)
def test_random_faults(seed, config):
    """Each packet retires once, in order and after its execution; READ data are delivered once, in order."""
    for number in range(12):
        _deliver_all(seed + number, config, 15)


@pytest.mark.long
def test_more_random_faults(seed):
    for number in range(150):
        _deliver_all(seed * 7 + number, TINY, 40)


def _disturb(seed, config, rounds):
    """Stops, closings, deaths of peers, and openings in all states, with responses of earlier epochs."""
    rng = random.Random(seed)
    world = _faulty_world(rng, config)
    for qp in range(config.queue_pairs):
        _open(rng, world, qp)
    reopened = 0
    for _ in _random_posts(rng, world, rounds):
        qp = rng.randrange(config.queue_pairs)
        pair = world.pairs[qp]
        action = rng.choice((world.stop, world.close, "die", "reopen", "reopen", "notify"))
        if action == "notify":
            world.notify(qp)
        elif action == "die":
            pair.peer.alive = False
        elif action == "reopen":
            if pair.failing:
                world.backlog.pop(qp, None)
                world.drain(20_000, qp)
                assert world.bench.status(qp)[0] == 0
                _open(rng, world, qp)
                reopened += 1
        else:
            action(qp)
            if rng.random() < .5:
                world.post(qp, count=3)
    for pair in world.pairs.values():
        pair.peer.alive = True
    world.drain(3_000_000)
    return reopened


@pytest.mark.parametrize("config", CONFIGS)
def test_stops_and_openings(seed, config):
    assert sum(_disturb(seed + number, config, 60) for number in range(10)) > 20


@pytest.mark.long
def test_more_stops_and_openings(seed):
    assert sum(_disturb(seed * 5 + number, TINY, 150) for number in range(80)) > 500
