# SPDX-License-Identifier: Apache-2.0
"""FrameParser with frames by Scapy: packets, other traffic, hostile frames, full buffers; cycles."""

import random
from collections import Counter
from dataclasses import replace

import pytest
from scapy.contrib.roce import BTH
from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import ARP, Dot1Q, Ether
from scapy.packet import Raw

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


@pytest.mark.parametrize("width, count", [(64, 60), (256, 50), (512, 50), pytest.param(1024, 40, marks=pytest.mark.long)])
@pytest.mark.parametrize("gaps, stalls", [(0, 0), pytest.param(0.3, 0.3, marks=pytest.mark.long)], ids=["steady", "gaps"])
def test_random_packets(width, count, gaps, stalls, seed):
    rng = random.Random(seed)
    sent = []

    async def body(bench):
        for number in range(count):
            peer, packet = make_peer(rng, number % 4), random_packet(rng, 200)
            sent.append((packet, peer))
            await bench.send(incoming(packet, peer))

    bench = run_receiver(config_of(width), rng, body, gaps=gaps, stalls=stalls)
    for found, (packet, peer) in zip(bench.packets, sent, strict=True):
        expect(found, packet, peer)
    marked = sum(peer.traffic_class & 3 == CE for _, peer in sent)
    assert bench.counts == {"good": count, "marked": marked, "icrc": 0, "malformed": 0, "dropped": 0, "passed": 0, "lost": 0}
    assert not bench.others
