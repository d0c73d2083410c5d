# SPDX-License-Identifier: Apache-2.0
"""A graph over several machines has the results of the same graph in one process, bit for bit."""

import numpy as np
import pytest

from dmace.remote.execution import run_alone
from dmace.remote.plan import analyze
from dmace.remote.step import Step, open_devices
from sim.remote.double import FunctionalMachines

from .graphs import assert_same, random_graph


@pytest.mark.parametrize("options", [
    {}, {"fuse": 0}, {"fuse": 1 << 20}, {"known": "dynamic"}, {"known": "rpc", "varying": "rpc"},
], ids=str)
@pytest.mark.parametrize("addressable", [True, False])
def test_random_graphs(options, addressable, seed):
    for case in range(4):
        rng = np.random.default_rng([seed, case])
        count = int(rng.integers(2, 4))
        graph, feeds = random_graph(rng, count)
        cluster = FunctionalMachines(count, seed=seed + case, addressable=addressable)
        devices = open_devices(cluster.machines)
        with Step(graph, analyze(graph, devices, **options), devices) as step:
            for _ in range(4):
                given = feeds()
                assert_same(step.run(given).values, run_alone(graph, given))
        assert not any(device.pool.spans for device in devices.values())
