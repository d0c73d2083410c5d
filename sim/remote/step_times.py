# SPDX-License-Identifier: Apache-2.0
"""A small model that is trained on two machines by each mechanism; each step is compared with that of one process."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dmace.remote.execution import run_alone
from dmace.remote.machine import Machine
from dmace.remote.plan import analyze
from dmace.remote.step import Outcome, Step, open_devices
from hw.errors import UserError

from .training import initial_weights, training_graph

__all__ = ["LAYERS", "METHODS", "SIZES", "Method", "StepDiffers", "batches", "step_times", "train"]

SIZES = (64, 32, 32, 10)
"""Inputs, hidden units of both hidden layers, classes."""

LAYERS = (0, 1, 1)
"""Machine of each layer."""

Floats = npt.NDArray[np.float32]


class StepDiffers(UserError):
    """A step on two machines has other results than in one process."""

    status = 1


class Method(NamedTuple):
    """Options of the analyzer, and whether they need remote reads."""

    options: dict[str, Any]
    reads: bool = False


METHODS = {
    "analyzer": Method({}),
    "dynamic": Method({"known": "dynamic", "fuse": 0}, reads=True),
    "rpc": Method({"known": "rpc", "varying": "rpc", "fuse": 0}),
}


def batches(lengths: Sequence[int]) -> Iterator[tuple[Floats, Floats]]:
    """Points around a centre for each class, and one-hot labels."""
    rng = np.random.default_rng(3)
    centres = rng.standard_normal((SIZES[-1], SIZES[0]))
    for length in lengths:
        labels = rng.integers(SIZES[-1], size=length)
        points = centres[labels] + 0.5 * rng.standard_normal((length, SIZES[0]))
        yield points.astype(np.float32), np.eye(SIZES[-1], dtype=np.float32)[labels]


def train(machines: Sequence[Machine], method: Method, lengths: Sequence[int],
          alone: Callable[..., dict[str, Any]] = run_alone) -> list[Outcome]:
    """Outcomes of all steps, one for each length of a batch. Raises StepDiffers if a step differs from ``alone``."""
    graph = training_graph(SIZES, LAYERS, None if len(set(lengths)) > 1 else lengths[0])
    weights = initial_weights(SIZES)
    own, outcomes = dict(weights), []
    devices = open_devices(machines)
    with Step(graph, analyze(graph, devices, **method.options), devices) as step:
        for number, (x, y) in enumerate(batches(lengths)):
            outcomes.append(step.run({"x": x, "y": y, **weights}))
            expected = alone(graph, {"x": x, "y": y, **own})
            if any(value.tobytes() != expected[name].tobytes() for name, value in outcomes[-1].values.items()):
                raise StepDiffers(f"Step {number} differs from the same step in one process.")
            weights = {name: outcomes[-1].values[f"{name}+"] for name in weights}
            own = {name: expected[f"{name}+"] for name in own}
    return outcomes


def step_times(machines: Sequence[Machine], lengths: Sequence[int] = (32, 128, 512),
               count: int = 4) -> list[dict[str, Any]]:
    """Step times of two simulated machines by each mechanism, for batches of several lengths, each known before the
    first step.

    Returns
    -------
    list of dict
        ``mechanism``, ``rows`` of the batch, ``transfers`` and ``bytes`` between machines per step, and the mean
        ``cycles`` of all steps but the first.
    """
    found = []
    for length in lengths:
        for mechanism, method in zip(("static", "dynamic", "rpc"), METHODS.values(), strict=True):
            _, *others = train(machines, method, [length] * count)
            cycles = [outcome.cycles for outcome in others if outcome.cycles is not None]
            found.append({"mechanism": mechanism, "rows": length, "transfers": others[0].transfers,
                          "bytes": others[0].sent_bytes, "cycles": round(sum(cycles) / len(cycles), 1)})
    return found
