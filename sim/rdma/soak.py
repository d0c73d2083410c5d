# SPDX-License-Identifier: Apache-2.0
"""A soak of a RoCEv2 unit: an attacker sends valid, invalid and hostile packets while good queue pairs work.

A violation is a sentence in the result: a byte that was written or read outside of registered memory, a request without
an end, a failure of a queue pair whose peer keeps the rules, a wrong byte, a packet that the unit counts wrongly.
"""

import random
from collections import Counter
from dataclasses import dataclass
from typing import Any

from dmace.drivers.rdma import RdmaDriver
from dmace.drivers.registers import wait
from hw.rdma.config import RdmaConfig
from sim.rdma.attacker import Attacker, AttackerSettings, Role
from sim.rdma.cluster import Cluster, Library, Memory
from sim.rdma.network import Faults, Line, Switch
from sim.rdma.soak_flows import GoodQueues
from sim.rdma.soak_software import IPV4S, MACS, Software, ipv4_text, ipv6, mac_text
from sim.rdma.unit_driver import unit_driver

__all__ = ["add", "missing", "soak"]

GOOD, HONEST, HOSTILE = 2, 2, 4
"""Queue pairs of each role, from number 0 on."""

_ATTACKER_PORT = 2
_GRACE, _PATIENCE = 2000, 12_000
_SETTLE = 1_000_000
"""Cycles in which everything ends after the attack."""

_ENOUGH = 100_000
_RARE = {"frames_overflow", "other_dropped", "buffer_stalls", "memory_unexpected", "accesses in flight at a revocation",
         "openings refused"}
"""Events that need certain latencies of memory, or must not occur."""

_PARTS = ("frames_received", "frames_malformed", "frames_corrupt", "frames_overflow", "other_received", "other_dropped")
"""Counters of the unit of which each received frame counts in one."""


