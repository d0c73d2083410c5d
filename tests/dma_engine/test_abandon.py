# SPDX-License-Identifier: Apache-2.0
"""A RESET ends although memory never responds, and later responses have no effect."""

import cocotb
import pytest

from hw.common.sizes import PAGE_BYTES
from hw.dma_engine.words import Command
from tests.dma_engine.victim import DST_BASE, GOOD, SMALL, SRC_BASE, VICTIM, VictimBench

pytestmark = pytest.mark.rtl

WATCHDOG = 1500
FIRST = ["reads_without_response", "words_without_response", "again_and_again"]
SECOND = ["writes_without_response", "two_passes_later"]

@pytest.mark.parametrize(("config", "tests"), [
    ("tiny", FIRST), pytest.param("tiny", SECOND, marks=pytest.mark.long),
    pytest.param("base", FIRST + SECOND, marks=pytest.mark.soak)])
def test_abandon(engine, config, tests):
    engine(config, tests)


async def _prepared(dut, name):
    bench = VictimBench(dut, seed=name)
    await bench.start()
    await bench.prepare()
    return bench


async def _reset(bench, name):
    """RESET, which must end by the watchdog; then the queue is in its initial state."""
    await bench.driver.set_watchdog(WATCHDOG)
    await bench.command(VICTIM, Command.RESET)
    start = bench.cycle
    while (await bench.driver.state(VICTIM)).resetting:
        assert bench.cycle - start < 2 * WATCHDOG + 1000, f"{name}: RESET does not end"
    assert bench.cycle - start >= WATCHDOG, f"{name}: abandoned after {bench.cycle - start} cycles"
    await bench.driver.set_watchdog(0)
    state = await bench.settle_and_check(name)
    assert (state.enabled, state.held, state.count, state.failed, state.waiting, state.in_flight) == (0,) * 6, \
        f"{name}: {state}"


async def _works(bench, name):
    await bench.command(VICTIM, Command.START)
    await bench.post(VICTIM, GOOD, GOOD._replace(dst_offset=7 * PAGE_BYTES + 9))
    state = await bench.settle_and_check(name)
    assert (state.count, state.failed) == (2, 0), f"{name}: {state}"


@cocotb.test()
async def reads_without_response(dut):
    """Delayed data of abandoned reads is not written."""
    bench = await _prepared(dut, "abandon reads")
    for word in (SMALL, SMALL._replace(src_offset=3, length=600)):
        name = f"{word.length} bytes"
        bench.withhold(SRC_BASE)
        await bench.post(VICTIM, word, GOOD)
        await bench.wait(200)
        await _reset(bench, name)
        await bench.clean()
        await _works(bench, name)
        bench.release(SRC_BASE)
        await bench.wait(1500)
        bench.verify(f"{name}, after the delayed response")
        await bench.command(VICTIM, Command.RESET)
        await bench.settle_and_check(name)
        await _works(bench, f"{name}, again")
    await bench.end()


@cocotb.test()
async def writes_without_response(dut):
    """Delayed write responses complete no segment."""
    bench = await _prepared(dut, "abandon writes")
    bench.withhold(DST_BASE)
    await bench.post(VICTIM, SMALL, SMALL, GOOD)
    await bench.wait(200)
    await _reset(bench, "writes")
    await _works(bench, "before the delayed response")
    bench.release(DST_BASE)
    await bench.wait(1500)
    state = await bench.settle_and_check("after the delayed response")
    assert (state.count, state.failed) == (2, 0), state
    await bench.end()


@cocotb.test()
async def words_without_response(dut):
    """Completion words without a response do not prevent a RESET from ending."""
    bench = await _prepared(dut, "abandon words")
    page = bench.words_of(VICTIM)[0] & -PAGE_BYTES
    bench.memory.withhold(page)
    await bench.post(VICTIM, GOOD)
    await bench.wait(600)
    await _reset(bench, "words")
    bench.memory.release(page)
    await bench.wait(600)
    await _works(bench, "after the delayed response")
    await bench.end()


@cocotb.test()
async def again_and_again(dut):
    """While segments of earlier epochs are outstanding, only three RESETs abandon; later ones wait for memory."""
    bench = await _prepared(dut, "abandon again")
    for page in range(5):
        bench.withhold(SRC_BASE + page * PAGE_BYTES)
    for number in range(3):
        await bench.post(VICTIM, SMALL._replace(src_offset=number * PAGE_BYTES))
        await bench.wait(200)
        await _reset(bench, f"RESET {number}")
        await bench.command(VICTIM, Command.START)
    await bench.post(VICTIM, SMALL._replace(src_offset=3 * PAGE_BYTES))
    await bench.wait(200)
    await bench.driver.set_watchdog(WATCHDOG)
    await bench.command(VICTIM, Command.RESET)
    await bench.wait(3 * WATCHDOG)
    assert (await bench.driver.state(VICTIM)).resetting
    await bench.driver.set_watchdog(0)
    for page in range(5):
        bench.release(SRC_BASE + page * PAGE_BYTES)
    await bench.settle_and_check("memory has responded")
    for number in range(6):
        bench.withhold(SRC_BASE)
        await bench.command(VICTIM, Command.START)
        await bench.post(VICTIM, SMALL)
        await bench.wait(200)
        await _reset(bench, f"RESET {number} with a memory that responds afterwards")
        bench.release(SRC_BASE)
        await bench.wait(300)
    await bench.clean()
    await _works(bench, "the end")
    await bench.end()


@cocotb.test()
async def two_passes_later(dut):
    """A delayed response is not accepted for the segment that has the same window entry now."""
    bench = await _prepared(dut, "abandon passes")
    later = SRC_BASE + 3 * PAGE_BYTES
    bench.withhold(SRC_BASE)
    await bench.post(VICTIM, SMALL)
    await bench.wait(200)
    await _reset(bench, "passes")
    await bench.command(VICTIM, Command.START)
    for number in range(2 * bench.config.window - 1):
        await bench.post(VICTIM, SMALL._replace(src_offset=2 * PAGE_BYTES + number))
        await bench.settle_and_check("passes")
    bench.withhold(later)
    await bench.post(VICTIM, SMALL._replace(src_offset=3 * PAGE_BYTES))
    await bench.wait(200)
    bench.release(SRC_BASE)
    await bench.wait(500)
    state = await bench.driver.state(VICTIM)
    assert (state.count, state.in_flight) == (2 * bench.config.window - 1, 1), state
    bench.release(later)
    await bench.settle_and_check("passes")
    await bench.end()
