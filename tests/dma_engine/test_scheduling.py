# SPDX-License-Identifier: Apache-2.0
"""Order of scheduling: one queue alone, classes, weights, limits."""

from dataclasses import replace

import cocotb
import pytest

from hw.common.sizes import PAGE_BYTES
from hw.dma_engine.config import BASE
from hw.dma_engine.words import Command
from sim.cpp import Flow, Target
from tests.dma_engine.bench import DOMAIN, SOURCE_BASE, Bench, session_seed
from tests.dma_engine.jobs import Job
from tests.dma_engine.pins import Pins
from tests.harness.fast import fast

pytestmark = pytest.mark.rtl


@pytest.mark.parametrize("testcase", ["one_queue_alone", "classes", "queue_limit", "target_limit", "limits_come_back"])
def test_scheduling(engine, testcase):
    engine("tiny", testcase)


async def _stopped(dut, job, number, **settings):
    """A bench, and words for ``number`` copies on a stopped queue; each copy has a different source."""
    bench = Bench(dut, seed=session_seed("scheduling"), latency=300)
    words = await bench.lay_out([job] * number, **settings)
    beat = bench.config.beat_bytes
    words = [word._replace(src_offset=PAGE_BYTES + index * max(beat, job.length)) for index, word in enumerate(words)]
    for queue in range(bench.config.queues):
        await bench.command(queue, Command.PAUSE)
    return bench, words


