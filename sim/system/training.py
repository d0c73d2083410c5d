# SPDX-License-Identifier: Apache-2.0
"""A training run on a machine: each node of a graph starts when the nodes that it needs have ended.

::

    run = train(unroll(load("resnet50"), 2), Machine(MachineConfig(shape=(4, 4, 4), endpoint="ace")))
    run.seconds, run.exposed
"""

from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass, field
from functools import partial
from math import prod

from hw.errors import UserError

from .graph import Graph, Kind, Node
from .handle import Handle
from .machine import Machine
from .statistics import Statistics
from .workloads import Exchange, Processor

__all__ = ["LayerTimes", "Run", "Span", "count_bytes", "dimensions_of", "train"]


@dataclass(frozen=True)
class Span:
    """Start and end of a node of the graph, in seconds, and the time for which the processor waited for its start."""

    node: Node
    begin: float
    end: float
    waited: float = 0.0
    culprit: int | None = None
    """Last node to end of those that it waited for."""

    @property
    def seconds(self) -> float:
        return self.end - self.begin


@dataclass(frozen=True)
class LayerTimes:
    """A layer's share of a step: means over the steps, in seconds."""

    layer: str
    forward: float
    input_grad: float
    weight_grad: float
    exchange: float
    """Sum of the durations of its collectives, from issue to completion."""
    exposed: float
    """Time for which the processor waited for the layer's collectives and updates."""


@dataclass(frozen=True, kw_only=True)
class Run:
    """Result of a training run.

    Parameters
    ----------
    graph : Graph
    spans : tuple of Span
        Span of each node.
    seconds : float
        Total time.
    computed : float
        Time for which the processor was busy.
    alone : float
        Computation time without concurrent communication.
    statistics : dict
        Statistics of the machine.
    """

    graph: Graph
    spans: tuple[Span, ...]
    seconds: float
    computed: float
    alone: float
    statistics: Statistics = field(default_factory=Statistics)

    @property
    def step(self) -> float:
        """Mean seconds per iteration."""
        return self.seconds / self.graph.steps

    @property
    def exposed(self) -> float:
        """Seconds without computation: time waiting for communication."""
        return self.seconds - self.computed

    @property
    def communicating(self) -> float:
        """Seconds for which at least one collective was in progress."""
        busy, until = 0.0, float("-inf")
        for span in sorted((span for span in self.spans if span.node.kind == Kind.COLLECTIVE), key=lambda s: s.begin):
            busy += max(0.0, span.end - max(span.begin, until))
            until = max(until, span.end)
        return busy

    def layers(self) -> list[LayerTimes]:
        """:class:`LayerTimes` of each layer, in the order of their first nodes."""
        times: defaultdict[str, defaultdict[str, float]] = defaultdict(lambda: defaultdict(float))
        for span in self.spans:
            mine = times[span.node.layer]
            if span.node.kind == Kind.COMPUTE:
                mine[span.node.part] += span.seconds
            elif span.node.kind == Kind.COLLECTIVE:
                mine["exchange"] += span.seconds
            if span.culprit is not None:
                times[self.spans[span.culprit].node.layer]["exposed"] += span.waited
        last = max(self.spans, key=lambda span: span.end)
        busy_until = max((span.end for span in self.spans if span.node.kind == Kind.COMPUTE), default=0.0)
        times[last.node.layer]["exposed"] += last.end - busy_until
        names = ("forward", "input_grad", "weight_grad", "exchange", "exposed")
        return [LayerTimes(layer, *(mine[name] / self.graph.steps for name in names)) for layer, mine in times.items()]


def dimensions_of(group: str, shape: tuple[int, ...], model_parallel: int) -> tuple[int, ...]:
    """Dimensions of the torus along which a group communicates; none for a group of one rank.

    Parameters
    ----------
    group : str
        ``all``, ``model`` or ``data``.
    shape : tuple of int
    model_parallel : int
        Ranks that share a model, those of the first dimensions; 0: all.
    """
    size = model_parallel or prod(shape)
    split = next((number for number in range(len(shape) + 1) if prod(shape[:number]) == size), None)
    if group == "all":
        first, last = 0, len(shape)
    elif split is None:
        raise UserError(f"a model that {model_parallel} ranks share needs first dimensions of as many ranks, which "
                        f"{'x'.join(map(str, shape))} does not have.")
    else:
        first, last = (0, split) if group == "model" else (split, len(shape))
    return tuple(number for number in range(first, last) if shape[number] > 1)


