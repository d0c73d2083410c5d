# SPDX-License-Identifier: Apache-2.0
"""Dispatch alone: what it reports to each FSM, of packets from all pipes in the same cycle."""

import random
from dataclasses import replace
from itertools import product

import pytest

from hw.ace.config import TINY
from hw.ace.pool.dispatch import FsmDispatch
from tests.harness.cell import run_cell

BOTH = range(2)


@pytest.mark.parametrize("pipes", [1, 2, 4])
def test_each_packet_counts_for_its_phase_and_side(pipes, seed):
    """At most one packet of a cycle is for the same FSM, phase and side."""
    config, rng = replace(TINY, pipes=pipes), random.Random(f"{seed} {pipes}")
    dut, together = FsmDispatch(config), 0

    async def testbench(ctx):
        nonlocal together
        for _ in range(400):
            expected, locals_ = {}, set()
            for pipe, landed in enumerate(dut.landed):
                side = rng.randrange(2) if pipes == 1 else pipe % 2
                report = {"fsm": rng.randrange(2), "beats": rng.randrange(128), "final": rng.randrange(2),
                          "odd_phase": rng.randrange(2), "odd": side, "local": pipe == pipes - 1 and rng.random() < 0.2,
                          "begin": rng.randrange(2), "late": rng.randrange(2), "end": rng.randrange(2)}
                key = report["fsm"], report["odd_phase"], side
                valid = rng.random() < 0.8 and key not in expected
                ctx.set(landed.valid, valid)
                ctx.set(landed.payload, report)
                if valid and report["local"]:
                    locals_.add(report["fsm"])
                elif valid:
                    expected[key] = report
            together += len(expected) > len({(fsm, side) for fsm, _, side in expected})
            for fsm, odd_phase, side in product(range(config.fsms), BOTH, BOTH):
                here, report = dut.landings[fsm], expected.get((fsm, odd_phase, side), {"begin": 0, "end": 0})
                found = {name: ctx.get(getattr(here, name)[odd_phase][side])
                         for name in ("valid", "end", "beats", "final")}
                assert (found["valid"], found["end"]) == (report["begin"], report["end"])
                if report["begin"]:
                    assert (found["beats"], found["final"]) == (report["beats"], report["final"])
                assert ctx.get(here.local) == (fsm in locals_)
            await ctx.tick()

    run_cell(dut, testbench)
    assert (together > 0) == (pipes == 4)
