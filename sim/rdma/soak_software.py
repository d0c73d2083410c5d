# SPDX-License-Identifier: Apache-2.0
"""Software of the attacked unit in a soak: it opens queue pairs, changes their regions, takes failures, opens again.

A queue pair is open, or it is closing until the unit has completed all that was in flight for it.
"""

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from dmace.drivers.rdma import Connection, FailedQueuePair, RdmaDriver
from dmace.drivers.registers import wait
from hw.rdma.config import RdmaConfig, remote_memory
from hw.rdma.protocol import RNR_TIMER_US
from sim.rdma.attacker import Attacker, Queue, Region, Role, pattern
from sim.rdma.cluster import Cluster, Flow

__all__ = ["IPV4S", "MACS", "AttackedQueue", "Software", "ipv4_text", "ipv6", "mac_text", "region_address"]

MACS = (0x020000000001, 0x020000000003, 0x020000000002)
"""Ethernet addresses of the attacked unit, of the attacker, and of the good peer."""
IPV4S = (0x0A000001, 0x0A000003, 0x0A000002)

_UNIT = 0
_REGIONS, _RINGS, _BUFFERS = 1 << 32, 2 << 32, 4 << 32
_SLOTS, _STRIDE = 8, 0x30000
_SPAN, _REMOTE_KEY = 0x1000, 0xABC000
_SHORTEST, _LONGEST = 0x1200, 0x3000
_TIMEOUT, _RNR_CODE = 3, 1
_AGE = 150_000
"""Cycles after which a hostile queue pair is closed at the latest: it may wait for a timer of its peer, up to 0.6 s."""
_END = 100_000
"""Cycles in which a closed queue pair completes everything."""


def mac_text(mac: int) -> str:
    """A MAC address as the driver takes it."""
    return ":".join(f"{byte:02x}" for byte in mac.to_bytes(6, "big"))


def ipv4_text(address: int) -> str:
    return ".".join(str(byte) for byte in address.to_bytes(4, "big"))


def ipv6(station: int) -> str:
    """IPv6 address of the attacked unit (0), the attacker (1), or the good peer (2)."""
    high, low = divmod(IPV4S[station], 1 << 16)
    return f"fd00::{high:x}:{low:x}"


def region_address(index: int, which: int, slot: int) -> int:
    """Begin of the memory around a region, in unit 0."""
    return _REGIONS + ((2 * index + which) << 24) + slot * _STRIDE


@dataclass
class AttackedQueue:
    """A queue pair whose peer is the attacker."""

    index: int
    role: Role
    epoch: int = 0
    open: bool = False
    since: int = 0
    slots: list[int] = field(default_factory=lambda: [0, 0])
    grants: list[int | None] = field(default_factory=lambda: [None, None])
    ring_grant: int | None = None
    ring_slot: int = 0
    ring: tuple[int, int] = 0, 0
    consumed: int = 0
    keys: list[int] = field(default_factory=lambda: [0, 0])
    regions: list[Region | None] = field(default_factory=lambda: [None, None])
    flows: list[int] = field(default_factory=list)
    done: list[int] = field(default_factory=lambda: [0, 0])
    moved: list[int] = field(default_factory=lambda: [0, 0])
    remote_va: int = 0


