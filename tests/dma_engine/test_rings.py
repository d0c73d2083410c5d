# SPDX-License-Identifier: Apache-2.0
"""Descriptor rings: lists and 2-D copies, records, tails in any order, errors, resets, and independence of queues."""

import cocotb
import pytest

from hw.common.sizes import PAGE_BYTES
from hw.dma_engine.descriptors import Descriptor, DescriptorFlag, RingLocation
from hw.dma_engine.words import Command, NativeWord, RequestFlag, Status
from sim.dma.rings import DescriptorRing
from tests.dma_engine.bench import DESTINATION, SOURCE, Bench, parameter, session_seed
from tests.dma_engine.jobs import Job

pytestmark = pytest.mark.rtl

RING_BASE = 0x55_0000_0000
RECORD = DescriptorFlag.RECORD
ALONE = ("lists_and_rows", "tails_in_any_order", "tail_out_of_range", "fetch_error",
         "descriptors_without_response", "reset_before_the_fetch", "holds_and_continues")
TESTS = ("lists_and_rows", "tails_in_any_order", "tail_out_of_range", "not_started", "malformed", "fetch_error",
         "record_error", "descriptors_without_response", "reset_midway", "reset_before_the_fetch",
         "long_copy_beside_short", "holds_and_continues")


@pytest.mark.parametrize("test", TESTS)
def test_tiny(engine, test):
    engine("tiny", test)


@pytest.mark.parametrize("test", ALONE)
def test_pair(engine, test):
    engine("tiny", test, pair="1")


@pytest.mark.parametrize(("preset", "stalls"), [
    ("tiny", "random"), pytest.param("base", "none", marks=pytest.mark.long),
    *(pytest.param(*run, marks=pytest.mark.soak) for run in (("tiny", "none"), ("base", "random")))])
def test_many(engine, preset, stalls):
    engine(preset, "many", stalls=stalls)


async def _bench(dut, *, queues=(0,), size=3, records=True, skip_errors=False, **options):
    """A bench whose first queues are driven by rings, with 64 KiB each of source and destination."""
    bench = Bench(dut, seed=session_seed("rings"), **options)
    await bench.lay_out([Job(0x10000, 0, 0)], queues=1)
    rings = []
    for queue in queues:
        location = RingLocation(base=RING_BASE + queue * 0x1_0000, size=size, pair=bool(parameter("pair", 0)),
                                records=RING_BASE + queue * 0x1_0000 + 0x8000 if records else None)
        bench.fill(location.base, bytes(64 * location.entries))
        bench.fill(RING_BASE + queue * 0x1_0000 + 0x8000, bytes(8 * location.entries))
        rings.append(DescriptorRing(bench, queue, location))
        if queue == 0:
            await bench.command(0, Command.RESET)
            await bench.settle(0)
        await bench.start_queues([queue], ring=location, skip_errors=skip_errors)
    return bench, *rings


def _copy(source, destination, length, flags=0):
    return NativeWord.copy(src=(SOURCE, source), dst=(DESTINATION, destination), length=length, flags=flags)


@cocotb.test()
async def lists_and_rows(dut):
    """All kinds of descriptors, one at a time, and their records."""
    bench, ring = await _bench(dut)
    await ring.post(Descriptor.copies(_copy(0, 100, 64), tag=0x1234, flags=RECORD | DescriptorFlag.SC))
    await bench.settle(0)
    record, = ring.records()
    assert record == (0x1234, Status.OK, 1, 64), record
    await ring.post(Descriptor.copies(_copy(3, 300, 7), _copy(50, 400, 100, RequestFlag.RC), _copy(9, 600, 33),
                                      flags=RECORD | DescriptorFlag.FENCE | DescriptorFlag.IRQ, tag=1))
    await bench.settle(0)
    assert ring.records() == [(1, Status.OK, 1, 140)]
    assert (await bench.driver.interrupts())["completion"]
    await ring.post(Descriptor.copy_2d(src=(SOURCE, 0x1000), dst=(DESTINATION, 0x2000), row_bytes=21, rows=40,
                                       src_stride=64, dst_stride=24, tag=2, flags=RECORD | DescriptorFlag.SC))
    await bench.settle(0)
    assert ring.records() == [(2, Status.OK, 1, 840)]
    # Negative strides, and a stride of 0 for the source.
    await ring.post(Descriptor.copy_2d(src=(SOURCE, 0x1000), dst=(DESTINATION, 0x4000), row_bytes=16, rows=9,
                                       src_stride=0, dst_stride=-16, tag=3, flags=RECORD))
    # A long list over three descriptors: one record for all.
    await ring.post(*(Descriptor.copies(*(_copy(40 * i, 0x5000 + 200 * i, 40) for i in range(3 * part, 3 * part + 3)),
                                        tag=part + 10, flags=RECORD if part == 2 else 0) for part in range(3)))
    await bench.settle(0)
    assert ring.records() == [(3, Status.OK, 1, 144), (12, Status.OK, 1, 360)]
    await bench.end()


