# SPDX-License-Identifier: Apache-2.0
"""The summary of a beat's strobes, against all ranges and random strobes."""

import random

import pytest
from amaranth import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.sim import Simulator

from hw.pcie.config import PcieConfig
from hw.pcie.requester.write_strobes import StrobeSummary, strobes_layout, summarise


class Summary(wiring.Component):
    """Both halves of the work, without the register between them."""

    def __init__(self, config):
        self.config = config
        super().__init__({"strobes": In(config.beat_bytes), "any": Out(1), "first": Out(config.lane_bits),
                          "last": Out(config.lane_bits), "start": Out(1), "starts": Out(1)})

    def elaborate(self, platform):
        m = Module()
        groups = Signal(strobes_layout(self.config))
        values = StrobeSummary(groups)
        m.d.comb += summarise(groups, self.strobes)
        m.d.comb += [getattr(self, name).eq(getattr(values, name))
                     for name in ("any", "first", "last", "start", "starts")]
        return m


@pytest.mark.parametrize("width", [128, 256, 512])
def test_summary(width, seed):
    dut, rng = Summary(PcieConfig(data_width=width, axi_id_width=4, doorbell_addr_width=14)), random.Random(seed)
    length = width // 8
    cases = [0, *((1 << high) - (1 << low) for low in range(length) for high in range(low + 1, length + 1)),
             *(rng.getrandbits(length) for _ in range(100)),
             *(1 << rng.randrange(length) | 1 << rng.randrange(length) for _ in range(100))]

    async def testbench(ctx):
        for strobes in cases:
            ctx.set(dut.strobes, strobes)
            assert ctx.get(dut.any) == (strobes != 0)
            if strobes:
                assert ctx.get(dut.first) == (strobes & -strobes).bit_length() - 1
                assert ctx.get(dut.last) == strobes.bit_length() - 1
            starts = (strobes & ~(strobes << 1) & ~1).bit_count()
            assert (ctx.get(dut.start), ctx.get(dut.starts)) == (starts >= 1, starts >= 2), bin(strobes)
            await ctx.delay(1e-9)

    simulator = Simulator(dut)
    simulator.add_testbench(testbench)
    simulator.run()
