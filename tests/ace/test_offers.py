# SPDX-License-Identifier: Apache-2.0
"""Fill offers its bursts to a memory that accepts none before it is offered one, as AXI4 permits (A3.2.1)."""

import pytest

from hw.ace.config import TINY
from hw.ace.fill import Fill
from tests.harness.cell import run_cell


@pytest.mark.parametrize("wait", [0, 3])
def test_reads(wait):
    dut = Fill(TINY, reads=64)
    moves = 4

    async def testbench(ctx):
        ctx.set(dut.write.ready, 1)
        ctx.set(dut.i.payload, {"bytes": TINY.beat_bytes, "last": 1})
        sent, accepted, offered = 0, 0, 0
        for _ in range(100):
            ctx.set(dut.i.valid, sent < moves)
            offered = offered + 1 if ctx.get(dut.memory.arvalid) else 0
            ready = offered > wait
            ctx.set(dut.memory.arready, ready)
            accepted += ready
            if ready:
                offered = 0
            # Depends on `arready`.
            sent += sent < moves and ctx.get(dut.i.ready)
            await ctx.tick()
        assert accepted == moves

    run_cell(dut, testbench)
