# SPDX-License-Identifier: Apache-2.0
"""A training run on a machine: each node of a graph starts when the nodes that it needs have ended.

::

    run = train(unroll(load("resnet50"), 2), Machine(MachineConfig(shape=(4, 4, 4), endpoint="ace")))
    run.seconds, run.exposed
"""

from bisect import bisect_right
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from functools import partial
from math import prod

from hw.errors import UserError

from .configuration import MachineConfig
from .graph import Graph, Kind, Node
from .handle import Handle
from .machine import Machine
from .pending import Pending
from .ranks import Ranks
from .statistics import Statistics
from .workloads import GROUPS, Exchange, Processor
from .workloads.layer import PASSES

__all__ = ["LayerTimes", "Run", "Span", "count_bytes", "dimensions_for", "dimensions_of",
           "train"]


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
    """A layer's share of a step: means over the steps, and over ranks that differ, in seconds."""

    layer: str
    forward: float
    input_grad: float
    weight_grad: float
    other: float
    """Computation that is none of the three passes, as in recorded steps."""
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
        Time for which the processor was busy; if ranks differ, their mean.
    alone : float
        Computation time without concurrent communication; if ranks differ, their mean.
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

    def busy(self) -> dict[int, float]:
        """Rank -> seconds for which its processor was busy, of each rank that the graph names."""
        times = dict.fromkeys(self.graph.ranks, 0.0)
        for span in self.spans:
            if span.node.kind == Kind.COMPUTE and span.node.rank is not None:
                times[span.node.rank] += span.seconds
        return times

    def layers(self) -> list[LayerTimes]:
        """:class:`LayerTimes` of each layer, in the order of their first nodes."""
        times: defaultdict[str, defaultdict[str, float]] = defaultdict(lambda: defaultdict(float))
        for span in self.spans:
            mine = times[span.node.layer]
            if span.node.kind == Kind.COMPUTE:
                mine[span.node.part if span.node.part in PASSES else "other"] += span.seconds
            elif span.node.kind in (Kind.COLLECTIVE, Kind.SEND):
                mine["exchange"] += span.seconds
            if span.culprit is not None:
                times[self.spans[span.culprit].node.layer]["exposed"] += span.waited
        last = max(self.spans, key=lambda span: span.end)
        ranks: tuple[int | None, ...] = self.graph.ranks or (None,)
        busy_until: dict[int | None, float] = dict.fromkeys(ranks, 0.0)
        for span in self.spans:
            if span.node.kind == Kind.COMPUTE:
                busy_until[span.node.rank] = max(busy_until[span.node.rank], span.end)
        times[last.node.layer]["exposed"] += sum(last.end - until for until in busy_until.values())
        names = ("forward", "input_grad", "weight_grad", "other", "exchange", "exposed")
        parts = self.graph.steps * len(ranks)
        return [LayerTimes(layer, *(mine[name] / parts for name in names)) for layer, mine in times.items()]


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


