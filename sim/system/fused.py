# SPDX-License-Identifier: Apache-2.0
"""Computation fused with its communication: a request by the GPU sends each slice of a result when it is computed.

After "Optimizing distributed ML communication with fused computation-collective operations" (arXiv 2305.06942): a
kernel computes its output in slices, and the thread that finishes a slice posts its request. Without fusion, the whole
output is computed first.

========================  =======================================================================
embedding + all-to-all    pooled rows of tables go to the ranks of their samples: memory-bound
GEMM + all-to-all         tokens go back from experts to their ranks: compute-bound
GEMV + all-reduce         a token's tensor-parallel layer: memory-bound, a small all-reduce
========================  =======================================================================
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from math import prod

from hw.ace.words import Collective
from hw.errors import UserError

from .configuration import MachineConfig, Npu
from .machine import Machine
from .slice_costs import DMA_ENGINES

__all__ = ["OPERATIONS", "ORDERS", "Fused", "FusedRun", "embedding", "gemm", "gemv", "run"]

ORDERS = ("remote-first", "remote-last", "by-rank")
"""Order of slices: those for other ranks before the rank's own, after its own, or all in the order of their ranks."""

MOST_UNFOLDED = 32


@dataclass(frozen=True, kw_only=True)
class Fused:
    """A computation and the collective of its result.

    Parameters
    ----------
    name : str
    arithmetic : float
        Seconds on the whole processor.
    memory_bytes : int
        Bytes that it reads.
    output_bytes : int
        Bytes of a rank's result, which consists of equal parts for each rank, or is to be reduced.
    collective : Collective
        ``ALL_TO_ALL`` or ``ALL_REDUCE``.
    """

    name: str
    arithmetic: float
    memory_bytes: int
    output_bytes: int
    collective: Collective


def embedding(npu: Npu, ranks: int, *, batch: int = 1024, tables: int = 64, width: int = 92, pooling: int = 70,
              element: int = 4) -> Fused:
    """Pooled embeddings of ``batch`` samples for the ``tables`` tables of a rank. Defaults of width and pooling are
    recalled from the paper's DLRM. ``npu``: :class:`Npu`."""
    rows = batch * tables * pooling
    return Fused(name="embedding + all-to-all", arithmetic=2 * rows * width / npu.flops,
                 memory_bytes=rows * width * element, output_bytes=batch * tables * width * element,
                 collective=Collective.ALL_TO_ALL)


def gemm(npu: Npu, ranks: int, *, tokens: int = 4096, width: int = 4096, hidden: int = 14336,
         element: int = 2) -> Fused:
    """Second matrix of an expert: ``tokens`` from ``hidden`` to ``width``, which return to the ranks they came from."""
    return Fused(name="GEMM + all-to-all", arithmetic=2 * tokens * width * hidden / npu.flops,
                 memory_bytes=element * (tokens * (width + hidden) + width * hidden),
                 output_bytes=tokens * width * element, collective=Collective.ALL_TO_ALL)


