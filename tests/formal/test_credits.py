# SPDX-License-Identifier: Apache-2.0
"""Credits are never negative and never exceed their pool: by induction, for every use within the contract."""

import pytest
from amaranth.hdl import Assert, Assume, Format, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In

from hw.stream import CreditCounter
from tests.harness.formal import prove

pytestmark = [pytest.mark.formal, pytest.mark.long]


class Credits(wiring.Component):
    """A user that observes the contract and counts the credits that it holds."""

    def __init__(self, limit, max_take, max_give):
        self.dut = CreditCounter(limit, max_take=max_take, max_give=max_give, checks=True)
        super().__init__({
            "take": In(range(max_take + 1)),
            "take_stb": In(1),
            "give": In(range(max_give + 1)),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.dut = dut = self.dut
        held = Signal(range(dut.limit + 1))
        m.d.comb += [dut.take.eq(self.take), dut.take_stb.eq(self.take_stb), dut.give.eq(self.give)]
        m.d.sync += [
            Assume(~self.take_stb | (self.take <= dut.available)),
            Assume(self.give <= held),
            held.eq(held + Mux(self.take_stb, self.take, 0) - self.give),
            Assert(dut.available <= dut.limit, Format("{} is above the limit", dut.available)),
            Assert(dut.available + held == dut.limit, Format("{} and {} do not add up", dut.available, held)),
        ]
        return m


@pytest.mark.parametrize("limit, max_take, max_give", [(5, 3, 2), (1, 1, 1), (8, 8, 8)])
def test_credits_add_up(limit, max_take, max_give):
    prove(Credits(limit, max_take, max_give), name=f"credits-{limit}", depth=3, mode="prove")
