# SPDX-License-Identifier: Apache-2.0
"""BlockResets: each counter of a block is cleared once per reset, and the block is busy until then."""

import random

import pytest

from hw.triggers.config import COUNTERS_PER_BLOCK, TriggerConfig
from hw.triggers.resets import BlockResets
from tests.harness.cell import CellBench, run_bench

CONFIG = TriggerConfig(blocks=4, dma_pages=1, ace_pages=1)
ALL = (1 << CONFIG.blocks) - 1


class _Bench(CellBench):
    """Clears counters after a random time. ``missing``: of each block that is being reset, the counters that have not
    been cleared since the command."""

    def __init__(self, ctx, dut, rng, ready):
        super().__init__(ctx, rng)
        self.dut, self.ready = dut, ready
        self.missing = {block: set(range(COUNTERS_PER_BLOCK)) for block in range(CONFIG.blocks)}
        self.issued, self.cleared = [], []

    @property
    def busy(self):
        return self.ctx.get(self.dut.busy)

    async def cycle(self, *, reset=None, active=0):
        ctx, dut = self.ctx, self.dut
        settings = dut.settings
        ctx.set(settings.reset_valid, reset is not None)
        ctx.set(settings.reset_block, reset or 0)
        ctx.set(dut.active, active)
        ctx.set(dut.clear.ready, self.chance(self.ready))
        done = bool(self.issued) and self.chance(0.7)
        ctx.set(dut.cleared, done)
        busy = self.busy
        for block, missing in self.missing.items():
            assert not missing or busy >> block & 1, "a block is not busy, and has counters to clear"
        if done:
            block, index = divmod(self.issued.pop(0), COUNTERS_PER_BLOCK)
            assert busy >> block & 1
            self.missing[block].discard(index)
        if ctx.get(dut.clear.valid) and ctx.get(dut.clear.ready):
            self.issued.append(ctx.get(dut.clear.payload))
            self.cleared.append(self.issued[-1])
        await ctx.tick()
        if reset is not None:
            self.missing[reset] = set(range(COUNTERS_PER_BLOCK))
            self.seen["again" if busy >> reset & 1 else "reset"] += 1
            assert self.busy >> reset & 1

    async def drain(self):
        for _ in range(8 * CONFIG.blocks * COUNTERS_PER_BLOCK):
            if not self.busy:
                break
            await self.cycle()
        assert not self.busy and not any(self.missing.values())


def _run(body, *, seed=0, ready=1.0):
    dut = BlockResets(CONFIG)
    return run_bench(dut, lambda ctx: _Bench(ctx, dut, random.Random(seed), ready), body)


@pytest.mark.parametrize("ready", [1.0, 0.4])
def test_random(ready, seed):
    async def body(bench):
        for _ in range(2000):
            await bench.cycle(reset=bench.rng.randrange(CONFIG.blocks) if bench.chance(0.01) else None)

    seen = _run(body, seed=f"{seed} {ready}", ready=ready)
    assert seen["again"] and seen["reset"]


def test_after_rst_every_counter_is_cleared():
    async def body(bench):
        assert bench.busy == ALL
        await bench.drain()
        assert sorted(bench.cleared) == list(range(CONFIG.counters))

    _run(body)


def test_a_firing_that_is_posted_prolongs_the_reset():
    async def body(bench):
        await bench.drain()
        await bench.cycle(reset=2)
        for _ in range(400):
            await bench.cycle(active=0b0100)
        assert bench.busy == 0b0100
        await bench.cycle(active=0b0010)
        await bench.cycle()
        assert bench.busy == 0

    _run(body)


@pytest.mark.parametrize("other", [0, 1, 2])
def test_a_command_in_any_cycle_of_a_reset(other):
    """For the same block, and for blocks before and after it."""
    async def body(bench):
        await bench.drain()
        for wait in (0, 1, 2, 60, 62, 63, 64, 65, 66, 67, 68, 70, 90):
            await bench.cycle(reset=1)
            for _ in range(wait):
                await bench.cycle()
            await bench.cycle(reset=other)
            await bench.drain()

    _run(body)
