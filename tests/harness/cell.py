# SPDX-License-Identifier: Apache-2.0
"""A component alone in Amaranth's simulator: for cells, where a build of Verilator takes longer than the test."""

from amaranth.sim import Simulator

__all__ = ["run_cell"]


def run_cell(dut, *testbenches):
    """Run the testbenches, ``async`` functions of a context, at the same time until all have ended."""
    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    for testbench in testbenches:
        simulator.add_testbench(testbench)
    simulator.run()
