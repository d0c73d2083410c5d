# SPDX-License-Identifier: Apache-2.0
import random
import re

import pytest
from amaranth.back import rtlil
from amaranth.sim import Simulator

from hw.stream import RoundRobin


def expected(requests, pointer, count):
    """The first requester at or after ``pointer``, or None."""
    for step in range(count):
        if requests >> (pointer + step) % count & 1:
            return (pointer + step) % count
    return None


@pytest.mark.parametrize("count", [1, 2, 3, 7, 8, 9, 16, 20, 64, 70])
def test_grant(count):
    dut = RoundRobin(count, marks=True)
    rng = random.Random(count)

    async def testbench(ctx):
        pointer = 0
        for cycle in range(300):
            density = rng.choice([1, count // 2 + 1, count])
            requests = sum(1 << index for index in range(count) if rng.randrange(count) < density)
            requests = (1 << count) - 1 if cycle % 7 == 0 else 0 if cycle % 11 == 0 else requests
            advance = rng.randrange(2)
            marks = rng.getrandbits(count)
            ctx.set(dut.requests, requests)
            ctx.set(dut.marks, marks)
            ctx.set(dut.advance, advance)
            granted = expected(requests, pointer, count)
            assert ctx.get(dut.valid) == (granted is not None)
            assert ctx.get(dut.grant) == (granted or 0)
            assert ctx.get(dut.grant_onehot) == (0 if granted is None else 1 << granted)
            assert ctx.get(dut.marked) == (granted is not None and marks >> granted & 1)
            if advance and granted is not None:
                pointer = (granted + 1) % count
            await ctx.tick()

    sim = Simulator(dut)
    sim.add_clock(1e-6)
    sim.add_testbench(testbench)
    sim.run()


@pytest.mark.parametrize("count", [3, 12, 64])
def test_fair(count):
    """While all ask, each is served once in any ``count`` grants; a newcomer waits for no more."""
    dut = RoundRobin(count)

    async def testbench(ctx):
        ctx.set(dut.requests, (1 << count) - 1)
        ctx.set(dut.advance, 1)
        served = []
        for _ in range(3 * count):
            served.append(ctx.get(dut.grant))
            await ctx.tick()
        assert served == [*range(count)] * 3

    sim = Simulator(dut)
    sim.add_clock(1e-6)
    sim.add_testbench(testbench)
    sim.run()


@pytest.mark.parametrize("count", [0, -1, "8", None])
def test_count_wrong(count):
    with pytest.raises(ValueError, match=rf"^RoundRobin count must be a positive integer, not {count!r}$"):
        RoundRobin(count)


@pytest.mark.synth
@pytest.mark.parametrize("count, limit", [(8, 4), (16, 5), (64, 6)])
def test_depth(count, limit, tmp_path):
    """Levels of 6-input LUTs on the longest path, the pointer's next value included."""
    libyosys = pytest.importorskip("pyosys.libyosys")
    source, report = tmp_path / "top.il", tmp_path / "ltp.txt"
    source.write_text(rtlil.convert(RoundRobin(count), name="top"))
    design = libyosys.Design()
    for command in (f"read_rtlil {source}", "synth -flatten -lut 6 -top top", "abc -lut 6",
                    f"tee -q -o {report} ltp -noff"):
        libyosys.run_pass(f"tee -q {command}" if not command.startswith("tee") else command, design)
    length = int(re.search(r"Longest topological path in top \(length=(\d+)\)", report.read_text())[1])
    assert length <= limit
