# SPDX-License-Identifier: Apache-2.0
"""The first test to run: a few copies on ``tiny``, each checked separately.

``pytest tests/dma_engine/test_smoke.py --waves`` records a trace.
"""

import cocotb
import pytest
from cocotb.triggers import ClockCycles

from hw.dma_engine.config import TINY
from hw.dma_engine.words import Command, NativeWord, RequestFlag
from sim.dma.testbench import DmaTestbench
from sim.verilator.design import Design

pytestmark = pytest.mark.rtl

SOURCE, DESTINATION, WORDS = 0x7_1234_5000, 0xABCD_0000_9000, 0x9_8765_4000


def test_smoke(simulate):
    from sim.dma.checked import CheckedDma
    simulate(Design(CheckedDma, TINY), name="dma_tiny")


async def _bench(dut, seed):
    """A testbench with queue 1 started, and 16 KiB of source (region 2) and destination (region 5)."""
    bench = DmaTestbench(dut, TINY, seed=seed)
    await bench.start()
    bench.fill(SOURCE, bench.rng.randbytes(0x4000))
    bench.fill(DESTINATION - 0x1000, b"\xAA" * 0x6000)
    bench.fill(WORDS, bytes(64))
    await bench.define_region(2, base=SOURCE, length=0x4000, domain=7, writable=False)
    await bench.define_region(5, base=DESTINATION, length=0x4000, domain=7, readable=False)
    await bench.configure_queue(1, domain=7, sc=WORDS + 8, rc=WORDS + 24)
    await bench.command(1, Command.START)
    return bench


@cocotb.test(timeout_time=200, timeout_unit="us")
async def registers_respond(dut):
    bench = await _bench(dut, 1)
    state = await bench.driver.state(1)
    assert (state.enabled, state.held, state.refusing, state.count, state.status) == (1, 0, 0, 0, 0), state
    state = await bench.driver.state(0)
    assert (state.enabled, state.running, state.in_flight) == (0, 0, 0), state


@cocotb.test(timeout_time=200, timeout_unit="us")
async def one_beat(dut):
    bench = await _bench(dut, 2)
    await bench.post(1, NativeWord.copy(src=(2, 0), dst=(5, 0), length=8))
    await bench.finish()
    bench.assert_equal()


@cocotb.test(timeout_time=200, timeout_unit="us")
async def one_byte(dut):
    bench = await _bench(dut, 3)
    await bench.post(1, NativeWord.copy(src=(2, 3), dst=(5, 6), length=1))
    await bench.finish()
    bench.assert_equal()


@cocotb.test(timeout_time=400, timeout_unit="us")
async def one_after_the_other(dut):
    """Lengths and alignments one at a time, so that the first failure is the simplest."""
    bench = await _bench(dut, 4)
    for length, source, destination in ((64, 0, 0), (64, 8, 256), (16, 1, 0x400), (64, 5, 0x503),
                                        (5, 6, 0x60E),
                                        (256, 0, 0x800), (300, 7, 0xFF1), (1000, 0xFFB, 0x1803),
                                        (4096, 0x1001, 0x2007)):
        await bench.post(1, NativeWord.copy(src=(2, source), dst=(5, destination), length=length))
        await bench.settle(1, timeout=2000)
        bench.check_memory()
        assert not bench.mismatches, \
            f"{length} bytes from +{source:#x} to +{destination:#x}: " + " ".join(bench.mismatches)
    await bench.finish()
    bench.assert_equal()


@cocotb.test(timeout_time=400, timeout_unit="us")
async def many_at_once(dut):
    bench = await _bench(dut, 5)
    for first in (0, 4):
        words = [NativeWord.copy(src=(2, 100 * index), dst=(5, 200 * index + 3), length=160 + index,
                                 flags=RequestFlag.SC | RequestFlag.RC if index == 3 else 0)
                 for index in range(first, first + 4)]
        await bench.post(1, *words)
    await ClockCycles(dut.clk, 10)
    await bench.finish()
    bench.assert_equal()


@cocotb.test(timeout_time=400, timeout_unit="us")
async def one_error(dut):
    """A copy out of bounds holds the queue until it is cleared; then the next one continues."""
    bench = await _bench(dut, 6)
    await bench.post(1, NativeWord.copy(src=(2, 0x3FFF), dst=(5, 0), length=2))
    await bench.post(1, NativeWord.copy(src=(2, 0x3FFF), dst=(5, 16), length=1))
    await bench.settle(1, timeout=2000)
    bench.assert_equal()
    await bench.command(1, Command.CLEAR)
    await bench.finish()
    bench.assert_equal()
