# SPDX-License-Identifier: Apache-2.0
"""Two software peers and a network with faults between them."""

import heapq
import random

from sim.rdma.connection import Connection, Region, Station
from sim.rdma.packets import decode
from sim.rdma.peer import Peer

STATIONS = Station(b"\2\0\0\0\0\1", bytes([10, 0, 0, 1])), Station(b"\2\0\0\0\0\2", bytes([10, 0, 0, 2]))
STATIONS6 = tuple(Station(one.mac, bytes(12) + one.ip) for one in STATIONS)
VA, RKEY, SIZE = 0x7F00_0000_1003, 0x1234, 300_000


class Network:
    """Two peers, and frames in flight between them; all times are in one unit."""

    def __init__(self, seed, *, loss=0.0, corrupt=0.0, duplicate=0.0, reorder=0.0, stations=STATIONS, **options):
        self.random = random.Random(seed)
        self.loss, self.corrupt, self.duplicate, self.reorder = loss, corrupt, duplicate, reorder
        self.now, self.number, self.flight = 0.0, 0, []
        self.peers = [Peer(station) for station in stations]
        self.memories = [peer.add_region(Region(rkey=RKEY, va=VA, memory=bytearray(self.random.randbytes(SIZE)))).memory
                         for peer in self.peers]
        options = {"timeout": 5000.0, **options}
        first, second = self.random.getrandbits(24), 0xFFFFF0       # the latter wraps soon
        self.pairs = [peer.connect(Connection(
            station=peer.station, peer=stations[1 - end], qpn=5 + end, peer_qpn=6 - end,
            send_psn=(first, second)[end], receive_psn=(second, first)[end], **options))
            for end, peer in enumerate(self.peers)]
        self.log = []

    def send(self, end, frame):
        self.log.append((end, decode(frame)))
        chance = self.random.random
        for _ in range(1 + (chance() < self.duplicate)):
            if chance() < self.loss:
                continue
            if chance() < self.corrupt:
                bit = self.random.randrange(14 * 8, 8 * len(frame))
                frame = bytearray(frame)
                frame[bit // 8] ^= 1 << bit % 8
                frame = bytes(frame)
            delay = 100 + (self.random.uniform(0, 500) if chance() < self.reorder else 0)
            self.number += 1
            heapq.heappush(self.flight, (self.now + delay, self.number, 1 - end, frame))

    def run(self, limit=1_000_000):
        """Until both peers are idle and no frame is in flight."""
        for _ in range(limit):
            for end, peer in enumerate(self.peers):
                for frame in peer.transmit(self.now, 4):
                    self.send(end, frame)
            times = [peer.deadline for peer in self.peers if peer.deadline is not None]
            times += [self.flight[0][0]] if self.flight else []
            if not times:
                if all(peer.idle for peer in self.peers):
                    return
                continue
            self.now = max(self.now + 1, min(min(times), self.now + 10))
            while self.flight and self.flight[0][0] <= self.now:
                _, _, end, frame = heapq.heappop(self.flight)
                self.peers[end].receive(frame, self.now)
        raise AssertionError("The peers did not end.")


def opcodes(network, end):
    return [packet.opcode for sender, packet in network.log if sender == end]


def lossy_once(network, drop):
    """Drop the frames for which ``drop(sender, packet)`` is true, the first time only."""
    plain, dropped = network.send, set()

    def send(end, frame):
        packet = decode(frame)
        key = end, packet.psn
        if drop(end, packet) and key not in dropped:
            dropped.add(key)
        else:
            plain(end, frame)

    network.send = send
