# SPDX-License-Identifier: Apache-2.0
"""The graph analyzer: crossing tensors, mechanisms, fusing, order, and the sentences of its errors."""

import re

import numpy as np
import pytest

from dmace.remote.execution import run_alone
from dmace.remote.graph import Graph
from dmace.remote.plan import FUSED_BYTES, analyze
from dmace.remote.step import Step, open_devices
from dmace.remote.tensor import Tensor
from dmace.runtime.errors import DmaceError
from sim.remote.double import FunctionalMachines

from .graphs import assert_same


def _tensor(name, *shape):
    return Tensor(name, shape, np.float32)


def _first(*values):
    return values[0] + 1


def _graph(*operations, feeds=(("x", 0, (4,)),), results=()):
    """Operations as ``(name, machine, inputs, shape)``; each produces a value of its own name."""
    graph = Graph()
    for name, machine, shape in feeds:
        graph.feed(_tensor(name, *shape), machine)
    for name, machine, inputs, *shape in operations:
        graph.add(name, _first, inputs, [_tensor(name, *(shape[0] if shape else (4,)))], machine)
    graph.results = results
    return graph


def _found(graph, machines=(0, 1), **options):
    return [(block.name, block.source, block.destinations, block.mechanism)
            for block in analyze(graph, machines, **options).blocks]


def test_only_tensors_that_cross_are_transferred():
    graph = _graph(("a", 0, ["x"]), ("b", 0, ["a"]), ("c", 1, ["b"]), ("d", 1, ["c", "b"]), ("e", 0, ["d"]))
    assert _found(graph) == [("b", 0, (1,), "static"), ("d", 1, (0,), "static")]


def test_one_transfer_for_each_consuming_machine():
    graph = _graph(("a", 2, ["x"]), ("b", 1, ["x"]), ("c", 1, ["x"]))
    assert _found(graph, (0, 1, 2)) == [("x", 0, (1, 2), "static")]


def test_mechanism_follows_from_what_is_known():
    graph = _graph(("a", 0, ["x"], (None, 3)), ("b", 0, ["x"], (9, 3)), ("c", 1, ["a", "b"]))
    assert _found(graph) == [("a", 0, (1,), "dynamic"), ("b", 0, (1,), "static")]
    assert _found(graph, known="rpc", varying="rpc") == [("a", 0, (1,), "rpc"), ("b", 0, (1,), "rpc")]


