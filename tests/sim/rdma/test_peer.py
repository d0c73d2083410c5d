# SPDX-License-Identifier: Apache-2.0
"""The software peer against itself: through a network with faults, and against wrong packets."""

import heapq
import random

import pytest

from hw.errors import UserError
from hw.rdma.protocol import Nak, Opcode
from sim.rdma.connection import Connection, Region, Station, difference
from sim.rdma.packets import decode
from sim.rdma.peer import Peer
from sim.rdma.requester import Failure
from sim.rdma.responder import Record

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


def _traffic(network, count, longest):
    """Random requests in both directions; checks all bytes and records at the end.

    Each request has bytes of its own in both memories, so that their order does not matter.
    """
    expected = [bytes(memory) for memory in network.memories]
    expected = [bytearray(one) for one in expected]
    posted, imms, at = [], [[], []], [0, 0]
    for number in range(count):
        end = network.random.randrange(2)
        requester, other = network.pairs[end].requester, expected[1 - end]
        length = network.random.choice([0, 1, 3, 255, 1024, 1025, network.random.randrange(longest)])
        begin = at[1 - end]
        if begin + length > SIZE:
            continue
        at[1 - end] += length
        if network.random.random() < 0.4:
            posted.append((requester.read(VA + begin, RKEY, length), bytes(other[begin:begin + length])))
        else:
            data = network.random.randbytes(length)
            imm = number if network.random.random() < 0.3 else None
            other[begin:begin + length] = data
            if imm is not None:
                imms[1 - end].append(Record(imm, length))
            posted.append((requester.write(VA + begin, RKEY, data, imm), b""))
    network.run()
    assert len(posted) > count // 2
    for request, data in posted:
        assert request.done and request.failure is None and bytes(request.result) == data
    assert [bytes(memory) for memory in network.memories] == [bytes(one) for one in expected]
    assert [pair.responder.records for pair in network.pairs] == imms


@pytest.mark.parametrize("mtu", [256, 1024, 4096])
def test_without_faults(mtu, seed):
    network = Network(f"{seed} {mtu}", mtu=mtu)
    _traffic(network, 60, 9000)
    assert all(pair.requester.retransmissions == 0 and pair.responder.gaps == 0 for pair in network.pairs)
    assert all(peer.counts["received"] == other.counts["sent"]
               for peer, other in zip(network.peers, network.peers[::-1], strict=True))


@pytest.mark.parametrize("number", range(6))
def test_with_faults(number, seed):
    options = {"mtu": (256, 512, 1024)[number % 3], "window": (3, 17, 64)[number % 3], "retries": 1000}
    network = Network(f"{seed} {number}", loss=0.03, corrupt=0.02, duplicate=0.03, reorder=0.05, **options)
    _traffic(network, 150, 8000)
    assert any(pair.requester.retransmissions for pair in network.pairs)
    assert any(pair.responder.duplicates for pair in network.pairs)
    assert any(peer.counts["wrong"] for peer in network.peers)


def test_ipv6_and_vlan(seed):
    network = Network(seed, stations=STATIONS6, vlan=0x2005, loss=0.02, retries=1000)
    _traffic(network, 30, 4000)


def _opcodes(network, end):
    return [packet.opcode for sender, packet in network.log if sender == end]


def test_opcodes_of_a_message():
    network = Network(1)
    network.pairs[0].requester.write(VA, RKEY, bytes(2049), imm=7)
    network.pairs[0].requester.read(VA, RKEY, 3000)
    network.run()
    assert _opcodes(network, 0) == [Opcode.WRITE_FIRST, Opcode.WRITE_MIDDLE, Opcode.WRITE_LAST_IMM,
                                    Opcode.READ_REQUEST]
    assert _opcodes(network, 1) == [Opcode.ACKNOWLEDGE, Opcode.READ_FIRST, Opcode.READ_MIDDLE, Opcode.READ_LAST]
    psns = [difference(packet.psn, network.pairs[0].connection.send_psn) for _, packet in network.log]
    assert psns[:4] == [0, 1, 2, 3] and psns[-3:] == [3, 4, 5]
    assert [packet.msn for sender, packet in network.log if sender and packet.opcode != Opcode.READ_MIDDLE] == [1, 2, 2]


def _lossy_once(network, drop):
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


