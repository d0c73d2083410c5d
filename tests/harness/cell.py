# SPDX-License-Identifier: Apache-2.0
"""A component alone in Amaranth's simulator: for cells, where a build of Verilator takes longer than the test."""

from collections import Counter

from amaranth.sim import Simulator

__all__ = ["CellBench", "run_bench", "run_cell"]


def run_cell(dut, *testbenches):
    """Run the testbenches, ``async`` functions of a context, at the same time until all have ended."""
    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    for testbench in testbenches:
        simulator.add_testbench(testbench)
    simulator.run()


class CellBench:
    """Drives a cell at random; ``seen`` counts the cases that occurred."""

    def __init__(self, ctx, rng):
        self.ctx, self.rng, self.seen = ctx, rng, Counter()
        self._driven = {}

    def set(self, signal, value):
        """Drive a signal if its value changes, which is quicker."""
        _, driven = self._driven.get(id(signal), (None, None))
        if driven != value:
            # The reference keeps the ID of a temporary, such as a field of a payload, from being used again.
            self._driven[id(signal)] = signal, value
            self.ctx.set(signal, value)

    def chance(self, probability):
        return probability > 0 and self.rng.random() < probability


def run_bench(dut, make, body):
    """Run ``body`` on the bench that ``make`` returns for a context, drain it, and return its counts of the cases."""
    seen = Counter()

    async def testbench(ctx):
        bench = make(ctx)
        await body(bench)
        await bench.drain()
        seen.update(bench.seen)

    run_cell(dut, testbench)
    return seen
