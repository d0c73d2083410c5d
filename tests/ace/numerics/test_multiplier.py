# SPDX-License-Identifier: Apache-2.0
"""All products of a lane's multipliers against Python's, in any sequence."""

import random

from amaranth.sim import Simulator

from hw.ace.numerics.multiplier import Multiplier

WIDTHS = {"low": 24, "high": 13, "1": 6, "3": 6}


def _inputs(rng):
    integer, bytes_ = rng.randrange(2), rng.randrange(2)
    pair = 0 if integer else bytes_ or rng.randrange(2)
    given = {f"{side}_word": rng.choice((rng.getrandbits(32), 0xFFFFFFFF)) for side in "ab"}
    for name, width in WIDTHS.items():
        for side in "ab":
            value = rng.choice((rng.getrandbits(width), (1 << width) - 1))
            # The low elements of a pair have at most 16 bits.
            given[f"{side}_{name}"] = value & ~0xFF if name == "low" and pair else value
    return {"integer": integer, "pair": pair, "bytes": bytes_}, given


def _expected(mode, given):
    if mode["integer"]:
        each = 8 if mode["bytes"] else 32
        return {"word": sum(
            ((given["a_word"] >> at) * (given["b_word"] >> at) & (1 << each) - 1) << at for at in range(0, 32, each))}
    names = {"low": "low"} | ({"high": "high"} if mode["pair"] else {}) | (
        {"byte_1": "1", "byte_3": "3"} if mode["bytes"] else {})
    return {port: given[f"a_{name}"] * given[f"b_{name}"] for port, name in names.items()}


def test_all_modes(seed):
    dut, rng = Multiplier(low=24, high=13, byte=6), random.Random(seed)
    inputs = [_inputs(rng) for _ in range(600)]

    async def bench(ctx):
        for number, (mode, given) in enumerate(inputs + [({}, {})] * Multiplier.LATENCY):
            if number >= Multiplier.LATENCY:
                for port, want in _expected(*inputs[number - Multiplier.LATENCY]).items():
                    got = ctx.get(getattr(dut, port))
                    assert got == want, (port, hex(got), hex(want), inputs[number - Multiplier.LATENCY])
            for name, value in mode.items():
                ctx.set(dut.mode[name], value)
            for name, value in given.items():
                ctx.set(getattr(dut, name), value)
            await ctx.tick()

    simulator = Simulator(dut)
    simulator.add_clock(1e-8)
    simulator.add_testbench(bench)
    simulator.run()
