# SPDX-License-Identifier: Apache-2.0
"""Frames of RoCEv2 by Scapy, an independent implementation: bytes of described packets, and the reverse."""

import struct
from dataclasses import dataclass, field, replace
from ipaddress import IPv4Address, IPv6Address

from scapy.contrib.roce import BTH
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Dot1Q, Ether
from scapy.packet import Raw

from hw.rdma.protocol import Opcode, has_aeth, has_imm, has_payload, has_reth

__all__ = ["MAC", "STATION", "Packet", "Peer", "frame", "mac_text", "random_packet", "random_peer"]

MAC = 0x02_11_22_33_44_55
STATION = {"mac": MAC, "ipv4": 0x0A00_0001, "ipv6": 0x2001_0DB8_0000_0000_0123_4567_89AB_CDEF}
MAPPED = 0xFFFF << 32


@dataclass
class Peer:
    """The other end of a queue pair, in the fields of the hardware's table of connections."""

    peer_mac: int = 0x02_AA_BB_CC_DD_EE
    peer_ip: int = MAPPED | 0x0A00_0002
    ipv6: int = 0
    vlan: int = 0
    vlan_tag: int = 0x6123
    udp_port: int = 0xC123
    traffic_class: int = 0x6A
    hop_limit: int = 64
    peer_qpn: int = 0x123456


@dataclass
class Packet:
    """A packet in the fields of the hardware's headers."""

    opcode: int
    psn: int = 0
    ackreq: int = 0
    va: int = 0
    rkey: int = 0
    dma_length: int = 0
    imm: int = 0
    syndrome: int = 0
    msn: int = 0
    payload: bytes = b""
    fields: dict = field(default_factory=dict)
    """Fields of the BTH that differ from those of the hardware."""

    @property
    def used(self):
        """Names of the fields that its opcode has."""
        return ["opcode", "psn", "ackreq", *(("va", "rkey", "dma_length") if has_reth(self.opcode) else ()),
                *(("imm",) if has_imm(self.opcode) else ()), *(("syndrome", "msn") if has_aeth(self.opcode) else ())]

    @property
    def extension(self):
        if self.opcode == Opcode.CNP:
            return bytes(16)
        return b"".join((
            struct.pack(">QII", self.va, self.rkey, self.dma_length) if has_reth(self.opcode) else b"",
            struct.pack(">I", self.syndrome << 24 | self.msn) if has_aeth(self.opcode) else b"",
            struct.pack(">I", self.imm) if has_imm(self.opcode) else b""))


def mac_text(number):
    return ":".join(f"{byte:02x}" for byte in number.to_bytes(6, "big"))


def frame(packet, peer, *, to_peer, qpn=None, station=STATION, change=None):
    """A frame from the station to the peer, or from the peer; ``change`` gets its layers before they become bytes."""
    ours = IPv6Address(station["ipv6"]) if peer.ipv6 else IPv4Address(station["ipv4"])
    theirs = IPv6Address(peer.peer_ip) if peer.ipv6 else IPv4Address(peer.peer_ip & 0xFFFF_FFFF)
    ends = [(mac_text(station["mac"]), str(ours)), (mac_text(peer.peer_mac), str(theirs))]
    (source_mac, source), (target_mac, target) = ends if to_peer else ends[::-1]
    layers = Ether(src=source_mac, dst=target_mac)
    if peer.vlan:
        layers /= Dot1Q(prio=peer.vlan_tag >> 13, dei=peer.vlan_tag >> 12 & 1, vlan=peer.vlan_tag & 0xFFF)
    if peer.ipv6:
        layers /= IPv6(src=source, dst=target, tc=peer.traffic_class, hlim=peer.hop_limit)
    else:
        layers /= IP(src=source, dst=target, tos=peer.traffic_class, ttl=peer.hop_limit, flags="DF", id=0)
    pad = -len(packet.payload) % 4
    bth = {"opcode": packet.opcode, "dqpn": peer.peer_qpn if qpn is None else qpn, "psn": packet.psn,
           "ackreq": packet.ackreq, "migreq": 1, "padcount": pad, "becn": int(packet.opcode == Opcode.CNP)}
    layers /= UDP(sport=peer.udp_port, dport=4791, chksum=0) / BTH(**bth | packet.fields)
    layers /= Raw(packet.extension + packet.payload + bytes(pad))
    if change is not None:
        change(layers)
    return bytes(layers)


def random_peer(rng, **fields):
    ipv6 = rng.getrandbits(1)
    return replace(Peer(
        peer_mac=rng.getrandbits(48) & ~(1 << 40),
        peer_ip=rng.getrandbits(128) if ipv6 else MAPPED | rng.getrandbits(32), ipv6=ipv6,
        vlan=rng.getrandbits(1), vlan_tag=rng.getrandbits(16), udp_port=rng.getrandbits(16),
        traffic_class=rng.getrandbits(8), hop_limit=rng.getrandbits(8), peer_qpn=rng.getrandbits(24)), **fields)


def random_packet(rng, longest, *, opcode=None, length=None):
    """A packet of any opcode, or of the given one, with up to ``longest`` bytes."""
    opcode = rng.choice(list(Opcode)) if opcode is None else opcode
    length = rng.choice([0, 1, rng.randrange(64), rng.randrange(longest + 1)]) if length is None else length
    return Packet(
        opcode, rng.getrandbits(24), rng.getrandbits(1), rng.getrandbits(64), rng.getrandbits(32), rng.getrandbits(32),
        rng.getrandbits(32), rng.getrandbits(8), rng.getrandbits(24),
        rng.randbytes(length) if has_payload(opcode) else b"")
