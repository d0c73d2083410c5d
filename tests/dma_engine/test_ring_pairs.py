# SPDX-License-Identifier: Apache-2.0
"""Rings that prefetch as many descriptors as both rings of their pair: how many, refused commits, and new shares."""

import cocotb
import pytest

from hw.dma_engine.descriptors import Descriptor, DescriptorFlag, RingLocation
from hw.dma_engine.words import Command, NativeWord, Status
from sim.dma.rings import DescriptorRing
from tests.dma_engine.bench import DESTINATION, SOURCE, Bench, parameter, session_seed
from tests.dma_engine.jobs import Job

pytestmark = pytest.mark.rtl

RING_BASE = 0x66_0000_0000
RECORD = DescriptorFlag.RECORD
REASON = ("the other queue of its pair has a ring, and one of the two has RING_CONFIG.pair, or the queue has a ring "
          "with the other value")
TESTS = ("prefetch", "refused", "beside_each_other", "rows_until_reset",
         "reopened_while_reads_are_outstanding", "shares_change")


@pytest.mark.parametrize("test", TESTS)
def test_tiny(engine, test):
    engine("tiny", test)


@pytest.mark.parametrize(("preset", "stalls"), [
    pytest.param("base", "none", marks=pytest.mark.long), pytest.param("tiny", "random", marks=pytest.mark.soak)])
def test_shares(engine, preset, stalls):
    engine(preset, list(TESTS) if stalls == "none" else ["shares_change"], stalls=stalls)


async def _bench(dut, **options):
    """A bench with 64 KiB each of source and destination, whose queues are in NATIVE mode and reset."""
    bench = Bench(dut, seed=session_seed("ring pairs"), **options)
    await bench.lay_out([Job(0x10000, 0, 0)], queues=1)
    await bench.command(0, Command.RESET)
    await bench.settle(0)
    return bench


async def _open(bench, queue, *, pair, size=6, turn=0):
    """Configure and start a queue with a ring at an address of its own in each turn."""
    base = RING_BASE + (8 * turn + queue) * 0x1_0000
    location = RingLocation(base=base, size=size, records=base + 0x8000, pair=pair)
    bench.fill(base, bytes(64 * location.entries))
    bench.fill(location.records, bytes(8 * location.entries))
    await bench.start_queues([queue], ring=location)
    return DescriptorRing(bench, queue, location)


async def _close(bench, queue, *, reset=True):
    """RESET, if the queue is open, and NATIVE mode: other queues may then have its rows."""
    if reset:
        await bench.command(queue, Command.RESET)
        await bench.settle(queue)
    sc, rc = bench.words_of(queue)
    assert await bench.configure_queue(queue, domain=7, sc=sc, rc=rc)


def _copy(queue, index):
    """A distinct copy of each queue."""
    return NativeWord.copy(src=(SOURCE, 0x111 * index % 0x7000), length=50, flags=0,
                           dst=(DESTINATION, 0x4000 * (queue % 4) + 64 * index))


def _described(queue, count, first=0, rng=None):
    """Descriptors of one copy each; with ``rng`` they may contain it two or three times."""
    def words(index):
        return [_copy(queue, index)] * (rng.choice((1, 1, 2, 3)) if rng else 1)

    return [Descriptor.copies(*words(index), tag=index, flags=RECORD) for index in range(first, first + count)]


def _bursts(bench, ring):
    """Addresses of the bursts that read descriptors of a ring from now on."""
    found, issued = [], bench.memory.issued

    def note(kind, identifier, address, attributes):
        if kind == "read" and ring.location.base <= address < ring.location.base + 64 * ring.location.entries:
            found.append(address)
        issued(kind, identifier, address, attributes)

    bench.memory.issued = note
    return found


@cocotb.test()
async def prefetch(dut):
    """Descriptors that are requested while none arrives: all rows of the ring's part, or of its pair's."""
    bench = await _bench(dut)
    depth, burst = bench.config.ring_depth, bench.config.fetch_burst
    for turn, (queue, pair) in enumerate((last, pair) for last in (0, bench.config.extended - 1)
                                         for pair in (False, True, False)):
        ring = await _open(bench, queue, pair=pair, size=8, turn=turn)
        bursts = _bursts(bench, ring)
        bench.memory.withhold(ring.location.base)
        await ring.post(*_described(queue, 3 * depth))
        await bench.wait(20 * depth)
        assert bursts == [ring.location.base + 64 * first for first in range(0, depth << pair, burst)], (queue, pair)
        bench.memory.release(ring.location.base)
        await bench.settle(queue)
        assert [record.tag for record in ring.records()] == list(range(3 * depth))
        await _close(bench, queue)
    await bench.end()


