# SPDX-License-Identifier: Apache-2.0
"""The error log: one entry per queue, however often it fails, so that software's loop over it ends."""

import random
from collections import Counter
from dataclasses import replace

import cocotb
import pytest
from amaranth import ResetInserter, Signal
from amaranth.sim import Simulator

from dmace.drivers.dma import LogRecord
from hw.dma_engine.config import TINY
from hw.dma_engine.control.error_log import ErrorLog
from hw.dma_engine.words import NativeWord, Status
from tests.dma_engine.bench import Bench, session_seed
from tests.dma_engine.jobs import pairs
from tests.dma_engine.victim import INVALID


def _sizes(queues):
    return replace(TINY, queues=queues, entries=2 * queues * TINY.window)


CONFIG = _sizes(8)


async def _sweep(ctx, log):
    """The engine's sweep after ``rst``, which does not clear tables."""
    ctx.set(log.init.active, 1)
    for row in range(log.config.queues):
        ctx.set(log.init.address, row)
        await ctx.tick()
    ctx.set(log.init.active, 0)


def _run(testbench, config=CONFIG):
    log, rst = ErrorLog(config), Signal()
    simulator = Simulator(ResetInserter(rst)(log))
    simulator.add_clock(1e-6)

    async def bound(ctx):
        # Before ``rst``, each queue fails once, and some entries are popped.
        await _sweep(ctx, log)
        for queue in range(config.queues):
            _fail(ctx, log, (queue, 1, 0))
            ctx.set(log.pop, queue % 3 == 1)
            await ctx.tick()
        _fail(ctx, log, None)
        ctx.set(log.pop, 0)
        ctx.set(rst, 1)
        await ctx.tick()
        ctx.set(rst, 0)
        await _sweep(ctx, log)
        await testbench(ctx, log)

    simulator.add_testbench(bound)
    simulator.run()


def _fail(ctx, log, failure):
    """Report a failure in this cycle, ``(queue, status, count)``, or none."""
    ctx.set(log.failed, failure is not None)
    if failure is not None:
        for name, value in zip(("queue", "status", "count"), failure, strict=True):
            ctx.set(log.entry[name], value)


def _first(ctx, log):
    """The entry that software reads, or None."""
    entry = ctx.get(log.oldest)
    found = entry.queue, entry.status, entry.count
    assert ctx.get(log.valid) or not any(found)
    return found if ctx.get(log.valid) else None


@pytest.mark.parametrize("often", [0.05, 0.3, 0.9])
def test_random_failures(often):
    """The log holds the first failure of each queue without a waiting entry, in order; other failures are counted."""
    rng = random.Random(often)

    async def testbench(ctx, log):
        waiting, gone, lost, refused, shown = [], 0, 0, 0, Counter()
        for cycle in range(4000):
            failure = (rng.choice((0, 0, 0, rng.randrange(8))), rng.randrange(1, 64), cycle)
            failure = failure if rng.random() < often else None
            pop, read = rng.random() < 0.3, rng.random() < 0.3
            _fail(ctx, log, failure)
            ctx.set(log.pop, pop)
            ctx.set(log.read, read)
            expected = waiting[0] if waiting and gone < 8 else None
            assert _first(ctx, log) == expected, cycle
            assert ctx.get(log.lost) == lost, cycle
            await ctx.tick()
            if failure is not None and failure[0] in {entry[0] for entry in waiting}:
                lost, failure = lost + 1, None
            if expected is None and read:
                gone = 0
            elif expected is not None and pop:
                del waiting[0]
                gone += 1
                shown[expected[0]] += 1
            refused += expected is None and bool(waiting)
            waiting += [failure] if failure is not None else []
        assert len(shown) == 8 and (lost > 100 or often < 0.3) and (refused > 10 or often < 0.9)
    _run(testbench)


