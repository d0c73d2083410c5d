# SPDX-License-Identifier: Apache-2.0
"""Regions and pages that change during traffic: the guarantee of QUIESCE, without an effect on other queues."""

import random

import cocotb
import pytest

from hw.dma_engine.config import TINY
from hw.dma_engine.control.quiesce import Quiesce
from hw.dma_engine.words import NativeWord, RequestFlag
from tests.dma_engine.bench import DOMAIN, SOURCE, Bench, parameter, session_seed
from tests.dma_engine.jobs import Job
from tests.harness.cell import run_cell

pytestmark = pytest.mark.rtl

MOVED, QUEUE = 6, 0
BUFFERS = 0x40_0000_0000, 0x7700_0020_0000
SIZE = 64 << 10


class Moving(Bench):
    """Destinations of a region's bursts while software moves the region."""

    def __init__(self, dut, **options):
        super().__init__(dut, **options)
        self.side, self.paged = parameter("side", "dst"), parameter("paged", 0)
        self.bursts = {buffer: 0 for buffer in BUFFERS}
        self.forbidden, self.running = None, True
        issue, write = self.memory.issued, self.memory.written

        def issued(kind, identifier, address, attributes):
            buffer = self.buffer_of(address)
            if buffer is None:
                issue(kind, identifier, address, attributes)
                return
            self.bursts[buffer] += 1
            if buffer == self.forbidden:
                self.mismatch(f"a {kind} at {address:#x} is issued after QUIESCE.")

        def written(writes):
            for address, _ in writes:
                if self.forbidden is not None and self.buffer_of(address) == self.forbidden:
                    self.mismatch(f"{address:#x} is written after QUIESCE.")
            write(writes)

        self.memory.issued, self.memory.written = issued, written

    @staticmethod
    def buffer_of(address):
        return next((buffer for buffer in BUFFERS if buffer <= address < buffer + SIZE), None)

    async def move(self, buffer):
        """Move the region to ``buffer``."""
        if self.paged:
            await self.define_page(3, buffer)
        else:
            await self.define_region(MOVED, base=buffer, length=SIZE, domain=DOMAIN)

    async def traffic(self):
        """Keep the moved region busy; the data of its requests is not checked."""
        while self.running:
            other = SOURCE, 64 * self.rng.randrange(8)
            ends = {"src": other, "dst": other, self.side: (MOVED, self.rng.randrange(SIZE - 3000))}
            if self.side == "src":
                ends["dst"] = MOVED + 1, 0
            await self.wait_for_free_entries(QUEUE, 4)
            await self.post(QUEUE, *[NativeWord.copy(**ends, length=self.rng.randint(1, 1200),
                                                     flags=RequestFlag.SC)] * 4, verifiable=False)
        await self.wait_for_free_entries(QUEUE, self.config.queue_depth)


@pytest.mark.parametrize(("side", "paged"), [
    ("src", 1), pytest.param("dst", 0, marks=pytest.mark.long),
    *(pytest.param(*run, marks=pytest.mark.soak) for run in (("src", 0), ("dst", 1)))])
def test_move_under_traffic(engine, side, paged):
    engine("tiny", "move_under_traffic", side=side, paged=paged)


@cocotb.test()
async def move_under_traffic(dut):
    """A region moves back and forth while its queue and others run: after QUIESCE no burst uses the old address."""
    bench = Moving(dut, seed=session_seed("quiesce"), latency=60, stalls="random")
    words = await bench.lay_out([Job(700, 13, None)] * 300)
    for buffer in BUFFERS:
        bench.fill(buffer - 4096, bytes(SIZE + 8192))
    scratch = 0x3_0000_0000
    bench.fill(scratch, bytes(8192))
    await bench.define_region(MOVED + 1, base=scratch, length=8192, domain=DOMAIN)
    if bench.paged:
        await bench.define_region(MOVED, base=0, length=SIZE, domain=DOMAIN, paged=True, first_page=3)
    await bench.move(BUFFERS[0])
    others = cocotb.start_soon(bench.run(words, range(1, bench.config.queues)))
    mine = cocotb.start_soon(bench.traffic())
    delayed = during = 0
    for turn in range(8):
        old, new = BUFFERS[turn % 2], BUFFERS[1 - turn % 2]
        bench.forbidden = None
        await bench.wait(bench.rng.randint(300, 600))
        await bench.move(new)
        before, ended = bench.bursts[old], sum(map(bench.poller.count, range(1, bench.config.queues)))
        await bench.driver.quiesce()
        delayed += bench.bursts[old] - before
        during += sum(map(bench.poller.count, range(1, bench.config.queues))) - ended
        bench.forbidden = old
        used = bench.bursts[new]
        # Some responses take 8 times the latency.
        for _ in range(30):
            await bench.wait(200)
            if bench.bursts[new] > used:
                break
        bench.assert_equal()
        assert bench.bursts[new] > used, "the moved region is not used"
    bench.forbidden = None
    bench.running = False
    await mine
    await others
    # Bursts to the old address were in flight, and the other queues continued.
    assert delayed > 0 and during > 0, f"{delayed} delayed bursts, {during} requests of others"
    for buffer, length in (*((buffer, SIZE) for buffer in BUFFERS), (scratch, 8192)):
        bench.model.memory.discard(buffer, length)
    await bench.end()


