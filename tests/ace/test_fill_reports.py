# SPDX-License-Identifier: Apache-2.0
"""A filled chunk is reported late enough for its last write, also where few lanes make updates of the SRAM slow."""

from dataclasses import replace

import pytest

from hw.ace.config import WIDE
from hw.ace.fill import START_CYCLES, Fill
from hw.ace.sram import write_latency
from tests.harness.cell import run_cell

LANES = (16, 4, 1)


def _report(config):
    """Cycles from a chunk without bytes to its report."""
    dut, found = Fill(config, reads=64), []

    async def testbench(ctx):
        ctx.set(dut.write.ready, 1)
        ctx.set(dut.i.payload.last, 1)
        ctx.set(dut.i.valid, 1)
        await ctx.tick()
        ctx.set(dut.i.valid, 0)
        for cycle in range(100):
            if ctx.get(dut.done.valid):
                found.append(cycle)
            await ctx.tick()

    run_cell(dut, testbench)
    cycle, = found
    return cycle


@pytest.mark.parametrize("lanes", LANES)
def test_the_last_write_precedes_the_first_read(lanes):
    config = replace(WIDE, lanes=lanes)
    least = _report(WIDE)
    assert write_latency(WIDE) - START_CYCLES <= 1
    assert _report(config) == least + max(1, write_latency(config) - START_CYCLES) - 1


def test_a_slow_update_delays_it():
    assert write_latency(replace(WIDE, lanes=1)) - START_CYCLES == 12
