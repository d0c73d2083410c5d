# SPDX-License-Identifier: Apache-2.0
"""A graph over several machines has the results of the same graph in one process, bit for bit."""

import re

import numpy as np
import pytest

from dmace.remote.execution import run_alone
from dmace.remote.graph import Graph
from dmace.remote.plan import analyze
from dmace.remote.pool import PoolExhausted
from dmace.remote.step import Step, open_devices
from dmace.remote.tensor import Tensor
from dmace.runtime.errors import DmaceError, RequestFailed
from hw.dma_engine.words import Status
from sim.remote.double import FunctionalMachines
from sim.remote.training import initial_weights, training_graph

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


@pytest.mark.parametrize("known", ["static", "dynamic", "rpc"])
def test_a_lost_machine_ends_a_step(known, monkeypatch):
    """The receiver would wait for its flag forever; the sender's error ends the step before any time-out."""
    monkeypatch.setattr("sim.remote.double.RequestTimeout", AssertionError)
    graph = training_graph((8, 8, 4), (0, 1), 4)
    cluster = FunctionalMachines(2)
    devices = open_devices(cluster.machines)
    feeds = {"x": np.ones((4, 8), np.float32), "y": np.eye(4, dtype=np.float32), **initial_weights((8, 8, 4))}
    with pytest.raises(RequestFailed, match=r"^Request \d of queue \d of machine 0 failed with WRITE_SLVERR\.$"), \
            Step(graph, analyze(graph, devices, known=known), devices) as step:
        step.run(feeds)
        cluster.fail(0, 1, Status.WRITE_SLVERR)
        step.run(feeds)


def test_an_error_is_reported_once(seed):
    """Both machines fail; a later step does not raise the second error."""
    graph = Graph()
    for number in range(2):
        graph.feed(Tensor(f"x{number}", (8,), np.float32), number)
    graph.add("a", lambda x0, x1: x0 + x1, ["x0", "x1"], [Tensor("a", (8,), np.float32)], 1)
    graph.results = ("a",)
    devices = open_devices(FunctionalMachines(2, seed=seed).machines)
    with pytest.raises(DmaceError, match=r"^The step needs a value for 'x0'\.$"):
        Step(graph, analyze(graph, devices), devices).run({})
    step = Step(graph, analyze(graph, devices), devices)
    assert step.run({f"x{number}": np.ones(8, np.float32) for number in range(2)}).values["a"].tolist() == [2] * 8


@pytest.mark.parametrize("known", ["static", "dynamic", "rpc"])
def test_tensors_without_elements(known, seed):
    graph = training_graph((8, 8, 4), (0, 1), None)
    cluster = FunctionalMachines(2, seed=seed)
    devices = open_devices(cluster.machines)
    with Step(graph, analyze(graph, devices, known=known, varying="rpc" if known == "rpc" else "dynamic"),
              devices) as step:
        for rows in (0, 4, 0):
            feeds = {"x": np.ones((rows, 8), np.float32), "y": np.zeros((rows, 4), np.float32),
                     **initial_weights((8, 8, 4))}
            with np.errstate(invalid="ignore", divide="ignore"):
                assert_same(step.run(feeds).values, run_alone(graph, feeds))


@pytest.mark.parametrize("known", ["static", "dynamic", "rpc"])
def test_tensors_larger_than_the_pool(known):
    graph = training_graph((8, 1 << 14, 4), (0, 1), 4)
    devices = open_devices(FunctionalMachines(2, pool_bytes=1 << 17).machines)
    sentence = r"^262,144 bytes at a multiple of 64 do not fit into the pool: of its 131,072 bytes [\d,]+ are free, "
    with pytest.raises(PoolExhausted, match=sentence):
        Step(graph, analyze(graph, devices, known=known), devices)


@pytest.mark.parametrize("pools, varying", [((1 << 17, 1 << 20), "dynamic"), ((1 << 20, 1 << 17), "dynamic"),
                                            ((1 << 20, 1 << 17), "rpc")])
def test_tensors_that_turn_out_larger_than_the_pool(pools, varying):
    """The pool of the sender, or that of the receiver; a step with a shorter tensor has succeeded before."""
    graph = training_graph((8, 8, 4), (0, 1), None)
    devices = open_devices(FunctionalMachines(2, pool_bytes=max(pools)).machines)
    occupied = [devices[number].allocate(max(pools) - pool) for number, pool in enumerate(pools) if pool < max(pools)]
    with pytest.raises(PoolExhausted, match=r"^262,144 bytes at a multiple of 64 do not fit into the pool: "), \
            Step(graph, analyze(graph, devices, varying=varying), devices) as step:
        for rows in (4, 1 << 13):
            step.run({"x": np.ones((rows, 8), np.float32), "y": np.zeros((rows, 4), np.float32),
                      **initial_weights((8, 8, 4))})
    assert occupied


def test_more_tensors_than_queue_entries(seed):
    """Many tensors are in flight in both directions at once; words beyond the queues wait."""
    graph = Graph()
    count = 60
    for number in range(count):
        graph.feed(Tensor(f"x{number}", (3, None), np.float32), number % 2)
        graph.add(f"a{number}", lambda x: x + 1, [f"x{number}"], [Tensor(f"a{number}", (3, None), np.float32)],
                  1 - number % 2)
    graph.results = tuple(f"a{number}" for number in range(count))
    for options in ({}, {"varying": "rpc"}):
        devices = open_devices(FunctionalMachines(2, 1 << 23, seed=seed, queues=2, queue_depth=4).machines)
        with Step(graph, analyze(graph, devices, **options), devices) as step:
            for _ in range(3):
                feeds = {f"x{number}": np.full((3, number), number, np.float32) for number in range(count)}
                assert_same(step.run(feeds).values, run_alone(graph, feeds))


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
