# SPDX-License-Identifier: Apache-2.0
"""FrameParser with frames by Scapy: packets, other traffic, hostile frames, full buffers; cycles."""

import random
from collections import Counter
from dataclasses import replace

import pytest
from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import ARP, Dot1Q, Ether
from scapy.packet import Raw

from hw.rdma.frames.packet_buffer import packet_depth
from hw.rdma.protocol import CE, Opcode

from .receive_bench import run_receiver
from .scapy_frames import MAPPED, STATION, Packet, Peer, frame, mac_text, random_packet, random_peer
from .test_frame_builder import config_of

QPN = 0xABCDE1


def incoming(packet, peer, **options):
    return frame(packet, peer, to_peer=False, **{"qpn": QPN} | options)


def expect(found, packet, peer, *, qpn=QPN):
    """The received packet is the one that was sent; fields that its opcode lacks are not compared."""
    assert {name: found[name] for name in packet.used} == {name: getattr(packet, name) for name in packet.used}
    assert found["payload"] == packet.payload and found["length"] == len(packet.payload)
    assert found["qpn"] == qpn and found["source"] == peer.peer_ip and found["ce"] == (peer.traffic_class & 3 == CE)


def make_peer(rng, kind):
    """A peer with IPv4 or IPv6 (bit 0 of ``kind``), with or without a VLAN tag (bit 1)."""
    return random_peer(rng, ipv6=kind & 1, vlan=kind >> 1, peer_ip=rng.getrandbits(128) if kind & 1 else
                       MAPPED | rng.getrandbits(32))


@pytest.mark.parametrize("width, count, gaps", [
    (64, 60, 0), (512, 50, 0), *(
        pytest.param(width, 40, gaps, marks=[pytest.mark.long, *more]) for width, gaps, more in (
            (64, 0.3, ()), (128, 0.3, ()), (512, 0.3, ()), (1024, 0.3, ()),
            (256, 0.3, [pytest.mark.soak]), (1024, 0, [pytest.mark.soak])))])
def test_random_packets(width, count, gaps, seed):
    rng = random.Random(seed)
    sent = []

    async def body(bench):
        for number in range(count):
            peer, packet = make_peer(rng, number % 4), random_packet(rng, 200)
            sent.append((packet, peer))
            await bench.send(incoming(packet, peer))

    bench = run_receiver(config_of(width), rng, body, gaps=gaps, stalls=gaps)
    for found, (packet, peer) in zip(bench.packets, sent, strict=True):
        expect(found, packet, peer)
    marked = sum(peer.traffic_class & 3 == CE for _, peer in sent)
    assert +bench.counts == +Counter(good=count, marked=marked)
    assert not bench.others


def others(rng, peer):
    """Frames that are no RoCEv2 packets to the station."""
    ours, theirs = {"dst": mac_text(STATION["mac"])}, mac_text(peer.peer_mac)
    text = Raw(rng.randbytes(rng.randrange(200)))
    packet = random_packet(rng, 64)

    def changed(**fields):
        plain = {"ipv6": 0, "vlan": 0, "peer_ip": MAPPED | 1} | fields.pop("peer", {})
        return incoming(packet, replace(peer, **plain), **fields)

    def with_ip(**fields):
        return changed(change=lambda layers: [setattr(layers[IP], name, value) for name, value in fields.items()])

    return [
        bytes(Ether(src=theirs, dst="ff:ff:ff:ff:ff:ff") / ARP()), bytes(Ether(**ours) / IP() / TCP() / text),
        bytes(Ether(**ours) / IPv6() / TCP() / text), bytes(Ether(**ours) / Dot1Q(vlan=5) / IP() / ICMP() / text),
        bytes(Ether(**ours, type=0x88B5) / text), bytes(Ether(**ours) / IP(dst="10.0.0.1") / UDP(dport=4790) / text),
        *(changed(station=STATION | {name: STATION[name] ^ 1}) for name in ("mac", "ipv4")),
        changed(station=STATION | {"ipv6": STATION["ipv6"] ^ 1 << 127}, peer={"ipv6": 1}),
        with_ip(frag=1), with_ip(flags="MF"), with_ip(options=[b"\x01" * 4]), with_ip(proto=6), with_ip(version=5),
        changed(change=lambda layers: setattr(layers[IPv6], "nh", 0), peer={"ipv6": 1, "vlan": 1}),
        changed(change=lambda layers: setattr(layers[Ether], "type", 0x88A8), peer={"vlan": 1}),
        rng.randbytes(14), rng.randbytes(1), rng.randbytes(61),
    ]


