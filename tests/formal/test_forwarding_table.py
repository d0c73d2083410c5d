# SPDX-License-Identifier: Apache-2.0
"""Formal proof of the table with forwarding: a row shows every write before the cycle in which it is shown."""

import pytest
from amaranth.hdl import Array, Assert, Cover, Format, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In

from hw.common.delay import delayed
from hw.common.forwarding_table import ForwardingTable
from tests.harness.formal import ProofFailed, prove

pytestmark = [pytest.mark.formal, pytest.mark.long]


class Forwarded(wiring.Component):
    """A ``ForwardingTable``, and the row that its contract promises.

    ``flaw``: the row of a cycle before.
    """

    ROWS = 4

    def __init__(self, *, flaw=False):
        self.flaw = flaw
        super().__init__({"en": In(1), "write": In(range(self.ROWS)), "data": In(2), "read": In(range(self.ROWS))})

    def elaborate(self, platform):
        m = Module()
        m.submodules.dut = dut = ForwardingTable(2, depth=self.ROWS, reads=1)
        rows = [Signal(2, name=f"row_{number}") for number in range(self.ROWS)]
        known = Signal(self.ROWS)
        m.d.comb += [dut.write.en.eq(self.en), dut.write.addr.eq(self.write), dut.write.data.eq(self.data),
                     dut.read[0].addr.eq(self.read)]
        with m.If(self.en):
            m.d.sync += [Array(rows)[self.write].eq(self.data), known.bit_select(self.write, 1).eq(1)]
        addr = delayed(m, self.read, 2, name="read", reset_less=False)
        ready = delayed(m, known.bit_select(self.read, 1), 2, name="known", reset_less=False)
        row = Array(rows)[addr]
        if self.flaw:
            row = Array([delayed(m, one, 1, name=f"old_{number}") for number, one in enumerate(rows)])[addr]
        m.d.comb += [Assert(~ready | (dut.read[0].data == row), Format("a write is not shown")),
                     Cover(ready & (dut.read[0].data == 3))]
        return m


def test_forwarding_table():
    prove(Forwarded(), name="forwarding-table", depth=6)


def test_forwarding_table_is_not_vacuous():
    prove(Forwarded(), name="forwarding-table-cover", depth=6, mode="cover")
    with pytest.raises(ProofFailed, match="Assert failed"):
        prove(Forwarded(flaw=True), name="forwarding-table-flaw", depth=6)
