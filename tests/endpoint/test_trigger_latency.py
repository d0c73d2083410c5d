# SPDX-License-Identifier: Apache-2.0
"""Cycles from the last tick to the address of the read that it starts, at the pins of memory, for `base`."""

import json
import os
from pathlib import Path

import cocotb
import pytest
from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, ReadOnly, RisingEdge
from cocotb.utils import get_sim_steps
from cocotbext.axi import AxiBus, AxiLiteBus, AxiLiteMaster, AxiMaster

from dmace.drivers.dma import DmaDriver
from hw.axi import AxiLiteSignature, AxiSignature
from hw.axi.streams import AxiStreams
from hw.common.wiring import Wiring
from hw.dma_engine import DmaEngine
from hw.dma_engine.words import Command, NativeWord
from hw.endpoint.config import ADDR_WIDTH, BASE
from hw.endpoint.doorbells import DoorbellSplit
from hw.endpoint.memory_port import MemoryPort
from hw.triggers.ports import TriggerSettings
from hw.triggers.unit import TriggerUnit
from hw.triggers.words import ArmWord, Mode, TickWord
from sim.memory import Memory

pytestmark = [pytest.mark.rtl, pytest.mark.long]

BLOCK, QUEUE, COUNTER, LENGTH = 2, 3, 17, 4096
DOCS = Path(__file__).parents[2] / "docs/triggers.md"
MOST_TO_AR, MOST_EXTRA = 10, 4
"""Bounds: from the last tick to AR; of that, cycles more than from the doorbell of the same request."""


class TriggeredDma(wiring.Component):
    """The endpoint `base` without its accelerator: doorbells, trigger counters, DMA engine, memory port."""

    def __init__(self):
        super().__init__({
            "s_axil": In(AxiLiteSignature(addr_width=12, data_width=32)),
            "s_axi_db": In(AxiSignature(addr_width=BASE.doorbell_addr_width, data_width=128,
                                        id_width=BASE.doorbell_id_width)),
            "m_axi": Out(AxiSignature(addr_width=ADDR_WIDTH, data_width=BASE.data_width, id_width=BASE.axi_id_width)),
            "settings": In(TriggerSettings(BASE.triggers)),
        })

    def elaborate(self, platform):
        m = Module()
        wires = Wiring(m, self)
        wires.add(dma=DmaEngine(BASE.dma, posts=True), triggers=TriggerUnit(BASE.triggers),
                  doorbells=DoorbellSplit(BASE), memory=MemoryPort(BASE),
                  streams=AxiStreams(addr_width=ADDR_WIDTH, data_width=BASE.data_width,
                                     bus_id_width=BASE.dma.axi_id_width, id_width=BASE.source_id_width))
        wires.connect("self.s_axil", "dma.s_axil")
        wires.connect("self.s_axi_db", "doorbells.bus")
        wires.connect("doorbells.dma", "dma.s_axi_db")
        wires.connect("doorbells.triggers", "triggers.bus")
        wires.connect("triggers.dma", "dma.posts")
        wires.connect("self.settings", "triggers.settings")
        wires.connect("dma.m_axi", "streams.bus")
        wires.connect("streams.reads", "memory.reads[0]")
        wires.connect("memory.beats[0]", "streams.beats")
        wires.connect("streams.writes", "memory.writes[0]")
        wires.connect("memory.responses[0]", "streams.responses")
        wires.connect("memory.bus", "self.m_axi")
        for path in ("doorbells.ace", "triggers.ace", "triggers.local", "triggers.remote", "triggers.status",
                     "memory.reads[1]", "memory.beats[1]", "memory.writes[1]", "memory.writes[2]",
                     "memory.responses[1]", "memory.responses[2]", "memory.settings", "memory.counts", "dma.irq",
                     "dma.interrupts", "dma.events"):
            wires.idle(path, "there is no accelerator, no neighbour, and no register but the engine's")
        wires.finish()
        return m


def test_last_tick_to_read(simulate, tmp_path):
    simulate(TriggeredDma(), env={"DMACE_TEST_FILE": str(tmp_path / "cycles.json")})
    cycles = json.loads((tmp_path / "cycles.json").read_text())
    text = DOCS.read_text(encoding="utf-8")
    for name, row in (("doorbell", "a request, at the doorbell"), ("tick", "the last tick, at the tick page")):
        assert f"| {row} | {cycles[name]} |" in text, cycles
    assert cycles["tick"] <= MOST_TO_AR
    assert cycles["tick"] - cycles["doorbell"] <= MOST_EXTRA


class _Bus:
    def __init__(self, dut):
        self.master = AxiLiteMaster(AxiLiteBus.from_prefix(dut, "s_axil", bus_separator="__"), dut.clk, dut.rst)

    async def read(self, offset):
        return await self.master.read_dword(offset)

    async def write(self, offset, value):
        await self.master.write_dword(offset, value)


@cocotb.test()
async def one_of_each(dut):
    dut.rst.value = 1
    for name in ("pages_valid", "reset_valid", "select_valid"):
        getattr(dut, f"settings__{name}").value = 0
    cocotb.start_soon(Clock(dut.clk, 4, unit="ns").start())
    Memory(dut, period=get_sim_steps(4, "ns"), latency=20, seed=1)
    gpu = AxiMaster(AxiBus.from_prefix(dut, "s_axi_db", bus_separator="__"), dut.clk, dut.rst)
    driver = DmaDriver(_Bus(dut), BASE.dma)
    await ClockCycles(dut.clk, 4)
    dut.rst.value = 0
    await ClockCycles(dut.clk, BASE.dma.sweep_rows + 10)
    await driver.define_region(0, base=0x10_0000, length=2 * LENGTH)
    await driver.configure_queue(QUEUE, sc=0x8000)
    await driver.command(QUEUE, Command.START)
    dut.settings__pages_block.value, dut.settings__pages.value = BLOCK, 1 << QUEUE
    dut.settings__pages_valid.value = 1
    await ClockCycles(dut.clk, 1)
    dut.settings__pages_valid.value = 0

    word = NativeWord.copy(src=(0, 0), dst=(0, LENGTH), length=64, flags=1)
    triggers = BASE.triggers
    slot = triggers.preparation_page(BLOCK) * 4096 + 64 * COUNTER
    arm = ArmWord.arm(mode=Mode.ONCE, page=QUEUE, threshold=2, generation=5)
    tick = TickWord.add(COUNTER, generation=5)
    await gpu.write(slot, word.to_bytes())
    await gpu.write(slot + 32, arm.to_bytes())
    await gpu.write(triggers.tick_page(BLOCK) * 4096, tick.to_bytes())
    found = {}
    for name, address, data in (("doorbell", QUEUE * 4096, word.to_bytes()),
                                ("tick", triggers.tick_page(BLOCK) * 4096 + 8, tick.to_bytes())):
        await ClockCycles(dut.clk, 400)
        cocotb.start_soon(gpu.write(address, data))
        cycle, stored = 0, None
        while True:
            await RisingEdge(dut.clk)
            await ReadOnly()
            if dut.s_axi_db__wvalid.value and dut.s_axi_db__wready.value:
                stored = cycle
            if dut.m_axi__arvalid.value:
                found[name] = cycle - stored
                break
            cycle += 1
        await ClockCycles(dut.clk, 400)
    Path(os.environ["DMACE_TEST_FILE"]).write_text(json.dumps(found))
