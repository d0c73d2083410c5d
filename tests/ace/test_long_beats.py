# SPDX-License-Identifier: Apache-2.0
"""Beats of 1,024 bits, which are longer than the unit in which buffers are cut."""

from functools import cache

import pytest

from hw.ace.config import ULTRA, AceConfig
from sim.ace.bench import Bench
from sim.ace.compare import compare
from sim.ace.shared_library import build_library
from sim.validation import simulated

pytestmark = [pytest.mark.rtl, pytest.mark.soak]

CONFIG = AceConfig(data_width=1024, lanes=32, fsms=2, slots=4, chunk_bytes=16384, message_bytes=1024, link_beats=64,
                   replay_beats=64, dimensions=2, prod=False, fp8=False, avg=False, widen=False)
"""Few of the parts that are the same at each width."""


@cache
def library():
    return build_library(CONFIG)


@pytest.mark.parametrize("faults", [False, True])
def test_random_collectives(faults, seed):
    found = compare(CONFIG, collectives=60, seed=seed, faults=faults, library=library(),
                    shapes=((2,), (3,), (2, 2), (5,), (3, 2)))
    assert found["collectives"] >= 60
    assert (found["mismatches"], found["hangs"]) == (0, 0), found["first_mismatches"]


@pytest.mark.parametrize("shape", [(4,), (4, 2)])
def test_as_many_cycles_as_simulated(shape):
    """Over links of a quarter of a beat per cycle."""
    row = simulated.compare(Bench(CONFIG, library(), link_rate=0.25, link_latency=100), shape, 256 << 10)
    assert abs(row["difference"]) <= row["allowed"], row


@pytest.mark.parametrize(("shape", "size"), [((2,), 64 << 10), ((4,), 128 << 10), ((2, 2), 128 << 10)])
def test_as_many_cycles_at_full_rate(shape, size):
    """Packets of two beats, buffers shorter than the round trip, and two FSMs. Single cases depend on single cycles:
    with latencies of 19 to 22 cycles, the RTL's cycles go up and down by 5 %. So their sum is compared."""
    rows = [simulated.compare(Bench(CONFIG, library(), link_rate=1, link_latency=latency), shape, size)
            for latency in range(19, 23)]
    ours, theirs = (sum(row[name] for row in rows) for name in ("ours_cycles", "rtl_cycles"))
    assert abs(ours / theirs - 1) <= simulated.ALLOWED, rows


def test_as_many_cycles_over_longer_links():
    """Buffers are less than half of the round trip."""
    for shape, latency in (((2,), 100), ((2, 2), 50), ((2, 2), 100)):
        bench = Bench(CONFIG, library(), link_rate=1, link_latency=latency)
        row = simulated.compare(bench, shape, 32 * 1024 << len(shape))
        assert abs(row["difference"]) <= row["allowed"], row


def test_ultra_on_a_torus():
    """4x4x4 at full rate: within 5 % of the memory port's bound, and as many cycles as simulated. Takes half an hour of
    a core, of which a third builds the RTL."""
    size, config = 8 << 20, ULTRA.for_sums()
    bench = Bench(config, build_library(config), link_rate=1, link_latency=20)
    row = simulated.compare(bench, (4, 4, 4), size)
    bound, by = bench.limit((4, 4, 4), size)
    assert by == "memory port" and bound / row["rtl_cycles"] >= 0.95, row
    assert abs(row["difference"]) <= row["allowed"], row
