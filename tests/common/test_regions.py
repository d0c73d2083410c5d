# SPDX-License-Identifier: Apache-2.0
"""Regions that would end beyond the address space are refused: by the registers of both engines, drivers and model."""

import pytest
from amaranth.sim import Simulator

from dmace.drivers.ace import AceDriver
from dmace.drivers.dma import DmaDriver
from dmace.drivers.registers import wait
from hw.ace import config as ace
from hw.ace.control import Control
from hw.axi.signature import Resp
from hw.dma_engine.config import TINY
from hw.dma_engine.control.frontpanel import FrontPanel
from hw.dma_engine.model.regions import Region
from tests.regs.bench import write

TOP = 1 << 64
CASES = [
    # Base, length, whether it ends beyond the last address.
    (0, 0, False), (0, 1 << 36, False), (TOP - 4096, 4096, False), (TOP - 4096, 4097, True), (TOP - 4096, 0, False),
    (TOP - (1 << 36), 1 << 36, False), (TOP - (1 << 36) + 4096, 1 << 36, True), (TOP - 8192, (1 << 37) - 1, True),
    (TOP - (1 << 37), (1 << 37) - 1, False), (0xFFFF_F000, 4097, False), (TOP - (1 << 36) - 4096, 4097, False),
]


class _Log:
    """A bus that only notes writes."""

    def __init__(self):
        self.writes = []

    async def write(self, offset, value):
        self.writes.append((offset, value))

    async def store(self, address, data):
        raise NotImplementedError

    read = store


def responses(panel, map_, cases):
    """Whether a commit of each ``(base, length, ACCESS, PAGES or None)`` was refused, and what was committed."""
    committed, refused = [], []
    region = panel.region if isinstance(panel, FrontPanel) else panel.commands.region

    async def testbench(ctx):
        for base, length, access, pages in cases:
            for name, value in (("REGION_BASE_LO", base & 0xFFFF_FFFF), ("REGION_LENGTH_LO", length & 0xFFFF_FFFF),
                                ("REGION_LENGTH_HI", length >> 32), ("REGION_ACCESS", access),
                                *([] if pages is None else [("REGION_PAGES", pages)]), ("REGION_BASE_HI", base >> 32)):
                assert (await write(ctx, panel.bus, map_[name].offset, value))[0] == Resp.OKAY
            refused.append((await write(ctx, panel.bus, map_["REGION_COMMIT"].offset, 1))[0] == Resp.SLVERR)

    async def record(ctx):
        async for _clk, _rst, valid, entry in ctx.tick().sample(region.valid, region.entry):
            if valid:
                committed.append((entry.base_page << 12, entry.length))

    simulator = Simulator(panel)
    simulator.add_clock(1e-6)
    simulator.add_testbench(testbench)
    simulator.add_testbench(record, background=True)
    simulator.run()
    return refused, committed


def test_registers_of_the_dma_engine():
    panel, valid = FrontPanel(TINY), 1 << 10
    cases = [(base, length, valid, 0) for base, length, _ in CASES]
    refused, committed = responses(panel, DmaDriver(_Log(), TINY).map, [
        *cases, (TOP - 4096, 8192, 0, 0), (TOP - 4096, 8192, valid, 1)])
    assert refused == [*(beyond for _, _, beyond in CASES), False, False]
    assert committed == [*((base, length) for base, length, beyond in CASES if not beyond),
                         (TOP - 4096, 8192), (0, 8192)]


@pytest.mark.parametrize("width", [64, 40, 32])
def test_registers_of_the_accelerator(width):
    config = ace.AceConfig(**{**vars(ace.TINY), "address_width": width})
    top, cut = 1 << width, (1 << 64) - (1 << width)
    cases = [(base % top if base >= TOP - (1 << 37) else base, length, beyond) for base, length, beyond in CASES
             if length <= top]
    if width == 64:
        cases = CASES
    else:
        cases = [(base | cut & 0x5A << 40, length, base + length > top) for base, length, _ in cases]
    refused, committed = responses(Control(config), AceDriver(_Log(), config).map, [
        *((base, length, 1 << 10, None) for base, length, _ in cases), (TOP - 4096, 8192, 0, None)])
    assert refused == [*(beyond for _, _, beyond in cases), False]
    assert len(committed) == refused.count(False) and any(refused)


@pytest.mark.parametrize("base, length, beyond", CASES)
def test_drivers_and_model(base, length, beyond):
    sentence = f"must be within .*64 bits of address, not end at {base + length:#x}$"
    for driver in (DmaDriver(_Log(), TINY), AceDriver(_Log(), ace.TINY)):
        if beyond:
            with pytest.raises(ValueError, match=sentence):
                wait(driver.define_region(0, base=base, length=length))
            assert not driver.bus.writes
        elif length <= 1 << 36:
            wait(driver.define_region(0, base=base, length=length))
    if beyond:
        with pytest.raises(ValueError, match=sentence):
            Region(base=base, length=length)
    Region(base=base, length=length, valid=False)
    wait(DmaDriver(_Log(), TINY).define_region(0, base=0, length=length % (1 << 36), paged=True))
