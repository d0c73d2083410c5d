# SPDX-License-Identifier: Apache-2.0
"""Show a monitor one cycle after another of a bus."""

from amaranth.hdl import ClockDomain, Module
from amaranth.sim import Simulator

__all__ = ["play"]


def play(checker, cycles, *, read=()):
    """Play ``cycles``, each a dict of pins that are not 0 (``"rst"`` is the reset), to ``checker``.

    Returns
    -------
    list
        Values of the ports named in ``read`` after the last cycle.

    Raises
    ------
    AssertionError
        If a rule is broken, with the monitor's message.
    """
    top = Module()
    top.domains.sync = sync = ClockDomain()
    top.submodules.checker = checker
    results = []

    async def testbench(ctx):
        locks = ("awlock", "arlock") if getattr(checker, "exclusive", False) else ()
        pins = {pin: getattr(checker, pin) for pin in (*checker.bus.members, *locks)} | {"rst": sync.rst}
        driven = {}
        for cycle in ({}, *cycles):
            for pin in driven.keys() - cycle.keys():
                ctx.set(pins[pin], pins[pin].shape()(0) if pin.endswith(("burst", "resp")) else 0)
            for pin, value in cycle.items():
                ctx.set(pins[pin], value)
            driven = cycle
            await ctx.tick()
        results.extend(ctx.get(getattr(checker, port)) for port in read)

    sim = Simulator(top)
    sim.add_clock(1e-6)
    sim.add_testbench(testbench)
    sim.run()
    return results
