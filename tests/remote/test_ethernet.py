# SPDX-License-Identifier: Apache-2.0
"""Training steps of two endpoints in RTL with RoCEv2, by each mechanism, with loss, and with a machine that is lost."""

from dataclasses import replace

import numpy as np
import pytest

from dmace.remote.execution import run_alone
from dmace.remote.fx import from_fx
from dmace.remote.graph import Graph
from dmace.remote.plan import analyze
from dmace.remote.step import Step, open_devices
from dmace.remote.tensor import Tensor
from dmace.runtime.errors import RequestFailed
from sim.remote.ethernet import Ethernet, ethernet_machines
from sim.remote.step_times import METHODS, train

from .traced import import_torch, machine_of, same, traced_step

pytestmark = [pytest.mark.rtl, pytest.mark.long]

SETTING = Ethernet(line_latency=20, memory_latency=60, timeout=2, period=32)


@pytest.mark.parametrize("loss, selective", [(0.0, False), (0.01, False), (0.01, True)])
@pytest.mark.parametrize("method", METHODS)
def test_training(method, loss, selective, seed):
    """Losses and weights are those of one process, bit for bit, also where frames are lost; the last batch is smaller.
    """
    setting = replace(SETTING, loss=loss, selective=selective, seed=seed)
    with ethernet_machines(setting) as both:
        outcomes = train(both.machines, METHODS[method], [32, 32, 9] if loss else [32, 32])
        counters = both.cluster.do(*(endpoint.rdma.counters() for endpoint in both.cluster.endpoints))
    print(f"{method}, loss {loss}: {[outcome.cycles for outcome in outcomes]} cycles")
    assert all(outcome.cycles > 0 and outcome.transfers == 2 for outcome in outcomes)
    assert loss or not any(counter["packets_resent"] for counter in counters)


def test_losses_are_repeated(seed):
    """With more loss than in test_training, frames of both directions are lost and repeated for certain."""
    with ethernet_machines(replace(SETTING, loss=0.05, seed=seed)) as both:
        train(both.machines, METHODS["rpc"], [64, 64])
        assert all(both.cluster.network.counts(port).up_dropped for port in range(2))
        counters = both.cluster.do(*(endpoint.rdma.counters() for endpoint in both.cluster.endpoints))
    assert sum(counter["packets_resent"] for counter in counters) > 0


@pytest.mark.parametrize("options", [
    {"known": "static"}, {"known": "dynamic"}, {"known": "rpc", "varying": "rpc"}, {"varying": "dynamic"}], ids=str)
def test_training_of_pytorch(options):
    """A traced step with backward pass and optimizer has the weights of the module itself, bit for bit. Where the
    analyzer chooses, the last batch is smaller."""
    torch = import_torch()
    module, weights, batch = traced_step(torch)
    rows = (16, 16, 7) if "varying" in options else (16, 16)
    graph = from_fx(module, machine_of, *[(*weights, *batch(count)) for count in sorted(set(rows))])
    alone, losses = list(weights), []
    with ethernet_machines(SETTING) as both:
        devices = open_devices(both.machines)
        plan = analyze(graph, devices, **options)
        assert {(block.source, block.destinations) for block in plan.blocks} == {(0, (1,)), (1, (0,))}
        with Step(graph, plan, devices) as step:
            for count in rows:
                x, y = batch(count)
                outcome = step.run(dict(zip(graph.feeds, (*weights, x, y), strict=True)))
                *alone, loss = module(*alone, x, y)
                *weights, own = outcome.values.values()
                assert all(same(torch, one, two) for one, two in zip((*weights, own), (*alone, loss), strict=True))
                losses.append(own.item())
    print(f"{options}: {outcome.cycles} cycles, losses {losses}")


@pytest.mark.parametrize("known", ["static", "dynamic", "rpc"])
def test_a_lost_machine_ends_a_step(known):
    """Both lines fail in the middle of a step: retries end, and the error of a request ends the step."""
    graph = Graph()
    graph.feed(Tensor("x", (500,), np.float32), 0)
    graph.add("a", lambda x: x + 1, ["x"], [Tensor("a", (500,), np.float32)], 0)
    with ethernet_machines(SETTING) as both:
        lost = [False]

        def back(a):
            if lost[0]:
                both.lose(1.0)
            return a * 2

        graph.add("b", back, ["a"], [Tensor("b", (500,), np.float32)], 1)
        graph.add("c", lambda b: b - 1, ["b"], [Tensor("c", (500,), np.float32)], 0)
        graph.results = ("c",)
        devices = open_devices(both.machines)
        step = Step(graph, analyze(graph, devices, known=known), devices)
        feeds = {"x": np.arange(500, dtype=np.float32)}
        assert np.array_equal(step.run(feeds).values["c"], run_alone(graph, feeds)["c"])
        lost[0], begin = True, both.cluster.cycle
        with pytest.raises(RequestFailed, match=r"^Request \d+ of queue \d of machine \d failed with WRITE_SLVERR\.$"):
            step.run(feeds)
        print(f"{known}: the step failed after {both.cluster.cycle - begin:,} cycles")
        assert both.cluster.cycle - begin < 200_000
