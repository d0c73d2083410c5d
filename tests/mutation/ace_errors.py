# SPDX-License-Identifier: Apache-2.0
"""Runs of a cluster for the accelerator's mutants: reports of errors and the recovery, states of links, cycles."""


import numpy as np

from hw.ace.collectives import Collective
from hw.ace.config import TINY
from hw.ace.words import CommunicatorState, LinkCause, LinkState, Status
from sim.ace.cluster import TRIES, Cluster
from sim.ace.endpoints import Link, Memory
from sim.ace.faults import Cut, Faults
from sim.ace.recovery import recover, revoke
from sim.ace.shared_library import Library
from tests.mutation.ace_runs import ELEMENTS, SETTLE, do, expect

__all__ = ["cycles", "errors", "links"]

C = Collective
CHUNKS = 2
"""Chunks of the sum after each recovery."""


def errors(library: Library) -> None:
    """Each cause that ends a communicator, with its record on all ranks, and its time."""
    with Cluster(TINY, (3,), library=library, one_shot=0, link=Link(latency=5)) as cluster:
        driver, first = cluster.drivers[1], 0
        for cause in (Status.REVOKED, Status.TIMEOUT, Status.READ_ERROR, Status.WRITE_ERROR, Status.LINK_DOWN) * 2:
            epoch = do(cluster, driver.communicator_state(0)).epoch
            # Rank 0 has chunks that wait for rank 2, which does not begin.
            for rank in range(3):
                do(cluster, cluster.drivers[rank].set_watchdog(2000 if cause == Status.TIMEOUT and rank == 1 else 0))
                do(cluster, cluster.drivers[rank].enable_interrupts(error=True))
            if cause == Status.READ_ERROR:
                cluster.fail_read(1, 3)
            if cause == Status.WRITE_ERROR:
                cluster.fail_write(1, 2)
            late = cause not in (Status.READ_ERROR, Status.WRITE_ERROR)
            cluster.clear_watches()
            pending = cluster.submit(C.ALL_REDUCE, [np.full(ELEMENTS, 1, np.int32)] * 3, post=False)
            cluster.do(*(cluster.drivers[rank].post(0, pending.commands[rank]) for rank in range(3 - late)))
            cluster.run(1500)
            if cause == Status.REVOKED:
                revoke(cluster, 0, 1)
            if cause == Status.LINK_DOWN:
                do(cluster, driver.stop_links([1]))
            cluster.run(8000)
            if late:
                expect("the others' queues", do(cluster, cluster.drivers[2].queue_state(0)).status, Status.OK)
                do(cluster, cluster.drivers[2].post(0, pending.commands[2]))
                cluster.run(300)
            states = cluster.do(*(one.queue_state(0) for one in cluster.drivers))
            expect("statuses", [state.status for state in states], [cause] * 3)
            found = cluster.do(*(one.communicator_state(0) for one in cluster.drivers))
            expect("communicators", [(state.state, state.work, state.epoch) for state in found],
                   [(CommunicatorState.REVOKED, 0, epoch)] * 3)
            expect("irq", [cluster.interrupted(rank) is not None for rank in range(3)], [True] * 3)
            cluster.do(*(one.acknowledge(error=True) for one in cluster.drivers))
            faults = cluster.do(*(one.fault(0) for one in cluster.drivers))
            down = cause == Status.LINK_DOWN
            expect("records", [tuple(fault) for fault in faults], [(0, cause, 1, int(down), 0, 1, 0, first)] * 3)
            expect("links", cluster.do(*(one.read("LINK_DOWN") for one in cluster.drivers)),
                   [{"ports": port * down} for port in (1, 2, 0)])
            first = CHUNKS
            if cause == Status.LINK_DOWN:
                cluster.do(*(cluster.drivers[rank].start_links([port]) for rank, port in ((1, 1), (0, 0))))
                cluster.run(SETTLE)
            recover(cluster)
            cluster.run(100)
            _sum(cluster, 500)


# Links