def dimensions_for(exchange: Exchange, graph: Graph, config: MachineConfig) -> tuple[int, ...]:
    """Dimensions of the torus along which an exchange of a graph communicates; none for a group of one rank."""
    if exchange.ranks:
        return Ranks(config).dimensions(exchange.ranks)
    if exchange.group in graph.groups:
        return tuple(number for number in graph.groups[exchange.group] if config.shape[number] > 1)
    if exchange.group not in GROUPS:
        raise UserError(f"the workload {graph.name} has no group {exchange.group!r}; it has {', '.join(GROUPS)}.")
    return dimensions_of(exchange.group, config.shape, graph.model_parallel)


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
        self.exchanges: defaultdict[int | None, list[int]] = defaultdict(list)
        self.dimensions: dict[Exchange, tuple[int, ...]] = {}
        # If ranks differ: which collective of its ranks each node is, and the collectives.
        self.matches: dict[int, tuple[tuple[int, ...], int]] = {}
        self.pending: dict[tuple[tuple[int, ...], int], tuple[Node, Pending, dict[int, Node]]] = {}
        calls: Counter[tuple[int, tuple[int, ...]]] = Counter()
        for node in graph.nodes:
            if node.exchange is not None and node.rank is not None:
                ranks = machine.ranks.closure(node.rank, self.along(node.exchange))
                self.matches[node.number] = ranks, calls[node.rank, ranks]
                calls[node.rank, ranks] += 1

    def along(self, exchange: Exchange) -> tuple[int, ...]:
        if exchange not in self.dimensions:
            self.dimensions[exchange] = dimensions_for(exchange, self.graph, self.machine.config)
        return self.dimensions[exchange]

    def run(self) -> Run:
        for node in self.graph.nodes:
            if not node.needs:
                self.start(node)
        self.machine.run()
        if len(self.end) != len(self.graph.nodes):
            stuck = next(node for node in self.graph.nodes if node.number not in self.end)
            raise RuntimeError(f"{stuck.part} of {stuck.layer} in step {stuck.step} has not ended")
        for node in self.graph.nodes:
            if node.kind in (Kind.COLLECTIVE, Kind.SEND):
                self.exchanges[node.rank].append(node.number)
        for numbers in self.exchanges.values():
            numbers.sort(key=lambda one: self.end[one])
        spans = tuple(self.span(node) for node in self.graph.nodes)
        computed, ranks = [span for span in spans if span.node.kind == Kind.COMPUTE], max(1, len(self.graph.ranks))
        return Run(graph=self.graph, spans=spans, seconds=max(self.end.values(), default=0.0),
                   computed=sum(span.seconds for span in computed) / ranks,
                   alone=sum(span.node.work.alone(self.processor) for span in computed) / ranks,
                   statistics=self.machine.statistics())

    def start(self, node: Node) -> None:
        self.begin[node.number] = self.machine.now
        done = partial(self.ended, node)
        tag = f"{node.layer} {node.part} {node.step}"
        if node.kind == Kind.COMPUTE:
            self.handles[node.number] = self.machine.compute(
                node.work.arithmetic(self.processor), memory_bytes=node.work.memory_bytes, rank=node.rank, tag=tag,
                done=done)
        elif node.kind == Kind.DELAY:
            time = self.machine.now + node.work.alone(self.processor)
            self.machine.at(time, partial(done, time))
        elif node.transfer is not None:
            assert node.rank is not None
            self.handles[node.number] = self.machine.send(
                node.rank, node.transfer.target, node.transfer.bytes, tag=tag, done=done)
        else:
            assert node.exchange is not None
            dimensions = self.along(node.exchange)
            if not dimensions:
                self.machine.at(self.machine.now, partial(done, self.machine.now))
                return
            count = count_bytes(node.exchange, prod(self.machine.config.shape[number] for number in dimensions))
            if node.rank is not None:
                self.join(node, count, dimensions, tag)
                return
            self.handles[node.number] = self.machine.issue(
                node.exchange.collective, count, dimensions=dimensions, priority=node.priority,
                root=self.root(node.exchange, dimensions), tag=tag, done=done)

    def root(self, exchange: Exchange, dimensions: tuple[int, ...]) -> tuple[int, ...] | None:
        """Coordinates of an exchange's root."""
        return None if exchange.root is None else self.machine.ranks.coordinates(exchange.root, dimensions)

    def join(self, node: Node, count: int, dimensions: tuple[int, ...], tag: str) -> None:
        """A rank joins its collective, which the first of its ranks begins."""
        assert node.exchange is not None and node.rank is not None
        match = self.matches[node.number]
        if match not in self.pending:
            nodes: dict[int, Node] = {}

            def each(rank: int) -> None:
                self.ended(nodes[rank], self.machine.now)

            made = self.machine.prepare(node.exchange.collective, count, dimensions=dimensions, ranks=match[0],
                                        priority=node.priority, root=self.root(node.exchange, dimensions), tag=tag,
                                        each=each)
            self.pending[match] = node, made, nodes
        first, made, nodes = self.pending[match]
        assert first.exchange is not None
        mine, other = ((one.collective, one.bytes) for one in (node.exchange, first.exchange))
        if mine != other:
            raise UserError(f"rank {node.rank} takes part in {mine[0].name} of {mine[1]:,} bytes ({node.layer}) where "
                            f"rank {first.rank} of its group does in {other[0].name} of {other[1]:,} ({first.layer}).")
        member = self.machine.ranks.representative(node.rank)
        nodes[member] = node
        self.handles[node.number] = made.handle
        made.join(member)

    def ended(self, node: Node, time: float) -> None:
        self.end[node.number] = time
        for number in self.users[node.number]:
            self.missing[number] -= 1
            if not self.missing[number]:
                self.start(self.graph.nodes[number])

    def span(self, node: Node) -> Span:
        begin, end = self.begin[node.number], self.end[node.number]
        if node.number in self.handles:
            # A collective of several ranks may have begun on others before.
            begin = max(begin, self.handles[node.number].begin)
        if node.kind != Kind.COMPUTE:
            return Span(node, begin, end)
        waited = begin - (0.0 if node.previous is None else self.end[node.previous])
        if waited <= 0:
            return Span(node, begin, end)
        culprit = max(node.after, key=lambda number: self.end[number], default=None)
        if culprit is None or self.end[culprit] < begin:
            # It had to wait for exchanges that it does not need: the endpoint does not overlap.
            exchanges = self.exchanges[node.rank]
            place = bisect_right(exchanges, begin, key=lambda one: self.end[one]) - 1
            culprit = exchanges[place] if place >= 0 else culprit
        return Span(node, begin, end, waited, culprit)
