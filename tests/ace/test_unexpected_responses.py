# SPDX-License-Identifier: Apache-2.0
"""Responses from before a reset: unexpected R beats and B responses are dropped, and have no later effect."""

import random

import pytest

from hw.ace.config import TINY
from hw.ace.drain import Drain
from hw.ace.fill import Fill
from tests.harness.cell import run_cell

BEAT = TINY.beat_bytes
BEATS = 6
MOVE = {"address": 0x4000, "bytes": BEATS * BEAT, "sram": 32, "slot": 1, "last": 1}


async def _pulse(ctx, signal):
    ctx.set(signal, 1)
    await ctx.tick()
    ctx.set(signal, 0)


@pytest.mark.parametrize("surplus", range(1, 2 * BEATS))
def test_fill(surplus):
    """Only data that arrives after its read was issued is moved, and earlier errors have no effect."""
    dut, rng = Fill(TINY), random.Random(surplus)

    async def body(ctx):
        ctx.set(dut.memory.arready, 1)
        ctx.set(dut.write.ready, 1)
        for _ in range(2):
            dropped = 0
            for index in range(surplus + 2):
                ctx.set(dut.memory.rvalid, index < surplus)
                ctx.set(dut.memory.rdata, rng.getrandbits(TINY.data_width))
                ctx.set(dut.memory.rresp, 2)
                await ctx.tick()
                dropped += ctx.get(dut.counts.unexpected)
            assert dropped == surplus
            ctx.set(dut.i.payload, MOVE)
            await _pulse(ctx, dut.i.valid)
            while not ctx.get(dut.memory.arvalid):
                await ctx.tick()
            assert ctx.get(dut.memory.arlen) == BEATS - 1
            await ctx.tick().repeat(3)
            sent = [rng.getrandbits(TINY.data_width) for _ in range(BEATS)]
            written, ended = [], None
            ctx.set(dut.memory.rresp, 0)
            for index in range(BEATS + 20):
                ctx.set(dut.memory.rvalid, index < BEATS)
                ctx.set(dut.memory.rdata, sent[min(index, BEATS - 1)])
                if ctx.get(dut.write.valid):
                    written.append((ctx.get(dut.write.address), ctx.get(dut.write.data)))
                if ctx.get(dut.done.valid):
                    ended = ctx.get(dut.done.payload.error)
                await ctx.tick()
                assert not ctx.get(dut.counts.unexpected)
            assert written == [(MOVE["sram"] + index, word) for index, word in enumerate(sent)]
            assert ended == 0

    run_cell(dut, body)


@pytest.mark.parametrize("surplus", range(1, 6))
def test_drain(surplus):
    """A write completes only when memory has responded to it."""
    dut = Drain(TINY)

    async def body(ctx):
        for pin in (dut.memory.awready, dut.memory.wready, dut.read.ready):
            ctx.set(pin, 1)
        for _ in range(2):
            ctx.set(dut.memory.bresp, 2)
            dropped = 0
            for index in range(surplus + 2):
                ctx.set(dut.memory.bvalid, index < surplus)
                assert ctx.get(dut.memory.bready)
                await ctx.tick()
                dropped += ctx.get(dut.counts.unexpected)
            assert dropped == surplus
            ctx.set(dut.i.payload, MOVE)
            await _pulse(ctx, dut.i.valid)
            last = False
            for _ in range(100):
                last |= bool(ctx.get(dut.memory.wvalid) and ctx.get(dut.memory.wlast))
                await ctx.tick()
                assert not ctx.get(dut.done.valid), "a write has completed without its response"
            assert last
            ctx.set(dut.memory.bresp, 0)
            ctx.set(dut.memory.bvalid, 1)
            while not ctx.get(dut.memory.bready):
                await ctx.tick()
            await ctx.tick()
            ctx.set(dut.memory.bvalid, 0)
            assert ctx.get(dut.done.valid) and not ctx.get(dut.done.payload.error)
            assert not ctx.get(dut.counts.unexpected)

    run_cell(dut, body)
