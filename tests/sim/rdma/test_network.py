# SPDX-License-Identifier: Apache-2.0
"""The network model without RTL: timing, switching, queues, faults, captures."""

import math
import random
from dataclasses import replace

import pytest

from hw.rdma.protocol import Opcode
from sim.rdma.connection import Connection, Region, Station
from sim.rdma.network import ANY_FRAME, FaultAction, Faults, Line, NetworkFailed, SoftwareNetwork, Switch
from sim.rdma.packets import Packet, PacketError, decode
from sim.rdma.peer import Peer

OVERHEAD = 8 + 4 + 12


def _mac(port):
    return bytes([2, 0, 0, 0, 0, port])


def _packet(source, destination, *, size=100, psn=0, opcode=Opcode.WRITE_ONLY, six=False, **fields):
    ip = bytes(12 if six else 0) + bytes([10, 0, 0])
    size = 0 if opcode in (Opcode.READ_REQUEST, Opcode.ACKNOWLEDGE, Opcode.CNP) else size
    return Packet(destination=_mac(destination), source=_mac(source), source_ip=ip + bytes([source]),
                  destination_ip=ip + bytes([destination]), opcode=opcode, psn=psn, payload=bytes(size),
                  **{"traffic_class": 2, **fields})


def _network(ports=3, *, rate=10.0, latency=7, seed=1, assign=True, **options):
    network = SoftwareNetwork([Line(bytes_per_cycle=rate, latency=latency)] * ports, Switch(**options), seed=seed)
    for port in range(ports if assign else 0):
        network.assign(_mac(port), port)
    return network


def _psns(network, port):
    return [decode(frame).psn for frame, bad in network.receive(port) if not bad]


@pytest.mark.parametrize("rate", [0.5, 3.7, 10.0, 64.0])
def test_time_of_a_frame(rate):
    frame = _packet(0, 1).encode()
    with _network(rate=rate, forward_cycles=5) as network:
        network.send(0, frame)
        # Twice preamble, bytes and FCS, twice the latency, and the switch.
        expected = math.ceil(2 * (len(frame) + 12) / rate + 2 * 7 + 5 - 1e-9)
        network.run(expected - 1)
        assert not list(network.receive(1))
        network.run(1)
        assert [received for received, _ in network.receive(1)] == [frame]
        assert network.counts(1).latency_most == expected
        assert not list(network.receive(2)) and not list(network.receive(0))


def test_rate_of_a_segment():
    frame = _packet(0, 1).encode()
    with _network(rate=3.3) as network:
        network.sink(1)
        network.flow(0, frame, frames=10_000)
        network.run(200_000)
        counts = network.counts(1)
        assert abs(counts.received_bytes / len(frame) - 200_000 * 3.3 / (len(frame) + OVERHEAD)) < 3
        assert counts.received_payload == 100 * counts.received and counts.tail_drops == 0


def test_payload_is_counted_without_headers_and_padding():
    with _network() as network:
        total = 0
        for opcode in Opcode:
            for size, six, vlan in ((1001, False, None), (0, True, 5), (2, False, 9)):
                packet = _packet(0, 1, size=size, six=six, opcode=opcode, vlan=vlan)
                network.send(0, packet.encode())
                total += len(packet.payload)
        network.send(0, _mac(1) + _mac(0) + b"\x08\x06" + bytes(46))
        network.sink(1)
        network.run(20_000)
        assert network.counts(0).sent_payload == network.counts(1).received_payload == total
        assert network.counts(1).received == 3 * len(Opcode) + 1


def test_interval_of_a_flow():
    with _network() as network:
        network.sink(1)
        network.flow(0, _packet(0, 1).encode(), frames=50, interval=1000)
        network.run(20_500)
        assert network.counts(0).sent == 21
        network.run(100_000)
        assert network.counts(0).sent == network.counts(1).received == 50


def test_unknown_addresses_are_flooded_until_they_are_learned():
    with _network(4, assign=False) as network:
        network.send(0, _packet(0, 1).encode())
        network.run(100)
        assert [len(list(network.receive(port))) for port in range(4)] == [0, 1, 1, 1]
        network.send(1, _packet(1, 0).encode())         # 0 has been learned, and 1 is now
        network.run(100)
        network.send(3, _packet(3, 1).encode())
        network.run(100)
        assert [len(list(network.receive(port))) for port in range(4)] == [1, 1, 0, 0]
        assert [network.counts(port).flooded for port in range(4)] == [1, 0, 0, 0]


