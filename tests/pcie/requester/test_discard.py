# SPDX-License-Identifier: Apache-2.0
"""A reset of the engine in the middle of a write burst: nothing of the burst is left, and the next one is whole."""

import pytest

from hw.pcie.config import PcieConfig
from hw.pcie.requester.requester import Requester
from tests.harness.cell import run_cell

pytestmark = pytest.mark.long

CONFIG = PcieConfig(data_width=128, axi_id_width=8, doorbell_addr_width=16, tags=64, reorder_slots=8, order_rows=128)
SETTLED, FORMER, LATTER = 200, 0x1000, 0x2000


def test_discard_inside_a_burst():
    dut = Requester(CONFIG)
    axi, rq = dut.s_axi, dut.rq
    found = []

    async def beat(ctx, *, address, length, data, first, last):
        for name, value in (("awvalid", first), ("awaddr", address), ("awlen", length - 1), ("awid", 1),
                            ("wvalid", 1), ("wdata", data), ("wstrb", 0xFFFF), ("wlast", last)):
            ctx.set(getattr(axi, name), value)
        await ctx.tick().until(axi.wready)
        for name in ("awvalid", "wvalid"):
            ctx.set(getattr(axi, name), 0)

    async def testbench(ctx):
        for port in (rq.tready, axi.bready, dut.settings.bus_master):
            ctx.set(port, 1)
        await ctx.tick().repeat(SETTLED)
        await beat(ctx, address=FORMER, length=3, data=1, first=1, last=0)
        ctx.set(dut.discard, 1)
        await ctx.tick().repeat(SETTLED)
        ctx.set(dut.discard, 0)
        await ctx.tick()
        await beat(ctx, address=LATTER, length=1, data=2, first=1, last=1)
        for _ in range(SETTLED):
            _, _, valid, payload = await ctx.tick().sample(rq.tvalid, rq.tdata)
            if valid:
                found.append(payload)

    run_cell(dut, testbench)
    # The descriptor, and the data.
    assert [found[0] & ((1 << 64) - 4), found[1]] == [LATTER, 2] and len(found) == 2
