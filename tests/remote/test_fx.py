# SPDX-License-Identifier: Apache-2.0
"""Traced modules of PyTorch over two machines; skipped where PyTorch is not installed."""

import re
import sys

import numpy as np
import pytest

from dmace.remote.execution import run_alone
from dmace.remote.fx import from_fx
from dmace.remote.plan import analyze
from dmace.remote.step import Step, open_devices
from dmace.runtime.errors import DmaceError
from sim.remote.double import FunctionalMachines

from .traced import import_torch, machine_of, same, traced_step


@pytest.fixture
def torch():
    return import_torch()


@pytest.mark.parametrize("addressable", [True, False])
@pytest.mark.parametrize("varying", [True, False])
def test_training_step(torch, varying, addressable):
    """Losses and weights of the partitioned step are those of the module itself, bit for bit; the last batch is
    smaller."""
    module, weights, batch = traced_step(torch)
    rows = (16, 16, 7) if varying else (16, 16, 16)
    graph = from_fx(module, machine_of, *[(*weights, *batch(count)) for count in sorted(set(rows))])
    devices = open_devices(FunctionalMachines(2, addressable=addressable).machines)
    plan = analyze(graph, devices)
    assert {(block.name, block.source, block.mechanism) for block in plan.blocks} == {
        ("relu", 0, "dynamic" if varying else "static"), ("mm_6", 1, "dynamic" if varying else "static")}
    assert graph.results == ("sub", "sub_1", "sub_2", "getitem")
    alone = list(weights)
    with Step(graph, plan, devices) as step:
        for count in rows:
            x, y = batch(count)
            feeds = dict(zip(graph.feeds, (*weights, x, y), strict=True))
            outcome = step.run(feeds)
            single = run_alone(graph, dict(zip(graph.feeds, (*alone, x, y), strict=True)))
            *alone, loss = module(*alone, x, y)
            *weights, own = outcome.values.values()
            for found in (outcome.values, single):
                assert all(same(torch, one, two)
                           for one, two in zip(found.values(), (*alone, loss), strict=True))
            assert own.item() == loss.item()
            assert varying or not addressable or outcome.copied_bytes == 0      # relu and mm write registered memory


def test_numbers_and_parameters_cross(torch):
    """Sizes are numbers of Python; a parameter of the module is an operation without inputs."""
    class Scaled(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.randn(5, 5))
            self.layer = torch.nn.Linear(5, 3)

        def forward(self, x):
            rows = x.size(0)
            return self.layer(x @ self.weight) / rows, x.to(torch.bfloat16) + 1

    module = torch.fx.symbolic_trace(Scaled())
    graph = from_fx(module, lambda node: len(node.name) % 2, (torch.randn(4, 5),), (torch.randn(2, 5),))
    devices = open_devices(FunctionalMachines(2).machines)
    with Step(graph, analyze(graph, devices), devices) as step:
        for rows in (4, 3, 1):
            x = torch.randn(rows, 5)
            found, expected = step.run({"x": x}).values.values(), module(x)
            assert all(same(torch, one, two) for one, two in zip(found, expected, strict=True))


def test_elements_of_tuples_are_on_the_machine_of_the_tuple(torch):
    graph = from_fx(_module(torch, lambda x: x.max(dim=1)[0] + 1), {"x": 0, "max_1": 1, "getitem": 0, "add": 0},
                    (torch.randn(3, 4),))
    assert {operation.name: operation.machine for operation in graph.operations}["getitem"] == 1
    assert [block.name for block in analyze(graph, [0, 1]).blocks] == ["x", "getitem"]


def _module(torch, function):
    return torch.fx.symbolic_trace(function)


@pytest.mark.parametrize("function, machines, examples, sentence", [
    (lambda x: x + 1, {}, [], "The shapes of a traced module need at least one sequence of example inputs."),
    (lambda x: x.add_(1), {"x": 0, "add_": 0}, [(1,)],
     "Node 'add_' changes its input in place, so the module cannot be partitioned."),
    (lambda x: x + 1, {"x": 0, "add": 0}, [(1,), (1, 2)],
     "Node 'x' must have the same type and number of dimensions for all examples."),
])
def test_errors_are_sentences(torch, function, machines, examples, sentence):
    with pytest.raises(DmaceError, match=f"^{re.escape(sentence)}$"):
        from_fx(_module(torch, function), machines, *[(torch.zeros(shape),) for shape in examples])


def test_a_node_without_a_machine_is_reported(torch):
    graph = from_fx(_module(torch, lambda x: x + 1), {"x": 0}, (torch.zeros(2),))
    with pytest.raises(DmaceError, match=r"^Operation 'add' is not assigned to a machine\.$"):
        analyze(graph, [0])


def test_without_pytorch(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(DmaceError, match=r"^PyTorch is not installed; pip install 'dmace\[torch\]' installs it\.$"):
        from_fx(None, {}, (np.zeros(1),))
