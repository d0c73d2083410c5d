# SPDX-License-Identifier: Apache-2.0
"""A whole AXI bus between two clock domains: cocotbext-axi's manager on one side, its memory on the other."""

import os
import random
import warnings

import cocotb
import pytest
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, Combine, RisingEdge, Timer
from cocotbext.axi import AxiBus, AxiLiteBus, AxiLiteMaster, AxiLiteRam, AxiMaster, AxiRam

from hw.axi import AxiLiteSignature, AxiSignature
from hw.pcie.crossing import AxiCrossing, AxiLiteCrossing

pytestmark = [pytest.mark.rtl, pytest.mark.long]
# cocotbext-axi uses deprecated parts of cocotb, whose version is pinned.
warnings.filterwarnings("ignore", category=DeprecationWarning, module=r"cocotbext\.")

BUS = AxiSignature(addr_width=16, data_width=64, id_width=3)
DOMAINS = {"manager_domain": "engine", "subordinate_domain": "pcie"}
SIZE = 1 << 14


def test_axi_crossing(simulate):
    simulate(AxiCrossing(BUS, **DOMAINS), testcase=["axi_traffic", "axi_resets", "axi_rate"])


def test_axi_lite_crossing(simulate):
    simulate(AxiLiteCrossing(AxiLiteSignature(addr_width=14, data_width=32), depth=4, **DOMAINS),
             testcase=["axi_lite_traffic"])


def _rng():
    return random.Random(os.environ["COCOTB_RANDOM_SEED"])


def _stalls(rng, share):
    own = random.Random(rng.random())
    while True:
        yield own.random() < share


class _Bench:
    """Clocks of random or given periods and phases, resets and the models of both ends."""

    def __init__(self, dut, rng, *, periods=None, lite=False):
        self.dut, self.rng = dut, rng
        self.periods = periods or (rng.randrange(1000, 9000, 2), rng.randrange(1000, 9000, 2))
        self._kinds = (AxiLiteBus, AxiLiteMaster, AxiLiteRam) if lite else (AxiBus, AxiMaster, AxiRam)

    async def start(self, *, stalls=0.0):
        dut = self.dut
        bus, manager, ram = self._kinds
        dut.engine_rst.value = dut.pcie_rst.value = 1
        self.clocks = [cocotb.start_soon(self._clock(clock, period)) for clock, period in zip(
            (dut.engine_clk, dut.pcie_clk), self.periods, strict=True)]
        self.manager = manager(bus.from_prefix(dut, "manager", bus_separator="__"), dut.engine_clk, dut.engine_rst)
        self.ram = ram(bus.from_prefix(dut, "subordinate", bus_separator="__"), dut.pcie_clk, dut.pcie_rst, size=SIZE)
        for model, names in ((self.manager, ("aw", "w", "b")), (self.ram, ("aw", "w", "b"))):
            for name in names:
                getattr(model.write_if, f"{name}_channel").set_pause_generator(_stalls(self.rng, stalls))
            for name in ("ar", "r"):
                getattr(model.read_if, f"{name}_channel").set_pause_generator(_stalls(self.rng, stalls))
        await self.reset()

    async def _clock(self, pin, period):
        await Timer(self.rng.randrange(2, period, 2), "ps")
        await Clock(pin, period, unit="ps").start()

    async def reset(self):
        """Reset both, one after the other but with an overlap."""
        dut, both = self.dut, [("engine_rst", "engine_clk"), ("pcie_rst", "pcie_clk")]
        self.rng.shuffle(both)
        for name, clock in both:
            getattr(dut, name).value = 1
            await ClockCycles(getattr(dut, clock), self.rng.randint(1, 6))
        await Combine(*(RisingEdge(getattr(dut, clock)) for _, clock in both))
        self.rng.shuffle(both)
        for name, clock in both:
            await ClockCycles(getattr(dut, clock), self.rng.randint(1, 6))
            getattr(dut, name).value = 0


async def _read_and_write(bench, count, *, part, parts):
    """Reads and writes at random in one part of the memory, against a model of it."""
    rng, size = random.Random(bench.rng.random()), SIZE // parts
    model = bytearray(bench.ram.read(part * size, size))
    for _ in range(count):
        length = rng.choice((1, 8, rng.randint(1, 300)))
        address = rng.randrange(size - length)
        if rng.random() < 0.5:
            found = await bench.manager.read(part * size + address, length)
            assert found.data == bytes(model[address:address + length])
        else:
            data = rng.randbytes(length)
            model[address:address + length] = data
            await bench.manager.write(part * size + address, data)
    assert bench.ram.read(part * size, size) == bytes(model)


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def axi_traffic(dut):
    """Reads and writes from several tasks, with stalls on all channels."""
    bench = _Bench(dut, _rng())
    await bench.start(stalls=0.3)
    await Combine(*(cocotb.start_soon(_read_and_write(bench, 15, part=part, parts=4)) for part in range(4)))


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def axi_resets(dut):
    """Resets of both sides amid traffic: no response from before appears, and traffic after it is complete."""
    bench = _Bench(dut, _rng())
    await bench.start(stalls=0.2)
    for _ in range(5):
        before = [cocotb.start_soon(_read_and_write(bench, 50, part=part, parts=4)) for part in range(4)]
        await ClockCycles(dut.engine_clk, bench.rng.randint(20, 120))
        for task in before:
            task.cancel()
        await bench.reset()
        await _read_and_write(bench, 3, part=0, parts=1)


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def axi_rate(dut):
    """With equal clocks, a beat of R per cycle and a beat of W per cycle, at the same time."""
    bench = _Bench(dut, _rng(), periods=(4000, 4000))
    await bench.start()
    moved = {"r": 0, "w": 0}
    running = [cocotb.start_soon(bench.manager.read(0, 8 * 256)),
               cocotb.start_soon(bench.manager.write(4096, bytes(8 * 256)))]
    while not moved["r"]:
        await RisingEdge(dut.engine_clk)
        moved["r"] += int(dut.manager__rvalid.value) & int(dut.manager__rready.value)
    for _ in range(100):
        await RisingEdge(dut.engine_clk)
        for channel in moved:
            moved[channel] += (int(getattr(dut, f"manager__{channel}valid").value)
                               & int(getattr(dut, f"manager__{channel}ready").value))
    await Combine(*running)
    assert moved["r"] >= 100, moved
    assert moved["w"] >= 99, moved


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def axi_lite_traffic(dut):
    bench = _Bench(dut, _rng(), lite=True)
    await bench.start(stalls=0.3)
    await _read_and_write(bench, 40, part=0, parts=4)
    await bench.reset()
    await _read_and_write(bench, 10, part=1, parts=4)
