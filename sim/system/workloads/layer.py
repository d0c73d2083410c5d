# SPDX-License-Identifier: Apache-2.0
"""Contents of a training step: layers, the work of their three passes, and their exchanges."""

from dataclasses import dataclass, field, replace

from hw.ace.words import Collective
from hw.errors import UserError

__all__ = ["BACKWARD", "GROUPS", "PARALLEL_GROUPS", "PASSES", "Exchange",
           "Layer", "Pass", "Processor", "Work", "Workload"]

PASSES = ("forward", "input_grad", "weight_grad")
"""Passes of a layer, in the order of the columns of a CSV file."""

GROUPS = ("all", "model", "data")
"""Ranks of an exchange: all ranks, the ranks that share a model, the ranks that have the same piece of the model."""

PARALLEL_GROUPS = ("tensor", "expert", "pipeline", "replica", "expert-data")
"""Groups whose dimensions a graph states: see :mod:`.transformer`."""

BACKWARD = ("weight-first", "input-first")
"""Order of a layer's two gradients."""


@dataclass(frozen=True, kw_only=True)
class Processor:
    """Processor of a rank.

    Parameters
    ----------
    flops : float
        Peak rate, operations/s; a multiply-add counts as two.
    efficiency : float
        Share of the peak that matrix products reach, above 0 and at most 1.
    memory : float
        Bandwidth of the memory, bytes/s.
    """

    flops: float = 120e12
    efficiency: float = 1.0
    memory: float = 900e9

    def __post_init__(self) -> None:
        for name, value in (("flops", self.flops), ("memory", self.memory)):
            if not 0 < value < float("inf"):
                raise UserError(f"the processor's {name} must be above 0, not {value!r}.")
        if not 1e-6 <= self.efficiency <= 1:
            raise UserError(f"the processor's efficiency must be from 1e-06 to 1, not {self.efficiency!r}.")


@dataclass(frozen=True, kw_only=True)
class Work:
    """Computation of a pass: its duration or its operations, and its memory traffic.

    Parameters
    ----------
    seconds : float or None
        Duration as given, if memory is not slower; None: from the roofline of a :class:`Processor`.
    flops : int
        Operations.
    memory_bytes : int
        Bytes read from and written to memory. With ``seconds``, 0 means that the traffic is unknown.
    """

    seconds: float | None = None
    flops: int = 0
    memory_bytes: int = 0

    def alone(self, processor: Processor) -> float:
        """Seconds on an otherwise idle machine: the longer of arithmetic and memory time."""
        return max(self.arithmetic(processor), self.memory_bytes / processor.memory)

    def arithmetic(self, processor: Processor) -> float:
        """Seconds without waiting for memory; the whole duration if the traffic is unknown."""
        if self.seconds is not None:
            return self.seconds
        return self.flops / (processor.flops * processor.efficiency)


@dataclass(frozen=True, kw_only=True)
class Exchange:
    """A collective that a pass issues.

    Parameters
    ----------
    collective : Collective
    bytes : int
        Bytes of the whole vector at each rank; for an all-gather, of the rank's own part.
    group : str
        One of :data:`GROUPS` or :data:`PARALLEL_GROUPS`.
    ranks : tuple of int
        The ranks of a group of its own, instead of ``group``: all ranks along some dimensions. Empty: ``group``.
    root : int or None
        Rank of the root of a broadcast or a reduce; None: the one with coordinate 0 in each of its dimensions.
    """

    collective: Collective
    bytes: int
    group: str = "all"
    ranks: tuple[int, ...] = ()
    root: int | None = None

    def __post_init__(self) -> None:
        if self.bytes < 1:
            raise UserError(f"an exchange must have 1 byte or more, not {self.bytes}.")
        groups = (*GROUPS, *PARALLEL_GROUPS)
        if self.group not in groups:
            raise UserError(f"the group of an exchange must be one of {', '.join(groups)}, not {self.group!r}.")


