# amaranth: UnusedElaboratable=no
# SPDX-License-Identifier: Apache-2.0
"""A filled chunk is reported late enough for its last write, also where few lanes make updates of the SRAM slow."""

from dataclasses import replace

import pytest

from hw.ace.config import WIDE
from hw.ace.fill import START_CYCLES, Fill
from hw.ace.programs.program import encode
from hw.ace.programs.schedule import plan
from hw.ace.sram import write_latency
from hw.ace.words import Collective
from tests.ace.test_pool import COMMUNICATOR, CONFIG, _Rank
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
    # A read in the cycle of the write is too early.
    assert write_latency(WIDE) < START_CYCLES
    assert _report(config) == least + max(0, write_latency(config) - START_CYCLES)


def test_a_slow_update_delays_it():
    assert write_latency(replace(WIDE, lanes=1)) - START_CYCLES == 13

CHUNKER_CYCLES, TRANSFERS_CYCLES = 2, 5
"""By their contracts: from a filled slot to its FSM, and from a job to its first move."""


@pytest.mark.parametrize("phases", [0, 1])
def test_a_chunk_starts_later_than_assumed(phases):
    """With a GRANT that waits for it, to the read of its first send; without phases, to the drain's first read."""
    program = plan(Collective.ALL_REDUCE, (2,), (0,), (0,))
    pool, found = _Rank(CONFIG.fsms - 1), []

    async def testbench(ctx):
        ctx.set(pool.write.valid, 1)
        for address, word in enumerate(encode(program, CONFIG)):
            ctx.set(pool.write.address, address)
            ctx.set(pool.write.word, word)
            await ctx.tick()
        ctx.set(pool.write.valid, 0)
        for pipe, ports in zip(pool.sends, CONFIG.pipe_ports, strict=True):
            ctx.set(pipe.free, sum(1 << port for port in ports))
        ctx.set(pool.grant.payload.grant, {"communicator": COMMUNICATOR, "granted": 2})
        ctx.set(pool.grant.valid, 1)
        await ctx.tick()
        ctx.set(pool.grant.valid, 0)
        ctx.set(pool.chunks.payload, {"communicator": COMMUNICATOR, "piece_beats": 1, "phases": phases,
                                      "program": 1 + len(program.fills) + len(program.drains)})
        ctx.set(pool.chunks.valid, 1)
        await ctx.tick()
        ctx.set(pool.chunks.valid, 0)
        for cycle in range(60):
            if ctx.get(pool.sends[0].valid if phases else pool.done.valid):
                found.append(cycle)
                break
            await ctx.tick()

    run_cell(pool, testbench)
    # A cycle of the start; one from a send to its read; one from the end to the job, and one from the move to its read.
    behind = 1 if phases else 1 + TRANSFERS_CYCLES + 1
    assert CHUNKER_CYCLES + 1 + found[0] + behind >= START_CYCLES
