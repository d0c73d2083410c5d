# SPDX-License-Identifier: Apache-2.0
"""A crossing between two clock domains in Amaranth's simulator, with synchronisers whose bits arrive late at random."""

import random
from contextlib import contextmanager
from itertools import pairwise
from unittest import mock

from amaranth.hdl import Cat, ClockDomain, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In
from amaranth.sim import Simulator

from hw.stream import async_queue, level_crossing, pulse_crossing, reset_handshake

__all__ = ["CLOCKS", "TwoDomains", "late_crossings", "repeat", "simulate_two"]

CLOCKS = [(4, 4, 0), (4, 4, 1), (4, 4, 3), (3, 10, 1), (10, 3, 1), (7, 5, 2), (13, 4, 2), (4, 13, 3)]
"""Periods of ``write`` and ``read`` in ns, and the phase of the second clock."""


class LateCrossing(level_crossing.LevelCrossing):
    """A :class:`LevelCrossing` whose first stage samples each bit as it is, or as it was a cycle of its source before.

    This models the skew that the constraints allow, and a flip-flop that settles to either value.
    """

    rng = random.Random(0)

    def elaborate(self, platform):
        m = Module()
        source, before = (Signal(self.width, name=name, reset_less=True) for name in ("source", "before"))
        m.d[self.i_domain] += [source.eq(Value.cast(self.i)), before.eq(source)]
        late = Signal(16, init=self.rng.randrange(1, 1 << 16), reset_less=True)
        m.d[self.o_domain] += late.eq(Cat(late[1:] ^ Mux(late[0], 0x5a00, 0), late[0]))
        # A bit that has arrived does not change back.
        stages = [Signal(self.width, name=f"stage{stage}", reset_less=True) for stage in range(self.stages)]
        held = late & (stages[0] ^ source)
        m.d[self.o_domain] += stages[0].eq((source & ~held) | (before & held))
        for stage, following in pairwise(stages):
            m.d[self.o_domain] += following.eq(stage)
        m.d.comb += Value.cast(self.o).eq(stages[-1])
        return m


@contextmanager
def late_crossings(seed):
    """Build every crossing with late bits."""
    LateCrossing.rng = random.Random(seed)
    with mock.patch.object(async_queue, "LevelCrossing", LateCrossing), \
            mock.patch.object(reset_handshake, "LevelCrossing", LateCrossing), \
            mock.patch.object(pulse_crossing, "LevelCrossing", LateCrossing):
        yield


class TwoDomains(wiring.Component):
    """``dut`` in domains ``write`` and ``read``, whose resets are inputs; further parts as given."""

    write_reset: In(1)
    read_reset: In(1)

    def __init__(self, dut, **parts):
        self.parts = {"dut": dut, **parts}
        super().__init__()

    def elaborate(self, platform):
        m = Module()
        m.domains.write, m.domains.read = write, read = ClockDomain("write"), ClockDomain("read")
        m.d.comb += [write.rst.eq(self.write_reset), read.rst.eq(self.read_reset)]
        for name, part in self.parts.items():
            m.submodules[name] = part
        return m


async def repeat(ctx, domain, cycles):
    """Wait for cycles of a domain, whether it is in reset or not."""
    for _ in range(cycles):
        await ctx.tick(domain)


def simulate_two(top, clocks, *testbenches, background=()):
    """Run testbenches until all have ended, with clocks as in :data:`CLOCKS`."""
    write, read, phase = clocks
    simulator = Simulator(top)
    simulator.add_clock(write * 1e-9, phase=0, domain="write")
    simulator.add_clock(read * 1e-9, phase=phase * 1e-9, domain="read")
    for testbench in testbenches:
        simulator.add_testbench(testbench)
    for testbench in background:
        simulator.add_testbench(testbench, background=True)
    simulator.run()
