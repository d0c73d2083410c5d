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
    """Cycles from the acceptance of a chunk's last write to its report."""
    dut, found = Fill(config, reads=64), {}

    async def testbench(ctx):
        ctx.set(dut.write.ready, 1)
        ctx.set(dut.memory.arready, 1)
        ctx.set(dut.i.payload, {"bytes": config.beat_bytes, "last": 1})
        ctx.set(dut.i.valid, 1)
        await ctx.tick()
        ctx.set(dut.i.valid, 0)
        for cycle in range(100):
            ctx.set(dut.memory.rvalid, ctx.get(dut.memory.arvalid))
            for name, happens in (("write", dut.write.valid), ("report", dut.done.valid)):
                if ctx.get(happens):
                    assert name not in found
                    found[name] = cycle
            await ctx.tick()

    run_cell(dut, testbench)
    return found["report"] - found["write"]


@pytest.mark.parametrize("lanes", LANES)
def test_the_first_read_follows_the_last_write(lanes):
    config = replace(WIDE, lanes=lanes)
    # A read in the cycle of the write is too early.
    assert _report(config) + START_CYCLES == write_latency(config) + 1


TRANSFERS_CYCLES = 5
"""By their contract, from a job to its first move."""


@pytest.mark.parametrize("phases", [0, 1])
def test_a_chunk_starts_no_earlier_than_assumed(phases):
    """From the report to the read of the first send, if the FSM waits for nothing else; without phases, to the drain's
    first read."""
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
        await ctx.tick().repeat(40)
        assert not ctx.get(pool.sends[0].valid) and not ctx.get(pool.done.valid)
        ctx.set(pool.filled.valid, 1)
        await ctx.tick()
        ctx.set(pool.filled.valid, 0)
        for cycle in range(60):
            if ctx.get(pool.sends[0].valid if phases else pool.done.valid):
                found.append(cycle)
                break
            await ctx.tick()

    run_cell(pool, testbench)
    # A cycle of the report; one from a send to its read; one from the end to the job, one from the move to its read.
    behind = 1 if phases else 1 + TRANSFERS_CYCLES + 1
    earliest = 1 + found[0] + behind
    assert earliest == START_CYCLES if phases else earliest > START_CYCLES
