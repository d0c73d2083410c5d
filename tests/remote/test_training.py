# SPDX-License-Identifier: Apache-2.0
"""Training on machines has the losses and weights of one process, bit for bit, and learns."""

import re

import numpy as np
import pytest

from dmace.remote.execution import run_alone
from dmace.remote.plan import analyze
from dmace.remote.step import Step, open_devices
from hw.errors import UserError
from sim.remote.double import FunctionalMachines
from sim.remote.training import initial_weights, training_graph

from .graphs import assert_same

SIZES = (16, 24, 20, 4)


def _batches(seed, lengths):
    """Points of 4 classes around 4 centres, and one-hot labels."""
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((SIZES[-1], SIZES[0]))
    for length in lengths:
        labels = rng.integers(SIZES[-1], size=length)
        points = centres[labels] + 0.3 * rng.standard_normal((length, SIZES[0]))
        yield points.astype(np.float32), np.eye(SIZES[-1], dtype=np.float32)[labels]


@pytest.mark.parametrize("machines", [(0, 1, 1), (0, 1, 2), (0, 1, 0)])
@pytest.mark.parametrize("varying", [False, True])
@pytest.mark.parametrize("addressable", [False, True])
def test_training(machines, varying, addressable, seed):
    lengths = [32, 32, 32, 11 if varying else 32] * 2
    graph = training_graph(SIZES, machines, None if varying else 32)
    devices = open_devices(FunctionalMachines(max(machines) + 1, seed=seed, addressable=addressable).machines)
    weights, losses = initial_weights(SIZES), []
    alone = dict(weights)
    with Step(graph, analyze(graph, devices), devices) as step:
        for x, y in _batches(seed, lengths):
            outcome = step.run({"x": x, "y": y, **weights})
            expected = run_alone(graph, {"x": x, "y": y, **alone})
            assert_same(outcome.values, expected)
            assert outcome.cycles is None and outcome.copied_bytes == 0 and outcome.sent_bytes > 0
            weights = {name: outcome.values[f"{name}+"] for name in weights}
            alone = {name: expected[f"{name}+"] for name in alone}
            losses.append(float(outcome.values["loss"][0]))
    assert np.mean(losses[-4:]) < 0.7 * np.mean(losses[:4])


def test_machines_of_all_layers():
    sentence = "There must be at least one layer and a machine for each, not 2 machines for 3 layers."
    with pytest.raises(UserError, match=f"^{re.escape(sentence)}$"):
        training_graph(SIZES, (0, 1), 32)