@pytest.mark.parametrize("width", [64, pytest.param(512, marks=pytest.mark.long)])
def test_other_traffic(width, seed):
    """Other frames pass unchanged and in order, between packets; corrupt ones do not."""
    rng = random.Random(seed)
    wanted, sent = [], []

    async def body(bench):
        for number in range(2):
            peer = make_peer(rng, rng.randrange(4))
            for one in others(rng, peer):
                wanted.append(one)
                await bench.send(one)
                await bench.send(one, corrupt=True)
                if number:
                    packet = random_packet(rng, 64)
                    sent.append((packet, peer))
                    await bench.send(incoming(packet, peer), corrupt=True)
                    await bench.send(incoming(packet, peer))

    bench = run_receiver(config_of(width), rng, body)
    assert bench.others == wanted
    for found, (packet, peer) in zip(bench.packets, sent, strict=True):
        expect(found, packet, peer)
    assert bench.counts["malformed"] == len(wanted) + len(sent)
    assert bench.counts["passed"] == len(wanted) and not bench.counts["lost"]


def _set(layer, **fields):
    def change(layers):
        for name, value in fields.items():
            setattr(layers[layer], name, value)

    return change


def hostile(rng):
    """``(frame, count)``: frames to the station that are dropped, and the count that they increment."""
    plain, six = Peer(), Peer(ipv6=1, peer_ip=1, vlan=1)
    write = Packet(Opcode.WRITE_ONLY, 5, payload=rng.randbytes(61), dma_length=61)
    ack, read, cnp = Packet(Opcode.ACKNOWLEDGE), Packet(Opcode.READ_REQUEST), Packet(Opcode.CNP)
    longest = 1024

    def lengths(layer, names, by):
        """All lengths of a packet are ``by`` more."""
        def change(layers):
            again = layers.__class__(bytes(layers))
            for one, name in zip(layer, names, strict=True):
                setattr(layers[one], name, getattr(again[one], name) + by)

        return change

    yield incoming(write, plain, change=_set(IP, chksum=0x1234)), "malformed"
    for by in (-60, -4, -1, 1, 4, 8, 60_000):
        shorter = "icrc" if by < -1 else "malformed"
        yield incoming(write, plain, change=lengths([IP, UDP], ["len", "len"], by)), shorter
        yield incoming(write, plain, change=lengths([UDP], ["len"], by)), "malformed"
        yield incoming(write, six, change=lengths([IPv6], ["plen"], by)), "malformed"
        yield incoming(write, six, change=lengths([IPv6, UDP], ["plen", "len"], by)), shorter
    for fields in ({"version": 1}, {"pkey": 0x7FFE}, {"opcode": 0x12}, {"opcode": 0x8A}, {"opcode": 0x2A}):
        yield incoming(replace(write, fields=fields), plain), "malformed"
    for bare in (ack, read, cnp):
        yield incoming(bare, plain, change=_set(Raw, load=bare.extension + bytes(4))), "malformed"
        yield incoming(bare, six, change=_set(Raw, load=bare.extension[:-4])), "malformed"
        yield incoming(replace(bare, fields={"padcount": 1}), plain), "malformed"
    yield incoming(replace(write, payload=bytes(longest + 4)), plain), "malformed"
    yield incoming(replace(write, payload=bytes(longest + 4), fields={"padcount": 3}), six), "malformed"
    yield incoming(Packet(Opcode.WRITE_MIDDLE, fields={"padcount": 2}), six), "malformed"
    yield incoming(Packet(Opcode.WRITE_MIDDLE), plain, change=_set(IP, len=36)), "malformed"
    yield incoming(Packet(Opcode.WRITE_MIDDLE), six, change=_set(IPv6, plen=0)), "malformed"
    yield incoming(write, plain)[:-4] + bytes(4), "icrc"
    for peer in (plain, six):
        good = incoming(write, peer)
        start = 18 if peer.vlan else 14
        udp = start + (40 if peer.ipv6 else 20)
        # Fields that routers change are not covered by the ICRC; of them, IPv4's are covered by its checksum.
        changeable = {udp + 6, udp + 7, udp + 12, *(start + at for at in (1, 2, 3, 7) if peer.ipv6)}
        covered = [at for at in range(start + peer.ipv6, len(good)) if at not in changeable]
        for at in rng.sample(covered, 25):
            wrong = bytearray(good)
            wrong[at] ^= 1 << rng.randrange(8)
            yield bytes(wrong), None


