# SPDX-License-Identifier: Apache-2.0
"""Inputs of a run: the machine, its software, and how a slice is sent."""

from dataclasses import dataclass, field
from enum import StrEnum

from hw.endpoint.config import TINY, EndpointConfig
from hw.errors import UserError
from sim.ace.endpoints import Link, Memory

__all__ = ["Method", "Order", "Setup", "Thread", "sequence"]


class Method(StrEnum):
    """How a slice is sent when its parts are in memory."""

    TRIGGERS = "triggers"
    """Each workgroup ticks a trigger counter, which posts the request."""
    POLLED = "polled"
    """Each workgroup sets a bit of a mask; a thread polls the masks and posts."""
    LAST = "last"
    """The workgroup that sets the last bit, by an atomic operation, posts."""
    UNFUSED = "unfused"
    """The requests of all slices are posted when the kernel has ended."""
    COMPUTE = "compute"
    """Nothing is sent: computation alone."""
    COMMUNICATION = "communication"
    """All results are there at the beginning, and every counter is ticked at once: communication alone."""

    @property
    def fused(self) -> bool:
        return self in (Method.TRIGGERS, Method.POLLED, Method.LAST)


class Order(StrEnum):
    """Order of the slices of a kernel."""

    REMOTE_FIRST = "remote-first"
    REMOTE_LAST = "remote-last"
    BY_RANK = "by-rank"
    """The slices of rank 0 first, on all ranks."""


@dataclass(frozen=True, kw_only=True)
class Thread:
    """A thread that polls and posts.

    Parameters
    ----------
    period : int
        Cycles from one poll to the next.
    latency : int
        Cycles from a load to the store that depends on it.
    gap : int
        Cycles from one post to the next.
    """

    period: int = 200
    latency: int = 100
    gap: int = 4


@dataclass(frozen=True, kw_only=True)
class Setup:
    """A machine and its software.

    Parameters
    ----------
    config : EndpointConfig
    link : :class:`Link`
    memory : :class:`Memory`
        Workgroups write in its bandwidth, too.
    workgroups : int
        Of the kernel on each rank.
    compute : int
        Cycles of a task.
    first_compute : int or None
        Cycles of the tasks of each rank's first slice instead; the kernel's last slice takes the difference longer.
    thread : :class:`Thread`
        Polls masks in ``polled``.
    wait_period : int
        Of the consumers.
    launch : int
        Cycles from the end of a kernel until the requests of ``unfused`` are posted.
    store_delay : int
        Cycles of a store from a workgroup to the endpoint.
    fence : bool
        A workgroup stalls until its part is visible.
    atomic_latency : int or None
        Cycles of the atomic operation of ``last``; by default the read latency of memory.
    receipts : str
        Consumers poll a flag. ``counter``: a counter of the receiver sets it when the slice's bytes have been written.
        ``signal``: the sender writes it behind the slice; then ``polled``, ``last`` and ``unfused`` use no counters at
        all, and a thread polls flags for slices to forward.
    seed : int
    """

    config: EndpointConfig = TINY
    link: Link = field(default_factory=Link)
    memory: Memory = field(default_factory=lambda: Memory(read_latency=50, write_latency=50))
    workgroups: int = 8
    compute: int = 400
    first_compute: int | None = None
    thread: Thread = field(default_factory=Thread)
    wait_period: int = 10
    launch: int = 0
    store_delay: int = 0
    fence: bool = False
    atomic_latency: int | None = None
    receipts: str = "counter"
    seed: int = 1

    def __post_init__(self) -> None:
        for name, low, high in (("workgroups", 1, 1024), ("compute", 0, 1 << 32), ("wait_period", 1, 1 << 20),
                                ("launch", 0, 1 << 32), ("store_delay", 0, 1 << 20), ("atomic_latency", 0, 1 << 20)):
            if getattr(self, name) is not None and not low <= getattr(self, name) <= high:
                raise UserError(f"{name} must be from {low:,} to {high:,}, not {getattr(self, name)}.")
        if self.thread.period < 1 or self.thread.latency < 0 or self.thread.gap < 1:
            raise UserError(f"A thread's period and gap must be at least 1 cycle and its latency at least 0, not "
                            f"{self.thread.period}, {self.thread.gap} and {self.thread.latency}.")
        if self.receipts not in ("counter", "signal"):
            raise UserError(f"receipts must be counter or signal, not {self.receipts!r}.")


def sequence(order: Order, rank: int, ranks: int, slices: int) -> list[tuple[int, int]]:
    """Slices of an all-to-all in the order of computation, as ``(distance, slice)``: the target is ``distance`` ranks
    up the ring, 0 the rank itself.

    Remote slices alternate between the targets, which keeps all links busy.
    """
    if order == Order.BY_RANK:
        return [((target - rank) % ranks, number) for target in range(ranks) for number in range(slices)]
    remote = [(distance, number) for number in range(slices) for distance in range(1, ranks)]
    own = [(0, number) for number in range(slices)]
    return remote + own if order == Order.REMOTE_FIRST else own + remote
