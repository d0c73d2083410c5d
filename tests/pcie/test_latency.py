# SPDX-License-Identifier: Apache-2.0
"""Cycles from a doorbell on CQ to its read request on RQ, in an idle card of 512 bits with all timing options.

The figures are those of docs/pcie.md.
"""

import random
import warnings

import cocotb
import pytest
from cocotb.triggers import RisingEdge, Timer

from hw.card.card import Card
from hw.dma_engine.timing import DmaTimingOptions
from hw.dma_engine.words import NativeWord
from sim.pcie.card import CardSystem
from sim.verilator.design import Design
from tests.pcie.configs import small

pytestmark = [pytest.mark.rtl, pytest.mark.long]
warnings.filterwarnings("ignore", category=DeprecationWarning, module=r"cocotbext\.")

RC = 0xF0_1000
PHASES = 8
CYCLES = {None: 16, 200: 27, 250: 24, 300: 22}
"""By the engine's clock in MHz, None for the adapter's, in cycles of 250 MHz: the most of 240 doorbells at other
phases, of which 14, 6 and 4 took as many, and the others one fewer."""


@pytest.mark.parametrize("two_clocks", [False, True], ids=["one", "two"])
def test_latency(simulate, two_clocks):
    config = small(512, two_clocks=two_clocks)
    assert config.endpoint.dma.timing == DmaTimingOptions.all()
    simulate(Design(Card, config), testcase=[_name(mhz) for mhz in CYCLES if (mhz is not None) == two_clocks])


async def _cycles(dut):
    """From the last beat of a doorbell."""
    cycle, doorbell = 0, None
    while True:
        await RisingEdge(dut.clk)
        cycle += 1
        if doorbell is None and all(
                int(pin.value) for pin in (dut.cq__tvalid, dut.cq__tready, dut.cq__tlast)):
            doorbell = cycle
        if doorbell is not None and int(dut.rq__tvalid.value) & int(dut.rq__tready.value):
            return cycle - doorbell


async def _measure(dut, mhz):
    config = small(512, two_clocks=mhz is not None)
    system = CardSystem(dut, config.endpoint.dma, config.pcie, engine_mhz=mhz, seed=cocotb.RANDOM_SEED)
    await system.start()
    (first, second), rng = system.gpus, random.Random(cocotb.RANDOM_SEED)
    for number, base in enumerate((first.base, second.base)):
        await system.dma.define_region(number, base=base, length=1 << 20)
    await system.dma.configure_queue(0, rc=second.base + RC)
    await system.dma.start(0)
    assert (await system.dma.state(0)).running
    found = []
    for number in range(1, PHASES + 1):
        await Timer(500, "ns")
        if mhz is not None:
            await system.engine_clock.shift(number % PHASES / PHASES)
            await Timer(500, "ns")
        data = rng.randbytes(64)
        first.memory.write(0, data)
        cycles = cocotb.start_soon(_cycles(dut))
        await system.post(first, 0, NativeWord.copy(src=(0, 0), dst=(1, 0), length=64, flags=2))
        word = await system.wait(second, RC, number)
        assert not word.failed and second.memory.read(0, 64) == data
        found.append(await cycles)
    assert CYCLES[mhz] - (mhz is not None) <= max(found) <= CYCLES[mhz], found


def _name(mhz):
    return "one_clock" if mhz is None else f"engine_at_{mhz}"


def _test(mhz):
    async def run(dut):
        await _measure(dut, mhz)

    run.__name__ = run.__qualname__ = _name(mhz)
    return cocotb.test(timeout_time=200, timeout_unit="us")(run)


for _mhz in CYCLES:
    globals()[_name(_mhz)] = _test(_mhz)
