# SPDX-License-Identifier: Apache-2.0
"""Chunk numbers wrap: in accelerators that start shortly before the last one, and after all of them."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from hw.ace.config import SEQUENCE_WIDTH, TINY
from hw.ace.engine import AceEngine
from hw.ace.words import Collective
from sim.ace.cluster import Cluster
from sim.ace.endpoints import Link, Memory
from sim.ace.shared_library import build_library
from sim.verilator.design import Design

pytestmark = [pytest.mark.rtl, pytest.mark.long]

C = Collective
NUMBERS = 1 << SEQUENCE_WIDTH
LITTLE = replace(TINY, lanes=1, prod=False, fp8=False, avg=False, widen=False, varying=False, dimensions=1, fsms=2,
                 slots=4, chunk_bytes=1024, link_beats=64, replay_beats=128, communicators=2, regions=4)
RANKS = 2


@cache
def _library(first):
    return build_library(LITTLE, component=Design(AceEngine, LITTLE, first_chunk=first))


def _cluster(first):
    return Cluster(LITTLE, (RANKS,), link=Link(latency=10), memory=Memory(read_latency=20, write_latency=20),
                   library=_library(first))


def _all_reduce(cluster, count, seed=0, **options):
    rng = np.random.default_rng(seed)
    inputs = [rng.integers(-1 << 30, 1 << 30, count, dtype=np.int32) for _ in range(RANKS)]
    return cluster.submit(C.ALL_REDUCE, inputs, **options), sum(inputs)


def _check(cluster, count, *, seed=0):
    pending, expected = _all_reduce(cluster, count, seed)
    outcome, = cluster.wait(pending)
    for output in outcome.outputs:
        np.testing.assert_array_equal(output, expected)


def _chunks(cluster):
    return {state.chunks for state in cluster.do(*(driver.communicator_state(0) for driver in cluster.drivers))}


@pytest.mark.parametrize("before", [1, 3, 8])
def test_between_collectives_and_within(before):
    """The numbers wrap between two collectives, or in the middle of one."""
    with _cluster(NUMBERS - 3) as cluster:
        assert _chunks(cluster) == {NUMBERS - 3}
        for number in range(before):
            _check(cluster, 1, seed=number)
        assert _chunks(cluster) == {(NUMBERS - 3 + before) % NUMBERS}
        _check(cluster, 5000, seed=before)
        assert _chunks(cluster) == {(NUMBERS - 3 + before + 20) % NUMBERS}


@pytest.mark.parametrize("first, times", [
    (NUMBERS - 3, 1), pytest.param(0, 200, marks=pytest.mark.soak)], ids=["one", "all numbers"])
def test_many(first, times):
    """332 chunks each time; 200 times cover all numbers, some of them twice."""
    with _cluster(first) as cluster:
        for number in range(times):
            _check(cluster, 84_736, seed=number)
        assert _chunks(cluster) == {(first + 332 * times) % NUMBERS}