def test_idle_and_twice(engine):
    engine("tiny", "idle_and_twice")


@cocotb.test()
async def idle_and_twice(dut):
    """An idle engine is quiet after some cycles; a start while busy counts from then; memory keeps it busy."""
    bench = Bench(dut, seed=session_seed("twice"))
    words = await bench.lay_out([Job(8, 0, 0), Job(8, 0, 4096)])
    driver = bench.driver
    assert not (await driver.read("QUIESCE"))["busy"]
    for _ in range(3):
        await driver.write("QUIESCE", start=1)
        await bench.wait(4)
        assert not (await driver.read("QUIESCE"))["busy"]
    first, second = (bench.model.destination(word)[0][0] for word in words)
    for address in (first, second):
        bench.withhold(address)
    await bench.post(0, words[0])
    await bench.wait(60)
    await driver.write("QUIESCE", start=1)
    assert (await driver.read("QUIESCE"))["busy"]
    # QUIESCE does not wait for later requests.
    await bench.post(1, words[1])
    await bench.wait(60)
    bench.release(first)
    await bench.wait(60)
    assert not (await driver.read("QUIESCE"))["busy"]
    await driver.write("QUIESCE", start=1)
    await driver.write("QUIESCE", start=1)
    await bench.wait(60)
    assert (await driver.read("QUIESCE"))["busy"]
    bench.release(second)
    await bench.wait(60)
    assert not (await driver.read("QUIESCE"))["busy"]
    await bench.end()


def test_every_segment_counts(seed):
    """Quiesce alone, with random segments: busy until all segments looked up before the latest start have left, and
    not longer."""
    rng, dut = random.Random(f"{seed} quiesce"), Quiesce(TINY)
    quiet_starts = 0

    async def testbench(ctx):
        nonlocal quiet_starts
        in_flight, scheduled_next, begun = [], None, -1
        # Times that all segments from before ``mark`` have left since there was nothing to wait for.
        rounds, mark = 0, 0
        for cycle in range(6000):
            # Alternately more and fewer segments, which leave in random order.
            crowd = (1, 3, 12)[cycle // 100 % 3]
            scheduled, leaves = scheduled_next is not None, bool(in_flight) and rng.randrange(crowd + 1) == 0
            ctx.set(dut.scheduled.valid, scheduled)
            if scheduled:
                ctx.set(dut.scheduled.segment.phase, scheduled_next[1])
            ctx.set(dut.returned.valid, leaves)
            if leaves:
                ctx.set(dut.returned.phase, in_flight.pop(rng.randrange(len(in_flight)))[1])
            start = rng.randrange(40) == 0
            ctx.set(dut.software.start, start)
            if scheduled:
                in_flight.append(scheduled_next)
            scheduled_next = (cycle, ctx.get(dut.phase)) if rng.random() < 0.5 and len(in_flight) < crowd else None
            busy = ctx.get(dut.software.busy)
            waits = [segment for segment in in_flight if segment[0] <= begun]
            assert busy or not waits, f"cycle {cycle}: quiet while {waits} are in flight since the start at {begun}"
            if waits or start or not busy:
                rounds, mark = 0, cycle
            elif cycle > mark + 3 and all(number > mark for number, _ in in_flight):
                rounds, mark = rounds + 1, cycle
            # At most twice: the segments of the previous phase leave, then those of the next.
            assert rounds < 3, f"cycle {cycle}: still busy, though all segments have left {rounds} times"
            quiet_starts += start and not busy
            if start:
                begun = cycle
            await ctx.tick()

    run_cell(dut, testbench)
    assert quiet_starts > 20