async def _refused(bench, queue, **settings):
    """The engine refuses this configuration."""
    bench.fill(RING_BASE - 0x1_0000, bytes(0x1_0000))
    location = RingLocation(base=RING_BASE - 0x1_0000, size=3, records=None, **settings)
    assert not await bench.configure_queue(queue, domain=7, ring=location)
    assert await bench.driver.refused_write() == f"The write of {queue:#x} to QUEUE_COMMIT was refused: {REASON}"
    assert (await bench.driver.interrupts())["register"]
    await bench.driver.acknowledge(register=True)


@cocotb.test()
async def refused(dut):
    """A commit that would share rows of two rings changes nothing; both orders, and what is allowed beside a pair."""
    bench = await _bench(dut)
    for turn, queue in enumerate(range(bench.config.extended)):
        beside = queue ^ 1
        ring = await _open(bench, queue, pair=True, turn=2 * turn)
        await ring.post(*_described(queue, 20))
        for pair in (False, True):
            await _refused(bench, beside, pair=pair)
        # The other queue is as before; words may drive it, and rings all others.
        await bench.start_queues([beside])
        assert await bench.post(beside, _copy(beside, 30))
        far = [other for other in range(bench.config.extended) if other not in (queue, beside)]
        rings = [await _open(bench, other, pair=other == far[0] and turn % 2 == 0, turn=2 * turn)
                 for other in (far[:1] if turn % 2 == 0 else far)]
        for other in rings:
            await other.post(*_described(other.queue, 10))
        await ring.post(*_described(queue, 20, first=20))
        for each in (ring, *rings):
            await bench.settle(each.queue)
            assert all(record.status is Status.OK or record.status == 0 for record in each.records())
            await _close(bench, each.queue)
        await _close(bench, beside)
        # A ring beside a ring has its own part alone.
        alone = await _open(bench, beside, pair=False, turn=2 * turn + 1)
        await _refused(bench, queue, pair=True)
        both = await _open(bench, queue, pair=False, turn=2 * turn + 1)
        for each in (alone, both):
            await each.post(*_described(each.queue, 30))
        for each in (alone, both):
            await bench.settle(each.queue)
            assert [record.tag for record in each.records()] == list(range(30))
            await _close(bench, each.queue)
    # A queue that is not extended takes no rows, whatever is staged.
    last = bench.config.queues - 1
    ring = await _open(bench, 0, pair=True, turn=40)
    assert await bench.configure_queue(last, domain=7, ring=RingLocation(base=RING_BASE, size=3, pair=True))
    assert await bench.driver.refused_write() is None
    await ring.post(*_described(0, 20))
    await bench.settle(0)
    await bench.end()


@cocotb.test()
async def beside_each_other(dut):
    """Two rings of a pair, one part each: one is paused with full rows while the other passes all of its own often."""
    bench = await _bench(dut)
    depth = bench.config.ring_depth
    for queue in (0, 1):
        waits, runs = [await _open(bench, each, pair=False, size=8, turn=queue) for each in (queue, queue ^ 1)]
        await bench.command(queue, Command.PAUSE)
        count = bench.config.queue_depth + depth
        await waits.post(*_described(queue, count))
        await bench.wait(20 * count)
        await runs.post(*_described(queue ^ 1, 4 * depth))
        await bench.settle(queue ^ 1)
        await bench.command(queue, Command.START)
        await bench.settle(queue)
        for ring in (waits, runs):
            assert [record[:2] for record in ring.records()] == [(index, Status.OK) for index in range(ring.tail)]
            await _close(bench, ring.queue)
    await bench.end()


@cocotb.test()
async def rows_until_reset(dut):
    """A paused ring keeps its rows, and the descriptors in them, through a commit of another mode; RESET ends that."""
    bench = await _bench(dut)
    depth, sc, rc = bench.config.ring_depth, *bench.words_of(0)
    for turn, pair in enumerate((False, True)):
        ring = await _open(bench, 0, pair=pair, turn=turn)
        bench.model.freeze(0)
        await bench.command(0, Command.PAUSE)
        count = bench.config.queue_depth + (depth << pair)
        await ring.post(*_described(0, count), verifiable=False)
        await bench.wait(20 * count)
        await _refused(bench, 0, pair=not pair)
        assert await bench.configure_queue(0, domain=7, sc=sc, rc=rc)
        await _refused(bench, 0, pair=not pair)
        await _refused(bench, 1, pair=True)
        assert await bench.configure_queue(0, domain=7, sc=sc, rc=rc, weight=3, ring=ring.location)
        # Reset, and only then in another mode.
        await _close(bench, 0)
        beside = await _open(bench, 1, pair=True, turn=turn)
        await _refused(bench, 0, pair=False)
        await beside.post(*_described(1, 40))
        await bench.settle(1)
        await _close(bench, 1)
        # In another mode, and only then reset.
        ring = await _open(bench, 0, pair=not pair, turn=turn)
        assert await bench.configure_queue(0, domain=7, sc=sc, rc=rc)
        await _refused(bench, 1, pair=True)
        await bench.command(0, Command.RESET)
        await bench.settle(0)
        beside = await _open(bench, 1, pair=True, turn=turn)
        await beside.post(*_described(1, 40))
        await bench.settle(1)
        await _close(bench, 1)
    await bench.end()


