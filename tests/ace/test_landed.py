# SPDX-License-Identifier: Apache-2.0
"""A packet is reported before its writes: not so early that what was received could be sent before."""

import pytest

from hw.ace.config import WIDE
from hw.ace.programs.program import encode
from hw.ace.programs.schedule import plan
from hw.ace.receive import LANDED_EARLY
from hw.ace.transmit import Transmit
from hw.ace.words import Collective
from tests.ace.test_pool import COMMUNICATOR, CONFIG, _Rank
from tests.harness.cell import run_cell


def test_what_was_received_is_read_after_its_write():
    """The second send of a ring of 2 needs the first receive. The pool offers it a few cycles after the report, and
    Transmit reads it a cycle later."""
    program = plan(Collective.ALL_REDUCE, (2,), (0,), (0,))
    words, dut, found = encode(program, CONFIG), _Rank(CONFIG.fsms - 1), []

    async def testbench(ctx):
        async def sends(limit):
            """Cycles until the next send."""
            for cycle in range(limit):
                for pipe in dut.sends:
                    if ctx.get(pipe.valid):
                        ctx.set(pipe.ready, 1)
                        ctx.set(pipe.fsm, ctx.get(pipe.payload.fsm))
                        await ctx.tick()
                        ctx.set(pipe.ready, 0)
                        ctx.set(pipe.read, 1)
                        await ctx.tick()
                        ctx.set(pipe.read, 0)
                        return cycle
                await ctx.tick()
            return None

        ctx.set(dut.write.valid, 1)
        for address, word in enumerate(words):
            ctx.set(dut.write.address, address)
            ctx.set(dut.write.word, word)
            await ctx.tick()
        ctx.set(dut.write.valid, 0)
        for pipe, ports in zip(dut.sends, CONFIG.pipe_ports, strict=True):
            ctx.set(pipe.free, sum(1 << port for port in ports))
        ctx.set(dut.signals.free, -1)
        ctx.set(dut.signals.ready, 1)
        ctx.set(dut.chunks.payload, {
            "communicator": COMMUNICATOR, "sequence": 0, "fsm": 0, "slot": 0, "piece_beats": 1,
            "program": 1 + len(program.fills) + len(program.drains), "phases": len(program.phases), "ended": 1,
            "filled": 1})
        ctx.set(dut.chunks.valid, 1)
        await ctx.tick()
        ctx.set(dut.chunks.valid, 0)
        await ctx.tick().repeat(40)
        ctx.set(dut.grant.payload, {"port": 0, "grant": {
            "communicator": COMMUNICATOR, "sequence": 0, "phase": 0, "granted": 2}})
        ctx.set(dut.grant.valid, 1)
        await ctx.tick()
        ctx.set(dut.grant.valid, 0)
        assert await sends(40) is not None and await sends(60) is None
        ctx.set(dut.landed[1].payload, {
            "fsm": 0, "beats": 0, "final": 1, "odd": 1, "begin": 1, "end": 1})
        ctx.set(dut.landed[1].valid, 1)
        await ctx.tick()
        ctx.set(dut.landed[1].valid, 0)
        found.append(await sends(60))

    run_cell(dut, testbench)
    assert program.phases[0].sends[1].need == 1
    # A cycle of the report, those until the send, and one to the read; the first cycle of the read is too late.
    report_to_read = 1 + found[0] + 1
    assert report_to_read == LANDED_EARLY + 1
    assert Transmit(WIDE).latency == 1 + WIDE.sram_latency


@pytest.mark.parametrize("pipe", range(CONFIG.pipes))
def test_reads_pause_when_a_packet_is_late(pipe):
    """A beat that is late would have been read ``LANDED_EARLY`` cycles after the report, or later: in that cycle, no
    pipe reads anything of the FSM, and all others may."""
    dut, late, seen = _Rank(CONFIG.fsms - 1), {4: 2, 5: 0, 9: 2, 10: 2}, []

    async def testbench(ctx):
        for cycle in range(20):
            ctx.set(dut.landed[pipe].valid, cycle % 2 or cycle in late)
            ctx.set(dut.landed[pipe].payload, {"fsm": late.get(cycle, 3), "late": cycle in late, "odd": 1})
            seen.append([ctx.get(sends.paused) for sends in dut.sends])
            await ctx.tick()

    run_cell(dut, testbench)
    for cycle, held in enumerate(seen):
        earlier = cycle - LANDED_EARLY
        assert held == [1 << late[earlier] if earlier in late else 0] * CONFIG.pipes, cycle