@cocotb.test()
async def tails_in_any_order(dut):
    """Doorbells duplicated, merged, reordered, in either half of 16 bytes, over several passes of the ring."""
    bench, ring = await _bench(dut, records=False)
    for round_ in range(6):
        base = ring.tail
        ring.write(*(Descriptor.copies(_copy(round_ + i, 64 * (base + i), 50)) for i in range(5)))
        for tail in bench.rng.sample([base, base + 1, base + 3, base + 4], 3):
            await bench.ring(0, tail, size=bench.rng.choice((2, 3)), offset=8 * bench.rng.randrange(4))
        # The upper half is used only without the lower one.
        data = (base + 5).to_bytes(8, "little")
        await bench.store(0, data + bench.rng.randbytes(8))
        await bench.ring(0, base + 2)
        await bench.settle(0)
        assert bench.model.queues[0].count == base + 5
    await bench.end()


@cocotb.test()
async def tail_out_of_range(dut):
    """A tail outside of the ring's length is refused until CLEAR; earlier descriptors continue."""
    bench, ring = await _bench(dut)
    await ring.post(Descriptor.copies(_copy(0, 0, 64), flags=RECORD))
    await bench.settle(0)
    for wrong in (ring.tail + 9, ring.tail + 0x8000_0000, ring.tail - 1000):
        assert not await bench.ring(0, wrong)
        # A valid tail is refused now, too.
        assert not await bench.ring(0, ring.tail)
        await bench.settle(0)
        await bench.wait_log()
        await bench.command(0, Command.CLEAR)
        await ring.post(Descriptor.copies(_copy(5, 64 * ring.tail, 64), flags=RECORD))
        await bench.settle(0)
    assert bench.errors == {"RING_RANGE": 3}, bench.errors
    # An incomplete tail.
    assert not await bench.store(0, b"\1\0", size=1)
    await bench.settle(0)
    await bench.command(0, Command.CLEAR)
    # A tail that adds the whole ring is valid.
    await ring.post(*(Descriptor.copies(_copy(i, 0x1000 + 64 * i, 64), flags=RECORD) for i in range(8)))
    await bench.end()


@cocotb.test()
async def not_started(dut):
    """Tails for a queue that is not started are refused and dropped."""
    bench, ring = await _bench(dut)
    await bench.command(0, Command.RESET)
    await bench.settle(0)
    assert not await bench.ring(0, 1)
    await bench.wait_log()
    await bench.command(0, Command.START)
    ring.restart()
    await ring.post(Descriptor.copies(_copy(0, 0, 64), flags=RECORD))
    await bench.end()
    assert bench.errors == {"DISABLED": 1}, bench.errors