def count_bytes(exchange: Exchange, ranks: int) -> int:
    """Bytes of an exchange as NCCL counts them: the block that a rank receives in a reduce-scatter or sends to each
    rank in an all-to-all, rounded up; otherwise the whole buffer."""
    if exchange.collective.info.sends_blocks:
        return -(-exchange.bytes // ranks)
    return exchange.bytes


def train(graph: Graph, machine: Machine, *, processor: Processor | None = None) -> Run:
    """Run a :class:`Graph` on a machine that has not run yet, and return a :class:`Run`.

    Parameters
    ----------
    graph : Graph
    machine : Machine
    processor : Processor or None
        Processor of each rank, for the roofline; by default the machine's.
    """
    npu = machine.config.npu
    processor = processor or Processor(flops=npu.flops, memory=npu.memory_bytes_per_s)
    return _Training(graph, machine, processor).run()


class _Training:
    def __init__(self, graph: Graph, machine: Machine, processor: Processor) -> None:
        self.graph, self.machine, self.processor = graph, machine, processor
        self.missing = [len(set(node.needs)) for node in graph.nodes]
        self.users: defaultdict[int, list[int]] = defaultdict(list)
        for node in graph.nodes:
            for need in set(node.needs):
                self.users[need].append(node.number)
        self.begin: dict[int, float] = {}
        self.handles: dict[int, Handle] = {}
        self.end: dict[int, float] = {}

    def run(self) -> Run:
        for node in self.graph.nodes:
            if not node.needs:
                self.start(node)
        self.machine.run()
        if len(self.end) != len(self.graph.nodes):
            stuck = next(node for node in self.graph.nodes if node.number not in self.end)
            raise RuntimeError(f"{stuck.part} of {stuck.layer} in step {stuck.step} has not ended")
        self.collectives = sorted(
            (node.number for node in self.graph.nodes if node.kind == Kind.COLLECTIVE), key=lambda one: self.end[one])
        spans = tuple(self.span(node) for node in self.graph.nodes)
        computed = [span for span in spans if span.node.kind == Kind.COMPUTE]
        return Run(graph=self.graph, spans=spans, seconds=max(self.end.values(), default=0.0),
                   computed=sum(span.seconds for span in computed),
                   alone=sum(span.node.work.alone(self.processor) for span in computed),
                   statistics=self.machine.statistics())

    def start(self, node: Node) -> None:
        self.begin[node.number] = self.machine.now
        done = partial(self.ended, node)
        tag = f"{node.layer} {node.part} {node.step}"
        if node.kind == Kind.COMPUTE:
            self.handles[node.number] = self.machine.compute(
                node.work.arithmetic(self.processor), memory_bytes=node.work.memory_bytes, tag=tag, done=done)
        elif node.kind == Kind.DELAY:
            time = self.machine.now + node.work.alone(self.processor)
            self.machine.at(time, partial(done, time))
        else:
            assert node.exchange is not None
            shape = self.machine.config.shape
            dimensions = dimensions_of(node.exchange.group, shape, self.graph.model_parallel)
            if not dimensions:
                self.machine.at(self.machine.now, partial(done, self.machine.now))
                return
            count = count_bytes(node.exchange, prod(shape[number] for number in dimensions))
            self.handles[node.number] = self.machine.issue(
                node.exchange.collective, count, dimensions=dimensions, priority=node.priority, tag=tag, done=done)

    def ended(self, node: Node, time: float) -> None:
        self.end[node.number] = time
        for number in self.users[node.number]:
            self.missing[number] -= 1
            if not self.missing[number]:
                self.start(self.graph.nodes[number])

    def span(self, node: Node) -> Span:
        begin, end = self.begin[node.number], self.end[node.number]
        if node.number in self.handles:
            begin = self.handles[node.number].begin
        if node.kind != Kind.COMPUTE:
            return Span(node, begin, end)
        waited = begin - (0.0 if node.previous is None else self.end[node.previous])
        if waited <= 0:
            return Span(node, begin, end)
        culprit = max(node.after, key=lambda number: self.end[number], default=None)
        if culprit is None or self.end[culprit] < begin:
            # It had to wait for collectives that it does not need: the endpoint does not overlap.
            culprit = self.collectives[bisect_right(self.collectives, begin, key=lambda one: self.end[one]) - 1]
        return Span(node, begin, end, waited, culprit)
