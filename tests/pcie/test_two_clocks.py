# SPDX-License-Identifier: Apache-2.0
"""The card with a clock of its own for the engine: copies, resets of either side."""

import random
import warnings

import cocotb
import pytest
from cocotb.triggers import ClockCycles, Event, Timer, with_timeout

from hw.dma_engine.words import NativeWord
from sim.pcie.card import CardSystem, RequestRefused
from sim.pcie.dma_card import DmaCard, small_dma
from sim.pcie.resets import function_level_reset, hot_reset, link_down, save
from sim.verilator.design import Design

pytestmark = [pytest.mark.rtl, pytest.mark.long]
warnings.filterwarnings("ignore", category=DeprecationWarning, module=r"cocotbext\.")

SC, RC = 0xF0_0000, 0xF0_1000
PHASES, FREQUENCIES = 8, (200, 250, 300)


@pytest.mark.parametrize("case", ["copies", "resets"])
def test_dma_engine(simulate, case):
    simulate(Design(DmaCard, *small_dma(128, two_clocks=True)), testcase=[
        f"{case}_{mhz}" for mhz in FREQUENCIES])


async def _start(dut, mhz):
    system = CardSystem(dut, *small_dma(128, two_clocks=True), engine_mhz=mhz, seed=cocotb.RANDOM_SEED)
    await system.start()
    return system


async def _regions(system):
    """Region 0: memory of the first GPU; 1: of the second."""
    first, second = system.gpus
    await system.adapter.write("COMPLETION_TIMEOUT", cycles=2_500)
    for number, base in enumerate((first.base, second.base)):
        await system.dma.define_region(number, base=base, length=1 << 20)
    await system.dma.configure_queue(0, sc=first.base + SC, rc=second.base + RC)
    await system.dma.start(0)
    assert (await system.dma.state(0)).running


async def _copy(system, rng, count, length):
    first, second = system.gpus
    source, target = rng.randrange(5000), rng.randrange(5000)
    data = rng.randbytes(length)
    first.memory.write(source, data)
    second.memory.write(0, bytes(1 << 16))
    await system.post(first, 0, NativeWord.copy(src=(0, source), dst=(1, target), length=length, flags=3))
    word = await system.wait(second, RC, count)
    assert word.count == count and not word.failed, word
    assert second.memory.read(0, 1 << 16) == bytes(target) + data + bytes((1 << 16) - length - target)
    assert (await system.wait(first, SC, count)).count == count


async def _copies(dut, mhz):
    """Byte for byte, in an idle card at several phases of the clocks."""
    system, rng = await _start(dut, mhz), random.Random(cocotb.RANDOM_SEED)
    await _regions(system)
    for number, length in enumerate([64] * PHASES + [1000, 4096, 20000], 1):
        await Timer(500, "ns")
        await system.engine_clock.shift(number % PHASES / PHASES)
        await Timer(500, "ns")
        await _copy(system, rng, number, length)
    await Timer(1, "us")
    system.monitor.finish()


async def _resets(dut, mhz):
    """Under traffic, resets of each kind; afterwards the card copies, and the words count from 1."""
    system, rng = await _start(dut, mhz), random.Random(cocotb.RANDOM_SEED)
    first, second = system.gpus
    for kind in ("engine", "function", "engine", "hot", "link", "engine", "engine"):
        await _regions(system)
        for memory, address in ((first, SC), (second, RC)):
            memory.memory.write(address, bytes(16))
        await _copy(system, rng, 1, 3000)
        # The destination is not checked: how much of it has been written is open.
        for _ in range(4):
            await system.post(first, 0, NativeWord.copy(src=(0, 0), dst=(1, 0x2_0000), length=30000, flags=0))
        await ClockCycles(dut.clk, rng.randrange(400))
        if kind == "engine":
            # Neither accesses without a pause nor a flood of stores delays the end of the reset.
            over = Event()
            flood = cocotb.start_soon(_flood(system, over))
            await system.engine_clock.reset(rng.choice((1, 2, 100)))
            await with_timeout(_responds(system), 100, "us")
            over.set()
            await flood
        elif kind == "function":
            await function_level_reset(system)
        else:
            saved = await save(system)
            await (hot_reset if kind == "hot" else link_down)(system)
            await saved.restore(system)
        assert not (await system.dma.state(0)).running
    system.monitor.finish()


async def _flood(system, over):
    """Consecutive stores to the page of a queue that does not run."""
    while not over.is_set():
        await system.gpus[1].store(system.bar2 + 0x1000, bytes(256))


async def _responds(system):
    while True:
        try:
            await system.dma.check_identity()
            return
        except RequestRefused:
            pass


def _test(body, mhz):
    async def run(dut):
        await body(dut, mhz)

    run.__name__ = run.__qualname__ = f"{body.__name__[1:]}_{mhz}"
    return cocotb.test(timeout_time=1000, timeout_unit="us")(run)


for _mhz in FREQUENCIES:
    for _body in (_copies, _resets):
        globals()[f"{_body.__name__[1:]}_{_mhz}"] = _test(_body, _mhz)
