# SPDX-License-Identifier: Apache-2.0
"""The software peer against itself, through a network with and without faults."""

import pytest

from hw.rdma.protocol import Nak, Opcode
from sim.rdma.connection import difference
from sim.rdma.requester import Failure
from sim.rdma.responder import Record
from tests.sim.rdma.pair import RKEY, SIZE, STATIONS6, VA, Network, lossy_once, opcodes


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


def test_opcodes_of_a_message():
    network = Network(1)
    network.pairs[0].requester.write(VA, RKEY, bytes(2049), imm=7)
    network.pairs[0].requester.read(VA, RKEY, 3000)
    network.run()
    assert opcodes(network, 0) == [Opcode.WRITE_FIRST, Opcode.WRITE_MIDDLE, Opcode.WRITE_LAST_IMM,
                                    Opcode.READ_REQUEST]
    assert opcodes(network, 1) == [Opcode.ACKNOWLEDGE, Opcode.READ_FIRST, Opcode.READ_MIDDLE, Opcode.READ_LAST]
    psns = [difference(packet.psn, network.pairs[0].connection.send_psn) for _, packet in network.log]
    assert psns[:4] == [0, 1, 2, 3] and psns[-3:] == [3, 4, 5]
    assert [packet.msn for sender, packet in network.log if sender and packet.opcode != Opcode.READ_MIDDLE] == [1, 2, 2]


def test_a_dropped_packet_is_repeated_after_a_nak_of_sequence_error():
    network = Network(2)
    first = network.pairs[0].connection.send_psn
    lossy_once(network, lambda end, packet: end == 0 and packet.psn == (first + 1) & 0xFFFFFF)
    request = network.pairs[0].requester.write(VA, RKEY, bytes(4096))
    network.run()
    assert request.done and network.pairs[1].responder.gaps == 1 and network.now < 4000     # before the time-out
    naks = [packet for end, packet in network.log if end and packet.syndrome == 0x60]
    assert [difference(packet.psn, first) for packet in naks] == [1]


def test_a_dropped_read_response_is_requested_again():
    network = Network(3)
    first = network.pairs[0].connection.send_psn
    lossy_once(network, lambda end, packet: end == 1 and packet.psn == (first + 2) & 0xFFFFFF)
    request = network.pairs[0].requester.read(VA, RKEY, 5000)
    network.run()
    assert request.result == network.memories[1][:5000] and network.now < 4000
    requests = [packet for end, packet in network.log if end == 0]
    assert [(packet.va - VA, packet.dma_length) for packet in requests] == [(0, 5000), (2048, 2952)]


def test_a_dropped_acknowledgement_is_repeated_after_a_time_out():
    network = Network(4)
    lossy_once(network, lambda end, packet: end == 1)
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
    assert opcodes(network, 0) == [Opcode.WRITE_ONLY_IMM] * 4
