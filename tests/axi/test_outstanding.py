# amaranth: UnusedElaboratable=no
# SPDX-License-Identifier: Apache-2.0
"""What memory owes, and what nobody asked for."""

import random

import pytest

from hw.axi import Outstanding
from tests.harness.cell import run_cell


@pytest.mark.parametrize("most", [1, 5, 8, 40])
def test_outstanding(most):
    """Random requests and answers, now and then with nothing asked for: none of those counts."""
    dut, rng = Outstanding(most), random.Random(most)
    strays, full = 0, 0

    async def testbench(ctx):
        nonlocal strays, full
        owed, stray = 0, False
        for cycle in range(3000):
            greedy = cycle // 300 % 2
            asked = rng.randint(0, most - owed) if rng.random() < (0.6 if greedy else 0.1) else 0
            answered = rng.random() < (0.3 if greedy else 0.7)
            ctx.set(dut.asked, asked)
            ctx.set(dut.answered, answered)
            assert (ctx.get(dut.owed), ctx.get(dut.stray)) == (owed > 0, stray)
            stray = answered and not owed
            strays += stray
            owed += asked - (answered and owed > 0)
            full += owed == most
            await ctx.tick()

    run_cell(dut, testbench)
    assert strays > 10 and full > 10


def test_bad_numbers():
    for most in (0, -1, 2.0, "8"):
        with pytest.raises(ValueError, match="Outstanding answers must be a positive integer"):
            Outstanding(most)