def test_without_learning_only_assigned_addresses_are_known():
    with _network(3, assign=False, learning=False) as network:
        network.assign(_mac(1), 1)
        for source, destination in ((2, 1), (1, 2)):
            network.send(source, _packet(source, destination).encode())
            network.run(100)
        assert [len(list(network.receive(port))) for port in range(3)] == [1, 1, 1]


def test_assigned_addresses_are_not_learned():
    with _network(3) as network:
        network.send(2, _packet(1, 0).encode())         # from the address of port 1
        network.run(100)
        network.send(0, _packet(0, 1).encode())
        network.run(100)
        assert [len(list(network.receive(port))) for port in range(3)] == [1, 1, 0]


def test_groups_and_own_addresses():
    with _network(3) as network:
        for destination in (b"\xff" * 6, b"\1\0\x5e\0\0\1"):
            network.send(0, destination + _packet(0, 1).encode()[6:])
        network.send(0, _packet(0, 0).encode())
        network.run(300)
        assert [len(list(network.receive(port))) for port in range(3)] == [0, 2, 2]
        assert network.counts(0).filtered == 1


def test_a_full_queue_drops_its_tail():
    limit = 5000
    with _network(queue_bytes=limit) as network:
        for port in (0, 1):
            network.flow(port, _packet(port, 2, size=1000).encode(), frames=100)
        network.sink(2)
        network.run(50_000)
        counts = network.counts(2)
        assert counts.tail_drops > 50 and counts.received + counts.tail_drops == 200 and counts.marks == 0
        assert limit - 1100 < counts.queue <= limit


