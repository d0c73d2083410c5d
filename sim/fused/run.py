# SPDX-License-Identifier: Apache-2.0
"""One run of an operation in RTL: every byte is checked, all times are cycles of the simulation.

::

    operation = make("embedding", Sizes(ranks=2, slices=32, tasks=4, slice_bytes=2048))
    run(operation, Setup(), Method.TRIGGERS).cycles
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hw.ace.collectives import Collective
from hw.errors import UserError
from sim.ace.endpoints import Reason
from sim.ace.kernels import Times
from sim.ace.log import Log
from sim.ace.shared_library import ClusterFailed
from sim.endpoint.cluster import EndpointCluster, library

from .exchange import Exchange
from .operations import Operation
from .reduction import SlicedReduction
from .setup import Method, Order, Setup
from .transport import Transport

__all__ = ["FusedRun", "run"]

_Options = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class FusedRun:
    """Times of a run, in cycles from the start of the kernels.

    Attributes
    ----------
    cycles : int
        Until the consumers of all ranks have seen all slices, and all ranks have computed theirs.
    computed : int
        Until the last part of the last rank is in memory; 0 for communication alone.
    ended : list of int
        ``cycles`` of each rank.
    noticed : list of list of int
        By rank, of each slice in the order of computation: its last tick was transferred, or its last bit set. Empty
        where there are none.
    seen : list of list of int
        By rank: the consumer of each slice found its flag. In an all-to-all, the slices of the next lower rank first.
    begin : int
        Cycle of the simulation.
    log : :class:`Log` or None
        Packets and bursts.
    """

    cycles: int
    computed: int
    ended: list[int]
    noticed: list[list[int]]
    seen: list[list[int]]
    begin: int
    log: Log | None = None

    @property
    def skew(self) -> float:
        """Time between the first and the last rank that has ended, as a share of ``cycles``."""
        return (self.cycles - min(self.ended)) / self.cycles


def run(operation: Operation, setup: Setup, method: Method, order: Order = Order.REMOTE_FIRST, *, log: bool = False,
        limit: int = 20_000_000, status: Callable[[str, int, int], None] | None = None) -> FusedRun:
    """Run an operation and return its :class:`FusedRun`.

    Raises
    ------
    ClusterFailed
        If it has not ended within ``limit`` cycles, a trigger refused something, or a byte is wrong.
    """
    sizes = operation.sizes
    if operation.collective == Collective.ALL_REDUCE and method == Method.LAST:
        raise UserError("Workgroups that post themselves cannot keep the order of an all-reduce's slices on all ranks.")
    kind: type[Transport] = Exchange if operation.collective == Collective.ALL_TO_ALL else SlicedReduction
    made = library(setup.config, status=status)
    # All-reduces of slices go around the rings, as the system simulator has them.
    with EndpointCluster(setup.config, (sizes.ranks,), link=setup.link, memory=setup.memory, seed=setup.seed,
                         library=made, one_shot=0) as cluster:
        transport = kind(cluster, operation, setup, method, order)
        cluster.clear_watches()
        # Stores of the preparation have been transferred, and links are idle.
        cluster.run(2000)
        kernels = [transport.kernel(rank) for rank in range(sizes.ranks)]
        begin = cluster.cycle
        for rank, kernel in enumerate(kernels):
            cluster.start_kernel(rank, kernel)
        logged = None
        if log:
            with cluster.log() as logged:
                reason = cluster.run(limit)
        else:
            reason = cluster.run(limit)
        refused = cluster.do(*(endpoint.refused_trigger() for endpoint in cluster.endpoints))
        for rank, refusal in enumerate(refused):
            if refusal is not None:
                raise ClusterFailed(f"Block {refusal.block} of rank {rank} refused a store or firing of counter "
                                    f"{refusal.counter}: {refusal.code.name}.")
        if reason != Reason.DONE:
            raise ClusterFailed(f"The operation has not ended within {limit:,} cycles.\n{_missing(cluster)}")
        transport.check()
        times = {which: [[-1 if time is None else time - begin for time in cluster.kernel_times(rank, which)]
                         for rank in range(sizes.ranks)] for which in (Times.VISIBLE, Times.NOTICED, Times.SEEN)}
    ended = [max([0, *visible, *seen]) for visible, seen in zip(times[Times.VISIBLE], times[Times.SEEN], strict=True)]
    noticed = [[time for time in one if time >= 0] for one in times[Times.NOTICED]]
    return FusedRun(cycles=max(ended), computed=max([0, *(time for one in times[Times.VISIBLE] for time in one)]),
                    ended=ended, noticed=noticed, seen=times[Times.SEEN], begin=begin, log=logged)


def _missing(cluster: EndpointCluster) -> str:
    lines = []
    for rank in range(cluster.size):
        seen = cluster.kernel_times(rank, Times.SEEN)
        if None in seen:
            lines.append(f"  rank {rank} waits for {seen.count(None)} of {len(seen)} slices")
    return "\n".join([*lines, cluster.waits()])
