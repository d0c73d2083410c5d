# SPDX-License-Identifier: Apache-2.0
"""A component with the ports of a RoCEv2 unit that connects them to each other, and one register."""

from amaranth import *
from amaranth.lib import wiring

from hw.rdma.config import RdmaConfig
from sim.rdma.pins import unit_members

FAULT = 0xF00
"""Offset of a register that responds with an error."""


class LoopUnit(wiring.Component):
    """DMA traffic goes to the own memory, other traffic to the Ethernet port; bit 0 of the register is ``irq``.

    Bits 2:1 of the register plant an error: 1 corrupts ``tkeep``, 2 corrupts the ID of responses, 3 removes the last
    of read beats. Bit 3 marks sent frames as corrupt.
    """

    def __init__(self, config: RdmaConfig) -> None:
        super().__init__(unit_members(config))

    def elaborate(self, platform):
        m = Module()
        register, bus = Signal(32), self.bus
        for source, target in ((self.writes, self.memory_writes), (self.reads, self.memory_reads),
                               (self.memory_responses, self.responses), (self.memory_beats, self.beats)):
            m.d.comb += [target.payload.eq(source.payload), target.valid.eq(source.valid),
                         source.ready.eq(target.ready)]
        with m.If(register[1:3] == 2):
            m.d.comb += self.responses.payload.id.eq(~self.memory_responses.payload.id)
        for source, target in ((self.other_tx, self.mac_tx), (self.mac_rx, self.other_rx)):
            m.d.comb += [getattr(target, name).eq(getattr(source, name))
                         for name in ("tdata", "tkeep", "tlast", "tuser", "tvalid")]
            m.d.comb += source.tready.eq(target.tready)
        with m.If(register[1:3] == 1):
            m.d.comb += self.mac_tx.tkeep.eq(self.other_tx.tkeep & ~1)
        with m.If(register[1:3] == 3):
            m.d.comb += self.beats.payload.last.eq(0)
        with m.If(register[3]):
            m.d.comb += self.mac_tx.tuser.eq(self.other_tx.tlast)
        address = Signal(12)
        m.d.comb += [
            self.irq.eq(register[0]), bus.awready.eq(bus.awvalid & bus.wvalid & ~bus.bvalid),
            bus.wready.eq(bus.awready), bus.arready.eq(~bus.rvalid), bus.rdata.eq(Mux(address == 0, register, address)),
        ]
        with m.If(bus.bready):
            m.d.sync += bus.bvalid.eq(0)
        with m.If(bus.awready):
            m.d.sync += [bus.bvalid.eq(1), bus.bresp.eq(Mux(bus.awaddr == FAULT, 2, 0))]
            with m.If(bus.awaddr == 0):
                m.d.sync += register.eq(bus.wdata)
        with m.If(bus.rready):
            m.d.sync += bus.rvalid.eq(0)
        with m.If(bus.arvalid & bus.arready):
            m.d.sync += [bus.rvalid.eq(1), address.eq(bus.araddr), bus.rresp.eq(Mux(bus.araddr == FAULT, 2, 0))]
        return m
