# SPDX-License-Identifier: Apache-2.0
"""Completion words and records while data always waits for W: how many there are, and how long they wait."""

from dataclasses import replace

import pytest

from hw.dma_engine.config import BASE
from hw.dma_engine.mover.sequencer import COMPLETION_SPACING
from sim.cpp import Flow
from sim.dma.bench import Bench
from tests.harness.fast import fast

pytestmark = pytest.mark.rtl

AROUND = 40
"""Cycles from a request's end to its word at the sequencer, and from there to AW."""


@pytest.mark.parametrize(("size", "latency"), [(64, 20), (256, 100), (1024, 20), (4096, 100)])
def test_words_under_load(size, latency):
    """At most one write beat in 49; each word, SC as well as RC, waits for all queues' words before it at most."""
    bench = Bench(fast(BASE), queues=16)
    result = bench.run([bench.full(size, latency, 16)], latency, warmup=bench.steady(latency), window=24_000)
    window, delay = result["window"], result["delays"]["words"]
    most = window["completion_words"] / (window["payload_beats"] + window["completion_words"])
    beats = min(bench.beats(size), BASE.segment_beats)
    # A word that changes while it is being written waits for the response first.
    bound = 2 * 16 * (COMPLETION_SPACING + beats) + latency + AROUND
    print(f"{size} B, L = {latency}: {most:.4f} of the write beats, {delay['max']} cycles at most where {bound} may be")
    assert most <= 1 / (COMPLETION_SPACING + 1) + 0.0005
    assert delay["max"] <= bound
    assert window["payload_beats"] / window["cycles"] >= 0.97


@pytest.mark.long
@pytest.mark.parametrize(("size", "latency"), [(64, 20), (1024, 20)])
def test_words_with_an_interval(size, latency):
    """At most a word in 8 cycles; while data waits for W one in 12 beats, so that none waits for longer."""
    config = replace(BASE, word_interval=8)
    bench = Bench(fast(config), queues=16)
    result = bench.run([bench.full(size, latency, 16)], latency, warmup=bench.steady(latency), window=24_000)
    window, delay = result["window"], result["delays"]["words"]
    beats = min(bench.beats(size), BASE.segment_beats)
    bound = 2 * 16 * (12 + beats) + latency + AROUND
    words = window["completion_words"]
    print(f"{size} B: a word in {24_000 / words:.1f} cycles, {delay['max']} cycles at most where {bound} may be")
    assert 24_000 / 60 < words <= 24_000 / 8 + 4
    assert delay["max"] <= bound


@pytest.mark.long
@pytest.mark.parametrize("interval", [1, 8])
def test_interval_while_no_data_waits(interval):
    """Without an interval there are far more words, so that it is what limits them."""
    bench = Bench(fast(replace(BASE, word_interval=interval)), queues=16)
    flow = Flow(count=16, size=32, depth=2, burst=1)
    result = bench.run([flow], 60, warmup=bench.steady(60), window=24_000)
    words = result["window"]["completion_words"]
    print(f"interval {interval}: a word in {24_000 / words:.1f} cycles")
    assert words <= 24_000 / 8 + 4 if interval == 8 else words > 24_000 / 5


def test_records_under_load():
    """Records wait for the segment that is being written, and for one more for each word that came before them."""
    bench, latency = Bench(fast(BASE), queues=12), 100
    rings = Flow(count=4, ring=3, records=1, size=1024, depth=600, burst=3)
    others = bench.full(4096, latency, 12)
    result = bench.run([rings, Flow(**{**vars(others), "first": 4})], latency, warmup=bench.steady(latency),
                       window=24_000)
    records, words = result["delays"]["records"], 2 + 4     # that may be before one
    print(f"records wait {records['max']} cycles at most, in the middle {records['p50']}")
    assert records["max"] <= words * (BASE.segment_beats + 1) + AROUND