@dataclass(frozen=True, kw_only=True)
class Pass:
    """One of a layer's three passes.

    Parameters
    ----------
    work : Work
    exchange : Exchange or None
        Issued when the work is done.
    other : str
        Name of a layer. Forward pass: the exchange must complete before this layer's forward pass (default: before
        anything else). Input gradient: the exchange is issued after this layer's input gradient (default: after the
        pass's own layer).
    """

    work: Work = field(default_factory=Work)
    exchange: Exchange | None = None
    other: str = ""


@dataclass(frozen=True, kw_only=True)
class Layer:
    """A layer.

    Parameters
    ----------
    forward, input_grad, weight_grad : Pass
        Passes. The exchange of the weight gradient overlaps with the following passes and must complete ``update``
        seconds before the layer's next forward pass.
    update : float
        Seconds from reduced gradients to new weights.
    """

    name: str
    forward: Pass = field(default_factory=Pass)
    input_grad: Pass = field(default_factory=Pass)
    weight_grad: Pass = field(default_factory=Pass)
    update: float = 0.0

    def __getitem__(self, name: str) -> Pass:
        """Pass with a name of :data:`PASSES`."""
        found: Pass = getattr(self, name)
        return found

    def passes(self) -> list[tuple[str, Pass]]:
        """Name and :class:`Pass` of each pass."""
        return [(name, self[name]) for name in PASSES]


@dataclass(frozen=True, kw_only=True)
class Workload:
    """A training step of one rank.

    Parameters
    ----------
    name, source : str
        Name, and source of its figures.
    layers : tuple of Layer
    model_parallel : int
        Number of ranks that share a model, those of the first dimensions; 0: all.
    backward : str
        One of :data:`BACKWARD`.
    """

    name: str
    layers: tuple[Layer, ...]
    source: str = ""
    model_parallel: int = 1
    backward: str = "weight-first"

    def __post_init__(self) -> None:
        if not self.layers:
            raise UserError(f"the workload {self.name} has no layers.")
        if self.model_parallel < 0:
            raise UserError(f"the workload {self.name}: model_parallel must be 0 or more, not {self.model_parallel}.")
        if self.backward not in BACKWARD:
            raise UserError(f"the workload {self.name}: backward must be one of {', '.join(BACKWARD)}, "
                            f"not {self.backward!r}.")
        numbers: dict[str, int] = {}
        for number, layer in enumerate(self.layers):
            if numbers.setdefault(layer.name, number) != number:
                raise UserError(f"the workload {self.name} has two layers {layer.name!r}.")
        for number, layer in enumerate(self.layers):
            for name, one in layer.passes():
                if not one.other:
                    continue
                if one.other not in numbers:
                    raise UserError(f"the workload {self.name}: {name} of {layer.name} names a layer {one.other!r}, "
                                    "which it does not have.")
                if name == "weight_grad" or numbers[one.other] <= number:
                    raise UserError(f"the workload {self.name}: {name} of {layer.name} cannot name {one.other}; only a "
                                    "forward pass and an input gradient can, and only a later layer.")

    def bytes(self, collective: Collective | None = None, name: str | None = None) -> int:
        """Bytes of all exchanges, or of those of one collective or pass."""
        return sum(one.exchange.bytes for layer in self.layers for which, one in layer.passes()
                   if one.exchange and collective in (None, one.exchange.collective) and name in (None, which))

    def seconds(self, processor: Processor, name: str | None = None) -> float:
        """Computation time of a step or of one pass on an otherwise idle machine."""
        return sum(one.work.alone(processor) for layer in self.layers for which, one in layer.passes()
                   if name in (None, which))

    def scaled(self, factor: float) -> "Workload":
        """The same workload with computation ``factor`` times as fast."""
        def faster(one: Pass) -> Pass:
            work = one.work
            return replace(one, work=Work(seconds=None if work.seconds is None else work.seconds / factor,
                                          flops=round(work.flops / factor),
                                          memory_bytes=round(work.memory_bytes / factor)))
        return replace(self, layers=tuple(
            replace(layer, forward=faster(layer.forward), input_grad=faster(layer.input_grad),
                    weight_grad=faster(layer.weight_grad)) for layer in self.layers))
