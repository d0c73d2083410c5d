# SPDX-License-Identifier: Apache-2.0
"""The registers' port keeps the rules of AXI4-Lite, against any manager that keeps them: bounded."""

import pytest
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In

from hw.axi import AxiLiteChecker
from hw.regs import Access, Field, Register, RegisterMap
from hw.regs.bank import RegisterBank
from tests.harness.formal import prove

pytestmark = [pytest.mark.formal, pytest.mark.long]

REGISTERS = RegisterMap("proof", [
    Register("CONTROL", [Field("level", 8, Access.RW, doc="A level."), Field("go", 1, Access.PULSE, doc="A pulse.")],
             doc="Written."),
    Register("STATUS", [Field("busy", 4, Access.RO, doc="A state.")], doc="Read."),
    Register("EVENTS", [Field("done", 2, Access.W1C, doc="Events.")], doc="Cleared."),
], doc="Registers of each kind.", addr_width=4)


class RegisterPort(wiring.Component):
    """A register bank with registers of each kind."""

    def __init__(self):
        self.dut = RegisterBank(REGISTERS)
        self.pins = ("awaddr", "awprot", "awvalid", "wdata", "wstrb", "wvalid", "bready", "araddr", "arprot", "arvalid",
                     "rready")
        super().__init__({name: In(self.dut.bus.signature.members[name].shape) for name in self.pins}
                         | {"busy": In(4), "done": In(2)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.dut = dut = self.dut
        m.submodules.checker = checker = AxiLiteChecker(dut.bus.signature, max_outstanding=4, manager="assume")
        m.d.comb += [*(getattr(dut.bus, name).eq(getattr(self, name)) for name in self.pins),
                     dut.status.busy.eq(self.busy), dut.events.done_set.eq(self.done), *checker.observe(dut.bus)]
        return m


def test_register_port():
    prove(RegisterPort(), name="axi-lite-registers", depth=14)