def test_small_tensors_with_one_readiness_are_fused():
    graph = _graph(("a", 0, ["x"], (5,)), ("b", 0, ["x"], (6,)), ("big", 0, ["x"], (FUSED_BYTES // 4,)),
                   ("c", 1, ["a", "b", "big"]))
    plan = analyze(graph, (0, 1))
    assert [block.name for block in plan.blocks] == ["a+b", "big"]
    assert plan.blocks[0].offsets == (0, 64) and plan.blocks[0].payload.shape == (64 + 24,)
    assert _found(graph, fuse=0) == [("a", 0, (1,), "static"), ("b", 0, (1,), "static"), ("big", 0, (1,), "static")]
    assert len(_found(graph, fuse=FUSED_BYTES + 1)) == 1


def test_a_receive_between_two_tensors_keeps_them_apart():
    """Fused, machine 1 would wait for d before it sends c, which d needs."""
    graph = _graph(("a", 0, ["x"]), ("c", 1, ["a"]), ("d", 0, ["c"]), ("e", 1, ["d"]), results=("e",))
    assert _found(graph) == [("a", 0, (1,), "static"), ("c", 1, (0,), "static"), ("d", 0, (1,), "static")]
    devices = open_devices(FunctionalMachines(2).machines)
    with Step(graph, analyze(graph, devices), devices) as step:
        feeds = {"x": np.zeros(4, np.float32)}
        assert_same(step.run(feeds).values, run_alone(graph, feeds))


def test_tensors_for_different_machines_are_not_fused():
    graph = _graph(("a", 0, ["x"]), ("b", 0, ["x"]), ("c", 1, ["a"]), ("d", 2, ["b"]))
    assert _found(graph, (0, 1, 2)) == [("a", 0, (1,), "static"), ("b", 0, (2,), "static")]


def test_what_is_needed_first_is_requested_first():
    graph = _graph(("c", 1, ["y"]), ("d", 1, ["x"]), feeds=(("x", 0, (2000,)), ("y", 0, (2000,))))
    assert [block.name for block in analyze(graph, (0, 1)).blocks] == ["y", "x"]


def test_operations_may_be_added_in_any_order():
    graph = _graph(("b", 1, ["a"]), ("a", 0, ["x"]), results=("b",))
    assert [operation.name for operation in graph.sorted()] == ["a", "b"]
    assert _found(graph) == [("a", 0, (1,), "static")]


def _opaque():
    graph = _graph()
    graph.add("pair", lambda x: (x, x), ["x"], ["pair"], 0)
    graph.add("use", lambda pair: pair[0], ["pair"], [_tensor("y", 4)], 1)
    return graph


@pytest.mark.parametrize("graph, options, sentence", [
    (lambda: _graph(("a", 0, ["c"]), ("b", 0, ["a"]), ("c", 0, ["b"])), {},
     "The graph has a cycle: 'a' needs 'c' needs 'b' needs 'a'."),
    (lambda: _graph(("a", 0, ["a"])), {}, "The graph has a cycle: 'a' needs 'a'."),
    (lambda: _graph(("a", 0, ["z"])), {}, "Operation 'a' needs 'z', which no operation produces and which is not fed."),
    (lambda: _graph(("a", None, ["x"])), {}, "Operation 'a' is not assigned to a machine."),
    (lambda: _graph(("a", 7, ["x"])), {}, "Operation 'a' is assigned to machine 7, but the machines are 0, 1."),
    (lambda: _graph(feeds=(("x", None, (4,)),)), {}, "Value 'x' is not assigned to a machine."),
    (lambda: _graph(results=("q",)), {}, "The graph has no value 'q', which is to be a result."),
    (lambda: _graph(("a", 0, ["x"]), ("a", 0, ["x"])), {}, "The graph has two operations of the name 'a'."),
    (lambda: _graph(("x", 0, ["x"])), {}, "The graph has two values of the name 'x'."),
    (_opaque, {}, "Value 'pair' is no tensor, so it cannot cross from machine 0 to machine 1."),
    (_graph, {"fuse": -1}, "The limit for fused tensors must be a number of bytes, not -1."),
    (_graph, {"known": "post"}, "A mechanism must be one of static, dynamic, rpc, not 'post'."),
    (_graph, {"varying": "static"},
     "Tensors whose shape is not known before the step cannot have a static placement."),
    (lambda: _graph().add("a", _first, ["x"], ["y"], 0, writes=True), {},
     "Operation 'a' writes its outputs, so output 'y' must be a tensor."),
    (lambda: _graph().add("a", _first, ["x"], [_tensor("y", None)], 0, writes=True), {},
     "Operation 'a' writes its outputs, so it needs the shape of tensor 'y' before the step, or a function that "
     "computes it."),
    (lambda: _graph(feeds=(("x", 0, (-1,)),)), {}, "A size of tensor 'x' must be an integer of 0 or more, or None, "
     "not -1."),
    (lambda: _graph(feeds=(("x", 0, (1,) * 9),)), {}, "Tensor 'x' must have at most 8 dimensions, not 9."),
    (lambda: Tensor("x", (1, 2), np.float32, (0, 0)), {},
     "The order of tensor 'x' must name each of its 2 dimensions once, not (0, 0)."),
])
def test_errors_are_sentences(graph, options, sentence):
    with pytest.raises(DmaceError, match=f"^{re.escape(sentence)}$"):
        analyze(graph(), (0, 1), **options)


def test_data_types_that_cannot_cross():
    with pytest.raises(DmaceError, match=r"^Tensor 'x' must have elements of one of the types uint8, .*, not <U3\.$"):
        Tensor("x", (1,), "<U3")
