# SPDX-License-Identifier: Apache-2.0
"""A queue whose sender may begin again, against a list."""

import random

import pytest
from amaranth.sim import Simulator

from hw.stream import ReplayQueue


def _simulate(dut, testbench):
    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(testbench)
    simulator.run()


@pytest.mark.parametrize("ram, output_register", [("lut", False), ("block", False), ("block", True)])
@pytest.mark.parametrize("depth", [2, 8])
def test_against_a_list(depth, ram, output_register, seed):
    """``kept`` was put in and not released; number ``at`` of it is offered next, ``sent`` were taken at least once."""
    dut, rng = ReplayQueue(16, depth=depth, ram=ram, output_register=output_register), random.Random(seed)

    async def testbench(ctx):
        kept, at, sent, put = [], 0, 0, 0
        passed = rewound = 0
        for _ in range(1500):
            assert (ctx.get(dut.level), ctx.get(dut.fresh)) == (len(kept), len(kept) - sent)
            assert ctx.get(dut.i.ready) == (len(kept) < depth)
            rewind, clear = rng.random() < 0.05, rng.random() < 0.01
            release = 0 if rewind or rng.random() < 0.6 else rng.randint(0, at)
            ctx.set(dut.i.valid, offers := rng.random() < 0.6)
            ctx.set(dut.i.payload, put)
            ctx.set(dut.o.ready, takes := rng.random() < 0.6 and not rewind)
            ctx.set(dut.release, release)
            ctx.set(dut.rewind, rewind)
            ctx.set(dut.clear, clear)
            accepted, valid = offers and len(kept) < depth, ctx.get(dut.o.valid)
            if valid:
                assert ctx.get(dut.o.payload) == kept[at]
            if valid and takes:
                at, passed = at + 1, passed + 1
                sent = max(sent, at)
            if accepted:
                kept.append(put)
                put += 1
            del kept[:release]
            at, sent = at - release, sent - release
            if rewind:
                at, rewound = 0, rewound + 1
            if clear:
                kept, at, sent = [], 0, 0
            await ctx.tick()
        assert passed > 200 and rewound > 20

    _simulate(dut, testbench)


@pytest.mark.parametrize("ram, output_register, latency", [("lut", False, 1), ("block", False, 2), ("block", True, 3)])
def test_full_rate(ram, output_register, latency):
    dut = ReplayQueue(16, depth=8, ram=ram, output_register=output_register)
    assert dut.latency == latency

    async def testbench(ctx):
        ctx.set(dut.i.valid, 1)
        ctx.set(dut.o.ready, 1)
        for cycle in range(100):
            ctx.set(dut.i.payload, cycle)
            ctx.set(dut.release, cycle > latency)
            assert ctx.get(dut.o.valid) == (cycle >= latency)
            assert cycle < latency or ctx.get(dut.o.payload) == cycle - latency
            await ctx.tick()

    _simulate(dut, testbench)


@pytest.mark.parametrize(("options", "sentence"), [
    ({"depth": 6}, "ReplayQueue depth must be a power of two of at least 2, not 6"),
    ({"depth": 1}, "ReplayQueue depth must be a power of two of at least 2, not 1"),
    ({"depth": 4, "ram": "fast"}, "ReplayQueue memory must be \"lut\", \"block\" or None, not 'fast'"),
])
def test_wrong_options(options, sentence):
    with pytest.raises(ValueError) as caught:
        ReplayQueue(8, **options)
    assert str(caught.value) == sentence
