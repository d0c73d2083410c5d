# SPDX-License-Identifier: Apache-2.0
"""The training loop on a machine whose times can be computed by hand."""

from dataclasses import replace

import pytest

from hw.ace.words import Collective
from hw.errors import UserError
from sim.system.graph import unroll
from sim.system.report.plots import last_iteration
from sim.system.training import count_bytes, dimensions_of, train
from sim.system.workloads import LAYERED, Exchange, Layer, Pass, Work, Workload, load

from .stub import StubMachine


def two(reduced, *, update=0.0):
    """Two layers whose passes take a second each; ``reduced``: bytes that each layer reduces."""
    one = Pass(work=Work(seconds=1.0))
    exchange = Exchange(collective=Collective.ALL_REDUCE, bytes=reduced)
    return Workload(name="two", layers=tuple(
        Layer(name=name, forward=one, input_grad=one if name == "b" else Pass(), update=update,
              weight_grad=Pass(work=Work(seconds=1.0), exchange=exchange)) for name in "ab"))


def test_all_hidden():
    """b reduces while its input gradient and a's weight gradient are computed; a's second is exposed after a step."""
    run = train(unroll(two(1), 2), StubMachine())
    # Forward 2, backward 3, then a's reduction of 1; twice.
    assert run.seconds == 12 and run.computed == 10 and run.exposed == 2 and run.step == 6
    assert run.communicating == 4
    assert run.statistics == {"issued": 4}


def test_reductions_that_queue():
    """Those of 4 s each: b's from 3 to 7, a's from 7 to 11; the second step begins at 11 and ends at 11 + 5 + 6."""
    run = train(unroll(two(4), 2), StubMachine())
    assert [span.end for span in run.spans if span.node.exchange] == [7, 11, 18, 22]
    assert run.seconds == 22 and run.exposed == 12
    layers = {times.layer: times for times in run.layers()}
    assert layers["a"].exposed == 6 and layers["b"].exposed == 0
    assert layers["b"].exchange == 4 and layers["a"].exchange == 6
    assert layers["b"].input_grad == 1 and layers["a"].input_grad == 0


def test_updates_hold_the_next_forward_pass():
    run = train(unroll(two(1, update=0.25), 2), StubMachine())
    assert run.seconds == 12.5
    assert {times.layer: times.exposed for times in run.layers()} == {"a": 1.25, "b": 0}


def test_slow_compute_is_distinguished():
    run = train(unroll(two(1), 1), StubMachine(slow=1.5))
    assert run.computed == 7.5 and run.alone == 5


@pytest.mark.parametrize("name", LAYERED)
def test_waits_add_up(name):
    """The exposed times of all layers add up to the run's exposed time."""
    run = train(unroll(load(name), 2), StubMachine((4, 4), rate=50e9))
    assert sum(times.exposed for times in run.layers()) * 2 == pytest.approx(run.exposed)
    assert run.seconds == pytest.approx(run.computed + run.exposed)
    for span in run.spans:
        assert all(run.spans[need].end <= span.begin for need in span.node.needs)


def test_the_timeline_has_collectives_of_the_iteration_before():
    """b's reduction of the first step is issued at 3, and in progress until 15: the second step begins at 5."""
    workload = two(12)
    workload = replace(workload, layers=(replace(workload.layers[0], weight_grad=Pass(work=Work(seconds=1.0))),
                                         workload.layers[1]))
    run = train(unroll(workload, 2), StubMachine())
    origin, spans = last_iteration(run)
    drawn = [(span.node.step, span.begin, span.end) for span in spans if span.node.exchange]
    assert origin == 5 and drawn[0] == (0, 5, 15) and [step for step, *_ in drawn] == [0, 1]
    assert all(span.node.step == 1 for span in spans if not span.node.exchange)


def test_groups():
    assert dimensions_of("all", (4, 2, 1), 4) == (0, 1)
    assert dimensions_of("model", (4, 2, 2), 4) == (0,)
    assert dimensions_of("data", (4, 2, 2), 4) == (1, 2)
    assert dimensions_of("model", (4, 2, 2), 8) == (0, 1)
    assert dimensions_of("model", (4, 2), 0) == (0, 1)
    assert dimensions_of("data", (4, 2), 0) == ()
    assert dimensions_of("model", (4, 2), 1) == ()
    with pytest.raises(UserError, match=r"^a model that 4 ranks share needs first dimensions of as many ranks, which "
                                        r"8x2 does not have\.$"):
        dimensions_of("data", (8, 2), 4)


def test_model_parallel_exchanges_go_along_their_dimensions():
    machine = StubMachine((4, 2, 2), rate=50e9)
    train(unroll(load("transformer"), 1), machine)
    assert {dimensions for _, _, dimensions, priority, _ in machine.issued if priority} == {(0,)}
    assert {dimensions for _, _, dimensions, priority, _ in machine.issued if not priority} == {(1, 2)}


def test_a_group_of_one_rank_has_nothing_to_do():
    machine = StubMachine((4,), rate=50e9)
    run = train(unroll(load("transformer"), 1), machine)
    assert not any(tag.endswith("weight_grad 0") for *_, tag in machine.issued)
    assert len(run.spans) == len(run.graph.nodes)


def test_counts():
    def count(collective, size):
        return count_bytes(Exchange(collective=collective, bytes=size), 4)
    assert count(Collective.ALL_REDUCE, 10) == 10 and count(Collective.ALL_GATHER, 10) == 10
    assert count(Collective.REDUCE_SCATTER, 10) == 3 and count(Collective.ALL_TO_ALL, 8) == 2