@cocotb.test()
async def malformed(dut):
    """A wrong value in any field gives one MALFORMED request, with the descriptor's record."""
    bench, ring = await _bench(dut, skip_errors=True)
    right = Descriptor.copies(_copy(0, 0, 64), _copy(0, 100, 64), tag=7, flags=RECORD)
    rows = Descriptor.copy_2d(src=(SOURCE, 0), dst=(DESTINATION, 0x3000), row_bytes=8, rows=3, src_stride=8,
                              dst_stride=8, tag=8, flags=RECORD)
    changes = [(right, {0: 0x13}), (right, {0: 0x10}), (right, {1: 0x01}), (right, {1: 0x61}), (right, {1: 0x21 | 4}),
               (right, {4: 1}), (right, {15: 0x80}), (right, {1: 0x22}),
               (rows, {1: 0x11}), (rows, {16: 2}), (rows, {16: 0x11}), (rows, {17: 0x21}), (rows, {48: 0}),
               (rows, {52: 1}),
               (rows, {63: 0x80}), (rows, {36: 0x20}), (rows, {39: 0x80}), (rows, {47: 0x7F}), (rows, {44: 0x30})]
    for descriptor, change in changes:
        data = bytearray(descriptor.to_bytes())
        for location, value in change.items():
            data[location] = value
        posted = bench.model.queues[0].posted
        await ring.post(bytes(data))
        await bench.settle(0)
        await bench.wait_log()
        assert bench.model.queues[0].posted == posted + 1, change
        found = ring.records()
        assert [record.status for record in found] == [Status.MALFORMED] * len(found), (change, found)
    # A wrong word of a list fails alone.
    wrong = _copy(0, 500, 64)._replace(opcode=9)
    await ring.post(Descriptor.copies(_copy(0, 200, 64), wrong, _copy(0, 300, 64), tag=3, flags=RECORD))
    await bench.settle(0)
    record, = ring.records()
    assert record._replace(phase=0) == (3, Status.MALFORMED, 0, 128), record
    # Rows beyond the 36 bits of an offset, at either end, and rows beyond their region.
    for source, stride in ((8, -8), ((1 << 36) - 8, 8), (0, 0x9000)):
        await ring.post(Descriptor.copy_2d(src=(SOURCE, source), dst=(DESTINATION, 0x3000), row_bytes=8, rows=4,
                                           src_stride=stride, dst_stride=8, tag=8, flags=RECORD))
        await bench.settle(0)
        await bench.wait_log()
    # Rows of no bytes are one request.
    await ring.post(rows._replace(words=(rows.words[0]._replace(length=0),), rows=1 << 30))
    await bench.end()


@cocotb.test()
async def fetch_error(dut):
    """A descriptor whose read fails is one failed request, which holds the queue."""
    bench, ring = await _bench(dut, size=7)
    await ring.post(*(Descriptor.copies(_copy(0, 80 * i, 64), flags=RECORD, tag=i) for i in range(62)))
    await bench.settle(0)
    bench.fail_page(ring.location.base + PAGE_BYTES, read="DECERR")
    await ring.post(*(Descriptor.copies(_copy(9, 80 * i, 64), flags=RECORD, tag=i) for i in range(4)))
    for _ in range(2):
        await bench.settle(0)
        assert bench.model.queues[0].held is Status.RING_FETCH
        await bench.command(0, Command.CLEAR)
    await bench.settle(0)
    assert [record.status for record in ring.records()] == [Status.OK] * 64 + [Status.RING_FETCH] * 2
    bench.repair_page(ring.location.base + PAGE_BYTES)
    await ring.post(Descriptor.copies(_copy(5, 9000, 64), flags=RECORD, tag=99))
    await bench.end()


@cocotb.test()
async def record_error(dut):
    """An error response to a record is an event of the queue."""
    bench, ring = await _bench(dut)
    bench.fail_page(ring.location.records, write="SLVERR")
    await ring.post(Descriptor.copies(_copy(0, 0, 64), flags=RECORD))
    await bench.settle(0)
    await bench.wait_log()
    assert bench.errors == {"COMPLETION_ERROR": 1}, bench.errors
    bench.repair_page(ring.location.records)
    await ring.post(Descriptor.copies(_copy(0, 100, 64), flags=RECORD))
    await bench.end()


