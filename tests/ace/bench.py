# SPDX-License-Identifier: Apache-2.0
"""Apply a new set of inputs to a component without handshake in every cycle."""

from amaranth.sim import Simulator

__all__ = ["stream_through"]


def stream_through(dut, inputs, *, latency, output="o"):
    """Values of ``output``, ``latency`` cycles after each dictionary of ``inputs`` was applied."""
    results = []

    async def testbench(ctx):
        for cycle in range(len(inputs) + latency):
            for name, value in (inputs[cycle] if cycle < len(inputs) else {}).items():
                ctx.set(getattr(dut, name), value)
            if not latency:
                await ctx.delay(1e-9)
            if cycle >= latency:
                results.append(ctx.get(getattr(dut, output)))
            if latency:
                await ctx.tick()

    sim = Simulator(dut)
    if latency:
        sim.add_clock(1e-6)
    sim.add_testbench(testbench)
    sim.run()
    return results
