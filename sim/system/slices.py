# SPDX-License-Identifier: Apache-2.0
"""Slices of a result: computed in order by each rank, and sent when they are complete, or all at the end."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from math import prod

from hw.ace.words import Collective
from hw.errors import UserError

from .compute import Compute
from .kernel import SECOND
from .machine import Machine
from .slice_costs import SliceCosts, costs_of
from .workgroups import PersistentKernel, Task, Workgroups

__all__ = ["MOST_SLICES", "ORDERS", "AllToAll", "Collectives", "Fused", "Fusion", "Slices", "hops", "offset_from"]

ORDERS = ("remote-first", "remote-last", "by-rank")
"""Order of slices: those for other ranks before the rank's own, after its own, or all in the order of their ranks."""

MOST_SLICES = 4096


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
        ``ALL_TO_ALL``, ``ALL_REDUCE`` or ``REDUCE_SCATTER``.
    task_seconds : tuple of float
        Seconds of each task of a rank on one workgroup, in order; empty: equal shares of the above.
    reduce_seconds : float
        With :class:`~.direct.DirectAllReduce`: of the task that adds a slice of all ranks, on one workgroup.
    """

    name: str
    arithmetic: float
    memory_bytes: int
    output_bytes: int
    collective: Collective
    task_seconds: tuple[float, ...] = ()
    reduce_seconds: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Fusion:
    """How an operation is fused with its communication.

    Parameters
    ----------
    fused : bool
        Send each slice when it is computed; False: send all when the last one is computed.
    slices : int
        Slices of the part for each rank (all-to-all), or of the whole result (reductions).
    order : str
        One of :data:`ORDERS`, for an all-to-all.
    engine : str or SliceCosts
        One of :data:`~.slice_costs.DMA_ENGINES`, or its costs. Reductions have the latencies of its requests and of its
        notification, and no others.
    per_slice : float
        Additional seconds per slice on the processor, for instance to detect that the slice is complete.
    workgroups : Workgroups
    relay : bool
        A slice for a rank that is no neighbour is put to the neighbour's memory, whose counter posts the next put;
        False: it crosses the links between without a stop in memory.
    """

    fused: bool = True
    slices: int = 1
    order: str = ORDERS[0]
    engine: str | SliceCosts = "hardware"
    per_slice: float = 0.0
    workgroups: Workgroups = field(default_factory=Workgroups)
    relay: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.slices, int) or isinstance(self.slices, bool) or not 1 <= self.slices <= MOST_SLICES:
            raise UserError(f"slices must be an integer from 1 to {MOST_SLICES:,}, not {self.slices!r}.")
        if self.order not in ORDERS:
            raise UserError(f"the order of slices must be one of {', '.join(ORDERS)}, not {self.order!r}.")
        costs_of(self.engine)

    @property
    def costs(self) -> SliceCosts:
        return costs_of(self.engine)


def offset_from(machine: Machine, rank: int, offset: int, sign: int = 1) -> int:
    """Rank whose coordinates differ from those of ``rank`` as those of rank ``offset`` from those of rank 0, or, with
    ``sign`` -1, the other way round."""
    found, shape = 0, machine.config.shape
    every = range(len(shape))
    for size, at, by in zip(shape, machine.coordinates(rank, every), machine.coordinates(offset, every), strict=True):
        found = found * size + (at + sign * by) % size
    return found


def hops(shape: Sequence[int], offset: Sequence[int]) -> list[tuple[int, int]]:
    """``(dimension, +1 or -1)`` of each link to the rank at these coordinates from rank 0, dimension after dimension,
    in the shorter direction."""
    return [(dimension, 1 if 2 * by <= size else -1) for dimension, (size, by) in enumerate(zip(
        shape, offset, strict=True)) for _ in range(min(by, size - by))]


class Slices(ABC):
    """Slices of all ranks of a machine.

    Attributes
    ----------
    done : dict
        Rank -> seconds of its latest slice, computed or received.
    computed : dict
        Rank -> seconds when it has computed all slices.
    phases : dict
        Seconds of the ends of phases, by name, if there are several.
    """

    def __init__(self, operation: Fused, machine: Machine, fusion: Fusion) -> None:
        self.operation, self.machine, self.fusion = operation, machine, fusion
        self.ranks = prod(machine.config.shape)
        self.done = dict.fromkeys(range(len(machine.endpoints)), 0.0)
        self.computed = dict(self.done)
        self.kernels: dict[int, PersistentKernel] = {}
        self.processors: dict[int, list[Compute]] = {rank: [machine.computes[rank]] for rank in self.done}
        self.phases: dict[str, float] = {}
        self._open = 0
        self._ended: Callable[[], object] = _nothing

    @property
    @abstractmethod
    def size(self) -> int:
        """Bytes of a slice."""

    @abstractmethod
    def plan(self, rank: int) -> list[int]:
        """Target of each slice of a rank, in the order of computation."""

    @abstractmethod
    def send(self, rank: int, target: int) -> None:
        """Send a slice; :meth:`begin` before, :meth:`end` when it has arrived."""

    def start(self, ended: Callable[[], object] | None = None) -> None:
        """Begin on all ranks. ``ended()`` is called when all have all of their data."""
        self._ended = ended or _nothing
        self.begin(len(self.done))
        for rank in self.done:
            self.launch(rank)

    def launch(self, rank: int) -> None:
        """Compute the slices of a rank."""
        plan = self.plan(rank)

        def ended(number: int) -> None:
            if self.fusion.fused:
                self.send(rank, plan[number])

        def finished() -> None:
            self.computed[rank] = self.machine.now
            if not self.fusion.fused:
                for target in plan:
                    self.send(rank, target)
            self.following(rank)
            self.end(rank)

        self.kernel(rank, self.tasks(len(plan)), ended, finished)

    def following(self, rank: int) -> None:
        """The kernel of a rank has ended: begin what follows it on the processor, by default nothing."""
        return

    def kernel(self, rank: int, tasks: list[Task], ended: Callable[[int], object],
               finished: Callable[[], object]) -> None:
        """Start the kernel of a rank."""
        self.processor(rank, self.fusion.workgroups.slots(self.fusion.fused))
        kernel = self.kernels[rank] = PersistentKernel(self.machine, rank, tasks, ended, finished)
        kernel.start()

    def processor(self, rank: int, slots: int) -> None:
        """Replace the rank's processor by one with slots."""
        self.machine.computes[rank] = processor = Compute(self.machine, rank, slots)
        self.processors[rank].append(processor)

    @property
    def busy(self) -> float:
        """Seconds for which the busiest processor has computed."""
        return max(sum(one.busy for one in processors) for processors in self.processors.values()) / SECOND

    def tasks(self, slices: int, share: float = 1.0) -> list[Task]:
        """Tasks of a rank that computes this number of slices, and ``share`` times the operation's work."""
        fusion, operation = self.fusion, self.operation
        groups, fused = fusion.workgroups, fusion.fused
        slots, each = groups.slots(fused), groups.of_slice(slices)
        if given := operation.task_seconds:
            if len(given) != (count := slices * each):
                raise UserError(f"There must be a time for each of {count:,} tasks, not {len(given):,}.")
            times = [(seconds / slots, 0.0) for seconds in given]
        else:
            part = groups.slowdown(fused) * share / slices / each if slices else 0.0
            times = [(operation.arithmetic * part, operation.memory_bytes * part)] * (slices * each)
        made = [Task(seconds=seconds, memory_bytes=memory, slice=number // each)
                for number, (seconds, memory) in enumerate(times)]
        if fused and fusion.per_slice:
            for number in range(each - 1, len(made), each):
                made[number] = replace(made[number], seconds=made[number].seconds + fusion.per_slice / slots)
        return made

    def begin(self, number: int = 1) -> None:
        """Something more must end."""
        self._open += number

    def end(self, rank: int) -> None:
        """Something has ended on a rank."""
        self.done[rank] = max(self.done[rank], self.machine.now)
        self._open -= 1
        if not self._open:
            self._ended()


class AllToAll(Slices):
    """Parts of a rank's result go to the other ranks."""

    @property
    def size(self) -> int:
        return -(-self.operation.output_bytes // self.ranks // self.fusion.slices)

    def plan(self, rank: int) -> list[int]:
        """Targets are ranks with the order ``by-rank``, otherwise offsets from the rank."""
        slices = self.fusion.slices
        if self.fusion.order == "by-rank":
            return [target for target in range(self.ranks) for _ in range(slices)]
        # Slices alternate between the other ranks, which keeps all links busy; a rank's own slices are contiguous.
        remote = [other for _ in range(slices) for other in range(1, self.ranks)]
        own = [0] * slices
        return remote + own if self.fusion.order == "remote-first" else own + remote

    def send(self, rank: int, target: int) -> None:
        if self.fusion.order != "by-rank":
            target = offset_from(self.machine, rank, target)
        if target != rank:
            self.put(rank, target, self.size, self.end)

    def put(self, source: int, target: int, size: int, done: Callable[[int], object]) -> None:
        """Move a slice, and call ``done`` with the receiver, which is rank 0 of a folded machine."""
        machine = self.machine
        receiver = 0 if machine.config.fold else target
        self.begin()
        if not self.fusion.relay:
            machine.put(source, target, size, engine=self.fusion.engine, done=lambda _: done(receiver))
            return
        every = range(len(machine.config.shape))
        away = [(to - at) % side for to, at, side in zip(
            machine.coordinates(target, every), machine.coordinates(source, every), machine.config.shape, strict=True)]
        self._relay(source, hops(machine.config.shape, away), size, lambda: done(receiver))

    def _relay(self, at: int, path: list[tuple[int, int]], size: int, done: Callable[[], object]) -> None:
        (dimension, step), *rest = path
        shape = self.machine.config.shape
        by = prod(shape[dimension + 1:]) * (1 if step > 0 else shape[dimension] - 1)
        neighbour = offset_from(self.machine, at, by)
        if rest:
            following = 0 if self.machine.config.fold else neighbour
            self.machine.put(at, neighbour, size, engine=self.fusion.engine,
                             counted=lambda: self._relay(following, rest, size, done))
        else:
            self.machine.put(at, neighbour, size, engine=self.fusion.engine, done=lambda _: done())


class Collectives(Slices):
    """Each slice of the result enters a collective of all ranks."""

    @property
    def size(self) -> int:
        return -(-self.operation.output_bytes // self.fusion.slices)

    def plan(self, rank: int) -> list[int]:
        """A reduction has no target; every entry is 0."""
        return [0] * self.fusion.slices

    def send(self, rank: int, target: int) -> None:
        costs, machine, clock = self.fusion.costs, self.machine, self.machine.config.clock_hz
        collective, size = self.operation.collective, self.size
        if collective == Collective.REDUCE_SCATTER:
            size = -(-size // self.ranks)
        self.begin()

        def issue() -> None:
            machine.issue(collective, size, done=lambda time: machine.at(
                time + costs.complete_s + costs.poll_cycles / clock, lambda: self.end(rank)))

        machine.at(machine.now + costs.post_s + costs.tick_cycles / clock, issue)


def _nothing() -> None:
    pass