async def _again_from_zero(bench, ring, turn):
    """After RESET of queue 0, its ring executes one descriptor only; then the queue is reset again."""
    async def start():
        await bench.settle(0)
        bench.fill(ring.location.records, bytes(8 * ring.location.entries))
        await bench.command(0, Command.START)
        ring.restart()

    await bench.settle(0)
    bench.fill(ring.location.base, bytes(64 * ring.location.entries))
    await start()
    await ring.post(Descriptor.copies(_copy(turn, 0xE000 + 64 * turn, 64), tag=turn, flags=RECORD))
    await bench.settle(0)
    assert ring.records() == [(turn, Status.OK, 1, 64)]
    await bench.command(0, Command.RESET)
    await start()


@cocotb.test()
async def reset_midway(dut):
    """RESET at any time: descriptors in flight, in the buffer, partly expanded; then a restart from 0."""
    bench, ring, other = await _bench(dut, queues=(0, 1), latency=40)
    for turn in range(12):
        q = bench.model.queues[0]
        bench.model.freeze(0)
        ring.write(*(Descriptor.copy_2d(src=(SOURCE, 0), dst=(DESTINATION, 0x1000 * i), row_bytes=100, rows=6,
                                        src_stride=100, dst_stride=200, flags=RECORD | DescriptorFlag.SC)
                     for i in range(8)))
        await ring.notify()
        await other.post(Descriptor.copies(_copy(turn, 0xF000 + 64 * turn, 64), flags=RECORD))
        await bench.wait(bench.rng.choice((0, 5, 20, 45, 60, 100, 300)))
        assert q.frozen
        await bench.command(0, Command.RESET)
        await _again_from_zero(bench, ring, turn)
    await bench.end()


@cocotb.test()
async def reset_before_the_fetch(dut):
    """RESET in each of the cycles between an accepted tail and its burst on AR, which is then not issued."""
    bench, ring = await _bench(dut, latency=40)
    for cycles in range(2, 16):
        bench.model.freeze(0)
        ring.write(Descriptor.copies(_copy(0, 0xF000, 64), flags=RECORD))
        reported = cocotb.start_soon(ring.notify())
        await bench.wait(cycles)
        await bench.command(0, Command.RESET)
        assert await reported
        await _again_from_zero(bench, ring, cycles)
    await bench.end()


@cocotb.test()
async def long_copy_beside_short(dut):
    """A 2-D copy of thousands of rows on one ring blocks neither another ring nor a queue of words."""
    bench, long, short = await _bench(dut, queues=(0, 1))
    await bench.start_queues([2])
    await long.post(Descriptor.copy_2d(src=(SOURCE, 0), dst=(DESTINATION, 0), row_bytes=8, rows=3000,
                                       src_stride=8, dst_stride=8, flags=RECORD | DescriptorFlag.SC), verifiable=False)
    await bench.wait(200)
    for turn in range(5):
        start = bench.cycle
        await short.post(Descriptor.copies(_copy(0, 0xA000 + 64 * turn, 64), flags=RECORD | DescriptorFlag.SC))
        await bench.post(2, _copy(0, 0xB000 + 64 * turn, 64, RequestFlag.SC))
        while min(bench.poller.count(queue) for queue in (1, 2)) <= turn:
            assert bench.cycle - start < 400, f"no end after {bench.cycle - start} cycles"
            await bench.wait(5)
        assert bench.poller.count(0) == 0
    await bench.end()


@cocotb.test()
async def holds_and_continues(dut):
    """An error in a list holds the ring's queue; CLEAR continues after it; the record reports it."""
    bench, ring = await _bench(dut)
    await ring.post(
        Descriptor.copies(_copy(0, 0, 64), NativeWord.copy(src=(3, 0), dst=(DESTINATION, 0), length=8, flags=0),
                          _copy(0, 100, 64), tag=5, flags=RECORD),
        Descriptor.copies(_copy(0, 200, 64), tag=6, flags=RECORD))
    await bench.settle(0)
    assert bench.model.queues[0].held is Status.SRC_REGION and ring.records() == []
    await bench.command(0, Command.CLEAR)
    await bench.settle(0)
    assert ring.records() == [(5, Status.SRC_REGION, 1, 128), (6, Status.OK, 1, 64)]
    await bench.end()


