# SPDX-License-Identifier: Apache-2.0
"""The loopback alone: beats leave in order, as many as it holds wait, and the latency is that of its memory."""

import random
from dataclasses import replace

import pytest

from hw.ace.config import TINY
from hw.ace.loopback import Loopback
from tests.ace.timing import each_alone
from tests.harness.cell import run_cell

REGISTERED, = each_alone(TINY, "receive_output_register").values()
CONFIGS = {"block": (TINY, 64, 1), "registered": (REGISTERED, 64, 3),
           "lut": (replace(TINY, packet_bytes=64), 16, 1)}
"""Sizes, the beats of two packets, and cycles from ``i`` to ``o`` of an empty loopback."""


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("ready", [1.0, 0.5, 0.1])
def test_order_and_level(name, ready, seed):
    config, beats, _ = CONFIGS[name]
    assert config.local_beats == beats
    dut, rng = Loopback(config), random.Random(seed)

    async def body(ctx):
        sent, received, most, fills = 0, 0, 0, True
        while received < 10 * beats:
            ctx.set(dut.i.valid, sent < 10 * beats and rng.random() < 0.9)
            ctx.set(dut.i.payload.data, sent)
            held = sent - received
            # Stalled until all entries are used, then until few are.
            fills = sent < 10 * beats and (held < beats if fills else held < 3)
            ctx.set(dut.o.ready, not fills and rng.random() < ready)
            assert ctx.get(dut.levels.level) == ctx.get(dut.levels.fresh) == held
            assert ctx.get(dut.i.ready) == (held < beats)
            most = max(most, held)
            accepted, taken = (ctx.get(one.valid) and ctx.get(one.ready) for one in (dut.i, dut.o))
            if taken:
                assert ctx.get(dut.o.payload.data) == received
            await ctx.tick()
            sent, received = sent + accepted, received + taken
        assert most == beats

    run_cell(dut, body)


@pytest.mark.parametrize("name", CONFIGS)
def test_latency(name):
    config, _, latency = CONFIGS[name]
    dut = Loopback(config)

    async def body(ctx):
        ctx.set(dut.i.valid, 1)
        await ctx.tick()
        ctx.set(dut.i.valid, 0)
        for _ in range(latency - 1):
            assert not ctx.get(dut.o.valid)
            await ctx.tick()
        assert ctx.get(dut.o.valid)

    run_cell(dut, body)