@pytest.mark.parametrize("gap", [False, True])
@pytest.mark.parametrize("queues", [2, 8, 64])
def test_a_queue_that_fails_all_the_time(queues, gap):
    """A loop of as many pops as there are queues finds the failure of each other queue.

    With ``gap`` the log is empty for a moment after a pop.
    """
    async def testbench(ctx, log):
        async def cycle(*, failure=None, read=0, pop=0, idle=0):
            _fail(ctx, log, None if gap and (pop or idle) else (0, 1, 0) if failure is None else failure)
            ctx.set(log.read, read)
            ctx.set(log.pop, pop)
            found = _first(ctx, log)
            await ctx.tick()
            return found

        for round_ in range(3):
            failing = range(1, queues) if round_ else [queues - 1]
            for queue in failing:
                await cycle(failure=(queue, 2, round_))
            found, pops = [], 0
            while (entry := await cycle(read=1)) is not None:
                assert await cycle() == entry == await cycle(pop=1)
                await cycle(idle=1)
                await cycle()
                found.append(entry)
                pops += 1
                assert pops <= queues
            assert [entry for entry in found if entry[0]] == [(queue, 2, round_) for queue in failing]
            assert pops == queues and ctx.get(log.lost) >= round_
    _run(testbench, _sizes(queues))


@pytest.mark.rtl
@pytest.mark.parametrize("config", ["tiny", pytest.param("base", marks=pytest.mark.long)])
def test_log(engine, config):
    engine(config, ["full_log", "flooded_log"])


async def _popped(driver):
    """Entries that software's loop finds in the log."""
    records = []
    while (record := await driver.pop_log()) is not None:
        records.append(record)
        assert len(records) <= driver.config.queues
    return records


@cocotb.test()
async def full_log(dut):
    """The log keeps the first failure of each queue, in order, and counts the others."""
    bench = Bench(dut, seed=session_seed("log"))
    driver, bad = bench.driver, NativeWord.copy(src=(INVALID, 0), dst=(INVALID, 0), length=1)
    await bench.lay_out(pairs(bench.config, bench.rng, 1), skip_errors=True)
    await driver.enable_interrupts()
    order = bench.rng.sample(range(bench.config.queues), bench.config.queues)
    for times in (1, 4, 1):
        before = [await bench.state(queue) for queue in order]
        lost = await driver.lost()
        for _ in range(times):
            for queue in order:
                await bench.post(queue, bad)
                await bench.settle(queue)
        assert await driver.lost() == lost + (times - 1) * len(order)
        assert await _popped(driver) == [LogRecord(queue, Status.SRC_REGION, state.count)
                                         for queue, state in zip(order, before, strict=True)]
    assert (await driver.counters())["failed"] == 6 * len(order)
    bench.check_memory()
    bench.assert_equal()


@cocotb.test()
async def flooded_log(dut):
    """While one queue fails permanently, software's loop finds another queue's only failure, and ends."""
    bench = Bench(dut, seed=session_seed("flood"))
    driver, bad = bench.driver, NativeWord.copy(src=(INVALID, 0), dst=(INVALID, 0), length=1)
    await bench.lay_out(pairs(bench.config, bench.rng, 1), skip_errors=True)
    await driver.enable_interrupts()
    rounds, full, found = 8, 0, []

    async def flood():
        while rounds:
            await bench.wait_for_free_entries(0, 4)
            await bench.post(0, *[bad] * 4)

    flooding = cocotb.start_soon(flood())
    while rounds:
        victim = 1 + rounds % (bench.config.queues - 1)
        count = (await bench.state(victim)).count
        await bench.post(victim, bad)
        await bench.settle(victim)
        records = await _popped(driver)
        assert [record for record in records if record.queue] == [LogRecord(victim, Status.SRC_REGION, count)]
        full += len(records) == bench.config.queues
        found += records
        rounds -= 1
    await flooding
    await bench.settle(0)
    found += await _popped(driver)
    lost = await driver.lost()
    # With more queues, a loop empties the log in fewer pops.
    assert full or bench.config.queues > TINY.queues
    assert lost and len(found) + lost == len(bench.model.log), f"{lost} {len(found)}"
    bench.assert_equal()
