# SPDX-License-Identifier: Apache-2.0
"""Drive and watch the streams of a small component in Amaranth's simulator."""

import itertools
import random

from amaranth.hdl import Module
from amaranth.sim import Simulator

from hw.stream import StreamChecker

__all__ = ["exercise"]


def exercise(dut, sources, sinks, *, expect, stalls=(0.0, 0.0), seed=0, limit=20_000):
    """Send items through ``dut`` until ``expect`` of them have left; every output is checked.

    Parameters
    ----------
    sources : list of (stream, items)
        Input streams and what to send.
    sinks : list of streams
        Output streams.
    stalls : (float, float)
        Probability of a pause before an item at each source, and in each cycle at each sink.

    Returns
    -------
    list of list of (cycle, payload)
        Transfers of each source, then of each sink.
    """
    top = Module()
    top.submodules.dut = dut
    for index, sink in enumerate(sinks):
        checker = StreamChecker(sink.signature.members["payload"].shape, name=f"output {index}")
        top.submodules[f"checker_{index}"] = checker
        top.d.comb += checker.observe(sink)

    log = [[] for _ in (*sources, *sinks)]
    seen = 0

    def watch(index, watched, *, counts):
        async def process(ctx):
            nonlocal seen
            for cycle in itertools.count():
                _, _, valid, ready, payload = await ctx.tick().sample(
                    watched.valid, watched.ready, watched.payload)
                if valid and ready:
                    log[index].append((cycle, payload))
                    seen += counts
        return process

    def send(source, items, rng):
        async def process(ctx):
            for item in items:
                while rng.random() < stalls[0]:
                    await ctx.tick()
                ctx.set(source.payload, item)
                ctx.set(source.valid, 1)
                await ctx.tick().until(source.ready)
                ctx.set(source.valid, 0)
        return process

    def receive(sink, rng):
        async def process(ctx):
            while True:
                ctx.set(sink.ready, rng.random() >= stalls[1])
                await ctx.tick()
        return process

    async def finish(ctx):
        for _ in range(limit):
            await ctx.tick()
            if seen >= expect:
                # Anything more would be a duplicate.
                await ctx.tick().repeat(10)
                return
        raise AssertionError(f"{seen} of {expect} items came out in {limit} cycles")

    sim = Simulator(top)
    sim.add_clock(1e-6)
    for index, (source, items) in enumerate(sources):
        sim.add_testbench(send(source, items, random.Random(f"{seed} source {index}")), background=True)
        sim.add_testbench(watch(index, source, counts=0), background=True)
    for index, sink in enumerate(sinks):
        sim.add_testbench(receive(sink, random.Random(f"{seed} sink {index}")), background=True)
        sim.add_testbench(watch(len(sources) + index, sink, counts=1), background=True)
    sim.add_testbench(finish)
    sim.run()
    return log
