# SPDX-License-Identifier: Apache-2.0
"""A cluster over time: collectives, computations and puts, with what they take from each other.

::

    machine = Machine(MachineConfig(shape=(4, 4, 4), endpoint="ace"))
    machine.issue(Collective.ALL_REDUCE, 64 << 20, done=lambda time: print(time))
    machine.run()
    machine.statistics()
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial

from hw.ace.collectives import Collective
from hw.ace.programs.program import Program
from hw.errors import UserError

from .accelerator import Accelerator
from .alternation import Alternation
from .calibration import Calibration
from .compute import Compute
from .configuration import MachineConfig
from .conventional import Conventional
from .endpoint import Endpoint
from .handle import Handle
from .kernel import SECOND, Kernel, picoseconds
from .operation import Operation
from .pending import Pending
from .puts import Puts
from .ranks import Ranks
from .routes import Route, program, route
from .slice_costs import SliceCosts
from .statistics import Statistics, summary
from .switches import Switch

__all__ = ["Handle", "Machine"]

ENGINES: Mapping[str, type[Endpoint]] = {"sram": Accelerator, "memory": Conventional, "ideal": Endpoint}
"""By the name in :class:`.EndpointKind`."""

_ALTERNATION = 1 << 30
"""Key of the last decisions of a time: all else, such as a computation that follows another, is known by then."""

Done = Callable[[float], object]
"""Receives a time in seconds."""


class Machine:
    """
    Parameters
    ----------
    config : MachineConfig

    Attributes
    ----------
    log : list or None
        Put a list here before any request, and it receives ``(what, rank, begin, end, tag)`` of each
        collective, computation and put that ends, with ``what`` of ``collective``, ``compute``, ``put``.
    """

    def __init__(self, config: MachineConfig) -> None:
        self.config = config
        self.log: list[tuple[str, int, float, float, str]] | None = None
        self.kernel = Kernel()
        self.calibration = config.calibration or Calibration.load()
        self.memory_latency = picoseconds(config.npu.memory_latency_s)
        self.ranks = Ranks(config)
        self.agreed: list[list[tuple[Operation, int]]] = []
        self._communicators: dict[Collection[int], int] = {}
        self._routes: dict[tuple[int, int], Route] = {}
        self._programs: dict[tuple[Collective, tuple[int, ...], tuple[int, ...], tuple[int, ...], bool], Program] = {}
        self._issued = 0
        self._open: set[Operation] = set()
        self.switches = [Switch(self, dimension) if link.switched else None
                         for dimension, link in enumerate(config.dimension_links)]
        engine = ENGINES[config.kind.engine]
        self.endpoints = [engine(self, rank) for rank in self.ranks.representatives]
        for endpoint in self.endpoints:
            endpoint.neighbours = [self.endpoint(self.neighbour(endpoint.rank, port))
                                   for port in range(2 * len(config.shape))]
        for endpoint in self.endpoints:
            for number, port in enumerate(endpoint.ports):
                port.peer = endpoint.neighbours[number].ports[number ^ 1]
        self.computes = [Compute(self, endpoint.rank) for endpoint in self.endpoints]
        self._alternations = [] if config.kind.overlap else [
            Alternation(self.kernel, _ALTERNATION | rank) for rank in range(len(self.computes))]
        self._puts = Puts(self)

    # -- Ranks

    def endpoint(self, rank: int) -> Endpoint:
        """The endpoint that represents a rank."""
        return self.endpoints[self.ranks.place(rank)]

    def coordinates(self, rank: int, dimensions: Iterable[int]) -> tuple[int, ...]:
        """Coordinates of a rank in these dimensions."""
        return self.ranks.coordinates(rank, dimensions)

    def neighbour(self, rank: int, port: int) -> int:
        """Representative of the rank at the other end of a port's link: see :meth:`.Ranks.neighbour`."""
        return self.ranks.neighbour(rank, port)

    # -- Time

    @property
    def now(self) -> float:
        """Seconds."""
        return self.kernel.now / SECOND

    def at(self, time: float, callback: Callable[[], object]) -> None:
        """Call ``callback()`` at a time in seconds, or now if that is past."""
        self.kernel.at(max(picoseconds(time), self.kernel.now), callback)

    def run(self, until: float | None = None) -> None:
        """Run until nothing is left to do, or to a time in seconds.

        Raises
        ------
        UserError
            If something can never end: a rank has not issued what others wait for.
        """
        self.kernel.run(None if until is None else picoseconds(until))
        if until is None and self._open:
            names = ", ".join(sorted({operation.collective.name for operation in self._open}))
            raise UserError(f"{len(self._open)} collectives never end ({names}): not all of their ranks have issued "
                            "them.")

    # -- Requests

    def issue(self, collective: Collective | str, size: int, *, dimensions: Iterable[int] | None = None,
              priority: int = 0, ranks: Iterable[int] | None = None, root: Sequence[int] | None = None,
              delays: Mapping[int, float] | None = None, tag: str = "", done: Done | None = None) -> Handle:
        """Begin a collective on all ranks.

        Parameters
        ----------
        collective : Collective or str
            ``Collective.ALL_REDUCE`` or ``"ALL_REDUCE"``, for example.
        size : int
            Bytes: NCCL's ``count`` times the size of an element. That is the whole buffer of an all-reduce, a broadcast
            or a reduce; of a reduce-scatter, an all-gather or an all-to-all it is *one block*: the buffer over the
            ranks.
        dimensions : tuple of int, optional
            Rings and tori along these dimensions, each on its own; by default the whole machine.
        priority : int
            Larger ones go first, with ``order="priority"`` or ``"priority-lifo"``.
        ranks : iterable of int, optional
            Only the groups of these ranks; whole groups.
        root : tuple of int, optional
            Coordinates of a broadcast's or a reduce's root in the dimensions; by default all 0.
        delays : dict, optional
            Rank -> seconds from now until it takes part; 0 for those that are not in it.
        done : callable, optional
            Receives the time in seconds when it has ended on the last rank.

        Returns
        -------
        Handle
        """
        pending = self.prepare(collective, size, dimensions=dimensions, priority=priority, ranks=ranks, root=root,
                               delays=delays, tag=tag, done=done)
        for rank in pending.members:
            delay = picoseconds((delays or {}).get(rank, 0))
            self.kernel.at(self.kernel.now + delay, pending.join, rank)
        return pending.handle

    def prepare(self, collective: Collective | str, size: int, *, dimensions: Iterable[int] | None = None,
                priority: int = 0, ranks: Iterable[int] | None = None, root: Sequence[int] | None = None,
                delays: Mapping[int, float] | None = None, tag: str = "", done: Done | None = None,
                each: Callable[[int], object] | None = None) -> Pending:
        """As :meth:`issue`, for ranks that join when they are ready: all members must call :meth:`.Pending.join`.

        Parameters
        ----------
        each : callable, optional
            Called with each rank where it has ended, at that time.
        """
        collective, dimensions = self._check(collective, size, dimensions, ranks, root, delays)
        members = self.ranks.members(dimensions, ranks)
        if members not in self._communicators:
            self._communicators[members] = len(self.agreed)
            self.agreed.append([])
        number = self._issued
        self._issued += 1
        key = {"fifo": (number,), "lifo": (-number,), "priority": (-priority, number),
               "priority-lifo": (-priority, -number)}[self.config.order]
        handle = self.handle(tag)

        def ended(rank: int, last: bool) -> None:
            if last:
                self._open.discard(operation)
            self.over(handle, "collective", rank, tag or collective.name, done, last)
            if each is not None:
                each(rank)

        at = tuple(root or (0,) * len(dimensions)) if collective.info.rooted else None
        operation = Operation(self, number, key, collective, size, dimensions, members, at, ended,
                              self._communicators[members])
        self._open.add(operation)

        def begin(rank: int) -> None:
            self._begin(rank, operation, handle)

        return Pending(handle, members, self.ranks.representative, begin)

    def compute(self, seconds_alone: float, *, memory_bytes: float = 0, rank: int | None = None, tag: str = "",
                done: Done | None = None) -> Handle:
        """Compute on a rank, or on all, for this number of seconds at all cores and full memory bandwidth.

        Parameters
        ----------
        memory_bytes : float
            That it reads: it takes at least as long as the memory, less what communication has, needs for them.
        done : callable, optional
            Receives the time in seconds when it has ended on the last rank.
        """
        if not seconds_alone >= 0 or not memory_bytes >= 0:
            raise UserError("A computation must take 0 seconds or more and read 0 bytes or more, not "
                            f"{seconds_alone!r} and {memory_bytes!r}.")
        return self._compute_on(self._which(rank), seconds_alone, memory_bytes, tag, done)

    def put(self, source: int, target: int, size: int, *, engine: str | SliceCosts = "hardware", tag: str = "",
            done: Done | None = None, counted: Callable[[], object] | None = None) -> Handle:
        """Move bytes from one rank's memory to another's, or within one (``source == target``), by a DMA request.

        Parameters
        ----------
        engine : str or SliceCosts
            One of :data:`~.slice_costs.DMA_ENGINES`, or its costs.
        done : callable, optional
            Receives the time in seconds when the target can see that it has all.
        counted : callable, optional
            Called when the target's memory has responded to the last byte, before the target is notified.

        On a folded machine all ranks that ``source`` represents do the same, to the rank that is as far away.
        """
        return self._puts.put(source, target, size, engine, tag, done, counted)

    def send(self, source: int, target: int, size: int, *, tag: str = "", done: Done | None = None) -> Handle:
        """Send bytes as a step of a program does: a :meth:`put` at no cost but the memory's and the links', which waits
        for the processor of ``source`` if its endpoint does not overlap, and is communication of ``source``.

        The receiver's buffer is there before, so the receiver takes no part. ``handle.begin`` is the time at which the
        first byte may leave.
        """
        self._puts.check(source, target, size)
        rank = self.ranks.representative(source)
        costs = SliceCosts(from_memory=self.config.kind.engine != "ideal")
        handle = self.handle(tag)

        def ended(time: float) -> None:
            self.endpoint(rank).communicates(-1)
            handle.end = time
            if done is not None:
                done(time)

        def begin() -> None:
            handle.begins(self.now)
            self.endpoint(rank).communicates(1)
            self._puts.put(source, target, size, costs, tag, ended)

        self.kernel.at(self.kernel.now, self._admit, rank, begin)
        return handle

    def statistics(self) -> Statistics:
        """Traffic and utilisation: see :func:`.statistics.summary`."""
        return summary(self)

    # -- For endpoints

    def handle(self, tag: str) -> Handle:
        return Handle(tag, self.now)

    def over(self, handle: Handle, what: str, rank: int, name: str, done: Done | None, last: bool = True) -> None:
        """Something is over on a rank, or on the last one."""
        handle.ends[rank] = self.now
        if self.log is not None:
            self.log.append((what, rank, handle.begin, self.now, name))
        if last:
            handle.end = self.now
            if done is not None:
                done(self.now)

    def communicating(self, rank: int, whether: bool) -> None:
        """Note whether a collective is in progress on a rank."""
        place = self.ranks.place(rank)
        self.computes[place].communicating(whether)
        if self._alternations:
            self._alternations[place].communicating(whether)

    def next_operation(self, operations: list[Operation]) -> Operation:
        """The operation whose chunk begins next."""
        return min(operations, key=lambda operation: operation.key)

    def program(self, collective: Collective, shape: tuple[int, ...], dimensions: tuple[int, ...],
                coordinates: tuple[int, ...], up: bool) -> Program:
        key = collective, shape, dimensions, coordinates, up
        if key not in self._programs:
            role = coordinates if collective.info.rooted else None
            self._programs[key] = program(self.config, collective, shape, dimensions,
                                          (0,) * len(shape) if role else coordinates, up=up, role=role)
        return self._programs[key]

    def route(self, made: Program, piece: int) -> Route:
        key = id(made), piece
        if key not in self._routes:
            self._routes[key] = route(self.config, made, piece)
        return self._routes[key]

    # -- Checks

    def _check(self, collective: Collective | str, size: int, dimensions: Iterable[int] | None,
               ranks: Iterable[int] | None, root: Sequence[int] | None,
               delays: Mapping[int, float] | None) -> tuple[Collective, tuple[int, ...]]:
        names = {one.name: one for one in Collective}
        if not isinstance(collective, Collective):
            if str(collective) not in names:
                raise UserError(f"A collective must be one of {', '.join(names)}, not {collective!r}.")
            collective = names[str(collective)]
        if size != int(size) or size < 0:
            raise UserError(f"A collective must have 0 bytes or more, not {size!r}.")
        every = range(len(self.config.shape))
        dimensions = tuple(every if dimensions is None else dimensions)
        if not dimensions or len(set(dimensions)) != len(dimensions) or not set(dimensions) <= set(every):
            raise UserError(f"Dimensions of a collective must be different ones of {', '.join(map(str, every))}, "
                            f"not {dimensions!r}.")
        if root is not None and (len(root) != len(dimensions) or not all(
                0 <= at < self.config.shape[dimension] for at, dimension in zip(root, dimensions, strict=False))):
            raise UserError(f"The root must have a coordinate in each of the dimensions {dimensions!r}, not {root!r}.")
        some = delays or (ranks is not None and not self.config.distinct)
        if self.config.fold and (collective.info.rooted or some):
            raise UserError(f"{collective.name} on some ranks, with delays or with a root needs a machine with "
                            "fold=False.")
        return collective, dimensions

    def _which(self, rank: int | None) -> Iterable[int]:
        if rank is None:
            return self.ranks.representatives
        if self.config.fold and not self.config.distinct:
            raise UserError("A computation on one rank needs a machine with fold=False.")
        return [self.ranks.representative(rank)]

    def _compute_on(self, ranks: Iterable[int], seconds: float, memory_bytes: float, tag: str,
                    done: Done | None) -> Handle:
        handle, left = self.handle(tag), set(ranks)

        def ended(rank: int) -> None:
            left.discard(rank)
            if self._alternations:
                self._alternations[self.ranks.place(rank)].computed()
            self.over(handle, "compute", rank, tag, done, not left)

        def begin(rank: int) -> None:
            handle.begins(self.now)
            self.computes[self.ranks.place(rank)].run(seconds, memory_bytes, ended)

        for rank in list(left):
            if self._alternations:
                self._alternations[self.ranks.place(rank)].compute(partial(begin, rank))
            else:
                begin(rank)
        return handle

    def _begin(self, rank: int, operation: Operation, handle: Handle) -> None:
        """A rank's command is here: communicate, or wait for the processor if both cannot be at once."""
        def begin() -> None:
            handle.begins(self.now)
            self.endpoint(rank).begin(operation)

        self._admit(rank, begin)

    def _admit(self, rank: int, begin: Callable[[], object]) -> None:
        if self._alternations:
            self._alternations[self.ranks.place(rank)].communicate(begin)
        else:
            begin()
