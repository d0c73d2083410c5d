# SPDX-License-Identifier: Apache-2.0
"""The whole DMA engine of the smallest configuration writes inside its configured regions only, whatever arrives at
doorbells and from memory: bounded, by ABC.
"""

import pytest
from amaranth.hdl import Array, Assert, C, Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In

from dmace.drivers.dma import DmaDriver
from dmace.drivers.registers import wait
from hw.common.sizes import PAGE_BYTES
from hw.dma_engine.engine import DmaEngine
from hw.dma_engine.words import Command
from sim.four_state.work import Recorder
from tests.formal.small import DMA
from tests.harness.aiger import violated

pytestmark = [pytest.mark.formal, pytest.mark.long]

SOURCE, DESTINATION, WORDS = (part << 32 for part in (1, 2, 3))
DOMAIN, QUEUE = 3, 1
SETTLING = 63
"""Cycles from the last write to a register to the first input."""
DEPTH = 165
"""Cycles; the last 14 have free inputs."""


def _configuration():
    """Writes that define a source and a destination of a page each, and start a queue."""
    bus = Recorder()
    driver = DmaDriver(bus, DMA)
    wait(driver.define_region(2, base=SOURCE, length=PAGE_BYTES, domain=DOMAIN, writable=False))
    wait(driver.define_region(3, base=DESTINATION, length=PAGE_BYTES, domain=DOMAIN, readable=False))
    wait(driver.configure_queue(QUEUE, domain=DOMAIN, sc=WORDS, rc=WORDS + 8))
    wait(driver.command(QUEUE, Command.START))
    return bus.writes


class Whole(wiring.Component):
    """An engine that is configured by writes to its registers; then all its inputs but those of registers are free.

    Assumed: both pages of doorbells get stores of 16 bytes, AW with W.

    Parameters
    ----------
    shown : function of the Module, the memory port and whether its address is inside the destination
        Returns what is asserted.
    """

    def __init__(self, shown):
        self.shown = shown
        self._pins = {"arready": 1, "rvalid": 1, "rid": DMA.axi_id_width, "rdata": DMA.data_width, "rresp": 2,
                      "rlast": 1, "awready": 1, "wready": 1, "bvalid": 1, "bid": DMA.axi_id_width, "bresp": 2}
        super().__init__({"store": In(1), "page": In(DMA.queue_bits), "word": In(128),
                          **{name: In(width) for name, width in self._pins.items()}})

    def elaborate(self, platform):
        m = Module()
        m.submodules.dut = dut = DmaEngine(DMA)
        registers, doorbells, memory = dut.s_axil, dut.s_axi_db, dut.m_axi
        writes, settled = _configuration(), Signal(range(SETTLING + 1))
        number, free = Signal(range(len(writes) + 1)), Signal()
        writing, sent = Signal(), Signal(2)
        m.d.comb += [writing.eq(number != len(writes)), free.eq(settled == SETTLING)]
        with m.If(~writing & ~free):
            m.d.sync += settled.eq(settled + 1)
        for pin, values, width in ((registers.awaddr, [offset for offset, _ in writes], 12),
                                   (registers.wdata, [value for _, value in writes], 32)):
            m.d.comb += pin.eq(Array(C(value, width) for value in values)[number])
        m.d.comb += [registers.awvalid.eq(writing & ~sent[0]), registers.wvalid.eq(writing & ~sent[1]),
                     registers.wstrb.eq(15), registers.bready.eq(1), registers.rready.eq(1)]
        m.d.sync += sent.eq(sent | Cat(registers.awvalid & registers.awready, registers.wvalid & registers.wready))
        with m.If(registers.bvalid):
            m.d.sync += [sent.eq(0), number.eq(number + 1)]

        store = self.store & free
        m.d.comb += [
            doorbells.awvalid.eq(store), doorbells.awaddr.eq(self.page << 12), doorbells.awsize.eq(4),
            doorbells.awburst.eq(1), doorbells.wvalid.eq(store), doorbells.wdata.eq(self.word),
            doorbells.wstrb.eq(0xFFFF), doorbells.wlast.eq(1), doorbells.bready.eq(1), doorbells.rready.eq(1),
            *(getattr(memory, name).eq(Mux(free, getattr(self, name), 0)) for name in self._pins),
        ]
        last = Signal.like(memory.awaddr)
        m.d.comb += last.eq(memory.awaddr + (memory.awlen << DMA.lane_bits))
        inside = (memory.awaddr[12:] == DESTINATION >> 12) & (last[12:] == DESTINATION >> 12)
        m.d.comb += Assert(~memory.awvalid | self.shown(memory, inside))
        return m


def test_no_write_leaves_the_regions():
    """Nor the configured completion words."""
    def allowed(memory, inside):
        return inside | ((memory.awaddr[4:] == WORDS >> 4) & (memory.awlen == 0))

    assert violated(Whole(allowed), name="whole", depth=DEPTH) is None


def test_copies_are_reached():
    """A burst of several beats in the destination, cycles before the bound: so the proof is not of an idle engine."""
    engine = Whole(lambda memory, inside: ~inside | (memory.awlen == 0))
    assert violated(engine, name="whole-copies", depth=DEPTH, wanted=True) < DEPTH - 4
