# SPDX-License-Identifier: Apache-2.0
"""Linux's ib_write_bw, ib_write_lat, ib_read_bw and ib_read_lat as clients of the RTL."""

import random
from ipaddress import ip_address

import pytest

from dmace.drivers.registers import wait
from hw.rdma.config import TINY, remote_memory
from hw.rdma.protocol import Opcode
from sim.rdma.cluster import Flow
from sim.rdma.packets import decode, is_roce
from sim.rdma.perftest import Keys, PerftestServer, Tool
from sim.rdma.roce_guest import ROUTES
from tests.sim.rdma.unit_guest import ADDRESS, SCRATCH, SIZE, VA

pytestmark = [pytest.mark.long, pytest.mark.rtl]

MTU = 1024


class Ponger:
    """Writes the round's number back, as the server of ``ib_write_lat`` does."""

    def __init__(self, setup, server, size, rounds):
        self.setup, self.server, self.size, self.rounds = setup, server, size, rounds
        self.round, self.flow = 0, None

    def __call__(self):
        cluster = self.setup.cluster
        if not self.server.ready or self.round > self.rounds:
            return
        last = cluster.load(0, ADDRESS + self.size - 1, 1)[0]
        if self.flow is not None and (not cluster.result(0, self.flow).done or last != self.round):
            return
        self.round += 1
        if self.round <= self.rounds:
            cluster.store(0, SCRATCH, bytes(self.size - 1) + bytes([self.round]))
            self.flow = cluster.flow(0, Flow(write=True, local=SCRATCH, remote=remote_memory(1), size=self.size,
                                             count=1))


class Observed:
    """Bytes on the network: those that the client wrote, and those that it read, at their offsets in the region."""

    def __init__(self):
        self.written, self.read, self._at, self._reads, self._seen = {}, {}, 0, {}, set()

    def __call__(self, sent, frame):
        if not is_roce(frame):
            return
        packet = decode(frame)
        if sent:
            if Opcode.READ_FIRST <= packet.opcode <= Opcode.READ_ONLY:
                first = max(psn for psn in self._reads if psn <= packet.psn)
                self.read[self._reads[first] + (packet.psn - first) * MTU] = packet.payload
        elif packet.psn not in self._seen:
            self._seen.add(packet.psn)
            if packet.opcode == Opcode.READ_REQUEST:
                self._reads[packet.psn] = packet.va - VA
            elif Opcode.WRITE_FIRST <= packet.opcode <= Opcode.WRITE_ONLY:
                self._at = packet.va - VA if packet.opcode in (Opcode.WRITE_FIRST, Opcode.WRITE_ONLY) else self._at
                self.written[self._at] = packet.payload
                self._at += len(packet.payload)


@pytest.mark.parametrize("tool, size, iterations", [
    (Tool.WRITE_BW, 5000, 200), (Tool.WRITE_LAT, 64, 50), (Tool.READ_BW, 5000, 100), (Tool.READ_LAT, 8, 50)],
    ids=lambda value: value.name if isinstance(value, Tool) else str(value))
def test_clients(setup, seed, tool, size, iterations):
    """The client ends without error, and the bytes on the network are those in the unit's memory."""
    own, observed = ip_address("::ffff:" + ROUTES[0].own).packed, Observed()
    content = random.Random(seed).randbytes(SIZE)
    setup.cluster.store(0, ADDRESS, content)
    qpn, observe = setup.free_qpn(), setup.guest.segment.observe

    def connect(client):
        qp = setup.open(qpn=qpn, peer_qpn=client.qpn, mtu=MTU, send_psn=5, receive_psn=client.psn)
        wait(setup.driver.define_remote(1, qp=qp, rkey=client.rkey, va=client.address, length=1 << 16))
        return Keys(qpn=qpn, psn=5, reads=TINY.reads, rkey=setup.rkey, address=VA, gid=own)

    setup.guest.segment.observe = lambda sent, frame: (observe(sent, frame), observed(sent, frame))
    try:
        with PerftestServer(tool, connect) as server:
            meanwhile = Ponger(setup, server, size, iterations) if tool is Tool.WRITE_LAT else lambda: None
            assert setup.guest.perftest(server, tool, size=size, iterations=iterations, meanwhile=meanwhile) == 0
            assert server.done
    finally:
        setup.guest.segment.observe = observe
    assert wait(setup.driver.state(qpn % TINY.queue_pairs)).fault is None
    expected, read = bytearray(content), tool in (Tool.READ_BW, Tool.READ_LAT)
    for at, data in observed.written.items():
        expected[at:at + len(data)] = data
    assert setup.cluster.load(0, ADDRESS, SIZE) == expected
    assert all(content[at:at + len(data)] == data for at, data in observed.read.items())
    assert bool(observed.written) != read and bool(observed.read) == read
    moved = observed.read if read else observed.written
    assert {at + len(data) for at, data in moved.items()} >= {size}
