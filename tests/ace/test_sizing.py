# SPDX-License-Identifier: Apache-2.0
"""Sizes by rule: legal, as large as links and memory need, and enough in RTL."""

from dataclasses import replace
from itertools import pairwise
from math import prod

import pytest

from dmace.drivers.ace import share_for
from hw.ace.config import BASE, PRESETS, TINY, ULTRA, WIDE, AceConfig
from hw.ace.sizing import needs, sized
from sim.ace.bench import Bench, operating_points
from sim.ace.shared_library import build_library

SHAPES = ((2,), (4,), (8,), (16,), (1, 8), (2, 2, 2), (4, 2, 2), (4, 4, 4))
RATES = (0.25, 0.5, 1.0)
LATENCIES = (1, 20, 100, 500, 2000)
SIZES = ("fsms", "slots", "link_beats", "replay_beats")


def _needs(config, shape, rate, latency, memory=100):
    return needs(config, shape, link_rate=rate, link_latency=latency, memory_latency=memory)


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("shape", SHAPES)
def test_sizes_are_legal_and_grow(preset, shape):
    """A longer latency never needs less, and each result is a configuration."""
    for rate in RATES:
        found = [_needs(PRESETS[preset], shape, rate, latency) for latency in LATENCIES]
        for one, other in pairwise(found):
            assert one.chunk_bytes <= other.chunk_bytes and one.sustained >= other.sustained
            assert all(getattr(one, name) <= getattr(other, name) for name in ("link_beats", "replay_beats"))
            assert one.fsms * one.chunk_bytes <= other.fsms * other.chunk_bytes
        for latency in LATENCIES:
            made = sized(PRESETS[preset], shape, link_rate=rate, link_latency=latency, memory_latency=100)
            assert isinstance(made, AceConfig) and made.slots >= made.fsms


def test_pipes():
    """One for slow links, two for a ring, four for a torus at full rate."""
    for shape, rate, pipes in (((4,), 0.25, 1), ((4,), 1, 2), ((1, 8), 1, 2), ((4, 2, 2), 0.25, 1), ((4, 2, 2), 1, 4),
                               ((2, 2, 2), 1, 4)):
        assert _needs(TINY, shape, rate, 100).pipes == pipes, (shape, rate)
    assert _needs(replace(TINY, dimensions=1), (4,), 1, 100).pipes == 2


@pytest.mark.parametrize("shape", [(4, 4, 2), (4, 4, 4), (4, 8, 4)])
def test_ultra_has_the_sizes_of_the_rule(shape):
    """For the ACE paper's links, at 1.245 GHz: 90 cycles in a package, where a beat per cycle is the limit, and 500
    between packages. Four pipes, as links of a beat per cycle in all dimensions need them."""
    inside, between = ({"link_rate": rate, "link_latency": latency, "memory_latency": 498} for rate, latency in (
        (1, 90), (25e9 / 1.245e9 / ULTRA.beat_bytes, 500)))
    for links in (inside, between):
        found = needs(ULTRA, shape, chunk_bytes=ULTRA.chunk_bytes, **links)
        assert found.sustained and found.fsms <= ULTRA.fsms and found.slots <= ULTRA.slots
        assert found.link_beats <= ULTRA.link_beats and found.pipes <= ULTRA.pipes == 4
    found = needs(ULTRA, shape, chunk_bytes=ULTRA.chunk_bytes, link_rate=1, link_latency=100, memory_latency=100)
    assert (found.link_beats, found.replay_beats) == (ULTRA.link_beats, ULTRA.replay_beats)


def test_buffers_cover_the_round_trip():
    for latency in LATENCIES:
        found = _needs(TINY, (4,), 1, latency)
        assert found.sustained is (latency <= 500)
        assert min(found.link_beats, found.replay_beats) >= min(4096, 2 * latency + 3 * TINY.packet_beats)


@pytest.mark.parametrize("shape", [(1,), *SHAPES])
def test_share_of_a_communicator(shape):
    """The rule, as far as FSMs and slots are free, and at least as many slots as FSMs."""
    rule = needs(BASE, shape, link_rate=1, link_latency=20, memory_latency=100, chunk_bytes=BASE.chunk_bytes)
    whole = share_for(BASE, shape, link_rate=1, link_latency=20, memory_latency=100)
    assert whole == (0, min(BASE.fsms, rule.fsms), 0, min(BASE.slots, rule.slots))
    part = share_for(BASE, shape, link_rate=1, link_latency=500, memory_latency=100, first_fsm=4, fsms=3, first_slot=8,
                     slots=6)
    assert part == (4, 2, 8, 4)


def test_longer_chunks_where_fsms_do_not_suffice():
    """16 ranks and a latency of 500: 30 hops of more than 500 cycles for each chunk."""
    found = _needs(TINY, (16,), 1, 500)
    assert found.chunk_bytes > TINY.chunk_bytes and found.fsms == 32


@pytest.mark.parametrize("config", [TINY, BASE, WIDE, ULTRA])
@pytest.mark.parametrize("shape", SHAPES)
def test_shorter_chunks_where_few_fsms_suffice(config, shape):
    """Their pieces fill packets, unless the preset's do not either, and half of them would not do."""
    for latency in LATENCIES:
        found = _needs(config, shape, 1, latency)
        if found.chunk_bytes < config.chunk_bytes:
            assert found.fsms <= 16
            assert found.chunk_bytes >= max(128 * config.beat_bytes, config.packet_bytes * prod(shape))
            half = needs(config, shape, link_rate=1, link_latency=latency, memory_latency=100,
                         chunk_bytes=found.chunk_bytes // 2)
            assert half.fsms > 16 or half.chunk_bytes < max(128 * config.beat_bytes, config.packet_bytes * prod(shape))


@pytest.mark.long
@pytest.mark.rtl
def test_they_suffice():
    """On a ring of 4 at full rate, 16 times the contents of its SRAM: 0.95 of the bound."""
    config = sized(TINY, (4,), link_rate=1, link_latency=100, memory_latency=100)
    bench = Bench(config, build_library(config), link_rate=1, link_latency=100)
    size = 16 * config.slots * config.chunk_bytes
    (_, case), = operating_points.cases([bench], (4,), size)
    row = case()
    assert row["bound_by"] == "memory port" and row["bound_share"] > 0.95
    assert row["latencies"] == 100 + 6 * bench.link_latency + 100
    assert row["bound_share_with_latencies"] == pytest.approx(
        (row["bound_cycles"] + row["latencies"]) / row["cycles"], abs=1e-4)
    assert row["bus_bytes_per_cycle"] == pytest.approx(1.5 * size / row["cycles"], abs=0.01)