@dataclass
class _Soak:
    """One run, from reset to the end."""

    library: Library
    packets: int
    seed: int

    def __post_init__(self) -> None:
        self.config: RdmaConfig = self.library.config
        self.random = random.Random(self.seed)
        self.findings: list[str] = []

    def report(self, sentence: str) -> None:
        self.findings.append(sentence)

    def run(self) -> dict[str, Any]:
        config, choose = self.config, self.random
        rate = float(config.beat_bytes) if config.beat_bytes < 64 else 50.0
        memory = Memory(
            read_latency=choose.choice((2, 20, 100, 300)), write_latency=choose.choice((2, 20, 100, 300)),
            jitter=choose.choice((0, 0, 50)), out_of_order=choose.random() < 0.5,
            stall=choose.choice((0.0, 0.05, 0.3, 0.8)), read_rate=choose.choice((0.0, 0.0, 0.9)),
            write_rate=choose.choice((0.0, 0.0, 0.9)))
        lines = [Line(bytes_per_cycle=rate), Line(bytes_per_cycle=rate), Line(bytes_per_cycle=rate)]
        with Cluster(self.library, lines, units=2, memories=[memory, Memory()],
                     switch=Switch(mark_bytes=choose.choice((500, 5000, 1 << 40))), seed=self.seed) as cluster:
            for port, mac in enumerate((MACS[0], MACS[2], MACS[1])):
                cluster.assign(mac.to_bytes(6, "big"), port)
            settings = AttackerSettings(
                port=_ATTACKER_PORT, beat_bytes=config.beat_bytes, most=config.max_mtu, window=config.window,
                pairs=config.queue_pairs, regions=config.regions, count=GOOD + HONEST + HOSTILE, rate=0.7 * rate,
                seed=self.seed, grace=_GRACE, patience=_PATIENCE, macs=MACS, ipv4s=IPV4S)
            with Attacker(cluster, settings) as attacker:
                return self._run(cluster, attacker)

    def _run(self, cluster: Cluster, attacker: Attacker) -> dict[str, Any]:
        drivers = [unit_driver(cluster, unit) for unit in range(2)]
        for unit, driver in enumerate(drivers):
            station = 2 * unit
            wait(driver.check_identity())
            wait(driver.set_station(mac=mac_text(MACS[station]), ipv4=ipv4_text(IPV4S[station]), ipv6=ipv6(station)))
        free = wait(drivers[0].read("FREE"))
        roles = {number: Role.HONEST if number < GOOD + HONEST else Role.HOSTILE
                 for number in range(GOOD, GOOD + HONEST + HOSTILE)}
        good = GoodQueues(cluster, drivers, attacker, list(range(GOOD)), self.random, self.report)
        software = Software(cluster, drivers[0], attacker, roles, self.random, self.report)
        # Only the good queue pairs lose frames in the network; the attacker loses and delays its own.
        fault = self.random.choice((0.0, 0.001))
        for down in (False, True):
            cluster.fault(1, Faults(loss=fault, corrupt=fault, bad_fcs=fault, duplicate=fault, reorder=fault,
                                    reorder_cycles=500), down=down)
        cluster.fault(0, Faults(bad_fcs=fault / 10), down=True)
        interval = 3000 if self.config.beat_bytes < 64 else 1500
        while attacker.counts().frames < self.packets and not self._found(attacker):
            cluster.run(interval)
            software.visit()
            good.visit()
            self._take_other(cluster)
            if self.random.random() < 0.05:
                software.compare_reads()
        if not self._found(attacker):
            self._finish(cluster, drivers, attacker, software, good)
            self._compare_counters(cluster, drivers, attacker, free)
        self.findings = [*attacker.findings(), *self.findings]
        return self._result(cluster, drivers, attacker, software, good)

    def _found(self, attacker: Attacker) -> bool:
        return bool(self.findings) or attacker.counts().findings != 0

    @staticmethod
    def _take_other(cluster: Cluster) -> None:
        for unit in range(2):
            for _ in cluster.receive_other(unit):
                pass

    def _finish(self, cluster: Cluster, drivers: list[RdmaDriver], attacker: Attacker, software: Software,
                good: GoodQueues) -> None:
        """End the attack: everything completes, and every queue pair can be opened and used."""
        attacker.stop()
        good.ended = True
        software.end_flows()
        queues = software.queues.values()
        for queue in queues:
            if queue.open and queue.role is Role.HOSTILE:
                software.close(queue)
        software.visit(reopen=False)  # takes failures from before the closing
        self._until(cluster, software, lambda: not any(queue.open for queue in queues if queue.role is Role.HOSTILE)
                    and all(wait(drivers[0].state(queue.index)).idle for queue in queues if not queue.open),
                    "Closed queue pairs are idle")

        def all_open() -> bool:
            for queue in queues:
                if not queue.open:
                    software.reopen(queue)
            return all(queue.open for queue in queues)

        self._until(cluster, software, all_open, "Idle queue pairs can be opened")
        self._until(cluster, software, lambda: not any(attacker.status(queue.index).probing for queue in queues),
                    "Each queue pair that was opened again executes a WRITE")
        self._until(cluster, software, lambda: all(attacker.status(queue.index).idle for queue in queues
                                                   if queue.role is Role.HONEST), "Valid requests complete")
        self._until(cluster, software, lambda: good.idle, "Requests of good queue pairs complete")
        good.visit()
        software.compare_reads()
        self._until(cluster, software, lambda: all(
            (result := cluster.result(0, flow)).begun == result.done for queue in queues for flow in queue.flows),
            "Requests to the attacker complete")
        for queue in queues:
            software.close(queue)
        cluster.run(20_000)
        self._take_other(cluster)
        failure = wait(drivers[1].take_fault())
        if failure is not None:
            self.report(f"Queue pair {failure.qp} of the good peer has failed: {failure.fault.name}.")

    def _until(self, cluster: Cluster, software: Software, done: Any, what: str) -> None:
        start = cluster.cycle
        while not done():
            if cluster.cycle > start + _SETTLE:
                self.report(f"Not true after {_SETTLE} cycles without attack: {what}.")
                return
            cluster.run(2000)
            software.visit(reopen=False)
            self._take_other(cluster)

    def _compare_counters(self, cluster: Cluster, drivers: list[RdmaDriver], attacker: Attacker,
                          free: dict[str, int]) -> None:
        counters, ports, sent = wait(drivers[0].counters()), cluster.counts(0), attacker.counts()
        counted = sum(counters[name] for name in _PARTS)
        if counted != ports.received:
            self.report(f"Unit 0 has received {ports.received} frames, and its counters have {counted}.")
        refused = counters["frames_malformed"] + counters["frames_corrupt"]
        faults = cluster.counts(1).up_corrupted + cluster.counts(1).up_duplicated + ports.down_bad_fcs
        if not sent.refused - ports.down_bad_fcs <= refused <= sent.refused + faults:
            self.report(f"Unit 0 has refused {refused} frames, of {sent.refused} wrong ones and {faults} corrupt ones.")
        if counters["memory_unexpected"]:
            self.report(f"Unit 0 counts {counters['memory_unexpected']} unexpected responses of its memory.")
        if (now := wait(drivers[0].read("FREE"))) != free:
            self.report(f"The requester's free space was {free} after reset, and is {now} when all is complete.")

    def _result(self, cluster: Cluster, drivers: list[RdmaDriver], attacker: Attacker, software: Software,
                good: GoodQueues) -> dict[str, Any]:
        counts = attacker.counts()
        statuses = [attacker.status(index) for index in software.queues]
        latencies = [cluster.result(0, flow) for queue in software.queues.values() for flow in queue.flows]
        return {
            "packets": counts.frames, "cycles": cluster.cycle, "runs": 1,
            "kinds": attacker.kinds(),
            "counters": wait(drivers[0].counters()),
            "checked": Counter({
                "beats written to memory": counts.write_beats, "bursts read from memory": counts.read_bursts,
                "accesses in flight at a revocation": counts.late_beats,
                "memory errors": counts.failed_accesses,
                "frames of the unit": counts.received, "READ bytes returned": counts.read_bytes,
                "CNPs of the unit": counts.notifications,
                "good requests": good.counts["operations"], "good bytes": good.counts["bytes"],
                "honest WRITE packets": sum(status.writes for status in statuses),
                "honest READs": sum(status.reads for status in statuses),
                "honest records": sum(status.immediates for status in statuses),
                "honest batches compared": sum(status.batches for status in statuses),
                "packets of the unit's WRITEs": sum(status.served_writes for status in statuses),
                "packets of the unit's READs": sum(status.served_reads for status in statuses),
                "first WRITEs after an opening": sum(status.probes for status in statuses),
                "requests of the unit that failed": sum(result.failed for result in latencies),
                **software.counts}),
            "faults": software.faults,
            "longest": {"cycles of a revoked access": counts.latest, "cycles of a good round": good.longest,
                        "cycles of a request to the attacker": max(result.latency_most for result in latencies)},
            "findings": self.findings,
        }