@pytest.mark.parametrize("width", [64, pytest.param(512, marks=pytest.mark.soak)])
def test_hostile_frames(width, seed):
    """None of them becomes a packet, and a good frame directly behind each of them does."""
    rng = random.Random(seed)
    count, expected = 0, Counter()
    frames = list(hostile(rng))

    async def body(bench):
        nonlocal count
        for wrong, name in frames:
            await bench.send(wrong)
            expected[name] += 1
            packet = random_packet(rng, 30)
            await bench.send(incoming(packet, Peer()))
            count += 1

    bench = run_receiver(config_of(width), rng, body)
    assert len(bench.packets) == bench.counts["good"] == count
    assert bench.counts["malformed"] >= expected["malformed"] and bench.counts["icrc"] >= expected["icrc"]
    assert count == sum(bench.counts[name] for name in ("malformed", "icrc", "passed"))
    assert bench.counts["passed"] <= expected[None]


@pytest.mark.parametrize("width", [64, pytest.param(512, marks=pytest.mark.long)])
def test_each_hostile_frame_is_counted(width, seed):
    """The count is that of the first check that fails; the figures of a frame's checks do not depend on its data."""
    rng = random.Random(seed)
    frames = [one for one in hostile(rng) if one[1]]
    found = []

    async def body(bench):
        for wrong, _ in frames:
            before = Counter(bench.counts)
            await bench.send(wrong)
            await bench.drain()
            found.append("+".join(sorted((bench.counts - before).elements())))

    run_receiver(config_of(width), rng, body)
    assert found == [name for _, name in frames]


@pytest.mark.parametrize("width, kind", [
    (64, 3), *(pytest.param(*one, marks=pytest.mark.long) for one in ((64, 0), (512, 3)))])
def test_truncated_frames(width, kind, seed):
    """A frame of every length up to the whole one."""
    rng = random.Random(seed)
    peer = make_peer(rng, kind)
    packet = random_packet(rng, 64, opcode=Opcode.WRITE_ONLY_IMM, length=33)
    whole = incoming(packet, peer)

    async def body(bench):
        for count in range(1, len(whole)):
            await bench.send(whole[:count])
            if count % 8 == 0:
                await bench.send(whole)

    bench = run_receiver(config_of(width), rng, body)
    assert len(bench.packets) == (len(whole) - 1) // 8
    for found in bench.packets:
        expect(found, packet, peer)
    # Without all of UDP's header, a frame is other traffic.
    udp = {0: 14 + 20 + 8, 3: 18 + 40 + 8}[kind]
    assert bench.counts["passed"] == udp - 1 and bench.counts["malformed"] == len(whole) - udp


def test_padded_frames(seed):
    """Bytes behind the IP packet are ignored: Ethernet's padding, and any other."""
    rng = random.Random(seed)
    sent = []

    async def body(bench):
        for number in range(24):
            packet, peer = random_packet(rng, 9), make_peer(rng, number % 4)
            sent.append((packet, peer))
            await bench.send(incoming(packet, peer) + rng.randbytes(number * 3))

    bench = run_receiver(config_of(64), rng, body)
    for found, (packet, peer) in zip(bench.packets, sent, strict=True):
        expect(found, packet, peer)


