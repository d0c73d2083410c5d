# SPDX-License-Identifier: Apache-2.0
"""Common part of both collectives: the kernel of each rank, made of the words that send its slices."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

from dmace.drivers.triggers import StoredWord
from hw.common.sizes import PAGE_BYTES
from hw.triggers.words import ArmWord, Mode, TickWord
from sim.ace.kernels import Credit, Kernel, Notice, Poster, Rule, Slice, Store, Task, Wait
from sim.endpoint.cluster import EndpointCluster

from .counters import Counter
from .operations import MOST_TASKS, Operation
from .setup import Method, Order, Setup

__all__ = ["MASKS", "MASK_BYTES", "Transport"]

MASKS, _MASK_PITCH = 0x5000_0000, MOST_TASKS // 8
"""Address of the masks in which workgroups mark parts of slices."""

MASK_BYTES = 256 * _MASK_PITCH

_NOTICES = {Method.TRIGGERS: Notice.TICK, Method.POLLED: Notice.MASK, Method.LAST: Notice.LAST}


class Transport(ABC):
    """Sends the slices of an operation.

    Parameters
    ----------
    cluster : :class:`EndpointCluster`
    operation : :class:`Operation`
    setup : :class:`Setup`
    method : :class:`Method`
    order : :class:`Order`
    """

    def __init__(self, cluster: EndpointCluster, operation: Operation, setup: Setup, method: Method,
                 order: Order) -> None:
        self.cluster, self.operation, self.setup = cluster, operation, setup
        self.method, self.order = method, order
        self.sizes = operation.sizes
        self.ticked = method in (Method.TRIGGERS, Method.COMMUNICATION)
        self.prepare()

    @abstractmethod
    def prepare(self) -> None:
        """Set up memories, tables and counters of all ranks."""

    @abstractmethod
    def plan(self, rank: int) -> Sequence[tuple[int, int]]:
        """Target, as an index of ``parts``, and number of each slice of a rank, in the order of computation."""

    @abstractmethod
    def address(self, rank: int, target: int, number: int) -> int:
        """Where a slice is computed."""

    @abstractmethod
    def posts(self, rank: int, target: int, number: int) -> list[Store]:
        """Stores of software that send a slice; none for a slice that is only computed."""

    @abstractmethod
    def tick(self, rank: int, target: int, number: int, value: int) -> Store | None:
        """Store of ``value`` ticks of a slice; None for a slice that is only computed."""

    @abstractmethod
    def credits(self) -> list[Credit]:
        """Credits of the queues to which software posts."""

    @abstractmethod
    def waits(self, rank: int) -> list[Wait]:
        """Flags that the consumers of a rank poll."""

    @abstractmethod
    def check(self) -> None:
        """Raise :class:`ClusterFailed` unless every byte is correct."""

    in_order = False
    """Software posts slices in their order only."""

    def unfused_posts(self, rank: int, plan: Sequence[tuple[int, int]]) -> list[list[Store]]:
        """Stores after the end of the kernel."""
        return [self.posts(rank, *one) for one in plan]

    def other_rules(self, rank: int) -> list[Rule]:
        """Further posts of the thread that polls."""
        return []

    # Kernels

    def kernel(self, rank: int) -> Kernel:
        """The kernel of a rank with everything that posts and polls."""
        setup, plan = self.setup, self.plan(rank)
        alone = self.method == Method.COMMUNICATION
        slices = [self._slice(rank, position, *one) for position, one in enumerate(plan)]
        return Kernel(
            workgroups=setup.workgroups, notice=_NOTICES.get(self.method, Notice.NOTHING),
            tasks=[] if alone else [task for position, one in enumerate(plan)
                                    for task in self._tasks(rank, position, len(plan), *one)],
            slices=[] if alone else slices,
            posters=self._posters(rank, plan), credits=self.credits(),
            waits=[] if self.method == Method.COMPUTE else self.waits(rank), fence=setup.fence,
            store_delay=setup.store_delay, atomic_latency=_default(setup.atomic_latency, setup.memory.read_latency))

    def _tasks(self, rank: int, position: int, count: int, target: int, number: int) -> list[Task]:
        setup = self.setup
        first = setup.compute if setup.first_compute is None else setup.first_compute
        compute = {0: first, count - 1: 2 * setup.compute - first}.get(position, setup.compute)
        base = self.address(rank, target, number)
        parts = self.operation.parts[rank, target, number]
        return [Task(slice=position, bit=task, compute=compute, address=base + task * len(part), data=part.tobytes())
                for task, part in enumerate(parts)]

    def _slice(self, rank: int, position: int, target: int, number: int) -> Slice:
        posts = self.posts(rank, target, number)
        if self.method == Method.TRIGGERS:
            return Slice(tick=self.tick(rank, target, number, 1))
        if self.method == Method.POLLED and posts:
            return Slice(mask=self._mask(position))
        if self.method == Method.LAST and posts:
            return Slice(mask=self._mask(position), posts=posts)
        return Slice()

    @staticmethod
    def _mask(position: int) -> int:
        return MASKS + position * _MASK_PITCH

    def _posters(self, rank: int, plan: Sequence[tuple[int, int]]) -> list[Poster]:
        setup, tasks = self.setup, self.sizes.tasks
        if self.method == Method.COMMUNICATION:
            ticks = [self.tick(rank, target, number, tasks) for target, number in plan]
            return [Poster(rules=[Rule(posts=[tick]) for tick in ticks if tick])]
        if self.method == Method.UNFUSED:
            rules = [Rule(posts=posts) for posts in self.unfused_posts(rank, plan) if posts]
            return [Poster(rules=rules, after_kernel=True, in_order=True, delay=setup.launch), *self._others(rank)]
        if self.method == Method.POLLED:
            rules = [Rule(posts=posts, address=self._mask(position), bits=tasks)
                     for position, one in enumerate(plan) if (posts := self.posts(rank, *one))]
            return [self._thread([*rules, *self.other_rules(rank)])]
        return self._others(rank) if self.method == Method.LAST else []

    def _others(self, rank: int) -> list[Poster]:
        rules = self.other_rules(rank)
        return [self._thread(rules)] if rules else []

    def _thread(self, rules: list[Rule]) -> Poster:
        thread = self.setup.thread
        return Poster(rules=rules, in_order=self.in_order, period=thread.period, latency=thread.latency,
                      gap=thread.gap)

    # Counters

    def arm(self, rank: int, counter: Counter, words: Sequence[StoredWord], *, threshold: int, page: int) -> None:
        """Arm a counter that posts one or two words to a page, once."""
        endpoint = self.cluster.endpoints[rank]

        async def prepared() -> None:
            await endpoint.prepare(counter.block, counter.number, words)
            await endpoint.arm(counter.block, counter.number, ArmWord.arm(
                mode=Mode.ONCE, page=page, threshold=threshold, pair=len(words) == 2))

        self.cluster.do(prepared())

    def assign_blocks(self) -> None:
        """Let all counters post to all queues."""
        triggers = self.cluster.whole.triggers
        self.cluster.do(*(endpoint.assign_block(block, range(triggers.pages))
                          for block in range(triggers.blocks) for endpoint in self.cluster.endpoints))

    def tick_store(self, *counters: Counter, value: int) -> Store:
        """A store that ticks one or two counters of a block."""
        data = b"".join(TickWord.add(counter.number, value, generation=0).to_bytes() for counter in counters)
        return Store(self.cluster.whole.triggers.tick_page(counters[0].block) * PAGE_BYTES, data)


def _default(value: int | None, otherwise: int) -> int:
    return otherwise if value is None else value
