# SPDX-License-Identifier: Apache-2.0
"""Unrolled training steps: what each node waits for, against the order that is written down for a small model."""

import pytest

from hw.ace.words import Collective
from sim.system.graph import URGENT, Graph, Kind, Node, unroll
from sim.system.workloads import LAYERED, Exchange, Layer, Pass, Work, Workload, load


def layer(name, *, reduce=True, update=0.0, forward=None, input_grad=None, other=("", "")):
    work = Work(seconds=1.0)
    return Layer(name=name, update=update, forward=Pass(work=work, exchange=forward, other=other[0]),
                 input_grad=Pass(work=work, exchange=input_grad, other=other[1]),
                 weight_grad=Pass(work=work, exchange=REDUCE if reduce else None))


REDUCE = Exchange(collective=Collective.ALL_REDUCE, bytes=100)
GATHER = Exchange(collective=Collective.ALL_GATHER, bytes=10, group="model")


def lines(graph):
    """Each node as ``layer.part step < what it needs``."""
    def name(number):
        node = graph.nodes[number]
        sign = {Kind.COMPUTE: "", Kind.COLLECTIVE: "*", Kind.DELAY: "+"}[node.kind]
        return f"{node.layer}.{node.part}{sign}{node.step}"
    return [f"{name(node.number)} < {' '.join(name(need) for need in node.needs)}".strip() for node in graph.nodes]


def test_data_parallel():
    graph = unroll(Workload(name="two", layers=(layer("a", update=0.5), layer("b"))), 2)
    assert lines(graph)[:10] == [
        "a.forward0 <",
        "b.forward0 < a.forward0",
        "b.weight_grad0 < b.forward0",
        "b.weight_grad*0 < b.weight_grad0",
        "b.input_grad0 < b.weight_grad0",
        "a.weight_grad0 < b.input_grad0",
        "a.weight_grad*0 < a.weight_grad0",
        "a.update+0 < a.weight_grad*0",
        "a.input_grad0 < a.weight_grad0",
        "a.forward1 < a.input_grad0 a.update+0",
    ]
    assert lines(graph)[10] == "b.forward1 < a.forward1 b.weight_grad*0"
    assert graph.steps == 2 and graph.nodes[7].work.seconds == 0.5


def test_model_parallel():
    one = layer("a", forward=GATHER), layer("b", forward=GATHER, input_grad=REDUCE)
    graph = unroll(Workload(name="hybrid", layers=one, backward="input-first"), 1)
    assert lines(graph) == [
        "a.forward0 <",
        "a.forward*0 < a.forward0",
        "b.forward0 < a.forward0 a.forward*0",
        "b.forward*0 < b.forward0",
        "b.input_grad0 < b.forward0 b.forward*0",
        "b.input_grad*0 < b.input_grad0",
        "b.weight_grad0 < b.input_grad0",
        "b.weight_grad*0 < b.weight_grad0",
        "a.input_grad0 < b.weight_grad0 b.input_grad*0",
        "a.weight_grad0 < a.input_grad0",
        "a.weight_grad*0 < a.weight_grad0",
    ]
    assert {node.number: node.priority for node in graph.nodes if node.priority} == {1: URGENT, 3: URGENT, 5: URGENT}


def test_exchanges_that_wait_for_another_layer():
    """As in DLRM: what the embeddings exchange is needed, and comes back, where the layers meet."""
    one = (layer("e", reduce=False, forward=GATHER, input_grad=GATHER, other=("t", "t")), layer("b"), layer("t"))
    graph = unroll(Workload(name="meeting", layers=one), 1)
    assert lines(graph) == [
        "e.forward0 <",
        "e.forward*0 < e.forward0",
        "b.forward0 < e.forward0",
        "t.forward0 < b.forward0 e.forward*0",
        "t.weight_grad0 < t.forward0",
        "t.weight_grad*0 < t.weight_grad0",
        "t.input_grad0 < t.weight_grad0",
        "e.input_grad*0 < t.input_grad0",
        "b.weight_grad0 < t.input_grad0",
        "b.weight_grad*0 < b.weight_grad0",
        "b.input_grad0 < b.weight_grad0",
        "e.weight_grad0 < b.input_grad0 e.input_grad*0",
        "e.input_grad0 < e.weight_grad0",
    ]


def test_what_takes_no_time_is_no_node_but_holds_on():
    nothing = Layer(name="n", forward=Pass(exchange=GATHER))
    graph = unroll(Workload(name="w", layers=(layer("a"), nothing, layer("b"))), 1)
    assert lines(graph)[:3] == ["a.forward0 <", "n.forward*0 < a.forward0", "b.forward0 < a.forward0 n.forward*0"]


@pytest.mark.parametrize("name", LAYERED)
def test_nothing_is_lost(name):
    workload = load(name)
    graph = unroll(workload, 3)
    sent = sum(node.exchange.bytes for node in graph.nodes if node.exchange)
    assert sent == 3 * workload.bytes()
    computed = [node for node in graph.nodes if node.kind == Kind.COMPUTE]
    assert sum(node.work.flops for node in computed) == 3 * sum(
        one.work.flops for layer in workload.layers for _, one in layer.passes())
    # The processor's nodes are a chain.
    assert [node.previous for node in computed] == [None, *(node.number for node in computed[:-1])]


def test_a_node_cannot_need_a_later_one():
    with pytest.raises(ValueError, match=r"^Node 0 at place 0 needs \(1,\), which must be earlier ones$"):
        Graph(name="loop", nodes=(Node(number=0, kind=Kind.COMPUTE, after=(1,)),))
