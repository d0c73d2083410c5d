# SPDX-License-Identifier: Apache-2.0
import pytest
from amaranth.lib import data
from amaranth.sim import Simulator

from hw.stream import StreamChecker


def play(shape, cycles, **kwargs):
    """Show the checker one ``(valid, ready, payload)`` per cycle."""
    dut = StreamChecker(shape, **kwargs)

    async def testbench(ctx):
        for valid, ready, payload in cycles:
            ctx.set(dut.valid, valid)
            ctx.set(dut.ready, ready)
            ctx.set(dut.payload, payload)
            await ctx.tick()

    sim = Simulator(dut)
    sim.add_clock(1e-6)
    sim.add_testbench(testbench)
    sim.run()


def test_silent():
    play(8, [(0, 0, 1), (0, 1, 2), (1, 0, 3), (1, 0, 3), (1, 1, 3), (1, 1, 4), (0, 0, 5), (1, 0, 6),
             (1, 1, 6)])


def test_valid_falls():
    with pytest.raises(AssertionError, match=r"^Assertion violated: stream: valid fell before the transfer$"):
        play(8, [(1, 0, 3), (0, 0, 3)])


def test_valid_falls_as_ready_rises():
    with pytest.raises(AssertionError, match=r"^Assertion violated: stream: valid fell before the transfer$"):
        play(8, [(1, 0, 3), (0, 1, 3)])


def test_payload_changes():
    message = r"^Assertion violated: \{requests\}: payload changed from 0x3 to 0x4 before the transfer$"
    with pytest.raises(AssertionError, match=message):
        play(8, [(1, 0, 3), (1, 1, 4)], name="{requests}")


def test_struct_payload_changes():
    shape = data.StructLayout({"a": 4, "b": 4})
    message = r"^Assertion violated: stream: payload changed from 0x21 to 0x31 before the transfer$"
    with pytest.raises(AssertionError, match=message):
        play(shape, [(1, 0, {"a": 1, "b": 2}), (1, 0, {"a": 1, "b": 3})])
