# SPDX-License-Identifier: Apache-2.0
"""The graph analyzer: which tensors cross machines, by which mechanism, where they are placed, and in which order."""

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from dmace.runtime.errors import DmaceError
from hw.common.sizes import is_integer

from .dynamic import connect_dynamic
from .graph import Graph, Operation
from .mechanism import Connect
from .pool import ALIGNMENT
from .rpc import connect_rpc
from .static import connect_static
from .tensor import Tensor

__all__ = ["FUSED_BYTES", "MECHANISMS", "Block", "Plan", "analyze"]

FUSED_BYTES = 4096
"""Tensors of fewer bytes are fused by default."""

MECHANISMS: dict[str, Connect] = {"static": connect_static, "dynamic": connect_dynamic, "rpc": connect_rpc}


@dataclass(frozen=True)
class Block:
    """Tensors that cross together, as one transfer to each destination.

    Parameters
    ----------
    tensors : tuple of :class:`Tensor`
        Several only where all shapes are known.
    offsets : tuple of int
        Of each tensor in the block.
    source : int
        Machine whose registered memory the producing operations write.
    destinations : tuple of int
        Machines with consumers.
    mechanism : str
        A key of ``MECHANISMS``.
    ready : int
        Position in the source's order of the operation that completes it; -1 for values that are fed.
    """

    tensors: tuple[Tensor, ...]
    offsets: tuple[int, ...]
    source: int
    destinations: tuple[int, ...]
    mechanism: str
    ready: int

    @property
    def name(self) -> str:
        return "+".join(tensor.name for tensor in self.tensors)

    @property
    def payload(self) -> Tensor:
        """The tensor as the mechanism has it: a fused block is one of bytes."""
        if len(self.tensors) == 1:
            return self.tensors[0]
        last = self.tensors[-1]
        return Tensor(self.name, (self.offsets[-1] + last.count(last.known or ()),), np.dtype(np.uint8))


@dataclass(frozen=True)
class Plan:
    """Result of :func:`analyze`.

    Parameters
    ----------
    order : dict
        Machine -> its operations, in the order in which it runs them.
    blocks : tuple of :class:`Block`
        In the order in which their transfers are requested: by the operation that completes them, then by the first
        operation that needs them.
    """

    order: dict[int, tuple[Operation, ...]]
    blocks: tuple[Block, ...]

    def from_machine(self, machine: int) -> list[Block]:
        return [block for block in self.blocks if block.source == machine]

    def to_machine(self, machine: int) -> list[Block]:
        return [block for block in self.blocks if machine in block.destinations]


def analyze(graph: Graph, machines: Collection[int], *, fuse: int = FUSED_BYTES, known: str = "static",
            varying: str = "dynamic") -> Plan:
    """Plan of a graph over machines.

    Tensors whose shape is known before the step get a static placement, others are allocated dynamically. Small tensors
    with known shapes are fused where one machine produces them, the same machines consume them, and the producer needs
    nothing from other machines between the first and the last of them: so no machine waits for a tensor that waits, in
    its block, for that machine.

    Parameters
    ----------
    machines : collection of int
        Numbers that the graph may use.
    fuse : int
        Tensors of fewer bytes than this are fused; 0 for none.
    known, varying : str
        Mechanism of tensors with known shapes and of the others, a key of ``MECHANISMS``.

    Raises
    ------
    DmaceError
        For a cycle, an operation or a fed value without a machine or with an unknown one, and a value that crosses
        machines and is no tensor.
    """
    if not is_integer(fuse, 0, 1 << 62):
        raise DmaceError(f"The limit for fused tensors must be a number of bytes, not {fuse!r}.")
    for mechanism in (known, varying):
        if mechanism not in MECHANISMS:
            raise DmaceError(f"A mechanism must be one of {', '.join(MECHANISMS)}, not {mechanism!r}.")
    if varying == "static":
        raise DmaceError("Tensors whose shape is not known before the step cannot have a static placement.")
    order = graph.sorted()
    placed = {operation.name: _machine(f"Operation {operation.name!r}", operation.machine, machines)
              for operation in order}
    lists = {number: tuple(operation for operation in order if placed[operation.name] == number)
             for number in sorted({*machines})}
    return Plan(lists, _blocks(graph, lists, machines, fuse, known, varying))


def _machine(what: str, machine: int | None, machines: Collection[int]) -> int:
    if machine is None:
        raise DmaceError(f"{what} is not assigned to a machine.")
    if machine not in machines:
        raise DmaceError(f"{what} is assigned to machine {machine!r}, but the machines are "
                         f"{', '.join(map(str, sorted(machines)))}.")
    return machine


@dataclass(frozen=True)
class _Crossing:
    """A tensor that crosses: ``stage`` counts the receives of its machine before it, ``needed`` is the position of its
    first consumer in that machine's order."""

    tensor: Tensor
    source: int
    destinations: tuple[int, ...]
    ready: int
    stage: int
    needed: int


def _blocks(graph: Graph, lists: dict[int, tuple[Operation, ...]], machines: Collection[int], fuse: int, known: str,
            varying: str) -> tuple[Block, ...]:
    groups: dict[object, list[_Crossing]] = {}
    for number, crossing in enumerate(_crossings(graph, lists, machines)):
        shape = crossing.tensor.known
        small = shape is not None and not crossing.tensor.scalar and crossing.tensor.count(shape) < fuse
        key = (crossing.source, crossing.destinations, crossing.stage) if small else number
        groups.setdefault(key, []).append(crossing)
    blocks: list[tuple[int, int, int, Block]] = []
    for group in groups.values():
        offsets, end = [], 0
        for crossing in group:
            offsets.append(-(-end // ALIGNMENT) * ALIGNMENT)
            end = offsets[-1] + crossing.tensor.count(crossing.tensor.known or ())
        mechanism = varying if group[0].tensor.known is None else known
        block = Block(tuple(crossing.tensor for crossing in group), tuple(offsets), group[0].source,
                      group[0].destinations, mechanism, max(crossing.ready for crossing in group))
        blocks.append((block.ready, min(crossing.needed for crossing in group), len(blocks), block))
    return tuple(block for *_, block in sorted(blocks, key=lambda entry: entry[:3]))


def _crossings(graph: Graph, lists: dict[int, tuple[Operation, ...]], machines: Collection[int]) -> list[_Crossing]:
    """Tensors that cross, in the order in which they are produced."""
    made: dict[str, tuple[int, int]] = {
        name: (_machine(f"Value {name!r}", machine, machines), -1) for name, machine in graph.feeds.items()}
    for number, operations in lists.items():
        made |= {name: (number, position) for position, operation in enumerate(operations)
                 for name in operation.outputs}
    needs: dict[str, dict[int, int]] = {}
    stages: dict[str, int] = dict.fromkeys(graph.feeds, 0)
    for number, operations in lists.items():
        stage = 0
        for position, operation in enumerate(operations):
            for name in operation.inputs:
                if made[name][0] != number and number not in needs.setdefault(name, {}):
                    needs[name][number] = position
                    stage += 1
            stages |= dict.fromkeys(operation.outputs, stage)
    found = []
    for name in made:
        if users := needs.get(name):
            tensor, (source, ready) = graph.values[name], made[name]
            if tensor is None:
                raise DmaceError(f"Value {name!r} is no tensor, so it cannot cross from machine {source} to machine "
                                 f"{min(users)}.")
            found.append(_Crossing(tensor, source, tuple(sorted(users)), ready, stages[name], min(users.values())))
    return found