def test_a_dropped_packet_is_repeated_after_a_nak_of_sequence_error():
    network = Network(2)
    first = network.pairs[0].connection.send_psn
    _lossy_once(network, lambda end, packet: end == 0 and packet.psn == (first + 1) & 0xFFFFFF)
    request = network.pairs[0].requester.write(VA, RKEY, bytes(4096))
    network.run()
    assert request.done and network.pairs[1].responder.gaps == 1 and network.now < 4000     # before the time-out
    naks = [packet for end, packet in network.log if end and packet.syndrome == 0x60]
    assert [difference(packet.psn, first) for packet in naks] == [1]


def test_a_dropped_read_response_is_requested_again():
    network = Network(3)
    first = network.pairs[0].connection.send_psn
    _lossy_once(network, lambda end, packet: end == 1 and packet.psn == (first + 2) & 0xFFFFFF)
    request = network.pairs[0].requester.read(VA, RKEY, 5000)
    network.run()
    assert request.result == network.memories[1][:5000] and network.now < 4000
    requests = [packet for end, packet in network.log if end == 0]
    assert [(packet.va - VA, packet.dma_length) for packet in requests] == [(0, 5000), (2048, 2952)]


def test_a_dropped_acknowledgement_is_repeated_after_a_time_out():
    network = Network(4)
    _lossy_once(network, lambda end, packet: end == 1)
    request = network.pairs[0].requester.write(VA, RKEY, b"abc")
    network.run()
    assert request.done and network.now > 5000 and network.pairs[1].responder.duplicates == 1


def test_no_peer():
    network = Network(5, loss=1.0, retries=2)
    request = network.pairs[0].requester.write(VA, RKEY, b"abc")
    after = network.pairs[0].requester.write(VA, RKEY, b"abc")
    network.run()
    assert request.failure is after.failure is Failure.RETRIES and len(network.log) == 6
    assert network.pairs[0].requester.read(VA, RKEY, 1).failure is Failure.RETRIES


@pytest.mark.parametrize("post, failure, nak", [
    (lambda one: one.write(VA, RKEY + 1, b"abc"), Failure.REMOTE_ACCESS, Nak.REMOTE_ACCESS),
    (lambda one: one.write(VA - 1, RKEY, b"abc"), Failure.REMOTE_ACCESS, Nak.REMOTE_ACCESS),
    (lambda one: one.write(VA + SIZE - 2, RKEY, b"abc"), Failure.REMOTE_ACCESS, Nak.REMOTE_ACCESS),
    (lambda one: one.read(VA + SIZE - 2, RKEY, 3), Failure.REMOTE_ACCESS, Nak.REMOTE_ACCESS),
])
def test_refused_requests(post, failure, nak):
    network = Network(6)
    before = network.pairs[0].requester.write(VA, RKEY, b"abc")
    request = post(network.pairs[0].requester)
    after = network.pairs[0].requester.write(VA, RKEY, b"xyz")
    network.run()
    assert (before.failure, request.failure, after.failure) == (None, failure, failure)
    assert network.pairs[1].responder.failed == nak and network.memories[1][:3] == b"abc"


def test_rights():
    for right, post in (("readable", lambda one: one.read(VA, RKEY, 1)),
                        ("writable", lambda one: one.write(VA, RKEY, b"a"))):
        network = Network(7)
        setattr(network.peers[1].regions[RKEY], right, False)
        request = post(network.pairs[0].requester)
        network.run()
        assert request.failure is Failure.REMOTE_ACCESS


def test_zero_bytes_need_no_key():
    network = Network(8)
    requests = [network.pairs[0].requester.write(5, 99, b""), network.pairs[0].requester.read(5, 99, 0)]
    network.run()
    assert all(one.done and one.failure is None for one in requests)


def test_a_full_ring_of_records():
    network = Network(9, rnr_timer=5)
    network.pairs[1].responder.record_limit = 1
    first, second = (network.pairs[0].requester.write(VA, RKEY, b"abc", imm) for imm in (1, 2))
    with pytest.raises(AssertionError):
        network.run(500)
    assert first.done and not second.done
    network.pairs[1].responder.record_limit = 2
    network.run()
    assert second.done and network.pairs[1].responder.records == [Record(1, 3), Record(2, 3)]


def test_rnr_retries_are_limited():
    network = Network(10, rnr_retries=3, rnr_timer=1)
    network.pairs[1].responder.record_limit = 0
    request = network.pairs[0].requester.write(VA, RKEY, b"abc", 1)
    network.run()
    assert request.failure is Failure.RNR_RETRIES
    assert _opcodes(network, 0) == [Opcode.WRITE_ONLY_IMM] * 4


