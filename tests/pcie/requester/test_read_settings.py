# SPDX-License-Identifier: Apache-2.0
"""The read path while its settings change, when it is discarded, and over a reset."""

import random

import pytest
from amaranth.hdl import Signal

from tests.pcie.requester.read_bench import SMALL, Rates, run_reads

pytestmark = pytest.mark.long


async def _steps(bench, count):
    for _ in range(count):
        await bench.step()


def test_bus_master(seed):
    """Requests are refused while the bus master is disabled, in order with those that were sent."""
    rng = random.Random(seed)

    async def body(bench):
        bench.delay = lambda: rng.randrange(40)
        bench.rates = Rates(0.8, 0.8, 0.8, 0.8, flushes=0.3)
        for number in range(8):
            bench.levels(bus_master=number % 2)
            for _ in range(4):
                bench.add_random(range(3), longest=12)
                bench.add_flush()
            await _steps(bench, rng.randrange(40, 100))

    bench = run_reads(rng, body)
    assert bench.seen["DECERR"] > 10 and bench.seen["OKAY"] > 10


def test_halt(seed):
    """A TLP on offer stays, no other follows, and beats are delivered."""
    rng = random.Random(seed)

    async def body(bench):
        bench.delay = lambda: rng.randrange(10)
        for _ in range(6):
            for _ in range(6):
                bench.add_random(range(30), longest=3)
            bench.rates = Rates(1, 0.2, 1, 1)
            await _steps(bench, rng.randrange(1, 12))
            bench.levels(halt=1)
            offered = bench.stalled.get("tlps") is not None
            before = bench.seen["tlp"]
            await _steps(bench, 100)
            assert bench.seen["tlp"] - before <= offered
            assert not bench.requests
            bench.levels(halt=0)

    run_reads(rng, body)


def test_extended_tags_change(seed):
    """The tag of a TLP on offer stays; later ones obey the setting."""
    rng = random.Random(seed)

    async def body(bench):
        bench.high_tags = True
        bench.rates = Rates(tlps=0.3)
        for number in range(30):
            bench.levels(extended_tags=number % 2)
            for _ in range(2):
                bench.add_random(range(9), longest=8)
            await _steps(bench, 8)
        bench.levels(extended_tags=0)
        await _steps(bench, 20)
        bench.high_tags = False

    run_reads(rng, body)


@pytest.mark.parametrize("lost", [False, True])
def test_discard(lost, seed):
    """Waiting bursts are dropped, beats are not delivered, tags return, and the path works afterwards."""
    rng = random.Random(seed)

    async def body(bench):
        bench.levels(timeout=200)
        for part in range(1 if lost else 4):
            bench.delay = lambda: rng.randrange(60)
            bench.fault = lambda: rng.choice(("lost", None)) if lost else None
            bench.rates = Rates(1, 0.5, 0.5, 1, flushes=0.3)
            for _ in range(8):
                bench.add_random(range(3), longest=12)
                bench.add_flush()
            await _steps(bench, SMALL.sweep_rows + rng.randrange(60, 90) if not part else rng.randrange(90))
            bench.discard(1)
            while bench.pending() or not bench.ctx.get(bench.dut.idle):
                await bench.step()
            bench.discard(0)
            bench.fault = lambda: None
            for _ in range(4):
                bench.add_random(range(3))
            while bench.pending():
                await bench.step()
        bench.expected["timed_out"] = bench.events["timed_out"]

    bench = run_reads(rng, body)
    assert bool(bench.events["timed_out"]) == lost


def test_reset(seed):
    """Nothing of before a reset is left: the tables are swept."""
    rng, reset = random.Random(seed), Signal()

    async def body(bench):
        for part in range(4):
            bench.delay = lambda: rng.randrange(60)
            bench.rates = Rates(flushes=0.2)
            bench.fault = lambda: rng.choice((None, "poisoned"))
            for _ in range(20):
                bench.add_random(range(3), longest=12)
                bench.add_flush()
            await _steps(bench, SMALL.sweep_rows + rng.randrange(10, 100))
            if part < 3:
                bench.clear()
                for port in (bench.dut.bursts, bench.dut.flushes.requests, bench.dut.completions):
                    bench.set(port.valid, 0)
                bench.set(reset, 1)
                await bench.ctx.tick()
                bench.set(reset, 0)

    run_reads(rng, body, reset=reset)


def test_max_read_changes(seed):
    """A burst that is in progress continues with the new limit."""
    rng = random.Random(seed)

    async def body(bench):
        for _ in range(30):
            bench.levels(max_read=rng.randrange(6))
            bench.max_read, bench.cut = 512, 128
            bench.add_random(range(20))
            await _steps(bench, 8)

    run_reads(rng, body)