class Software:
    """Opens the attacker's queue pairs, and keeps them in use.

    Parameters
    ----------
    cluster, driver, attacker
        The cluster, the driver of unit 0, and the attacker.
    indices : dict
        Queue pair -> its role, HONEST or HOSTILE.
    generator : random.Random
    report : callable
        Receives a sentence for each violation of the contract.
    """

    def __init__(self, cluster: Cluster, driver: RdmaDriver, attacker: Attacker, indices: dict[int, Role],
                 generator: random.Random, report: Callable[[str], None]) -> None:
        self.cluster, self.driver, self.attacker, self.random, self.report = (
            cluster, driver, attacker, generator, report)
        self.config: RdmaConfig = driver.config
        self.queues = {index: AttackedQueue(index, role) for index, role in indices.items()}
        self.faults: Counter[str] = Counter()
        self.counts: Counter[str] = Counter()
        self._failing: int | None = None
        self._epoch = generator.randrange(1 << 12)
        for queue in self.queues.values():
            self._map(queue)
            self.open(queue)
        for queue in self.queues.values():
            self._start_flows(queue)

    def _map(self, queue: AttackedQueue) -> None:
        """Make all memory that its regions will use, and some around."""
        for which in range(2):
            for slot in range(_SLOTS):
                self.cluster.map(_UNIT, region_address(queue.index, which, slot), _STRIDE, queue.index << 4 | 5)
        self.cluster.map(_UNIT, _RINGS + (queue.index << 20), 1 << 17, 0xEE)

    # -- Regions.

    def define(self, queue: AttackedQueue, which: int) -> None:
        """Define a region again, elsewhere, with another key, and often with other rights."""
        choose = self.random
        index, number = queue.index, 2 * queue.index + which
        queue.slots[which] = (queue.slots[which] + 1) % _SLOTS
        length = choose.randrange(_SHORTEST, _LONGEST)
        address = region_address(index, which, queue.slots[which]) + 0x10000 + choose.randrange(200)
        va = choose.choice((0, (1 << 64) - length, choose.getrandbits(63), choose.getrandbits(40)))
        queue.keys[which] = (queue.keys[which] + choose.randrange(1, 200)) % 256
        readable, writable = (True, True) if which == 0 else (choose.random() < 0.6, choose.random() < 0.6)
        valid = which == 0 or choose.random() < 0.8
        old = queue.grants[which]
        queue.grants[which] = self.attacker.allow(
            index, address, address + length, readable=readable, writable=writable) if valid else None
        wait(self.driver.define_region(number, va=va, length=length, address=address, key=queue.keys[which],
                                       domain=index, readable=readable, writable=writable, valid=valid))
        if old is not None:
            self.attacker.revoke(old)
        region = Region(index=index, which=which, rkey=number << 8 | queue.keys[which], readable=readable,
                        writable=writable, valid=valid, va=va, length=length, address=address)
        queue.regions[which] = region
        self.attacker.region(region)
        self.counts["regions defined"] += 1

    # -- Queue pairs.

    def open(self, queue: AttackedQueue) -> None:
        """Open a queue pair that is idle, with random settings and new numbers."""
        choose, config, index = self.random, self.config, queue.index
        honest = queue.role is Role.HONEST
        if self._failing == index:
            self.attacker.fail(0, 0)
        self.define(queue, 0)
        if queue.regions[1] is None or not honest:
            self.define(queue, 1)
        self._epoch += 1
        queue.epoch = self._epoch
        mtus = [mtu for mtu in (256, 512, 1024, 2048, 4096) if mtu <= config.max_mtu]
        records = choose.choice((1, 2, 4)) if (index % 2 == 0 or choose.random() < 0.3) else 0
        ring = self._make_ring(queue, records)
        six, vlan = choose.random() < 0.3, choose.choice((None, None, None, choose.randrange(1 << 16)))
        made = Connection(
            qpn=(self._epoch * config.queue_pairs + index) % (1 << 24),
            peer_qpn=(self._epoch << 8 | index) % (1 << 24), peer_mac=mac_text(MACS[1]),
            peer_ip=ipv6(1) if six else ipv4_text(IPV4S[1]),
            send_psn=choose.choice((choose.getrandbits(24), (1 << 24) - choose.randrange(1, 200))),
            receive_psn=choose.choice((choose.getrandbits(24), (1 << 24) - choose.randrange(1, 200))),
            mtu=choose.choice(mtus[:3] if choose.random() < 0.9 else mtus), domain=index,
            remote_write=honest or choose.random() < 0.9, remote_read=honest or choose.random() < 0.9,
            timeout=_TIMEOUT, retries=7 if honest else choose.randrange(8), rnr_retries=choose.randrange(8),
            rnr_timer=_RNR_CODE, max_reads=min(config.reads, choose.choice((1, 2, 4, 16))),
            selective=config.selective and (index % 2 == 1 if honest else choose.random() < 0.5),
            congestion=choose.random() < 0.7, vlan=vlan, udp_port=choose.getrandbits(16),
            traffic_class=choose.choice((0, 2)), hop_limit=choose.randrange(1, 256),
            ring=(ring, records) if records else None)
        wait(self.driver.open(made))
        self.attacker.open(Queue(
            index=index, role=queue.role, qpn=made.qpn, peer_qpn=made.peer_qpn, request_psn=made.receive_psn,
            response_psn=made.send_psn, mtu=made.mtu, selective=made.selective, ipv6=six,
            remote_write=made.remote_write, remote_read=made.remote_read, max_reads=config.reads,
            rnr_us=RNR_TIMER_US[_RNR_CODE], vlan=-1 if vlan is None else vlan, ring=ring, records=records))
        queue.open, queue.since = True, self.cluster.cycle
        self.counts["openings"] += 1

    def reopen(self, queue: AttackedQueue) -> None:
        """Open a queue pair that was idle, unless it is no longer.

        The unit may post a request behind the closing that it had begun to accept before.
        """
        try:
            self.open(queue)
        except ValueError:
            self.counts["openings refused"] += 1

    def _make_ring(self, queue: AttackedQueue, records: int) -> int:
        """Memory for a ring of records, all 0; 0 if there is none."""
        if queue.ring_grant is not None:
            self.attacker.revoke(queue.ring_grant)
        queue.ring_grant, queue.consumed, queue.ring = None, 0, (0, 0)
        if not records:
            return 0
        queue.ring_slot = (queue.ring_slot + 1) % 64
        ring = _RINGS + (queue.index << 20) + 0x1000 + 0x200 * queue.ring_slot
        self.cluster.store(_UNIT, ring, bytes(16 * records))
        queue.ring_grant = self.attacker.allow(queue.index, ring, ring + 16 * records, readable=False, writable=True,
                                               ring=True)
        queue.ring = ring, records
        return ring

    def _consume(self, queue: AttackedQueue) -> int:
        """Records so far, by their phases."""
        ring, records = queue.ring
        while records:
            last = self.cluster.load(_UNIT, ring + queue.consumed % records * 16 + 15, 1)[0]
            if last >> 7 != 1 - queue.consumed // records % 2:
                break
            queue.consumed += 1
        return queue.consumed

    def _free(self, queue: AttackedQueue, records: int) -> None:
        if queue.ring_grant is not None:
            self.attacker.consume(queue.ring_grant, records)
            wait(self.driver.free_records(queue.index, records))

    def close(self, queue: AttackedQueue) -> None:
        """Close a queue pair, whatever it has in flight."""
        self.attacker.close(queue.index)
        wait(self.driver.close(queue.index))
        queue.open, queue.since = False, self.cluster.cycle
        self.counts["closings"] += 1

    def visit(self, *, reopen: bool = True) -> None:
        """Take failures, consume records, close some queue pairs, and open those that are idle."""
        choose = self.random
        if reopen and choose.random() < 0.01:
            # All at once, without any other access between.
            for queue in self.queues.values():
                if queue.open and not self.attacker.status(queue.index).probing:
                    self.close(queue)
        while (failure := wait(self.driver.take_fault())) is not None:
            self._failed(failure)
        for queue in self.queues.values():
            if not queue.open:
                self._await_idle(queue, reopen=reopen)
                continue
            status = self.attacker.status(queue.index)
            age = self.cluster.cycle - queue.since
            if queue.role is Role.HONEST:
                self._free(queue, status.records)
                if reopen and choose.random() < 0.003:
                    self.close(queue)
                continue
            if status.probing:
                continue
            if queue.ring_grant is not None and choose.random() < 0.3:
                self._free(queue, self._consume(queue))
            if reopen and (choose.random() < 0.02 or age > _AGE):
                self.close(queue)
            elif choose.random() < 0.3:
                self.define(queue, 1)
            elif choose.random() < 0.02:
                region = queue.regions[0]
                assert region is not None
                self.attacker.fail(region.address, region.address + region.length)
                self._failing = queue.index
        self._watch_flows()

    def _failed(self, failure: FailedQueuePair) -> None:
        self.faults[failure.fault.name] += 1
        queue = self.queues.get(failure.qp)
        if queue is None or queue.role is not Role.HOSTILE:
            self.report(f"Queue pair {failure.qp}, whose peer keeps the rules, has failed: {failure.fault.name}.")
            return
        if queue.open:
            state = wait(self.driver.state(failure.qp))
            if state.fault is not failure.fault:
                self.report(f"FAULT reports {failure.fault.name} of queue pair {failure.qp}, whose state has "
                            f"{state.fault}.")
            self.close(queue)

    def _await_idle(self, queue: AttackedQueue, *, reopen: bool) -> None:
        state = wait(self.driver.state(queue.index))
        if state.idle:
            if reopen:
                self.reopen(queue)
        elif self.cluster.cycle > queue.since + _END:
            self.report(f"Queue pair {queue.index} is not idle {_END} cycles after it was closed: {state}.")
            queue.since = self.cluster.cycle

    # -- Requests of the unit to the attacker.

    def _start_flows(self, queue: AttackedQueue) -> None:
        index, choose = queue.index, self.random
        queue.remote_va = choose.getrandbits(44)
        data = pattern(index, queue.remote_va, _SPAN)
        for number, write in enumerate((True, False)):
            local = _BUFFERS + (index << 20) + (number << 16)
            self.cluster.store(_UNIT, local, data if write else bytes(_SPAN))
            wait(self.driver.define_remote(2 * index + number, qp=index, rkey=_REMOTE_KEY | index, va=queue.remote_va,
                                           length=_SPAN))
            size = choose.choice((1, 8, 64, 100, 200, 255)) if write else choose.choice((1, 64, 200, 500))
            start = choose.randrange(64)
            queue.flows.append(self.cluster.flow(_UNIT, Flow(
                write=write, local=local + start, remote=remote_memory(2 * index + number, start), size=size,
                stride=size, slots=(_SPAN - start) // size, count=1 << 40, depth=2,
                interval=choose.randrange(200, 1000), first_id=4 * (2 * index + number), ids=4)))

    def _watch_flows(self) -> None:
        for queue in self.queues.values():
            for number, flow in enumerate(queue.flows):
                result = self.cluster.result(_UNIT, flow)
                if result.done != queue.done[number] or result.begun == result.done:
                    queue.done[number], queue.moved[number] = result.done, self.cluster.cycle
                elif self.cluster.cycle > queue.moved[number] + 2 * _AGE:
                    self.report(f"A request on queue pair {queue.index} has no response after {2 * _AGE} cycles.")
                    queue.moved[number] = self.cluster.cycle

    def compare_reads(self) -> None:
        """READs on honest queue pairs must have stored the bytes of the attacker's memory."""
        for queue in self.queues.values():
            if queue.role is Role.HONEST:
                data = pattern(queue.index, queue.remote_va, _SPAN)
                found = self.cluster.load(_UNIT, _BUFFERS + (queue.index << 20) + (1 << 16), _SPAN)
                wrong = [at for at in range(_SPAN) if found[at] not in (0, data[at])]
                if wrong:
                    self.report(f"READs on queue pair {queue.index} stored wrong bytes from offset {wrong[0]} on.")

    def end_flows(self) -> None:
        """Begin no more requests."""
        for queue in self.queues.values():
            for flow in queue.flows:
                self.cluster.extend(_UNIT, flow, 0)
