# SPDX-License-Identifier: Apache-2.0
"""Throughput and latency of the requester transport in cycles, goodput with losses, and rates after CNPs."""

from dataclasses import replace

import pytest

from hw.rdma.config import TINY
from tests.rdma.requester_world import World

LARGE = replace(TINY, queue_pairs=256, window=256, packets=1024)

ROUND_TRIP = 400

STEP = 8 * (TINY.timer_cycles * 25 // 16)
"""Cycles of 51.2 us."""


def _world(config, *, pairs, latency=ROUND_TRIP // 2, **options):
    settings = {name: options.pop(name) for name in ("selective", "congestion", "timeout") if name in options}
    world = World(config, seed=3, latency=latency, **options)
    for qp in pairs:
        world.open(qp, settle=100, **settings)
    return world


def _rate(world, cycles):
    """Packets retired per cycle, in the second half of a run."""
    world.run(cycles // 2)
    before = sum(pair.retired for pair in world.pairs.values())
    world.run(cycles // 2)
    return (sum(pair.retired for pair in world.pairs.values()) - before) / (cycles // 2)


@pytest.mark.long
@pytest.mark.parametrize(("pairs", "most"), [(1, 3.05), (2, 1.6), (3, 1.2), (16, 1.3), (200, 1.3)])
def test_throughput(pairs, most):
    """Cycles per packet, with a round trip of 400 cycles."""
    numbers = [number * 7 % 256 for number in range(pairs)]
    world = _world(LARGE, pairs=numbers)
    for qp in numbers:
        world.post(qp, count=6000 // pairs)
    cycles = 1 / _rate(world, 4000)
    print(f"{pairs} queue pairs: {cycles:.2f} cycles per packet")
    assert cycles < most


def test_latency():
    """Cycles from posting to the line, and from an acknowledgement to retirement, of an idle queue pair."""
    world = _world(TINY, pairs=[1])
    pair, start = world.pairs[1], world.cycle
    world.post(1)
    world.drain(3000)
    sent, retired = pair.sends[0][0] - start, pair.retirements[0][0] - pair.sends[0][0] - ROUND_TRIP
    print(f"posted to send: {sent} cycles; acknowledgement to retire: {retired} cycles")
    assert sent <= 12 and retired <= 12


@pytest.mark.long
def test_a_queue_pair_that_makes_no_progress_delays_no_other():
    rates = {}
    for dead in (False, True):
        world = _world(LARGE, pairs=[4, 5, 6], timeout=1)
        world.pairs[5].peer.alive = not dead
        if dead:
            world.pairs[6].peer.refuse = lambda packet: 0x20 | 14
            world.post(5, count=300)
            world.post(6, count=300)
            world.run(1500)
        world.post(4, count=3000)
        rates[dead] = _rate(world, 4000)
    assert rates[True] > 0.95 * rates[False]


@pytest.mark.long
def test_goodput_with_losses():
    """Packets per cycle with a loss of 1 %."""
    goodput = {}
    for selective in (0, 1):
        world = _world(LARGE, pairs=[9], selective=selective, timeout=2, loss=0.01)
        world.post(9, count=20_000)
        goodput[selective] = _rate(world, 60_000)
    print(f"go-back-N {goodput[0]:.3f}, selective {goodput[1]:.3f} packets per cycle")
    assert goodput[1] > 1.2 * goodput[0]


def _cycles_per_packet(world, qp, packets, *, cost=4):
    """Mean of a queue pair that always has packets to send."""
    sends = world.pairs[qp].sends
    world.post(qp, count=packets, cost=cost)
    first = len(sends)
    world.drain(400_000, qp)
    return (sends[-1][0] - sends[first][0]) / (len(sends) - 1 - first)


def test_notifications_reduce_the_rate():
    """Each halves it, at most once in 25.6 us; after 51.2 us it rises by 8/256."""
    world = _world(TINY, pairs=[2, 3], latency=20, congestion=1)
    free = _cycles_per_packet(world, 2, 200)
    rate = 256
    for _ in range(3):
        for _ in range(3):
            world.notify(2)
            world.run(50)
        rate //= 2
        assert world.bench.status(2)[3] == rate and world.bench.status(3)[3] == 256
        paced = _cycles_per_packet(world, 2, 100, cost=16)
        print(f"rate {rate}/256: {paced:.1f} cycles per packet of 16 beats, {free:.1f} without limit")
        # The first packet may be early by the credit of 256 cycles.
        assert 16 * 256 / rate * 0.99 - 256 / 99 < paced < 16 * 256 / rate * 1.1
        assert _cycles_per_packet(world, 3, 200) < 1.2 * free
        assert world.bench.status(2)[3] == rate
        start = world.cycle
        while world.bench.status(2)[3] == rate:
            assert world.cycle - start < STEP * 9 // 8 + 200
            world.run(20)
        rate += 8
    while rate < 256:
        before = world.cycle
        while world.bench.status(2)[3] == rate:
            world.run(20)
        assert STEP - 100 <= world.cycle - before <= STEP * 9 // 8 + 100
        rate = min(256, rate + 8)
        assert world.bench.status(2)[3] == rate


def test_a_second_notification_halves_the_rate_again():
    """From 25.6 us to 32 us after the first: before the next that a receiver sends under congestion, after 49 us."""
    world = _world(TINY, pairs=[2], latency=20, congestion=1)
    world.notify(2)
    world.run(STEP * 4 // 8 - 100)
    world.notify(2)
    world.run(50)
    assert world.bench.status(2)[3] == 128
    world.run(STEP // 8 + 100)
    world.notify(2)
    world.run(50)
    assert world.bench.status(2)[3] == 64
    start = world.cycle
    while world.bench.status(2)[3] == 64:
        world.run(20)
    assert STEP - 100 <= world.cycle - start <= STEP * 9 // 8 + 100 and world.bench.status(2)[3] == 72


def test_the_lowest_rate():
    world = _world(TINY, pairs=[2], latency=20, congestion=1)
    rates = []
    for _ in range(40):
        world.notify(2)
        world.run(20)
        rates.append(world.bench.status(2)[3])
        world.run(STEP * 9 // 8)
    assert min(rates) >= 1 and rates[-1] < 16
    world.post(2, count=4)
    world.drain(100_000)
    assert world.pairs[2].retired == 4


@pytest.mark.parametrize("congestion", [0, 1])
def test_notifications_of_a_queue_pair_without_congestion_control_are_ignored(congestion):
    world = _world(TINY, pairs=[2], congestion=congestion)
    world.notify(2)
    world.run(100)
    assert world.bench.status(2)[3] == (128 if congestion else 256)


def test_an_opening_restores_the_rate():
    """The time of a packet that was sent at a low rate does not delay the next epoch."""
    world = _world(TINY, pairs=[2], latency=20, congestion=1)
    for _ in range(6):
        world.notify(2)
        world.run(STEP)
    world.post(2, count=3, cost=100)
    world.run(300)
    world.close(2)
    world.drain(5_000)
    world.open(2, congestion=1)
    assert world.bench.status(2)[3] == 256
    world.post(2, count=5, cost=100)
    start = world.cycle
    world.drain(5_000)
    assert world.pairs[2].sends[-1][0] - start < 60