def links(library: Library) -> None:
    """States, causes and counts of links that software stops and starts, that are cut, and that have faults."""
    with Cluster(TINY, (2,), library=library, link=Link(latency=5)) as cluster:
        first, second = cluster.drivers
        _states(cluster, "at first", (LinkState.UP, LinkCause.NONE), (LinkState.UP, LinkCause.NONE))
        for number in range(3):
            do(cluster, first.stop_links([0]))
            cluster.run(SETTLE)
            _states(cluster, "stopped", (LinkState.DOWN, LinkCause.SOFTWARE), (LinkState.DOWN, LinkCause.PEER))
            expect("LINK_DOWN", cluster.do(first.read("LINK_DOWN"), second.read("LINK_DOWN")),
                   [{"ports": 1}, {"ports": 2}])
            for driver, port in ((first, 0), (second, 1)) if number else ((second, 1), (first, 0)):
                do(cluster, driver.start_links([port]))
                cluster.run(number * 400)
            cluster.run(SETTLE)
            _states(cluster, "started", (LinkState.UP, LinkCause.SOFTWARE), (LinkState.UP, LinkCause.SOFTWARE))
            _sum(cluster, 400)
        # Only one end begins a new session.
        do(cluster, first.start_links([0]))
        cluster.run(SETTLE)
        _states(cluster, "of which one end is started", (LinkState.START, LinkCause.SOFTWARE),
                (LinkState.DOWN, LinkCause.RESTART))
        do(cluster, second.start_links([1]))
        cluster.run(SETTLE)
        _states(cluster, "both started", (LinkState.UP, LinkCause.SOFTWARE), (LinkState.UP, LinkCause.SOFTWARE))
        _sum(cluster, 3000)
        # A link that carries nothing.
        do(cluster, second.set_link_patience(timeout=500, tries=3))
        cluster.set_faults(Faults(cuts=(Cut(0, 0, 0, 20_000),)))
        cluster.submit(C.BARRIER)
        cluster.run(6000)
        ours, theirs = cluster.link_states()[0][0], cluster.link_states()[1][1]
        expect("the patient end", (ours.state, ours.cause, ours.unacknowledged, ours.credits),
               (LinkState.UP, LinkCause.SOFTWARE, 1, TINY.link_beats - 1))
        expect("its replays and time-outs", (ours.replays, 1 < ours.timeouts < TRIES), (ours.timeouts, True))
        expect("the other end", (theirs.state, theirs.cause, theirs.replays, theirs.timeouts),
               (LinkState.DOWN, LinkCause.PATIENCE, 2, 3))
        expect("statuses", [cluster.completion(rank).status for rank in range(2)], [Status.LINK_DOWN] * 2)
        expect("errors of packets", [(ours.crc_errors, ours.sequence_errors, ours.duplicates),
                                     (theirs.crc_errors, theirs.sequence_errors, theirs.duplicates)], [(0, 0, 0)] * 2)
    _faults(library)


def _faults(library: Library) -> None:
    """Ports count what happened to packets: each corrupt one, and no error without a fault."""
    for name, counter in (("corrupt", "crc_errors"), ("loss", "sequence_errors"), ("dup", "duplicates")):
        with Cluster(TINY, (2,), library=library, link=Link(latency=5), faults=Faults(**{name: 0.1})) as cluster:
            cluster.run(3 * SETTLE)
            _sum(cluster, 4000)
            done, counted = cluster.statistics()["links"], cluster.link_states()
            for link in done:
                status = counted[link["to"]][link["port"] ^ 1]
                found = {"crc_errors": status.crc_errors, "sequence_errors": status.sequence_errors,
                         "duplicates": status.duplicates, "stale": status.stale}
                if name == "corrupt":
                    expect("corrupt packets that were counted", found["crc_errors"], link["corrupted"])
                else:
                    expect("a fault that is counted", found[counter] > 0, True)
                    expect("errors without a fault", (found["crc_errors"], found["stale"]), (0, 0))
                if name == "dup":
                    expect("no more duplicates than packets", status.duplicates <= link["duplicated"], True)
                    expect("nothing is missing", status.sequence_errors, 0)


# Cycles


def cycles(library: Library) -> float:
    """Cycles of collectives without stalls; each result is checked, too."""
    total = 0
    for shape, options in (((3,), {"link": Link(latency=60), "memory": Memory(read_rate=0.5, write_latency=300)}),
                           ((2, 2), {"link": Link(bytes_per_cycle=4)})):
        with Cluster(TINY, shape, library=library, one_shot=512, **options) as cluster:
            ranks = cluster.size
            for count in (1, 700):
                data = [np.arange(count * ranks, dtype=np.int32) * (rank + 1) for rank in range(ranks)]
                for collective in (C.ALL_REDUCE, C.ALL_TO_ALL, C.ALL_GATHER, C.REDUCE_SCATTER):
                    if collective not in cluster.left_out[0]:
                        total += cluster.collective(collective, data, limit=100_000).cycles
            one = [np.ones(700, np.int32)] * ranks
            several = [cluster.submit(C.ALL_REDUCE, one) for _ in range(3)]
            begin = cluster.cycle
            cluster.wait(*several, limit=100_000)
            total += cluster.cycle - begin
    return float(total)


def _states(cluster: Cluster, what: str, *wanted: tuple[LinkState, LinkCause]) -> None:
    """State and cause of port 0 of rank 0, and of port 1 of rank 1; the other ports are UP."""
    found = [[(status.state, status.cause) for status in ports[:2]] for ports in cluster.link_states()]
    up = LinkState.UP, LinkCause.NONE
    expect(f"links {what}", found, [[wanted[0], up], [up, wanted[1]]])


def _sum(cluster: Cluster, count: int) -> None:
    outcome = cluster.collective(C.ALL_REDUCE, [np.full(count, rank + 1, np.int32) for rank in range(cluster.size)],
                                 limit=50_000)
    wanted = cluster.size * (cluster.size + 1) // 2
    expect("a sum", [set(output) for output in outcome.outputs], [{wanted}] * cluster.size)
    cluster.clear_watches()
