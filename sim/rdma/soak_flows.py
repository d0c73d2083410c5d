# SPDX-License-Identifier: Apache-2.0
"""Good queue pairs of a soak: WRITEs and READs between two units, all bytes of which are compared in each round."""

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from dmace.drivers.rdma import Connection, RdmaDriver
from dmace.drivers.registers import wait
from hw.rdma.config import RdmaConfig, remote_memory
from sim.rdma.attacker import Attacker, Queue, Region, Role
from sim.rdma.cluster import Cluster, Flow
from sim.rdma.soak_software import IPV4S, MACS, ipv4_text, mac_text, region_address

__all__ = ["LIMIT", "GoodQueues"]

LIMIT = 600_000
"""Cycles in which a round of a good queue pair must end. Its longest timeout is 33,000 cycles, repeated 7 times at most
for each of its requests."""

_BUFFERS = 8 << 32
_SLOTS = 8
_TIMEOUT = 3


@dataclass
class _Transfer:
    """A flow of one unit to the other, and what it copies in each round."""

    unit: int
    number: int
    source: tuple[int, int]
    target: tuple[int, int]
    bytes: int
    qp: int
    operations: int = 0


class GoodQueues:
    """Queue pairs ``indices`` of unit 0, connected to those of unit 1.

    Parameters are those of :class:`sim.rdma.soak_software.Software`; ``drivers`` are those of both units.
    """

    def __init__(self, cluster: Cluster, drivers: list[RdmaDriver], attacker: Attacker, indices: list[int],
                 generator: random.Random, report: Callable[[str], None]) -> None:
        self.cluster, self.drivers, self.attacker, self.random, self.report = (
            cluster, drivers, attacker, generator, report)
        self.config: RdmaConfig = drivers[0].config
        self.indices, self.counts = indices, Counter[str]()
        self.transfers: list[list[_Transfer]] = []
        self.began: list[int] = []
        self.longest = 0
        self.ended = False
        for index in indices:
            self._connect(index)
            transfers = [self._transfer(index, unit, write=write) for unit in range(2) for write in (True, False)]
            self.transfers.append(transfers)
            self.began.append(cluster.cycle)

    def _connect(self, index: int) -> None:
        psns = [self.random.getrandbits(24) for _ in range(2)]
        for unit in range(2):
            other = 2 if unit == 0 else 0
            own = self.config.queue_pairs * (40 + unit) + index
            wait(self.drivers[unit].open(Connection(
                qpn=own, peer_qpn=self.config.queue_pairs * (41 - unit) + index, peer_mac=mac_text(MACS[other]),
                peer_ip=ipv4_text(IPV4S[other]), send_psn=psns[unit], receive_psn=psns[1 - unit],
                mtu=min(1024, self.config.max_mtu), domain=index, timeout=_TIMEOUT, retries=7,
                max_reads=self.config.reads, selective=self.config.selective and index % 2 == 1)))
        self.attacker.open(Queue(
            index=index, role=Role.GOOD, qpn=self.config.queue_pairs * 40 + index,
            peer_qpn=self.config.queue_pairs * 41 + index, request_psn=psns[1], response_psn=psns[0], mtu=1024,
            selective=0, ipv6=0, remote_write=1, remote_read=1, max_reads=self.config.reads, rnr_us=10, vlan=-1, ring=0,
            records=0))

    def _transfer(self, index: int, unit: int, *, write: bool) -> _Transfer:
        """A flow of ``unit``: its local buffer, and a region of the other unit."""
        size = self.random.choice((64, 100, 300, 1000, 1024, 2000))
        start, length = self.random.randrange(64), _SLOTS * size
        which, number = 0 if write else 1, 2 * index + (0 if write else 1)
        other = 1 - unit
        address = region_address(index, which, 0) + 0x10000 + self.random.randrange(200)
        self.cluster.map(other, region_address(index, which, 0), 0x30000, index << 4 | 5)
        va, key = self.random.getrandbits(62), self.random.getrandbits(8)
        rkey = wait(self.drivers[other].define_region(number, va=va, length=length + start, address=address, key=key,
                                                      domain=index, readable=not write, writable=write))
        wait(self.drivers[unit].define_remote(number, qp=index, rkey=rkey, va=va, length=length + start))
        if other == 0:
            self.attacker.allow(index, address, address + start + length, readable=not write, writable=write)
            self.attacker.region(Region(
                index=index, which=which, rkey=rkey, readable=not write, writable=write, valid=1, va=va,
                length=length + start, address=address))
        local = _BUFFERS + (index << 24) + (which << 20) + self.random.randrange(64)
        self.cluster.store(unit, local, self._content(index, length))
        self.cluster.store(other, address, self._content(index, length + start))
        flow = self.cluster.flow(unit, Flow(
            write=write, local=local, remote=remote_memory(number, start), size=size, count=_SLOTS, slots=_SLOTS,
            depth=2, first_id=4 * number, ids=4))
        here, there = (unit, local), (other, address + start)
        return _Transfer(unit, flow, *((here, there) if write else (there, here)), length, index)

    def _content(self, index: int, length: int) -> bytes:
        """Random bytes that name the queue pair, as in :file:`hostile/guard.h`."""
        return bytes(index << 4 | byte & 15 for byte in self.random.randbytes(length))

    def visit(self) -> None:
        """Compare the rounds that have ended, and begin the next ones."""
        for number, (index, transfers) in enumerate(zip(self.indices, self.transfers, strict=True)):
            results = [self.cluster.result(transfer.unit, transfer.number) for transfer in transfers]
            if any(result.failed for result in results):
                self.report(f"A request of good queue pair {index} has failed.")
            if all(result.done == transfer.operations + _SLOTS
                   for result, transfer in zip(results, transfers, strict=True)):
                self.longest = max(self.longest, self.cluster.cycle - self.began[number])
                self.began[number] = self.cluster.cycle
                for transfer in transfers:
                    self._compare(transfer)
                self.attacker.hint(index, wait(self.drivers[0].state(index)).expected)
            elif self.cluster.cycle > self.began[number] + LIMIT and not self.ended:
                self.report(f"Good queue pair {index} has not completed its requests in {LIMIT} cycles: {results}.")
                self.began[number] = self.cluster.cycle

    def _compare(self, transfer: _Transfer) -> None:
        source = self.cluster.load(*transfer.source, transfer.bytes)
        if self.cluster.load(*transfer.target, transfer.bytes) != source:
            self.report(f"Requests of unit {transfer.unit} on good queue pair {transfer.qp} have left wrong bytes.")
        self.counts["operations"] += _SLOTS
        self.counts["bytes"] += transfer.bytes
        transfer.operations += _SLOTS
        if not self.ended:
            self.cluster.store(*transfer.source, self._content(transfer.qp, transfer.bytes))
            self.cluster.extend(transfer.unit, transfer.number, _SLOTS)

    @property
    def idle(self) -> bool:
        """All requests are complete."""
        return all((result := self.cluster.result(transfer.unit, transfer.number)).done == result.begun
                   for transfers in self.transfers for transfer in transfers)
