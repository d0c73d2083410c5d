# SPDX-License-Identifier: Apache-2.0
"""ForwardingTable: a row shows every earlier write, whatever the distance, in LUT RAM and in block RAM."""

import random

import pytest

from hw.common.forwarding_table import ForwardingTable
from hw.stream.storage import LUT_RAM_DEPTH
from tests.harness.cell import run_cell

ROWS, READS, LATENCY = 4, 2, 2
"""Few rows in use, so that reads and writes often meet."""


@pytest.mark.parametrize("depth", [LUT_RAM_DEPTH, 4 * LUT_RAM_DEPTH])
@pytest.mark.parametrize("writes", [1.0, 0.5])
def test_reads_see_all_earlier_writes(depth, writes, seed):
    dut, rng = ForwardingTable(16, depth=depth, reads=READS), random.Random(f"{seed} {depth} {writes}")
    used = [rng.randrange(depth) for _ in range(ROWS)]
    seen = set()

    async def bench(ctx):
        rows, requests, last = {}, [], {}
        for row in used:
            ctx.set(dut.write.en, 1)
            ctx.set(dut.write.addr, row)
            ctx.set(dut.write.data, row)
            rows[row] = row
            await ctx.tick()
        for cycle in range(2000):
            shown = [port.data for port in dut.read]
            if len(requests) == LATENCY:
                for data, row in zip(shown, requests.pop(0), strict=True):
                    assert ctx.get(data) == rows[row]
                    seen.add(cycle - last.get(row, -9))
            reading = rng.choices(used, k=READS)
            requests.append(reading)
            for port, row in zip(dut.read, reading, strict=True):
                ctx.set(port.addr, row)
            row, value, enabled = rng.choice(used), rng.getrandbits(16), rng.random() < writes
            ctx.set(dut.write.en, enabled)
            ctx.set(dut.write.addr, row)
            ctx.set(dut.write.data, value)
            if enabled:
                rows[row], last[row] = value, cycle
            await ctx.tick()

    run_cell(dut, bench)
    # Writes one, two and three cycles before the row is shown.
    assert seen >= {1, 2, 3}
