# SPDX-License-Identifier: Apache-2.0
"""The ports of a pipe take turns, also if the stages behind stall in step with them."""

from dataclasses import replace
from itertools import pairwise

import pytest

from hw.ace.config import TINY
from hw.ace.layouts import PacketKind
from hw.ace.receive import Receive
from tests.harness.cell import run_cell

CONFIG = replace(TINY, pipes=4)


@pytest.mark.parametrize("period", [1, 2, 3, 4])
def test_ports_in_turn(period):
    """GRANTs at both ports all the time, of which one is accepted in each ``period`` cycles."""
    dut, taken = Receive(CONFIG, 2), []

    async def testbench(ctx):
        for port in dut.ports:
            ctx.set(port.valid, 1)
            ctx.set(port.payload, {"first": 1, "last": 1, "header": {"kind": PacketKind.GRANT}})
        for cycle in range(40 * period):
            ctx.set(dut.grants.ready, cycle % period == 0)
            if ctx.get(dut.grants.valid) and ctx.get(dut.grants.ready):
                taken.append(ctx.get(dut.grants.payload.port))
            await ctx.tick()

    run_cell(dut, testbench)
    assert len(taken) >= 38 and set(taken) == set(CONFIG.pipe_ports[2])
    assert all(one != other for one, other in pairwise(taken))
