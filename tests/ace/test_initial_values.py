# SPDX-License-Identifier: Apache-2.0
"""Accelerators with random values in registers and memories before their reset: same results, in the same cycles.

The number of a link's session is kept over reset, so that it is random, too, and the handshake may send a CREDIT packet
more or less.
"""

import re
from functools import partial

import numpy as np
import pytest

from hw.ace.engine import AceEngine
from hw.ace.words import Collective
from sim.ace.cluster import Cluster
from sim.ace.fuzz import FUZZED
from sim.ace.shared_library import ClusterFailed, build_library
from sim.cpp.clocked import ClockedInputs
from sim.verilator.design import Design, verilog_of

pytestmark = [pytest.mark.rtl, pytest.mark.long]

TOP = "ace_cluster"
build = partial(build_library, FUZZED, component=Design(AceEngine, FUZZED))


@pytest.fixture(scope="module")
def text():
    return verilog_of(Design(ClockedInputs, Design(AceEngine, FUZZED)), name=TOP, assertions=False)


def _results(library, seed):
    """Outputs and cycles of each collective, each twice, on two ranks."""
    random, found = np.random.default_rng(seed), []
    with Cluster(FUZZED, (2,), library=library, seed=seed) as cluster:
        for collective in 2 * list(Collective):
            count = 2 * int(random.integers(1, 700))
            inputs = [random.integers(0, 1 << 20, count, np.int32) for _ in range(2)]
            root = 0 if collective in {Collective.BROADCAST, Collective.REDUCE} else None
            outcome = cluster.collective(collective, inputs, root=root, limit=100_000)
            outputs = [None if one is None else one.tolist() for one in outcome.outputs]
            found.append((collective.name, outcome.ended, outputs))
            if collective == Collective.ALL_REDUCE:
                assert found[-1][2] == [(inputs[0] + inputs[1]).tolist()] * 2
    return found


def test_rtl(seed):
    random_start, start = build(random_initial=True), build()
    for number in range(seed, seed + 8):
        assert _results(random_start, number) == _results(start, number)


@pytest.mark.soak
def test_a_missing_reset_is_found(text, seed):
    """That of the sweep over tables: results, or statuses of completion words, are wrong."""
    wrong, count = re.subn(r"(module \\\S+\.sweep\b.*?)    if \(\w*rst\) begin\n.*?    end\n(.*?endmodule)", r"\1\2",
                           text, flags=re.DOTALL)
    assert count == 1
    library = build(verilog=(TOP, wrong), random_initial=True)
    with pytest.raises((ClusterFailed, AssertionError, ValueError)):
        for number in range(seed, seed + 8):
            assert _results(library, number) == _results(build(), number)