@cocotb.test()
async def many(dut):
    """Random valid descriptors on two rings and words on the other queues, until every ring has wrapped often."""
    bench, *rings = await _bench(dut, queues=(0, 1), size=4, latency=20, stalls=parameter("stalls", "none"))
    others = range(2, min(4, bench.config.queues))
    await bench.start_queues(others)
    base_of = [0x8000 * queue for queue in range(2)]

    async def fill(ring):
        rng, q = bench.rng, bench.model.queues[ring.queue]
        at, limit = base_of[ring.queue], base_of[ring.queue] + 0x7000
        for _ in range(40):
            made = []
            for _ in range(rng.randint(1, 8)):
                flags = rng.choice((0, RECORD)) | rng.choice((0, 1, 2, 4, 8))
                if rng.random() < 0.7:
                    words = []
                    for _ in range(rng.randint(1, 3)):
                        length = rng.choice((1, 8, 64, 64, 65, rng.randint(1, 300)))
                        at = base_of[ring.queue] if at + length > limit else at
                        words.append(_copy(rng.randrange(0x8000), at, length, rng.choice((0, 0, 1))))
                        at += length + rng.randrange(8)
                    made.append(Descriptor.copies(*words, flags=flags, tag=rng.getrandbits(16)))
                else:
                    rows, length = rng.randint(1, 12), rng.randint(1, 40)
                    at = base_of[ring.queue] if at + 50 * rows > limit else at
                    made.append(Descriptor.copy_2d(
                        src=(SOURCE, 0x4000), dst=(DESTINATION, at), row_bytes=length, rows=rows,
                        src_stride=rng.randint(-500, 500), dst_stride=50, flags=flags, tag=rng.getrandbits(16)))
                    at += 50 * rows
            # Only completed descriptors free their entries.
            if ring.free(bench.known[ring.queue]) < len(made):
                await bench.settle(ring.queue)
            at_risk = [ring.tail]
            await ring.post(*made, verifiable=False)
            if rng.random() < 0.3:
                await bench.ring(ring.queue, at_risk[0])
            assert len(q.waiting) == 0

    tasks = [cocotb.start_soon(fill(ring)) for ring in rings]
    for task in tasks:
        await task
    await bench.end()
    assert all(ring.tail > 3 * ring.location.entries for ring in rings)


@cocotb.test()
async def descriptors_without_response(dut):
    """A ring whose descriptors do not arrive times out, RESET abandons their reads, and delayed beats are dropped."""
    bench, ring = await _bench(dut)
    watchdog = 1000
    for released_first in (True, False):
        bench.model.freeze(0)
        bench.memory.withhold(ring.location.base)
        ring.write(*(Descriptor.copies(_copy(0, 0x9000, 64), flags=RECORD) for _ in range(6)))
        await ring.notify()
        bench.model.time_out(0)
        await bench.driver.set_watchdog(watchdog)
        await bench.wait(3 * watchdog)
        assert (await bench.state(0)).held
        await bench.command(0, Command.RESET)
        await bench.wait(4 * watchdog)
        assert not (await bench.state(0)).resetting
        await bench.driver.set_watchdog(0)
        if released_first:
            bench.memory.release(ring.location.base)
            await bench.wait(200)
        bench.fill(ring.location.records, bytes(8 * ring.location.entries))
        await bench.command(0, Command.START)
        ring.restart()
        ring.write(*(Descriptor.copies(_copy(i, 100 * i, 64), tag=i, flags=RECORD) for i in range(5)))
        await ring.notify()
        if not released_first:
            await bench.wait(500)
            assert ring.records() == []
            bench.memory.release(ring.location.base)
        await bench.settle(0)
        assert [record.tag for record in ring.records()] == list(range(5))
        await bench.command(0, Command.RESET)
        await bench.settle(0)
        bench.fill(ring.location.records, bytes(8 * ring.location.entries))
        await bench.command(0, Command.START)
        ring.restart()
    await bench.end()