def test_a_queue_drains_at_the_rate_of_its_segment():
    with _network(queue_bytes=5000) as network:
        for _ in range(3):
            for port in (0, 1):
                network.flow(port, _packet(port, 2, size=1000).encode(), frames=2)
            network.run(4 * (1074 + OVERHEAD) // 10 + 250)
        assert len(list(network.receive(2))) == 12 and network.counts(2).tail_drops == 0


@pytest.mark.parametrize("six", [False, True])
def test_congestion_is_marked_above_the_threshold(six):
    with _network(mark_bytes=3000) as network:
        for port in (0, 1):
            for number in range(20):
                network.send(port, _packet(port, 2, size=1000, psn=number, six=six, traffic_class=0x41 + port).encode())
        for number in range(20):
            network.send(0, _packet(0, 2, size=1000, psn=100 + number, six=six, traffic_class=0x40).encode())
        network.run(20_000)
        packets = [decode(frame) for frame, _ in network.receive(2)]       # with right checksums
        assert len(packets) == 60
        marked = [packet for packet in packets if packet.traffic_class == 0x43]
        assert len(marked) == network.counts(2).marks > 10
        assert all(packet.traffic_class == 0x40 for packet in packets if packet.psn >= 100)
        assert [packet.psn for packet in packets[:2]] == [0, 0] and packets[0].traffic_class & 3 != 3


def test_marked_checksums_are_right_for_any_header(seed):
    generator = random.Random(seed)
    with _network(mark_bytes=0, queue_bytes=1 << 20) as network:
        sent = [replace(_packet(0, 2, psn=number), identification=generator.getrandbits(16),
                        traffic_class=generator.getrandbits(6) << 2 | generator.choice([1, 2, 3]),
                        vlan=generator.choice([None, 5]))
                for number in range(500)]
        for packet in sent:
            network.send(1, replace(packet, source=_mac(1)).encode())
            network.send(0, packet.encode())
        network.run(500_000)
        received = [decode(frame) for frame, _ in network.receive(2)]
        assert len(received) == 1000 and sum(packet.traffic_class & 3 == 3 for packet in received) > 900


def test_a_marked_checksum_that_wraps():
    plain = int.from_bytes(_packet(0, 2, traffic_class=1).encode()[24:26], "big")
    with _network(mark_bytes=0) as network:
        for wanted in (2, 0xFFFE, 1, 1):
            packet = _packet(0, 2, traffic_class=1, identification=(plain - wanted) % 0xFFFF)
            assert int.from_bytes(packet.encode()[24:26], "big") == wanted
            for port in (1, 0):
                network.send(port, packet.encode())
        network.run(1000)
        assert sum(decode(frame).traffic_class & 3 == 3 for frame, _ in network.receive(2)) >= 5


def _outcome(faults, *, down=False, count=2000, seed=1):
    with _network(rate=100.0, seed=seed) as network:
        network.fault(1 if down else 0, faults, down=down)
        for psn in range(count):
            network.send(0, _packet(0, 1, psn=psn).encode())
        network.run(count * 3)
        return list(network.receive(1)), network.counts(0), network.counts(1)


@pytest.mark.parametrize("down", [False, True])
def test_random_faults(down):
    prefix = "down_" if down else "up_"
    frames, *counts = _outcome(Faults(loss=0.1), down=down)
    dropped = getattr(counts[down], f"{prefix}dropped")
    assert 120 < dropped < 280 and len(frames) == 2000 - dropped

    frames, *counts = _outcome(Faults(duplicate=0.1), down=down)
    assert 120 < getattr(counts[down], f"{prefix}duplicated") < 280
    assert len(frames) == 2000 + getattr(counts[down], f"{prefix}duplicated")

    frames, *counts = _outcome(Faults(corrupt=0.1), down=down)
    corrupt = 0
    for frame, bad in frames:
        assert not bad
        try:
            decode(frame)
        except PacketError:
            corrupt += 1
    # A flipped bit of a field that the ICRC leaves out is not seen.
    assert 120 < getattr(counts[down], f"{prefix}corrupted") < 280
    assert 0.8 * getattr(counts[down], f"{prefix}corrupted") < corrupt <= getattr(counts[down], f"{prefix}corrupted")

    frames, *counts = _outcome(Faults(bad_fcs=0.1), down=down)
    bad = getattr(counts[down], f"{prefix}bad_fcs")
    assert 120 < bad < 280
    assert (sum(bad for _, bad in frames), counts[0].fcs_drops) == ((bad, 0) if down else (0, bad))

    frames, *counts = _outcome(Faults(reorder=0.1, reorder_cycles=50), down=down)
    psns = [decode(frame).psn for frame, _ in frames]
    assert sorted(psns) == list(range(2000)) and psns != sorted(psns)
    assert max(abs(psn - index) for index, psn in enumerate(psns)) < 50


def test_equal_seeds_give_equal_faults():
    faults = Faults(loss=0.05, corrupt=0.05, bad_fcs=0.05, duplicate=0.05, reorder=0.05, reorder_cycles=99)
    first = _outcome(faults, seed=5)
    assert first == _outcome(faults, seed=5) and first != _outcome(faults, seed=6)


def test_directed_faults():
    def run(action, **options):
        with _network() as network:
            network.direct(0, action, **options)
            for psn in range(10):
                opcode = Opcode.WRITE_ONLY if psn % 2 else Opcode.ACKNOWLEDGE
                network.send(0, _packet(0, 1, psn=psn, opcode=opcode).encode())
            network.run(1000)
            return [(decode(frame).psn if not bad else None) for frame, bad in network.receive(1)], network.counts(0)

    every = list(range(10))
    psns, counts = run(FaultAction.DROP, opcode=Opcode.WRITE_ONLY, number=2)
    assert psns == [psn for psn in every if psn != 3] and counts.up_directed == counts.up_dropped == 1
    assert run(FaultAction.DROP, opcode=Opcode.ACKNOWLEDGE, number=2, count=2)[0] == [0, 1, 3, 5, 6, 7, 8, 9]
    assert run(FaultAction.DROP, number=4)[0] == [0, 1, 2, 4, 5, 6, 7, 8, 9]
    assert run(FaultAction.DROP, opcode=ANY_FRAME, count=9)[0] == [9]
    assert run(FaultAction.DUPLICATE, number=5)[0] == [0, 1, 2, 3, 4, 4, 5, 6, 7, 8, 9]
    assert run(FaultAction.DELAY, number=5, cycles=50)[0] == [0, 1, 2, 3, 5, 6, 7, 4, 8, 9]
    psns, counts = run(FaultAction.BAD_FCS, number=1)
    assert psns == every[1:] and counts.fcs_drops == 1
    assert run(FaultAction.DROP, opcode=Opcode.CNP)[0] == every


def test_directed_faults_towards_a_station():
    with _network() as network:
        network.direct(1, FaultAction.BAD_FCS, down=True, number=2)
        for psn in range(3):
            network.send(0, _packet(0, 1, psn=psn).encode())
        network.run(1000)
        assert [bad for _, bad in network.receive(1)] == [False, True, False]
        network.direct(1, FaultAction.CORRUPT, down=True)
        network.send(0, _packet(0, 1).encode())
        network.run(1000)
        (frame, bad), = network.receive(1)
        assert frame != _packet(0, 1).encode() and not bad


@pytest.mark.parametrize("port", [None, 1])
def test_captures(tmp_path, port):
    scapy = pytest.importorskip("scapy.utils")
    path = tmp_path / "x.pcap"
    with _network() as network:
        network.capture(path, port=port, ns_per_cycle=1000.0)
        for source, destination in ((0, 1), (1, 2), (2, 0)):
            network.send(source, _packet(source, destination, psn=source).encode())
            network.run(100)
            for station in range(3):
                list(network.receive(station))
        network.flush()
    found = [(decode(bytes(frame)).psn, float(frame.time)) for frame in scapy.rdpcap(str(path))]
    assert [psn for psn, _ in found] == ([0, 0, 1, 1, 2, 2] if port is None else [0, 1])
    times = [time for _, time in found]
    assert times == sorted(times) and (port == 1 or times[::2] == pytest.approx([0, 0.0001, 0.0002]))


@pytest.mark.parametrize("faults", [
    Faults(), Faults(loss=0.02, corrupt=0.02, bad_fcs=0.02, duplicate=0.02, reorder=0.05, reorder_cycles=2000)])
def test_peers(faults, seed):
    """Three software peers, each with a queue pair to both others, WRITE to and READ from each other."""
    stations = [Station(_mac(port), bytes([10, 0, 0, port])) for port in range(3)]
    generator = random.Random(seed)
    with _network(seed=seed, mark_bytes=4000, queue_bytes=20_000) as network:
        peers, posted = [Peer(station) for station in stations], []
        memories = [peer.add_region(Region(rkey=1, va=0, memory=bytearray(30_000))).memory for peer in peers]
        expected = [bytearray(30_000) for _ in peers]
        for here, peer in enumerate(peers):
            network.fault(here, faults)
            for there in {0, 1, 2} - {here}:
                pair = peer.connect(Connection(
                    station=stations[here], peer=stations[there], qpn=16 + there, peer_qpn=16 + here, mtu=1024,
                    timeout=20_000, retries=1000, congestion=True, window=8, receive_psn=there, send_psn=here))
                data = generator.randbytes(8000)
                expected[there][here * 10_000:here * 10_000 + 8000] = data
                posted.append((pair.requester.write(here * 10_000, 1, data), b""))
                posted.append((pair.requester.read(here * 10_000, 1, 8000), data))
        for _ in range(100_000):
            for port, peer in enumerate(peers):
                for frame, bad in network.receive(port):
                    if not bad:
                        peer.receive(frame, network.cycle)
                for frame in peer.transmit(network.cycle):
                    network.send(port, frame)
            if all(request.done for request, _ in posted):
                break
            network.run(20)
        assert all(request.done and request.failure is None and request.result == data for request, data in posted)
        assert memories == expected
        assert sum(network.counts(port).marks for port in range(3)) > 0
        assert any(pair.notifications for peer in peers for pair in peer.pairs.values())


def test_errors(tmp_path):
    line = Line(bytes_per_cycle=1)
    for ports in (1, 9):
        with pytest.raises(NetworkFailed, match=rf"^A network has 2 to 8 ports, not {ports}\.$"):
            SoftwareNetwork([line] * ports)
    with pytest.raises(NetworkFailed, match=r"^A line has a rate of more than 0 bytes per cycle and a latency of at "
                                            r"least 1 cycle, not 0 and 10\.$"):
        SoftwareNetwork([Line(bytes_per_cycle=0)] * 2)
    with pytest.raises(NetworkFailed, match=r"^The probability loss must be from 0 to 1, not 1\.5\.$"):
        Faults(loss=1.5)
    with _network() as network:
        for call in (lambda: network.send(3, bytes(64)), lambda: network.fault(3, Faults()), lambda: network.counts(3),
                     lambda: network.assign(_mac(1), 3), lambda: list(network.receive(3)),
                     lambda: network.flow(3, bytes(64), frames=1), lambda: network.sink(3)):
            with pytest.raises(NetworkFailed, match=r"^There is no port 3\.$"):
                call()
        for size in (13, 20_000):
            with pytest.raises(NetworkFailed, match=rf"^A frame has 14 to 16384 bytes, not {size}\.$"):
                network.send(0, bytes(size))
        with pytest.raises(NetworkFailed, match=r"^A directed fault has at least 1 frame, not 0\.$"):
            network.direct(0, FaultAction.DROP, count=0)
        with pytest.raises(NetworkFailed, match=r"^Frames are counted from 1, not from 0\.$"):
            network.direct(0, FaultAction.DROP, number=0)
        with pytest.raises(NetworkFailed, match=r"^The file .*/none/x cannot be written\.$"):
            network.capture(tmp_path / "none" / "x")
    for call in (lambda: network.run(1), lambda: network.counts(0), lambda: network.send(0, bytes(60)),
                 lambda: network.cycle):
        with pytest.raises(NetworkFailed, match=r"^The network is closed\.$"):
            call()
