# SPDX-License-Identifier: Apache-2.0
import itertools
import random

import pytest
from amaranth.sim import Simulator

from hw.stream import Pacer
from tests.stream.bench import exercise


@pytest.mark.parametrize(("interval", "burst"), [(2, 1), (3, 4), (8, 4)])
@pytest.mark.parametrize("stalls", [(0.0, 0.0), (0.5, 0.3), (0.95, 0.0)])
def test_rate(interval, burst, stalls):
    items = [random.Random(interval).randrange(256) for _ in range(80)]
    dut = Pacer(8, interval=interval, burst=burst)
    sent, got = exercise(dut, [(dut.i, items)], [dut.o], expect=len(items), stalls=stalls)
    assert [payload for _, payload in got] == items and sent == got
    cycles = [cycle for cycle, _ in got]
    # In any span: the burst, and one item for every interval.
    for first, start in enumerate(cycles):
        for last in range(first, len(cycles)):
            assert last - first + 1 <= burst + (cycles[last] - start) / interval


def test_saturated():
    """After the burst, exactly one item per interval."""
    dut = Pacer(8, interval=8, burst=4)
    _, got = exercise(dut, [(dut.i, list(range(20)))], [dut.o], expect=20)
    cycles = [cycle for cycle, _ in got]
    assert cycles[:4] == [0, 1, 2, 3]
    assert [after - before for before, after in itertools.pairwise(cycles[4:])] == [8] * 15


def test_burst_after_a_break():
    """Tokens do not add up beyond the burst."""
    dut = Pacer(8, interval=4, burst=2)

    async def testbench(ctx):
        ctx.set(dut.o.ready, 1)
        await ctx.tick().repeat(100)
        ctx.set(dut.i.valid, 1)
        passed = []
        for _ in range(12):
            passed.append(ctx.get(dut.o.valid))
            await ctx.tick()
        assert passed == [1, 1, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0]

    sim = Simulator(dut)
    sim.add_clock(1e-6)
    sim.add_testbench(testbench)
    sim.run()


@pytest.mark.parametrize(("interval", "burst", "name"), [(1, 4, "interval"), (1025, 4, "interval"), (8, 0, "burst"),
                                                         (8, 65, "burst"), ("8", 4, "interval")])
def test_bad_sizes(interval, burst, name):
    with pytest.raises(ValueError, match=f"{name} of a Pacer must be an integer from"):
        Pacer(8, interval=interval, burst=burst)
