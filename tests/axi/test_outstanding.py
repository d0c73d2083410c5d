# SPDX-License-Identifier: Apache-2.0
"""Counts of outstanding responses, and detection of unexpected ones."""

import random

import pytest

from hw.axi import Outstanding
from tests.harness.cell import run_cell


@pytest.mark.parametrize("depth", [1, 5, 8, 40])
def test_outstanding(depth):
    """Random requests and responses, some of them unexpected; unexpected ones do not change the count."""
    dut, rng = Outstanding(depth), random.Random(depth)
    dropped, full = 0, 0

    async def testbench(ctx):
        nonlocal dropped, full
        expected, unexpected = 0, False
        for cycle in range(3000):
            greedy = cycle // 300 % 2
            issued = rng.randint(0, depth - expected) if rng.random() < (0.6 if greedy else 0.1) else 0
            response = rng.random() < (0.3 if greedy else 0.7)
            ctx.set(dut.issued, issued)
            ctx.set(dut.response, response)
            assert (ctx.get(dut.outstanding), ctx.get(dut.unexpected)) == (expected > 0, unexpected)
            unexpected = response and not expected
            dropped += unexpected
            expected += issued - (response and expected > 0)
            full += expected == depth
            await ctx.tick()

    run_cell(dut, testbench)
    assert dropped > 10 and full > 10


def test_bad_numbers():
    for depth in (0, -1, 2.0, "8"):
        with pytest.raises(ValueError, match="Outstanding responses must be a positive integer"):
            Outstanding(depth)
