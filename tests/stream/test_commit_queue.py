# SPDX-License-Identifier: Apache-2.0
"""A queue that offers what is committed, against a list."""

import random

import pytest
from amaranth.sim import Simulator

from hw.stream import CommitQueue


@pytest.mark.parametrize("ram, output_register", [("lut", False), ("block", False), ("block", True)])
@pytest.mark.parametrize("depth", [2, 8])
def test_against_a_list(depth, ram, output_register, seed):
    dut, rng = CommitQueue(16, depth=depth, ram=ram, output_register=output_register), random.Random(seed)

    async def testbench(ctx):
        good, open_, put, passed, dropped = [], [], 0, 0, 0
        for _ in range(1500):
            assert ctx.get(dut.empty) == (not good)
            first = rng.random() < 0.3
            ctx.set(dut.first, first)
            ctx.set(dut.i.valid, offers := rng.random() < 0.7)
            ctx.set(dut.i.payload, put)
            ctx.set(dut.commit, commits := rng.random() < 0.3)
            ctx.set(dut.o.ready, takes := rng.random() < 0.6)
            free = len(good) + (0 if first else len(open_)) < depth
            assert ctx.get(dut.i.ready) == free
            valid = ctx.get(dut.o.valid)
            if valid:
                assert ctx.get(dut.o.payload) == good[0]
            if offers and free:
                if first:
                    dropped += len(open_)
                    open_ = []
                open_.append(put)
                put += 1
                if commits:
                    good, open_ = good + open_, []
            if valid and takes:
                passed += 1
                del good[0]
            await ctx.tick()
        assert passed > 100 and dropped > 20

    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(testbench)
    simulator.run()


@pytest.mark.parametrize("ram, output_register, latency", [("lut", False, 1), ("block", False, 2), ("block", True, 3)])
def test_latency(ram, output_register, latency):
    dut = CommitQueue(16, depth=8, ram=ram, output_register=output_register)
    assert dut.latency == latency

    async def testbench(ctx):
        ctx.set(dut.i.valid, 1)
        ctx.set(dut.commit, 1)
        ctx.set(dut.o.ready, 1)
        for cycle in range(50):
            ctx.set(dut.i.payload, cycle)
            assert ctx.get(dut.o.valid) == (cycle >= latency)
            assert cycle < latency or ctx.get(dut.o.payload) == cycle - latency
            await ctx.tick()

    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(testbench)
    simulator.run()


@pytest.mark.parametrize("depth", [1, 6, "8"])
def test_wrong_depth(depth):
    with pytest.raises(ValueError) as caught:
        CommitQueue(8, depth=depth)
    assert str(caught.value) == f"CommitQueue depth must be a power of two of at least 2, not {depth!r}"