def _order(pins, length):
    """Numbers of the copies in the order of their reads, and the cycles of the reads."""
    reads = pins.seen["ar"]
    return ([(read.fields[1] - SOURCE_BASE - PAGE_BYTES) // length for read in reads], [read.cycle for read in reads])


@cocotb.test()
async def one_queue_alone(dut):
    """Requests of one beat that wait in one queue are scheduled in every cycle."""
    bench, words = await _stopped(dut, Job(8, 0, 0), 8)
    pins = Pins(bench)
    await bench.post(2, *words)
    await bench.command(2, Command.START)
    await bench.wait(100)
    order, cycles = _order(pins, 8)
    assert order == list(range(8))
    assert cycles[-1] - cycles[0] == 7, f"reads at {[cycle - cycles[0] for cycle in cycles]}"
    await bench.end()


@cocotb.test()
async def classes(dut):
    """While a queue of a higher class requests, none of a lower class is scheduled."""
    bench, words = await _stopped(dut, Job(8, 0, 0), 24)
    lower, middle, higher = words[:8], words[8:16], words[16:]
    for queue, priority in ((0, 0), (1, 1), (3, 3)):
        sc, rc = bench.words_of(queue)
        await bench.configure_queue(queue, domain=DOMAIN, sc=sc, rc=rc, priority=priority)
    pins = Pins(bench)
    # Other work, so that all requests wait when the first is scheduled.
    await bench.command(0, Command.START)
    await bench.post(0, *lower)
    for queue, group in ((1, middle), (3, higher)):
        await bench.post(queue, *group)
    await bench.wait(10)
    await bench.command(1, Command.START)
    await bench.command(3, Command.START)
    await bench.wait(1500)
    order, _ = _order(pins, 8)
    assert sorted(order) == list(range(24)), order
    first = order.index(16)
    assert order[first:first + 8] == list(range(16, 24)), order
    await bench.end()


@cocotb.test()
async def queue_limit(dut):
    """The maximum of segments in flight equals QUEUE_LIMIT."""
    bench, words = await _stopped(dut, Job(3 * PAGE_BYTES, 0, 0), 2)
    for limit, word in zip((1, 3), words, strict=True):
        sc, rc = bench.words_of(limit)
        await bench.configure_queue(limit, domain=DOMAIN, sc=sc, rc=rc, limit=limit)
        pins = Pins(bench)
        await bench.post(limit, word)
        await bench.command(limit, Command.START)
        # With one at a time, this holds until all 48 have completed.
        await bench.settle(limit, timeout=40_000)
        assert pins.in_flight["segments"] == limit, pins.in_flight
        pins.stop()
    await bench.end()


@cocotb.test()
async def target_limit(dut):
    """Once the limit is reached, only segments scheduled before it took effect continue."""
    bench, words = await _stopped(dut, Job(8, 0, 0), 16)
    for queue in (0, 1):
        sc, rc = bench.words_of(queue)
        await bench.configure_queue(queue, domain=DOMAIN, sc=sc, rc=rc, target=2)
    await bench.driver.limit_target(2, beats=4)
    pins = Pins(bench)
    for queue in (0, 1):
        await bench.post(queue, *words[8 * queue:8 * queue + 8])
        await bench.command(queue, Command.START)
    await bench.wait(250)
    assert 4 <= pins.in_flight["segments"] <= 4 + 8, pins.in_flight
    assert len(pins.seen["ar"]) < 16
    await bench.wait(2500)
    assert len(pins.seen["ar"]) == 16
    await bench.end()


@cocotb.test()
async def limits_come_back(dut):
    """After segments of all sizes, some of them rejected, and a RESET, a limit of one beat still admits one segment."""
    bench = Bench(dut, seed=session_seed("limits come back"))
    jobs = [Job(length, source, None) for length in (1, 7, 8, 9, 255, 256, 257, 1000) for source in (0, 3)]
    words = await bench.lay_out(jobs * 2, target=1, skip_errors=True)
    await bench.driver.limit_target(1, beats=1)
    bad = [word._replace(src_offset=(1 << 36) - 1) for word in words[::4]]
    await bench.run([word for pair in zip(words, bad * 4, strict=True) for word in pair])
    await bench.end()
    queue = 1
    bench.model.freeze(queue)
    await bench.post(queue, *words[:2])
    await bench.command(queue, Command.RESET)
    await bench.settle(queue)
    await bench.command(queue, Command.START)
    await bench.run(words)
    await bench.end()


# Ratios, measured with the C++ harness.


@pytest.fixture
def base():
    return fast(BASE)


def _shares(base, flows, latency=50, window=100_000):
    result = base.run(flows, [Target(read_latency=latency, write_latency=latency)], warmup=20_000, window=window)
    total = sum(result["queue_bytes"].values())
    return [sum(result["queue_bytes"][str(queue)] for queue in range(flow.first, flow.first + flow.count)) / total
            for flow in flows]


def _full(size, **options):
    return Flow(size=size, depth=400, waiting=32 if size < 8192 else 2, **options)


@pytest.mark.parametrize("sizes", [(1024, 1024, 1024), (4096, 4096, 4096), (64, 1000, 65536), (65536, 1000, 64)])
def test_weights(base, sizes):
    """Shares of full queues are proportional to their weights, whatever the requests' sizes."""
    weights = (1, 2, 4)
    flows = [_full(size, first=queue, weight=weight)
             for queue, (size, weight) in enumerate(zip(sizes, weights, strict=True))]
    for share, weight in zip(_shares(base, flows), weights, strict=True):
        assert share == pytest.approx(weight / 7, rel=0.03)


@pytest.mark.parametrize("attack", [
    # Two beats of R per beat of W, with and without two for a descriptor; only a descriptor's; 33 beats for 32.
    {"ring": 1, "size": 2, "across": 1, "burst": 8}, {"size": 2, "across": 1, "waiting": 32},
    {"ring": 1, "size": 64, "burst": 8}, {"ring": 3, "size": 1024, "source_shift": 3, "burst": 3},
], ids=["across_4k_by_ring", "across_4k", "by_ring", "unaligned_by_ring"])
def test_beats_of_both_sides_count(base, attack):
    """Four queues that take more of R than of W leave a queue of weight 15 its share."""
    victim = _full(65536, first=4, weight=15)
    result = base.run([Flow(count=4, depth=400, weight=1, **attack), victim],
                      [Target(read_latency=50, write_latency=50)], warmup=20_000, window=60_000)
    share = result["queue_bytes"]["4"] / BASE.beat_bytes / result["window"]["cycles"]
    read = result["window"]["read_beats"] / result["window"]["cycles"]
    print(f"{attack}: {share:.3f} of W where {15 / 19:.3f} is fair; R is used {read:.3f}")
    assert share >= 0.97 * 15 / 19


def test_weight_of_zero_is_one(base):
    flows = [_full(256, first=0, weight=0), _full(256, first=1, weight=1), _full(256, first=2, weight=15)]
    for share, weight in zip(_shares(base, flows, window=200_000), (1, 1, 15), strict=True):
        assert share == pytest.approx(weight / 17, rel=0.05)


def test_a_queue_may_not_save_up(base):
    """A queue that was idle for long gets no more than its share afterwards."""
    late = _full(1024, first=0, start=60_000)
    flows = [late, _full(1024, first=1), _full(1024, first=2)]
    result = base.run(flows, [Target(read_latency=50, write_latency=50)], warmup=60_200, window=3000)
    assert result["queue_bytes"]["0"] / sum(result["queue_bytes"].values()) == pytest.approx(1 / 3, rel=0.1)


def test_higher_class_starves_lower(base):
    """As documented, a lower class moves nothing while a higher one can use the bus."""
    flows = [_full(512, first=0, priority=1), _full(512, first=1, priority=2),
             _full(512, first=2, priority=2, weight=3)]
    lower, *higher = _shares(base, flows)
    assert lower < 0.01
    assert [share / sum(higher) for share in higher] == pytest.approx([1 / 4, 3 / 4], rel=0.05)


def test_higher_class_is_not_delayed(base):
    """A small request of a higher class among full queues of large ones is as fast as the engine allows."""
    latency, begin = 100, 8000
    flows = [_full(65536, count=15), Flow(first=15, size=64, requests=1, start=begin, priority=3)]
    target = Target(read_latency=latency, write_latency=latency)
    done = base.run(flows, [target], warmup=begin + 1)["requests"][0]["to_done"]
    # Slots of the buffer are assigned in order, so segments scheduled before leave first.
    assert done <= 2 * latency + 2 * BASE.buffer_beats


@pytest.mark.long
@pytest.mark.parametrize("tags", [BASE.tags, 1024])
def test_slow_target_leaves_the_fast_one_alone(tags):
    """Two memories, one with a twentieth of the bandwidth and ten times the latency, all queues full."""
    engine, latency, rate = fast(replace(BASE, tags=tags)), 1000, 0.05
    quick = _full(4096, count=4)
    slow = replace(_full(4096, first=4, count=4), depth=16, source=1, destination=1, target=1)

    def busy(limit):
        targets = [Target(read_latency=100, write_latency=100),
                   Target(read_latency=latency, write_latency=latency, read_rate=rate, write_rate=rate, limit=limit)]
        result = engine.run([quick, slow], targets, warmup=20_000, window=20_000)
        window = result["window"]
        slow_beats = sum(result["queue_bytes"][str(queue)] for queue in range(4, 8)) / BASE.beat_bytes
        return min(window["payload_beats"], window["read_beats"]) / window["cycles"], slow_beats / window["cycles"]

    both, own = busy(128)
    assert both >= 0.90
    # At least one limit's worth of beats moves per round trip.
    assert 128 / (2 * latency + 2 * 128 / rate) <= own <= rate
    assert busy(0)[0] < 0.3


@pytest.mark.parametrize("large", [65536, 1 << 20])
def test_small_behind_large(base, large):
    latency = 250
    flows = [Flow(size=large, requests=1), Flow(first=1, requests=1, start=1)]
    requests = base.run(flows, [Target(read_latency=latency, write_latency=latency)])["requests"]
    done = next(request["to_done"] for request in requests if request["queue"] == 1)
    assert done <= 2 * latency + 100