def soak(library: Library, *, packets: int, seed: int) -> dict[str, Any]:
    """Attack a unit with at least ``packets`` packets.

    Returns
    -------
    dict
        ``packets``, ``cycles``, ``runs``; tables ``kinds`` (frames of each kind), ``counters`` (of the unit),
        ``checked`` (what was compared), ``faults`` (of hostile queue pairs), ``longest``; ``findings``: sentences.
    """
    return _Soak(library, packets, seed).run()


def add(total: dict[str, Any], part: dict[str, Any]) -> None:
    """Add the result of a run to that of others."""
    for name, value in part.items():
        if name == "longest":
            longest = total.setdefault(name, {})
            longest.update({what: max(count, longest.get(what, 0)) for what, count in value.items()})
        elif isinstance(value, dict):
            known = total.setdefault(name, {})
            known.update({what: known.get(what, 0) + count for what, count in value.items()})
        else:
            total[name] = total.get(name, type(value)()) + value


def missing(result: dict[str, Any]) -> list[str]:
    """Sentences about kinds of packets and events that a result of at least 100,000 packets does not contain."""
    if result["packets"] < _ENOUGH:
        return []
    return [f"Nothing was counted as {what!r}." for table in (result["kinds"], result["checked"], {
        name: count for name, count in result["counters"].items() if name not in _RARE})
        for what, count in table.items() if not count and what not in _RARE]
