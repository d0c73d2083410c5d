# SPDX-License-Identifier: Apache-2.0
"""The holder of a mover, the communicators that wait for it, and ``stop`` for the current job."""

import random
from collections import deque

from hw.ace.config import TINY
from hw.ace.mover_queue import MoverQueue
from tests.harness.cell import run_cell


def test_against_a_list(seed):
    """Jobs start and end in the same order; some communicators are stopped, and some wait."""
    rng = random.Random(seed)
    dut, count = MoverQueue(TINY), TINY.communicators

    async def live(ctx):
        begun, latest = deque(), 0
        for cycle in range(3000):
            often = 0.6 if cycle // 500 % 2 else 0.2
            begins = 1 << rng.randrange(count) if len(begun) < TINY.slots and rng.random() < often else 0
            # A job takes some cycles.
            moved = len(begun) > 1 and rng.random() < 0.4
            stopped, waiting = rng.getrandbits(count) & rng.getrandbits(count), rng.getrandbits(count)
            for name, value in (("begins", begins), ("moved", moved), ("waiting", waiting), ("stopped", stopped)):
                ctx.set(getattr(dut, name), value)
            holder = begun[0] if begun else 0
            assert ctx.get(dut.mover.holder) == holder and ctx.get(dut.mover.moved) == moved
            assert ctx.get(dut.mover.blocked) == (waiting & ~holder if holder & ~stopped else 0)
            assert ctx.get(dut.stop) == bool(latest & stopped)
            if moved:
                begun.popleft()
            if begins:
                begun.append(begins)
                latest = begins
            await ctx.tick()

    run_cell(dut, live)
