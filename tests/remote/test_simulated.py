# SPDX-License-Identifier: Apache-2.0
"""Endpoints in RTL as machines."""

import re

import numpy as np
import pytest

from dmace.remote.device import RemoteDevice
from dmace.remote.execution import run_alone
from dmace.remote.plan import MECHANISMS, analyze
from dmace.remote.step import Step, open_devices
from dmace.remote.tensor import Tensor
from dmace.runtime.errors import DmaceError, RequestTimeout
from hw.endpoint.config import TINY
from sim.remote.training import initial_weights, training_graph

from .graphs import assert_same


@pytest.fixture
def simulated():
    """``simulated(size, **options)`` gives machines of a ring, which puts connect."""
    from sim.endpoint.cluster import EndpointCluster
    from sim.remote.puts import connect_puts
    from sim.remote.simulated import SimulatedMachines

    clusters = []

    def make(size, **options):
        clusters.append(EndpointCluster(TINY, (size,)))
        return SimulatedMachines(clusters[-1], connect_puts, **options).machines

    yield make
    for cluster in clusters:
        cluster.close()


@pytest.mark.rtl
@pytest.mark.long
def test_tensors_cross_by_puts(simulated, seed):
    rng = np.random.default_rng(seed)
    devices = open_devices(simulated(2, pool_bytes=1 << 17))
    forth = RemoteDevice(devices[0], 1, devices[1].pool, piece=700)
    back = RemoteDevice(devices[1], 0, devices[0].pool)
    cycles = {}
    for name in ("static", "rpc"):
        tensor = Tensor("x", (5000,), np.uint8)
        sender, receiver = MECHANISMS[name](forth, back, tensor)
        for _ in range(3):
            value = rng.integers(0, 256, 5000, np.uint8)
            memory = devices[0].allocate(5000)
            memory.store(value)
            begin = devices[0].machine.cycle
            sent = sender.send(memory, (5000,))
            assert np.array_equal(receiver.receive().wait().memory.load(), value)
            cycles[name] = devices[0].machine.cycle - begin
            receiver.release()
            sent.wait()
    print(f"5,000 bytes: {cycles}")
    assert cycles["static"] < cycles["rpc"]


@pytest.mark.rtl
@pytest.mark.long
def test_training_on_three_machines(simulated):
    graph, weights = training_graph((24, 16, 16, 4), (0, 1, 2), 8), initial_weights((24, 16, 16, 4))
    devices = open_devices(simulated(3))
    rng = np.random.default_rng(1)
    with Step(graph, analyze(graph, devices), devices) as step:
        for _ in range(2):
            feeds = {"x": rng.standard_normal((8, 24)).astype(np.float32),
                     "y": np.eye(4, dtype=np.float32)[rng.integers(4, size=8)], **weights}
            outcome = step.run(feeds)
            assert_same(outcome.values, run_alone(graph, feeds))
            assert outcome.cycles > 0


@pytest.mark.rtl
@pytest.mark.long
def test_errors_are_sentences(simulated):
    with pytest.raises(DmaceError, match=r"^Registered memory must have a multiple of 4096 bytes, not 100\.$"):
        simulated(2, pool_bytes=100)
    machine = simulated(2, limit=64)[0]
    with pytest.raises(RequestTimeout, match=r"^The result of a wait has not arrived within 64 cycles\.$"):
        machine.run(lambda: False)
    sentence = f"The bytes {machine.pool_bytes} to {machine.pool_bytes + 1} are not within the pool of 1,048,576."
    with pytest.raises(DmaceError, match=f"^{re.escape(sentence)}$"):
        machine.read_memory(machine.pool_bytes, 1)
