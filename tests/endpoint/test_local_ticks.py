# SPDX-License-Identifier: Apache-2.0
"""LocalTicks: which writes are ticks, and one response for each burst, in order, whatever stalls."""

import random
from collections import deque
from dataclasses import replace

import pytest

from hw.axi import Resp
from hw.endpoint.config import BASE, TINY
from hw.endpoint.local_ticks import LocalTicks
from hw.triggers.config import counter_address
from hw.triggers.words import Refusal, TickWord
from tests.harness.cell import run_cell


def _bursts(rng, config, count):
    """Beats ``(address, data, strobes)`` of each burst, its ID, and its tick as ``(block, word)`` or None."""
    bursts = []
    for _ in range(count):
        lane = 8 * rng.randrange(config.beat_bytes // 8)
        block = rng.choice((0, 1, 1, 5, 200))
        word = TickWord.add(rng.randrange(64), rng.randrange(1 << 20), generation=rng.choice((None, 0xABCD))).pack()
        if rng.random() < 0.1:
            word |= 1 << rng.choice((7, 44, 63))
        address = counter_address(0) | block << 52 | rng.randrange(64) * config.beat_bytes | lane
        data, strobes, beats = word << 8 * lane, 0xFF << lane, 1
        kind = rng.choice(("tick", "tick", "tick", "part", "wide", "burst"))
        if kind == "part":
            strobes &= ~(1 << lane + rng.randrange(8))
        elif kind == "wide":
            strobes |= 1 << (lane - 1 if lane else config.beat_bytes - 1)
            kind = "tick" if config.beat_bytes == 8 else kind
        elif kind == "burst":
            beats = rng.choice((2, 3, 16))
        tick = (block, word) if kind == "tick" else None
        bursts.append(([(address, data, strobes)] * beats, rng.randrange(16), tick))
    return bursts


@pytest.mark.parametrize("config", [TINY, BASE, replace(TINY, pipelined=True)], ids=["tiny", "base", "pipelined"])
@pytest.mark.parametrize("ready", [1.0, 0.3])
def test_writes(config, ready, seed):
    rng = random.Random(f"{ready} {seed}")
    dut, bursts = LocalTicks(config), _bursts(rng, config, 120)
    found, ticks = [], []

    async def testbench(ctx):
        beats = [(beat, number, index == 0, index == len(burst) - 1) for burst, number, _ in bursts
                 for index, beat in enumerate(burst)]
        sent, verdicts = 0, deque()
        for _ in range(6000):
            offered = sent < len(beats) and rng.random() < 0.8
            ctx.set(dut.writes.valid, offered)
            if offered:
                (address, data, strobes), number, first, last = beats[sent]
                # The address and the ID of later beats have no meaning.
                ctx.set(dut.writes.payload, {"addr": address if first else rng.getrandbits(64), "data": data,
                                             "id": number if first else rng.getrandbits(4), "strb": strobes,
                                             "first": first, "last": last})
            ctx.set(dut.ticks.ready, rng.random() < ready)
            ctx.set(dut.responses.ready, rng.random() < ready)
            verdict = verdicts.popleft() if verdicts and rng.random() < 0.5 else None
            ctx.set(dut.ticks.verdict.valid, verdict is not None)
            ctx.set(dut.ticks.verdict.code, verdict or Refusal.NONE)
            taken = offered and ctx.get(dut.writes.ready)
            if ctx.get(dut.ticks.valid) and ctx.get(dut.ticks.ready):
                tick, code = ctx.get(dut.ticks.payload), rng.choice((Refusal.NONE, Refusal.NONE, Refusal.IDLE))
                ticks.append((tick.counter, tick.value, tick.any, tick.generation, tick.malformed, code))
                verdicts.append(code)
            if ctx.get(dut.responses.valid) and ctx.get(dut.responses.ready):
                response = ctx.get(dut.responses.payload)
                found.append((response.id, Resp(response.resp)))
            await ctx.tick()
            sent += bool(taken)

    run_cell(dut, testbench)
    expected, blocks, verdict = [], config.triggers.blocks, iter(ticks)
    for _, number, tick in bursts:
        code = Refusal.MALFORMED
        if tick is not None:
            block, word = tick
            wanted = TickWord.unpack(word)
            *seen, malformed, code = next(verdict)
            assert malformed == (block >= blocks or wanted.reserved or wanted.reserved_high != 0)
            assert seen == [block % blocks * 64 + wanted.counter, wanted.value, wanted.any, wanted.generation]
        expected.append((number, Resp.OKAY if code == Refusal.NONE else Resp.SLVERR))
    assert next(verdict, None) is None
    assert found == expected
