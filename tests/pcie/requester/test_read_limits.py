# SPDX-License-Identifier: Apache-2.0
"""The read path at its limits: cycles, all tags and slots in use, all sizes."""

import random
from dataclasses import replace

import pytest

from tests.pcie.requester.read_bench import SMALL, Rates, run_reads

pytestmark = pytest.mark.long


async def _steps(bench, count):
    for _ in range(count):
        await bench.step()


async def _settle(bench):
    """Wait for the end of the sweep after reset."""
    await _steps(bench, SMALL.sweep_rows + 4)


def test_latency(seed):
    """2 cycles from a burst to its TLP, and from a completion to R."""
    async def body(bench):
        await _settle(bench)
        for number in range(3):
            bench.add(number, 64 * number, 1)
            while bench.pending():
                await bench.step()

    bench = run_reads(random.Random(seed), body)
    assert [after - before for before, after in zip(bench.burst_cycles, bench.tlp_cycles, strict=True)] == [2] * 3
    assert [after - before for before, after in zip(bench.sent_cycles, bench.beat_cycles, strict=True)] == [2] * 3


def test_latency_of_a_stored_request(seed):
    async def body(bench):
        await _settle(bench)
        bench.responding = False
        bench.add(1, 0, 1)
        bench.add(1, 0, 1)
        await _steps(bench, 10)
        first, _ = bench.requests.values()
        first.completions[0].earliest = bench.cycle + 30
        bench.responding = True
        while bench.pending():
            await bench.step()

    bench = run_reads(random.Random(seed), body)
    assert bench.beat_cycles[1] - bench.beat_cycles[0] <= 6


@pytest.mark.parametrize("ids, beats", [(128, 1), (128, 4), (1, 4), (1, 8)])
def test_throughput(ids, beats, seed):
    """One TLP per cycle for bursts of one beat, and one beat per cycle on R, direct or stored."""
    async def body(bench):
        await _settle(bench)
        # The beats of one ID wait for the oldest request, wherever it is among the completions.
        bench.shuffled = ids > 1
        for number in range(200 // beats):
            bench.add(number % ids, 0, beats)
        await _steps(bench, 20)

    bench = run_reads(random.Random(seed), body)
    if ids > 1:
        # Long enough for the tags of the first ones to return.
        first = bench.tlp_cycles[:100 // beats]
        assert first[-1] - first[0] <= max(99 // beats, len(first) - 1) + 2
    # After the first requests, the beats follow one another.
    cycles = bench.beat_cycles[20:-8]
    assert cycles[-1] - cycles[0] <= 1.06 * len(cycles), cycles


@pytest.mark.parametrize("extended", [0, 1])
def test_all_tags(extended, seed):
    """Without a completion, all usable tags are issued, after much traffic as before: none is lost."""
    rng = random.Random(seed)

    async def body(bench):
        bench.levels(extended_tags=extended)
        bench.delay = lambda: rng.randrange(30)
        for _ in range(2):
            bench.responding = False
            before = bench.seen["tlp"]
            for number in range(70):
                bench.add(number, 0, 1)
            await _steps(bench, 180)
            assert bench.seen["tlp"] - before == (64 if extended else 32)
            assert not bench.ctx.get(bench.dut.idle)
            bench.responding = True
            bench.fault = lambda: rng.choice((None, None, "poisoned", "unsupported", "count"))
            for _ in range(10):
                bench.add_random(range(4), longest=10)
            while bench.pending() or not bench.ctx.get(bench.dut.idle):
                await bench.step()
            bench.fault = lambda: None

    run_reads(rng, body)


def test_all_slots(seed):
    """One ID has one more request in flight than there are slots, after traffic as before: no slot is lost."""
    rng = random.Random(seed)

    async def body(bench):
        for _ in range(2):
            bench.responding = False
            before = bench.seen["tlp"]
            for _ in range(12):
                bench.add(5, 0, 1)
            await _steps(bench, 100)
            assert bench.seen["tlp"] - before == 1 + SMALL.reorder_slots
            bench.responding = True
            bench.fault = lambda: rng.choice((None, "poisoned", "aborted"))
            while bench.pending() or not bench.ctx.get(bench.dut.idle):
                await bench.step()
            bench.fault = lambda: None

    run_reads(rng, body)


def test_reuse_is_late(seed):
    """A tag is used again after all others."""
    async def body(bench):
        await _settle(bench)
        for number in range(40):
            bench.add(number, 0, 1)
            while bench.pending() or not bench.ctx.get(bench.dut.idle):
                tags = set(bench.requests)
                await bench.step()
                used.extend(set(bench.requests) - tags)

    used = []
    run_reads(random.Random(seed), body)
    assert len(set(used[:32])) == 32 and used[32] == used[0]


@pytest.mark.parametrize("sizes", [
    {"tags": 32, "reorder_slots": 256, "order_rows": 32, "axi_id_width": 1},
    {"tags": 256, "reorder_slots": 4, "order_rows": 512, "axi_id_width": 16, "data_width": 256, "read_bytes": 128},
])
def test_sizes(sizes, seed):
    rng, config = random.Random(seed), replace(SMALL, **sizes)

    async def body(bench):
        bench.delay = lambda: rng.randrange(30)
        bench.rates = Rates(1, 1, 0.8, 1, flushes=0.2)
        bench.fault = lambda: rng.choice((None, None, None, "poisoned"))
        ids = [rng.getrandbits(config.axi_id_width) for _ in range(4)]
        for _ in range(20):
            bench.add_random(ids, longest=12)
            bench.add_flush()
        await _steps(bench, 400)

    run_reads(rng, body, config)
