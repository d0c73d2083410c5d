# SPDX-License-Identifier: Apache-2.0
"""Rules of the software peer: limits, duplicates, wrong packets and settings."""

import pytest

from hw.errors import UserError
from hw.rdma.protocol import Nak, Opcode
from sim.rdma.connection import Connection, Region, Station
from sim.rdma.packets import decode
from sim.rdma.requester import Failure
from tests.sim.rdma.pair import RKEY, SIZE, STATIONS, STATIONS6, VA, Network, lossy_once


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
    network = Network(17, retries=1, window=1)
    lossy_once(network, lambda end, packet: end == 0)
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
