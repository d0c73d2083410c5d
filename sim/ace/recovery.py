# SPDX-License-Identifier: Apache-2.0
"""Recovery by software after an error: clear all ranks' queues and open their communicator again."""

from collections.abc import Sequence

from dmace.drivers.ace import AceDriver
from dmace.drivers.ace_states import Fault
from hw.ace.words import CommunicatorState, Status
from sim.ace.cluster import Cluster
from sim.ace.shared_library import ClusterFailed

__all__ = ["recover", "revoke"]

LIMIT = 200_000
"""Cycles in which every rank that is reached ends."""


def revoke(cluster: Cluster, communicator: int = 0, rank: int = 0) -> None:
    """Let one rank's software end what its communicator does, on all ranks."""
    cluster.do(cluster.drivers[rank].revoke(communicator))


def recover(cluster: Cluster, communicator: int = 0, *, ranks: Sequence[int] | None = None,
            limit: int = LIMIT) -> list[Fault]:
    """Wait until a communicator is REVOKED, clear all queues, open it again, and discard pending commands.

    Parameters
    ----------
    ranks : sequence of int, optional
        Those of the communicator that ended, if there are others of its number.
    limit : int
        Cycles to wait.

    Returns
    -------
    list of :class:`dmace.drivers.ace.Fault`
        By rank.

    Raises
    ------
    ClusterFailed
        If a rank's has not ended within ``limit`` cycles.
    """
    ranks = range(cluster.size) if ranks is None else ranks
    drivers, end = [cluster.drivers[rank] for rank in ranks], cluster.cycle + limit
    while True:
        states = cluster.do(*(driver.communicator_state(communicator) for driver in drivers))
        incomplete = [(rank, found) for rank, found in zip(ranks, states, strict=True)
                      if found.state != CommunicatorState.REVOKED]
        if not incomplete:
            break
        if cluster.cycle >= end:
            rank, found = incomplete[0]
            raise ClusterFailed(f"Communicator {communicator} is {found.state.name}, not REVOKED, at rank {rank} after "
                                f"{limit:,} cycles.\n{cluster.waits()}")
        cluster.run(64)
    found_faults = cluster.do(*(driver.fault(communicator) for driver in drivers))
    faults = [fault for fault in found_faults if fault is not None]     # all: none of them is open
    while not _published(cluster, cluster.do(*(_cleared(driver, cluster.config.queues) for driver in cluster.drivers))):
        if cluster.cycle >= end:
            raise ClusterFailed(f"Queues still hold commands {limit:,} cycles after an error.\n{cluster.waits()}")
        cluster.run(64)
    cluster.do(*(driver.reopen(communicator) for driver in drivers))
    cluster.clear_pending()
    return faults


def _published(cluster: Cluster, cleared: Sequence[list[int] | None]) -> bool:
    """Whether all queues are idle and memory holds their latest completion words: no earlier word, with the error in
    it, is still to come."""
    return all(counts is not None and all(
        (word := cluster.completion(rank, queue)).status == Status.OK and word.count == count
        for queue, count in enumerate(counts)) for rank, counts in enumerate(cleared))


async def _cleared(driver: AceDriver, queues: int) -> list[int] | None:
    """Clear queues that are held. Returns the number of commands that each has counted, or None if one is busy."""
    idle = True
    counts: list[int] = []
    for queue in range(queues):
        state = await driver.queue_state(queue)
        if state.status != Status.OK:
            await driver.clear(queue)
        idle &= state.status == Status.OK and not state.waiting and not state.active
        counts.append(state.count)
    return counts if idle else None