def gemv(npu: Npu, ranks: int, *, width: int = 8192, hidden: int = 28672, tokens: int = 8, element: int = 2) -> Fused:
    """Second matrix of a layer that ``ranks`` share, for ``tokens`` tokens; each has ``hidden / ranks`` of the rows."""
    mine = -(-hidden // ranks)
    return Fused(name="GEMV + all-reduce", arithmetic=2 * tokens * width * mine / npu.flops,
                 memory_bytes=element * (width * mine + tokens * (width + mine)), output_bytes=tokens * width * element,
                 collective=Collective.ALL_REDUCE)


OPERATIONS: dict[str, Callable[..., Fused]] = {"embedding": embedding, "gemm": gemm, "gemv": gemv}


@dataclass(frozen=True, kw_only=True)
class FusedRun:
    """Times of a run.

    Parameters
    ----------
    seconds : float
        Until the last rank has received all its data.
    computed : float
        Until the last rank has computed all its slices.
    skew : float
        Time between the first and the last rank that has all its data, as a share of ``seconds``; 0 for a folded
        machine.
    slice_bytes : int
    """

    seconds: float
    computed: float
    skew: float
    slice_bytes: int


def run(operation: Fused, config: MachineConfig, *, slices: int | None = None, order: str | None = None,
        engine: str = "hardware", per_slice: float = 0.0) -> FusedRun:
    """:class:`FusedRun` of an operation on an idle machine.

    Parameters
    ----------
    operation : Fused
    config : MachineConfig
    slices : int or None
        Slices of the part for each rank (all-to-all), or of the whole result (all-reduce); None: not fused.
    order : str
        One of :data:`ORDERS`, for an all-to-all, by default the first; ``by-rank`` simulates every rank, and at most
        32 of them.
    engine : str
        One of :data:`~.slice_costs.DMA_ENGINES`, which sends the slices. The start and the completion of an all-reduce have
        the same latencies.
    per_slice : float
        Additional seconds per slice on the processor, for instance to detect that the slice is complete.
    """
    order = order or ORDERS[0]
    if slices is not None and (not isinstance(slices, int) or not 1 <= slices <= 4096):
        raise UserError(f"slices must be an integer from 1 to 4,096, not {slices!r}.")
    if order not in ORDERS:
        raise UserError(f"the order of slices must be one of {', '.join(ORDERS)}, not {order!r}.")
    if engine not in DMA_ENGINES:
        raise UserError(f"the engine must be one of {', '.join(DMA_ENGINES)}, not {engine!r}.")
    ranks = prod(config.shape)
    if order == "by-rank" and ranks > MOST_UNFOLDED:
        raise UserError(f"slices in the order of ranks are simulated on at most {MOST_UNFOLDED} ranks, not on {ranks}.")
    machine = Machine(config.with_(fold=order != "by-rank" or operation.collective != Collective.ALL_TO_ALL))
    kind: type[_Slices] = _AllToAll if operation.collective == Collective.ALL_TO_ALL else _AllReduce
    return kind(operation, machine, slices, order, engine, per_slice).run()


class _Slices(ABC):
    """Compute the slices of each rank in order, and send them."""

    def __init__(self, operation: Fused, machine: Machine, slices: int | None, order: str, engine: str,
                 per_slice: float) -> None:
        self.operation, self.machine, self.order, self.engine = operation, machine, order, engine
        self.fused, self.slices, self.per_slice = slices is not None, slices or 1, per_slice
        self.ranks = prod(machine.config.shape)
        self.done = dict.fromkeys(range(len(machine.endpoints)), 0.0)
        self.computed = dict(self.done)

    @property
    @abstractmethod
    def size(self) -> int:
        """Bytes of a slice."""

    @abstractmethod
    def plan(self, rank: int) -> list[int]:
        """Target of each slice of a rank, in the order of computation."""

    @abstractmethod
    def send(self, rank: int, target: int) -> None:
        """Send a slice."""

    def run(self) -> FusedRun:
        for rank in self.done:
            self.compute(rank, self.plan(rank), 0)
        self.machine.run()
        last, first = max(self.done.values()), min(self.done.values())
        return FusedRun(seconds=last, computed=max(self.computed.values()), skew=(last - first) / last,
                        slice_bytes=self.size)

    def compute(self, rank: int, plan: list[int], number: int) -> None:
        if number == len(plan):
            self.computed[rank] = self.machine.now
            self.had(rank, self.machine.now)
            if not self.fused:
                for target in plan:
                    self.send(rank, target)
            return
        share = 1 / len(plan)

        def computed(_: float) -> None:
            if self.fused:
                self.send(rank, plan[number])
            self.compute(rank, plan, number + 1)

        seconds = self.operation.arithmetic * share + (self.per_slice if self.fused else 0.0)
        self.machine.compute(seconds, memory_bytes=self.operation.memory_bytes * share,
                             rank=None if self.machine.config.fold else rank, done=computed)

    def had(self, rank: int, time: float) -> None:
        self.done[rank] = max(self.done[rank], time)


class _AllToAll(_Slices):
    @property
    def size(self) -> int:
        return -(-self.operation.output_bytes // self.ranks // self.slices)

    def plan(self, rank: int) -> list[int]:
        """Targets are ranks with the order ``by-rank``, otherwise offsets from the rank."""
        if self.order == "by-rank":
            return [target for target in range(self.ranks) for _ in range(self.slices)]
        # Slices alternate between the other ranks, which keeps all links busy; a rank's own slices are contiguous.
        remote = [other for _ in range(self.slices) for other in range(1, self.ranks)]
        own = [0] * self.slices
        return remote + own if self.order == "remote-first" else own + remote

    def send(self, rank: int, target: int) -> None:
        source = rank
        if self.machine.config.fold:
            source = 0
        if target == source:
            return
        # Rank 0 represents all ranks; from rank 0, an offset equals a rank.
        receiver = 0 if self.machine.config.fold else target
        self.machine.put(source, target, self.size, engine=self.engine,
                         done=lambda time: self.had(receiver, time))


class _AllReduce(_Slices):
    @property
    def size(self) -> int:
        return -(-self.operation.output_bytes // self.slices)

    def plan(self, rank: int) -> list[int]:
        """An all-reduce has no target; every entry is 0."""
        return [0] * self.slices

    def send(self, rank: int, target: int) -> None:
        costs, machine = DMA_ENGINES[self.engine], self.machine

        def issue() -> None:
            machine.issue(Collective.ALL_REDUCE, self.size, done=lambda time: self.had(rank, time + costs.complete_s))

        machine.at(machine.now + costs.post_s, issue)