@pytest.mark.parametrize("change", [
    {"opcode": Opcode.SEND_ONLY}, {"opcode": Opcode.WRITE_MIDDLE}, {"opcode": Opcode.WRITE_LAST}, {"dma_length": 4},
    {"dma_length": 1025, "payload": bytes(1025)}, {"opcode": Opcode.WRITE_FIRST},
    {"opcode": Opcode.WRITE_FIRST, "dma_length": 1024, "payload": bytes(1024)},
    {"opcode": Opcode.WRITE_FIRST, "dma_length": 2000, "payload": bytes(1000)},
])
def test_invalid_requests(change):
    network = Network(11)
    connection = network.pairs[0].connection
    packet = connection.packet(Opcode.WRITE_ONLY, connection.send_psn)
    packet.va, packet.rkey, packet.dma_length, packet.payload = VA, RKEY, 3, b"abc"
    for name, value in change.items():
        setattr(packet, name, value)
    before = bytes(network.memories[1])
    network.peers[1].receive(packet.encode(), 0)
    (response,) = map(decode, network.peers[1].transmit(0))
    assert (response.opcode, response.syndrome, response.psn) == (Opcode.ACKNOWLEDGE, 0x61, packet.psn)
    assert network.pairs[1].responder.failed is Nak.INVALID_REQUEST and bytes(network.memories[1]) == before
    network.peers[1].receive(packet.encode(), 0)
    assert network.peers[1].transmit(0) == []


def test_window_reads_and_acknowledgement_requests():
    network = Network(15, window=20, ack_interval=8, max_reads=3)
    requester = network.pairs[0].requester
    requester.write(VA, RKEY, bytes(30 * 1024))
    packets = [decode(frame) for frame in network.peers[0].transmit(0)]
    assert len(packets) == 20 and [number for number, packet in enumerate(packets) if packet.ackreq] == [7, 15, 19]
    network = Network(16, max_reads=3)
    for _ in range(5):
        network.pairs[0].requester.read(VA, RKEY, 5000)
    assert len(network.peers[0].transmit(0)) == 3


def test_progress_restores_the_retries():
    network = Network(17, retries=1)
    _lossy_once(network, lambda end, packet: end == 0)
    requests = [network.pairs[0].requester.write(VA, RKEY, b"abc") for _ in range(5)]
    network.run()
    assert all(request.done and request.failure is None for request in requests)


def _after_a_read(change):
    """The failure of a READ of 2500 bytes whose second response packet was changed."""
    network = Network(18)
    request = network.pairs[0].requester.read(VA, RKEY, 2500)
    (frame,) = network.peers[0].transmit(0)
    network.peers[1].receive(frame, 0)
    first, second, third = map(decode, network.peers[1].transmit(0))
    change(second)
    for packet in (first, second, third):
        network.peers[0].receive(packet.encode(), 1)
    return request.failure


def test_wrong_read_responses():
    assert _after_a_read(lambda packet: None) is None
    for name, value in (("opcode", Opcode.READ_LAST), ("payload", bytes(1023))):
        assert _after_a_read(lambda packet, name=name, value=value: setattr(packet, name, value)) is \
            Failure.BAD_RESPONSE


@pytest.mark.parametrize("syndrome, failure", [
    (0x61, Failure.REMOTE_INVALID), (0x62, Failure.REMOTE_ACCESS), (0x63, Failure.REMOTE_OPERATION),
    (0x64, Failure.BAD_RESPONSE), (0x7F, Failure.BAD_RESPONSE), (0x40, Failure.BAD_RESPONSE)])
def test_syndromes(syndrome, failure):
    network = Network(19)
    requests = [network.pairs[0].requester.write(VA, RKEY, b"abc") for _ in range(3)]
    network.peers[0].transmit(0)
    connection = network.pairs[1].connection
    nak = connection.packet(Opcode.ACKNOWLEDGE, connection.receive_psn + 1)
    nak.syndrome = syndrome
    network.peers[0].receive(nak.encode(), 0)
    assert [request.failure for request in requests] == [None, failure, failure]


def test_acknowledgements_of_what_was_not_sent():
    network = Network(20)
    request = network.pairs[0].requester.write(VA, RKEY, b"abc")
    network.peers[0].transmit(0)
    connection = network.pairs[1].connection
    for psn in (connection.receive_psn - 1, connection.receive_psn + 1):
        network.peers[0].receive(connection.packet(Opcode.ACKNOWLEDGE, psn).encode(), 0)
    assert not request.done


