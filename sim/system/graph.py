# SPDX-License-Identifier: Apache-2.0
"""A training run as a graph: what is computed and exchanged, and what has to have ended before.

Each rank runs the same nodes, or those that name it. Its processor computes one node at a time, in the order of their
numbers; collectives and sends begin when what they need has ended, and run beside the processor.

If nodes name ranks, collectives of a group belong together in the order of their numbers on each rank: the first nodes
of all ranks are one collective, which each rank joins when its node begins. A receive is a delay of no time after the
send of another rank.
"""

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from .workloads import Exchange, Layer, Work, Workload

__all__ = ["URGENT", "Graph", "Kind", "Node", "Transfer", "unroll"]

URGENT = 1
"""Priority of exchanges that the next compute waits for; those of weight gradients have 0."""


class Kind(enum.Enum):
    COMPUTE = "compute"
    """Takes the processor."""
    DELAY = "delay"
    """Takes time only."""
    COLLECTIVE = "collective"
    SEND = "send"
    """Bytes to another rank; ends when they are in its memory."""


@dataclass(frozen=True, kw_only=True)
class Transfer:
    """Bytes, 1 or more, that a rank sends to the rank ``target``."""

    target: int
    bytes: int


@dataclass(frozen=True, kw_only=True)
class Node:
    """A piece of a run.

    Parameters
    ----------
    number : int
        Place in the graph.
    kind : Kind
    step : int
        Iteration.
    layer, part : str
        What it belongs to; ``part`` is a pass of the layer, or ``update``.
    previous : int or None
        Of compute: the node before on the processor.
    after : tuple of int
        Nodes that must have ended.
    work : Work
        Of compute and delays.
    exchange : Exchange or None
        Of a collective.
    priority : int
        Of a collective.
    rank : int or None
        The rank that does it; None: all ranks do.
    transfer : Transfer or None
        Of a send.
    micro : int or None
        Micro-batch of a transformer's step.
    """

    number: int
    kind: Kind
    step: int = 0
    layer: str = ""
    part: str = ""
    previous: int | None = None
    after: tuple[int, ...] = ()
    work: Work = field(default_factory=Work)
    exchange: Exchange | None = None
    priority: int = 0
    rank: int | None = None
    transfer: Transfer | None = None
    micro: int | None = None

    @property
    def needs(self) -> tuple[int, ...]:
        """Numbers of all nodes that must have ended."""
        return self.after if self.previous is None else (self.previous, *self.after)


@dataclass(frozen=True, kw_only=True)
class Graph:
    """Nodes, each of which needs only earlier ones; ``steps`` iterations of ``name``.

    Parameters
    ----------
    model_parallel : int
        Ranks that share a model, those of the first dimensions; 0: all.
    groups : dict
        Name of a group of exchanges -> dimensions of the machine along which it communicates.
    distinct : tuple of int or None
        If nodes name ranks: dimensions along which ranks differ. The nodes of a rank are also those of all ranks of
        the same coordinates there, and name the rank whose other coordinates are 0. None: each rank has its own.
    """

    name: str
    nodes: tuple[Node, ...]
    steps: int = 1
    model_parallel: int = 1
    source: str = ""
    groups: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    distinct: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        for number, node in enumerate(self.nodes):
            if node.number != number or any(not 0 <= need < number for need in node.needs):
                raise ValueError(f"Node {node.number} at place {number} needs {node.needs}, which must be earlier ones")
            if (node.rank is None) != (self.nodes[0].rank is None):
                raise ValueError(f"Node {number} must name a rank, as all or none do")
            if (node.kind == Kind.SEND) != (node.transfer is not None and node.rank is not None):
                raise ValueError(f"Node {number} must be a send of a rank with a transfer, or neither")

    @property
    def ranks(self) -> tuple[int, ...]:
        """Ranks that nodes name; none if all ranks do the same."""
        return tuple(sorted({node.rank for node in self.nodes if node.rank is not None}))


def unroll(workload: Workload, steps: int = 2) -> Graph:
    """:class:`Graph` of ``steps`` iterations of a workload.

    Forward passes go up the layers. The exchange of a forward pass holds the next compute, or the layer that it names.
    Backwards, a layer computes its two gradients in the workload's order; the exchange of an input gradient holds the
    next layer. Exchanges of weight gradients, and the updates after them, hold the layer's next forward pass.

    Parameters
    ----------
    workload : Workload
    steps : int
        Iterations.
    """
    return Graph(name=workload.name, nodes=tuple(_Unrolling(workload).run(steps)), steps=steps,
                 model_parallel=workload.model_parallel, source=workload.source)


class _Unrolling:
    def __init__(self, workload: Workload) -> None:
        self.layers, self.backward = workload.layers, workload.backward
        self.nodes: list[Node] = []
        self.last: int | None = None
        self.step = 0
        # Nodes that must end before the next compute, and before the next forward pass of a layer.
        self.held: set[int] = set()
        self.gates: dict[str, set[int]] = {}

    def run(self, steps: int) -> list[Node]:
        for self.step in range(steps):
            for layer in self.layers:
                self.forward(layer)
            for layer in reversed(self.layers):
                self.backwards(layer)
        return self.nodes

    def add(self, kind: Kind, layer: Layer, part: str, after: Iterable[int], **more: Any) -> int:
        number = len(self.nodes)
        self.nodes.append(Node(number=number, kind=kind, step=self.step, layer=layer.name, part=part,
                               after=tuple(sorted(set(after))), **more))
        return number

    def compute(self, layer: Layer, part: str) -> None:
        work = layer[part].work
        if work == Work() or work.seconds == 0:
            return
        held = {number for number in self.held if number != self.last}
        self.last = self.add(Kind.COMPUTE, layer, part, held, previous=self.last, work=work)
        self.held = set()

    def exchange(self, layer: Layer, part: str, exchange: Exchange, priority: int = 0) -> int:
        # Nodes that hold the next compute also hold all that comes after it.
        after = self.held | ({self.last} if self.last is not None else set())
        return self.add(Kind.COLLECTIVE, layer, part, after, exchange=exchange, priority=priority)

    def forward(self, layer: Layer) -> None:
        self.held |= self.gates.pop(layer.name, set())
        self.compute(layer, "forward")
        one = layer.forward
        if one.exchange:
            number = self.exchange(layer, "forward", one.exchange, URGENT)
            if one.other:
                self.gates.setdefault(one.other, set()).add(number)
            else:
                self.held.add(number)

    def backwards(self, layer: Layer) -> None:
        self.held |= self.gates.pop(layer.name, set())
        issued: list[int] = []
        for part in ("weight_grad", "input_grad") if self.backward == "weight-first" else ("input_grad", "weight_grad"):
            self.compute(layer, part)
            one = layer[part]
            if part == "weight_grad" and one.exchange:
                self.reduce(layer, one.exchange)
            if part == "input_grad":
                if one.exchange and not one.other:
                    issued.append(self.exchange(layer, part, one.exchange, URGENT))
                for earlier in self.layers:
                    if earlier.input_grad.exchange and earlier.input_grad.other == layer.name:
                        number = self.exchange(earlier, part, earlier.input_grad.exchange, URGENT)
                        self.gates.setdefault(earlier.name, set()).add(number)
        self.held |= set(issued)

    def reduce(self, layer: Layer, exchange: Exchange) -> None:
        number = self.exchange(layer, "weight_grad", exchange)
        if layer.update:
            number = self.add(Kind.DELAY, layer, "update", (number,), work=Work(seconds=layer.update))
        self.gates.setdefault(layer.name, set()).add(number)