@cocotb.test()
async def reopened_while_reads_are_outstanding(dut):
    """Descriptors of an abandoned ring arrive when its rows belong to the other ring of its pair, and are filled."""
    bench = await _bench(dut)
    depth, watchdog = bench.config.ring_depth, 4 * bench.config.queues + 1000
    for turn, (queue, pairs) in enumerate((queue, pairs) for queue in (0, 1)
                                          for pairs in ((True, True), (False, True), (True, False))):
        beside = queue ^ 1
        ring = await _open(bench, queue, pair=pairs[0], size=8, turn=2 * turn)
        bench.model.freeze(queue)
        bench.memory.withhold(ring.location.base)
        await ring.post(*_described(queue, 3 * depth), verifiable=False)
        bench.model.time_out(queue)
        await bench.driver.set_watchdog(watchdog)
        await bench.wait(3 * watchdog)
        assert (await bench.state(queue)).held
        await bench.command(queue, Command.RESET)
        await bench.wait(4 * watchdog)
        assert not (await bench.state(queue)).resetting
        await bench.driver.set_watchdog(0)

        await _close(bench, queue, reset=False)
        other = await _open(bench, beside, pair=pairs[1], size=8, turn=2 * turn + 1)
        # The queue is paused, so every row gets a descriptor that waits.
        await bench.command(beside, Command.PAUSE)
        count = bench.config.queue_depth + (depth << pairs[1])
        await other.post(*_described(beside, count))
        await bench.wait(40 * count)
        bench.memory.release(ring.location.base)
        await bench.wait(100 * depth)
        await bench.command(beside, Command.START)
        await bench.settle(beside)
        assert [record[:2] for record in other.records()] == [(index, Status.OK) for index in range(count)]
        # The abandoned ring again, alone in its part.
        await _close(bench, beside)
        ring = await _open(bench, queue, pair=False, size=8, turn=2 * turn)
        await ring.post(*_described(queue, 2 * depth))
        await bench.settle(queue)
        assert [record[:2] for record in ring.records()] == [(index, Status.OK) for index in range(2 * depth)]
        await _close(bench, queue)
    await bench.end()


@cocotb.test()
async def shares_change(dut):
    """Rings of a pair are reset at any time and get other shares, while further queues run."""
    bench = await _bench(dut, latency=30, stalls=parameter("stalls", "none"))
    others = [queue for queue in range(bench.config.queues) if queue not in (0, 1)][:2]
    await bench.start_queues(others)
    ended = False

    async def run(queue, low):
        index = 0
        while not ended:
            index += 1
            word = NativeWord.copy(src=(SOURCE, index % 512), dst=(DESTINATION, low + 64 * (index % 60)), length=40,
                                   flags=1)
            await bench.post(queue, word, verifiable=False)
            while bench.poller.count(queue) < index:
                await bench.wait(5)

    tasks = [cocotb.start_soon(run(queue, 0x8000 + 0x4000 * index)) for index, queue in enumerate(others)]
    for turn in range(16):
        shares = bench.rng.choice(((True, None), (None, True), (False, False), (False, None)))
        rings = [await _open(bench, queue, pair=pair, size=bench.rng.randint(5, 8), turn=turn)
                 for queue, pair in enumerate(shares) if pair is not None]
        cut = bench.rng.random() < 0.5
        for ring in rings:
            if cut:
                bench.model.freeze(ring.queue)
            count = bench.rng.randint(1, ring.location.entries)
            await ring.post(*_described(ring.queue, count, rng=bench.rng), verifiable=False)
        if cut:
            await bench.wait(bench.rng.choice((0, 5, 20, 35, 60, 100, 300, 600)))
        for ring in rings:
            if not cut:
                await bench.settle(ring.queue)
                assert [record[:2] for record in ring.records()] == [(index, Status.OK) for index in range(ring.tail)]
            await _close(bench, ring.queue)
    ended = True
    for task in tasks:
        await task
    await bench.end()
