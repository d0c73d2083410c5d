# SPDX-License-Identifier: Apache-2.0
"""A unit in RTL and Linux's soft-RoCE at the two ends of a network, with a queue pair for each test."""

import random

from dmace.drivers.rdma import Connection
from dmace.drivers.registers import wait
from hw.rdma.config import TINY, remote_memory
from sim.rdma.bridge import Bridge
from sim.rdma.cluster import Flow
from sim.rdma.packets import decode, is_roce
from sim.rdma.roce_guest import GUEST, OWN, ROUTES, RoceGuest, pattern
from sim.rdma.unit_driver import unit_driver
from tests.sim.rdma.dropping import drop_once

__all__ = ["ADDRESS", "RECORDS", "RING", "SCRATCH", "SIZE", "VA", "UnitGuest"]

VA, KEY, REGION, ADDRESS, SIZE = 0x7700_0000_0010, 0x5A, 5, 0x10_0000, 1 << 17
RING, RECORDS = 0x40_0000, 4
SCRATCH = 0x20_0000
"""Memory of the DMA side's own data."""


def _text(mac):
    return ":".join(f"{byte:02x}" for byte in mac)


class UnitGuest:
    """A unit with its memory, the guest, and a queue pair between them for each test."""

    def __init__(self, folder, cluster):
        self.cluster, self.driver = cluster, unit_driver(cluster, 0)
        self.guest = RoceGuest(folder, Bridge(cluster, 1))
        self.guest.segment.observe = self._observe
        self.seen, self.wrong, self._opened = [set(), set()], [], 0
        cluster.assign(OWN.mac, 0)
        cluster.assign(GUEST.mac, 1)
        wait(self.driver.set_station(mac=_text(OWN.mac), ipv4=ROUTES[0].own, ipv6=ROUTES[1].own))
        self.rkey = wait(self.driver.define_region(REGION, va=VA, length=SIZE, address=ADDRESS, key=KEY))
        for begin in (ADDRESS, SCRATCH):
            cluster.map(0, begin - 64, SIZE + 128)
        cluster.map(0, RING, 4096)

    def _observe(self, sent, frame):
        if is_roce(frame):
            packet = decode(frame)      # raises if the ICRC is not ours
            self.seen[sent].add(packet.opcode)
            if packet.encode() != frame:
                self.wrong.append(frame.hex())

    def drop(self, **functions):
        """As :func:`drop_once`."""
        return drop_once(self.guest.segment, **functions)

    def free_qpn(self):
        """QPN of a queue pair that is closed now, and was not open before."""
        self.drop()
        self._opened += 1
        qp = self._opened % TINY.queue_pairs
        if wait(self.driver.state(qp)).open:
            wait(self.driver.close(qp))
            self.cluster.run(2000)
        return self._opened << 8 | qp

    def open(self, route=ROUTES[0], **options):
        """Open a queue pair to the guest in the unit; return its number."""
        return wait(self.driver.open(Connection(
            peer_mac=_text(GUEST.mac), peer_ip=route.guest, vlan=route.vlan, max_reads=1, timeout=7, **options)))

    def connect(self, seed, *, mtu=1024, ring=False, route=ROUTES[0]):
        """Open a queue pair at both ends, with the guest's memory as a remote one."""
        rng, qpn = random.Random(seed), self.free_qpn()
        psn, guest_psn = rng.getrandbits(24), rng.getrandbits(24)
        self.opened = self.guest.open(qpn=qpn, psn=psn, guest_psn=guest_psn, mtu=mtu, timeout=15, route=route)
        qp = self.open(route, qpn=qpn, peer_qpn=self.opened.qpn, mtu=mtu, send_psn=psn, receive_psn=guest_psn,
                       ring=(RING, RECORDS) if ring else None)
        wait(self.driver.define_remote(1, qp=qp, rkey=self.opened.rkey, va=self.opened.address,
                                       length=self.opened.size))
        return qp

    def copy(self, *, write, local, remote, length):
        """The DMA side copies between its own memory and the guest's."""
        flow = self.cluster.flow(0, Flow(write=write, local=local, remote=remote_memory(1, remote), size=length,
                                         count=1))
        self.guest.run(lambda: self.cluster.result(0, flow).done == 1)
        return self.cluster.result(0, flow).failed

    def all_ways(self, length, seed):
        """WRITE and READ of both ends, with other bytes each."""
        guest, cluster, (one, two) = self.guest, self.cluster, (pattern(seed, length), pattern(seed + 77, length))
        guest.command("fill", 3, length, seed)
        cluster.store(0, ADDRESS, bytes(SIZE))
        guest.command("write", 3, VA + 5, self.rkey, length)
        assert cluster.load(0, ADDRESS, SIZE) == bytes(5) + one + bytes(SIZE - 5 - length)
        guest.command("read", 200_001, VA + 5, self.rkey, length)
        assert guest.command("compare", 200_001, length, seed) == [0]
        cluster.store(0, SCRATCH + 11, two)
        assert self.copy(write=True, local=SCRATCH + 11, remote=400_003, length=length) == 0
        assert guest.command("compare", 400_003, length, seed + 77) == [0]
        assert self.copy(write=False, local=SCRATCH + 50_000, remote=400_003, length=length) == 0
        assert cluster.load(0, SCRATCH + 50_000, length) == two
