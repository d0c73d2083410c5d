# SPDX-License-Identifier: Apache-2.0
"""The RTL against Linux's soft-RoCE: one boot of a guest for all tests of this file."""

import random

import pytest

from dmace.drivers.rdma import Connection, FailedQueuePair
from dmace.drivers.registers import wait
from hw.rdma.config import TINY, remote_memory
from hw.rdma.fault import Fault
from hw.rdma.protocol import Opcode
from sim.linux.fetch import FetchFailed
from sim.rdma.bridge import Bridge
from sim.rdma.cluster import Cluster, Flow, build_cluster
from sim.rdma.network import Line
from sim.rdma.packets import decode, is_roce
from sim.rdma.roce_guest import GUEST, OWN, CommandFailed, RoceGuest, fetch_guest, pattern
from sim.rdma.unit_driver import unit_driver
from sim.verilator.toolchain import build_root
from tests.sim.rdma.dropping import drop_once

pytestmark = [pytest.mark.long, pytest.mark.rtl]

VA, KEY, REGION, ADDRESS, SIZE = 0x7700_0000_0010, 0x5A, 5, 0x10_0000, 1 << 17
RING, RECORDS = 0x40_0000, 4
SCRATCH = 0x20_0000
"""Memory of the DMA side's own data."""

LENGTHS = (1, 2, 3, 4, 5, 1023, 1024, 1025, 2501, 4096, 10_000)


def _text(mac):
    return ":".join(f"{byte:02x}" for byte in mac)


class Setup:
    """A unit with its memory, the guest, and a queue pair between them for each test."""

    def __init__(self, folder, cluster):
        self.cluster, self.driver = cluster, unit_driver(cluster, 0)
        self.guest = RoceGuest(folder, Bridge(cluster, 1))
        self.guest.segment.observe = self._observe
        self.seen, self.wrong, self._opened = [set(), set()], [], 0
        cluster.assign(OWN.mac, 0)
        cluster.assign(GUEST.mac, 1)
        wait(self.driver.set_station(mac=_text(OWN.mac), ipv4=".".join(map(str, OWN.ip))))
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

    def connect(self, seed, *, mtu=1024, ring=False):
        """A queue pair that was not open before, and the guest's memory as a remote one."""
        self.drop()
        rng, self._opened = random.Random(seed), self._opened + 1
        qp = self._opened % TINY.queue_pairs
        qpn, psn, guest_psn = self._opened << 8 | qp, rng.getrandbits(24), rng.getrandbits(24)
        if wait(self.driver.state(qp)).open:
            wait(self.driver.close(qp))
            self.cluster.run(2000)
        self.opened = self.guest.open(qpn=qpn, psn=psn, guest_psn=guest_psn, mtu=mtu, timeout=15)
        wait(self.driver.open(Connection(
            qpn=qpn, peer_qpn=self.opened.qpn, peer_mac=_text(GUEST.mac), peer_ip=".".join(map(str, GUEST.ip)), mtu=mtu,
            send_psn=psn, receive_psn=guest_psn, max_reads=1, timeout=7, ring=(RING, RECORDS) if ring else None)))
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


@pytest.fixture(scope="module")
def setup(tmp_path_factory):
    try:
        fetch_guest(build_root() / "linux")
    except FetchFailed as reason:
        pytest.skip(str(reason))
    with Cluster(build_cluster(TINY), [Line(bytes_per_cycle=8, latency=10)] * 2, units=1) as cluster:
        made = Setup(tmp_path_factory.mktemp("roce"), cluster)
        with made.guest:
            yield made
            made.drop()
    assert not made.wrong
    assert "RESULT pass" in (made.guest.folder / "console.log").read_text().splitlines()


@pytest.mark.parametrize("mtu", [1024, 256])
def test_lengths(setup, seed, mtu):
    qp = setup.connect(seed, mtu=mtu)
    for length in LENGTHS if mtu == 1024 else (255, 257, 5000):
        setup.all_ways(length, 1000 + length)
    assert wait(setup.driver.state(qp)).fault is None
    for direction in setup.seen:
        assert {Opcode.WRITE_ONLY, Opcode.READ_REQUEST, Opcode.READ_ONLY, Opcode.ACKNOWLEDGE} <= direction
    received, sent = setup.seen
    assert {Opcode.WRITE_FIRST, Opcode.WRITE_MIDDLE, Opcode.WRITE_LAST} <= received
    assert {Opcode.READ_FIRST, Opcode.READ_MIDDLE, Opcode.READ_LAST} <= sent


@pytest.mark.parametrize("what", ["requests", "responses"])
@pytest.mark.parametrize("direction", ["sent", "received"])
def test_dropped_frames(setup, seed, what, direction):
    """Some of the requests or responses of one end are dropped, and all bytes arrive."""
    qp, rng = setup.connect(seed), random.Random(seed)
    dropped = setup.drop(**{direction: lambda packet: (packet.opcode <= Opcode.READ_REQUEST) == (what == "requests")
                            and rng.random() < 0.2})
    for length in (1, 2501, 6000, 10_000):
        setup.all_ways(length, length)
    assert len(dropped) > 2 and wait(setup.driver.state(qp)).fault is None


def test_immediate_data(setup, seed):
    """Records of the guest's WRITEs with immediate data; when the ring is full, the guest waits for it."""
    qp = setup.connect(seed, ring=True)
    setup.guest.command("fill", 0, 3000, 5)
    for number in range(RECORDS):
        setup.guest.command("writei", 0, VA, setup.rkey, 3000, 0x1000 + number)
    before = wait(setup.driver.counters())["requests_not_ready"]
    ended = setup.guest.begin("writei", 0, VA, setup.rkey, 100, 0x1004)
    setup.guest.run(lambda: wait(setup.driver.counters())["requests_not_ready"] > before)
    assert not ended()
    wait(setup.driver.free_records(qp, 1))
    setup.guest.run(ended)
    assert setup.guest.end() == []
    words = [int.from_bytes(setup.cluster.load(0, RING + 16 * slot, 16), "little") for slot in range(RECORDS)]
    assert [word & 0xFFFF_FFFF for word in words] == [0x1004, 0x1001, 0x1002, 0x1003]
    assert [word >> 32 & 0xFFFF_FFFF for word in words] == [100, 3000, 3000, 3000]
    assert [word >> 127 for word in words] == [0, 1, 1, 1]


@pytest.mark.parametrize("word", ["write", "read"])
@pytest.mark.parametrize("shift, key", [(0, 1), (SIZE - 2, 0), (-1, 0)])
def test_requests_of_the_guest_are_refused(setup, seed, word, shift, key):
    qp = setup.connect(seed)
    before = setup.cluster.load(0, ADDRESS - 64, SIZE + 128)
    with pytest.raises(CommandFailed, match=r"^Remote access error\.$"):
        setup.guest.command(word, 0, VA + shift, setup.rkey ^ key, 3)
    assert setup.cluster.load(0, ADDRESS - 64, SIZE + 128) == before
    assert wait(setup.driver.take_fault()) == FailedQueuePair(qp, Fault.LOCAL_ACCESS)


@pytest.mark.parametrize("write", [False, True])
def test_the_guest_refuses_requests(setup, seed, write):
    qp = setup.connect(seed)
    wait(setup.driver.define_remote(1, qp=qp, rkey=setup.opened.rkey ^ 1, va=setup.opened.address, length=1000))
    assert setup.copy(write=write, local=SCRATCH, remote=0, length=100) == 1
    assert wait(setup.driver.take_fault()) == FailedQueuePair(qp, Fault.REMOTE_ACCESS)