def _deliver(network, change):
    """Responses to a packet of the first peer: a WRITE of the last bytes of the memory, changed."""
    connection = network.pairs[0].connection
    packet = connection.packet(Opcode.WRITE_ONLY, connection.send_psn)
    packet.va, packet.rkey, packet.dma_length, packet.payload, packet.ackreq = VA + SIZE - 3, RKEY, 3, b"end", 1
    change(packet)
    network.peers[1].receive(packet.encode(), 0)
    return [decode(frame) for frame in network.peers[1].transmit(0)]


def test_duplicates():
    network = Network(21)
    first = network.pairs[0].connection.send_psn
    assert [one.psn for one in _deliver(network, lambda packet: None)] == [first]
    assert network.memories[1].endswith(b"end")

    def second(packet):
        packet.psn, packet.ackreq = (first + 1) & 0xFFFFFF, 0

    assert _deliver(network, second) == []

    def again(packet):
        packet.payload = b"old"

    # An old WRITE is acknowledged with the latest PSN, and has no effect.
    (response,) = _deliver(network, again)
    assert (response.psn, response.syndrome, response.msn) == ((first + 1) & 0xFFFFFF, 0x1F, 2)
    assert network.memories[1].endswith(b"end")

    def read(length):
        def change(packet):
            packet.opcode, packet.payload, packet.va, packet.dma_length = Opcode.READ_REQUEST, b"", VA, length

        return change

    assert [one.opcode for one in _deliver(network, read(1025))] == [Opcode.READ_FIRST, Opcode.READ_LAST]
    # An old READ must not reach the expected PSN.
    (response,) = _deliver(network, read(2049))
    assert (response.opcode, response.syndrome) == (Opcode.ACKNOWLEDGE, 0x61)


def test_congestion_is_notified_once_in_an_interval():
    network = Network(12, congestion=True, traffic_class=3, cnp_interval=50_000.0)
    network.pairs[0].requester.write(VA, RKEY, bytes(5000))
    network.run()
    cnps = [packet for _, packet in network.log if packet.opcode == Opcode.CNP]
    assert len(cnps) == 2 and all(packet.becn for packet in cnps)     # acknowledgements are marked, too
    assert [pair.notifications for pair in network.pairs] == [1, 1]


def test_frames_of_others():
    network = Network(13)
    peer, connection = network.peers[1], network.pairs[0].connection
    good = connection.packet(Opcode.WRITE_ONLY, connection.send_psn)
    good.rkey = RKEY
    frame = good.encode()
    peer.receive(b"\6" * 6 + frame[6:], 0)
    peer.receive(frame[:-1] + bytes([frame[-1] ^ 1]), 0)
    for name, value in (("qpn", 77), ("source_ip", bytes(4)), ("destination_ip", bytes(4)), ("pkey", 1)):
        wrong = connection.packet(Opcode.WRITE_ONLY, connection.send_psn)
        setattr(wrong, name, value)
        peer.receive(wrong.encode(), 0)
    assert peer.counts == {"other": 1, "wrong": 1, "received": 4, "unknown": 4}
    assert peer.last_error.startswith("The ICRC is ") and peer.transmit(0) == []


def test_wrong_settings():
    station, other = STATIONS
    with pytest.raises(UserError, match=r"^The path MTU must be 256, 512, 1024, 2048 or 4096, not 1000\.$"):
        Connection(station=station, peer=other, qpn=1, peer_qpn=2, mtu=1000)
    with pytest.raises(UserError, match=r"^qpn must be from 0 to 16777215, not 16777216\.$"):
        Connection(station=station, peer=other, qpn=1 << 24, peer_qpn=2)
    with pytest.raises(UserError, match=r"^window must be at least 1, not 0\.$"):
        Connection(station=station, peer=other, qpn=1, peer_qpn=2, window=0)
    with pytest.raises(UserError, match=r"^Both stations of a connection must have addresses of the same version of "):
        Connection(station=station, peer=STATIONS6[1], qpn=1, peer_qpn=2)
    with pytest.raises(UserError, match=r"^A station has an Ethernet address of 6 bytes and an IP address of 4 or "):
        Station(b"", bytes(4))
    network = Network(14)
    with pytest.raises(UserError, match=r"^The queue pair 0x5 is open already\.$"):
        network.peers[0].connect(network.pairs[0].connection)
    with pytest.raises(UserError, match=r"^The connection belongs to another station\.$"):
        network.peers[0].connect(network.pairs[1].connection)
    with pytest.raises(UserError, match=r"^The R_Key 0x1234 has a region already\.$"):
        network.peers[0].add_region(Region(rkey=RKEY, va=0, memory=bytearray()))