@pytest.mark.parametrize("width", [64, pytest.param(512, marks=pytest.mark.soak)])
def test_random_bytes(width, seed):
    """Random frames, and random bytes behind good headers."""
    rng = random.Random(seed)
    count = 0

    async def body(bench):
        nonlocal count
        for number in range(40):
            packet = random_packet(rng, 0, opcode=Opcode.WRITE_ONLY, length=8)
            head = incoming(packet, make_peer(rng, number % 4))[:rng.choice([0, 18, 42, 66])]
            await bench.send(head + rng.randbytes(rng.randrange(1, 120)), corrupt=number % 8 == 0)
        await bench.send(incoming(Packet(Opcode.ACKNOWLEDGE), Peer()))

    bench = run_receiver(config_of(width), rng, body)
    assert len(bench.packets) == 1 and sum(bench.counts.values()) == 41 + bench.counts["marked"]


@pytest.mark.parametrize("payload", [200, pytest.param(0, marks=pytest.mark.long)])
def test_full_buffer(payload, seed):
    """A packet that does not fit is dropped as a whole; those before it and after it are intact."""
    rng = random.Random(seed)
    config = config_of(512, max_mtu=256, receive_beats=16)
    sent = []

    async def body(bench):
        bench.ready = False
        for _ in range(packet_depth(config) + 8):
            packet = random_packet(rng, 0, opcode=Opcode.WRITE_MIDDLE, length=rng.randrange(payload + 1))
            sent.append(packet)
            await bench.send(incoming(packet, Peer()))
        await bench.drain(8)
        assert bench.counts["dropped"]
        bench.ready = True
        await bench.drain()
        packet = random_packet(rng, 64)
        sent.append(packet)
        await bench.send(incoming(packet, Peer()))

    bench = run_receiver(config, rng, body)
    psns = [found["psn"] for found in bench.packets]
    kept = [packet for packet in sent if packet.psn in psns]
    assert len(kept) == len(psns) == bench.counts["good"] == len(sent) - bench.counts["dropped"]
    for found, packet in zip(bench.packets, kept, strict=True):
        expect(found, packet, Peer())
    if payload:
        held = sum(-(-len(packet.payload) // 64) for packet in kept[:-1])
        assert config.receive_beats - 4 <= held <= config.receive_beats + 1
    else:
        assert len(kept) - 1 in range(packet_depth(config), packet_depth(config) + 3)


def test_full_buffer_of_other_frames(seed):
    rng = random.Random(seed)
    sent = [bytes(Ether(dst="ff:ff:ff:ff:ff:ff", type=0x88B5) / Raw(rng.randbytes(length)))
            for length in [1500, 50, 1500, 1500, 1400, 1500, 50, 1500, 70]]

    async def body(bench):
        bench.ready = False
        await bench.send(Ether(type=0x88B5).build() + rng.randbytes(9000))
        for one in sent:
            await bench.send(one)
        # One whose middle alone finds no free entry.
        for at in range(0, 1500, bench.size):
            bench.ready = at > 800
            await bench.step((sent[-2][at:at + bench.size], at + bench.size >= 1500, 0))
        await bench.drain()
        await bench.send(sent[0])

    bench = run_receiver(config_of(512), rng, body)
    kept = [one for one in sent if one in bench.others]
    assert bench.others == [*kept, sent[0]] and bench.counts["lost"] == len(sent) - len(kept) + 2
    assert bench.counts["lost"] > 1 and bench.counts["passed"] == len(kept) + 1


CASES = (Opcode.ACKNOWLEDGE, 0, 5), (Opcode.WRITE_ONLY, 64, 6), (Opcode.READ_MIDDLE, 1, 6)


@pytest.mark.parametrize("width", [64, 512])
def test_cycles(width, seed):
    """Cycles from the last beat of a frame to its packet. Acknowledgements leave as fast as they arrive."""
    rng = random.Random(seed)

    async def body(bench):
        for opcode, length, latency in CASES:
            bench.appeared.clear()
            await bench.send(incoming(random_packet(rng, 0, opcode=opcode, length=length), Peer()))
            await bench.drain()
            assert bench.appeared[0] - bench.last_sent == latency
        bench.appeared.clear()
        for _ in range(20):
            await bench.send(incoming(random_packet(rng, 0, opcode=Opcode.ACKNOWLEDGE), Peer()))
        await bench.drain()
        assert bench.appeared == [bench.appeared[0] + number * -(-62 // bench.size) for number in range(20)]

    run_receiver(config_of(width), rng, body)
