# SPDX-License-Identifier: Apache-2.0
"""A graph over several machines has the results of the same graph in one process, bit for bit."""

import re

import numpy as np
import pytest

from dmace.remote.execution import run_alone
from dmace.remote.graph import Graph
from dmace.remote.plan import analyze
from dmace.remote.step import Step, open_devices
from dmace.remote.tensor import Tensor
from dmace.runtime.errors import DmaceError, RequestFailed
from hw.dma_engine.words import Status
from sim.remote.double import FunctionalMachines

from .graphs import assert_same, random_graph


@pytest.mark.parametrize("options", [
    {}, {"fuse": 0}, {"fuse": 1 << 20}, {"known": "dynamic"}, {"known": "rpc", "varying": "rpc"},
], ids=str)
@pytest.mark.parametrize("addressable", [True, False])
def test_random_graphs(options, addressable, seed):
    for case in range(2):
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


def test_a_view_of_a_received_tensor_keeps_its_memory(seed):
    """Memory of a dynamic block is not allocated again while a value that is part of it is in use."""
    graph = Graph()
    graph.feed(Tensor("x", (None, 8), np.float32), 0)
    names = {"a": 0, "view": 1, "b": 1, "c": 0, "d": 1}
    calls = {"a": lambda x: x + 1, "view": lambda a: a[:, ::-1][:, ::-1], "b": lambda view: view * 2,
             "c": lambda b: b * 3, "d": lambda view, c: view + c}
    inputs = {"a": ["x"], "view": ["a"], "b": ["view"], "c": ["b"], "d": ["view", "c"]}
    for name, machine in names.items():
        graph.add(name, calls[name], inputs[name], [Tensor(name, (None, 8), np.float32)], machine)
    graph.results = ("d",)
    devices = open_devices(FunctionalMachines(2, seed=seed).machines)
    with Step(graph, analyze(graph, devices), devices) as step:
        feeds = {"x": np.arange(80, dtype=np.float32).reshape(10, 8)}
        assert_same(step.run(feeds).values, run_alone(graph, feeds))


def test_results_outlive_the_step(seed):
    """Results are copies: the next step overwrites registered memory."""
    graph = Graph()
    graph.feed(Tensor("x", (8,), np.float32), 0)
    graph.add("a", lambda x, out: np.add(x, 1, out=out), ["x"], [Tensor("a", (8,), np.float32)], 0, writes=True)
    graph.add("b", lambda a: a[:], ["a"], [Tensor("b", (8,), np.float32)], 1)
    graph.results = ("a", "b")
    devices = open_devices(FunctionalMachines(2, seed=seed).machines)
    with Step(graph, analyze(graph, devices), devices) as step:
        first = step.run({"x": np.zeros(8, np.float32)})
        assert first.copied_bytes == 0 and first.sent_bytes == 32 and first.transfers == 1
        step.run({"x": np.ones(8, np.float32)})
        assert first.values["a"].tolist() == first.values["b"].tolist() == [1] * 8


def test_failed_steps_end():
    graph = Graph()
    graph.feed(Tensor("x", (8,), np.float32), 0)
    graph.add("a", lambda x: x, ["x"], [Tensor("a", (8,), np.float32)], 1)
    cluster = FunctionalMachines(2)
    devices = open_devices(cluster.machines)
    step = Step(graph, analyze(graph, devices), devices)
    with pytest.raises(DmaceError, match=r"^The step needs a value for 'x'\.$"):
        step.run({})
    with pytest.raises(DmaceError, match=r"^A step has failed or was closed, so no other step can be run\.$"):
        step.run({"x": np.zeros(8, np.float32)})
    with pytest.raises(DmaceError, match=r"^The plan uses machine 1, for which there is no device\.$"):
        Step(graph, analyze(graph, devices), {0: devices[0]})
    step = Step(graph, analyze(graph, devices), devices)
    with pytest.raises(DmaceError, match=r"^Tensor 'x' must have the shape \(8\), not \(9,\)\.$"):
        step.run({"x": np.zeros(9, np.float32)})
    step = Step(graph, analyze(graph, devices), devices)
    cluster.fail(0, 1, Status.WRITE_SLVERR)
    with pytest.raises(RequestFailed, match="WRITE_SLVERR"):
        step.run({"x": np.zeros(8, np.float32)})


@pytest.mark.parametrize("call, outputs, sentence", [
    (lambda x: x.astype(np.float64), 1, "Tensor 'y0' must have elements of type float32, not float64."),
    (lambda x: x[1:], 1, "Tensor 'y0' must have the shape (8), not (7,)."),
    (lambda x: [x], 2, "Operation 'y' must return 2 values, not 1."),
])
def test_wrong_values_are_reported(call, outputs, sentence):
    graph = Graph()
    graph.feed(Tensor("x", (8,), np.float32), 0)
    graph.add("y", call, ["x"], [Tensor(f"y{number}", (8,), np.float32) for number in range(outputs)], 0)
    with pytest.raises(DmaceError, match=f"^{re.escape(sentence)}$"):
        run_alone(graph, {"x": np.zeros(8, np.float32)})
