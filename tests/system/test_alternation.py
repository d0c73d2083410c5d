# SPDX-License-Identifier: Apache-2.0
"""NoOverlap on the real machine: computation and communication never coincide, in every workload."""

from dataclasses import replace
from itertools import pairwise

import pytest

from sim.system import Machine, MachineConfig
from sim.system.graph import Kind, unroll
from sim.system.training import train
from sim.system.workloads import load


def run(name, *, endpoint="noovl", steps=3):
    """Without updates of weights, which are neither computation nor communication here."""
    workload = load(name)
    workload = replace(workload, layers=tuple(replace(layer, update=0.0) for layer in workload.layers))
    return train(unroll(workload, steps), Machine(MachineConfig(shape=(4, 2), endpoint=endpoint)))


def spans(run, kind):
    return sorted((span.begin, span.end) for span in run.spans if span.node.kind == kind and span.end > span.begin)


def overlaps(run):
    """Seconds in which the processor computes while a collective is in progress."""
    return sum(max(0.0, min(end, until) - max(begin, since)) for begin, end in spans(run, Kind.COMPUTE)
               for since, until in spans(run, Kind.COLLECTIVE))


@pytest.mark.parametrize("name", ["resnet50", "dlrm"])
def test_compute_and_communication_are_disjoint(name):
    one = run(name)
    assert overlaps(one) == 0
    assert overlaps(run(name, endpoint="commopt")) > 0
    assert one.seconds == pytest.approx(one.computed + one.communicating)


@pytest.mark.parametrize("name", ["resnet50", "dlrm"])
def test_each_step_takes_as_long(name):
    """Nothing of a step hides in the next one; DLRM's first all-to-all, too, is on the critical path."""
    assert run(name, steps=4).step == pytest.approx(run(name, steps=1).step, rel=1e-3)


def test_gradients_are_reduced_together():
    """One burst of communication after the last pass of each step."""
    one = run("resnet50")
    bursts = [begin for begin, _ in spans(one, Kind.COLLECTIVE)]
    assert len(bursts) == 3 * 54 and len(set(bursts)) == 3


@pytest.mark.parametrize("name", ["resnet50", "dlrm"])
def test_all_waits_are_attributed(name):
    one = run(name)
    assert sum(times.exposed for times in one.layers()) * 3 == pytest.approx(one.exposed)
    # To the collective that ended last, also where the layer does not need it.
    waits = [span for span in one.spans if span.culprit is not None]
    assert waits and all(one.spans[span.culprit].end == span.begin for span in waits)


def test_folded_and_not_are_equal():
    config = MachineConfig(shape=(4, 2), endpoint="noovl")
    folded, unfolded = (train(unroll(load("dlrm"), 2), Machine(config.with_(fold=fold))) for fold in (True, False))
    assert [(span.begin, span.end) for span in folded.spans] == [(span.begin, span.end) for span in unfolded.spans]


def test_requests_in_any_order():
    """Work that is requested in the middle of communication waits, and collectives wait for all work."""
    machine = Machine(MachineConfig(shape=(4, 2), endpoint="noovl", fold=False))
    machine.log = log = []
    for number in range(6):
        machine.at(number * 3e-6, lambda number=number: machine.compute(4e-6 if number % 3 else 9e-6))
        machine.at(number * 4e-6, lambda number=number: machine.issue("ALL_REDUCE", 100_000 * (1 + number % 2)))
    machine.run()
    for rank in range(8):
        mine = sorted((begin, end, what) for what, at, begin, end, _ in log if at == rank)
        assert len(mine) == 12
        for (_, end, one), (begin, _, other) in pairwise(mine):
            assert begin >= end - 1e-12 or one == other
