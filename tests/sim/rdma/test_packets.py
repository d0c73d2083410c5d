# SPDX-License-Identifier: Apache-2.0
"""The RoCEv2 codec against Scapy in both directions, and its errors."""

import random
import struct
from dataclasses import replace

import pytest

from hw.rdma.protocol import Opcode, has_aeth, has_imm, has_payload, has_reth
from sim.rdma.packets import Packet, PacketError, addressed_to, checksum, decode, icrc, is_roce

OPCODES = list(Opcode)
LENGTHS = (0, 1, 2, 3, 4, 5, 7, 8, 63, 64, 255, 256, 1021, 1024, 4095, 4096)


def _packet(generator, **fields):
    """A random packet, in which only fields that its opcode has are set."""
    opcode = fields.get("opcode", generator.choice(OPCODES))
    six = generator.random() < 0.4
    size, bits = 16 if six else 4, generator.getrandbits
    made = {
        "destination": generator.randbytes(6), "source": generator.randbytes(6), "source_ip": generator.randbytes(size),
        "destination_ip": generator.randbytes(size), "vlan": generator.choice([None, bits(16)]), "opcode": opcode,
        "traffic_class": bits(8), "hop_limit": bits(8), "udp_port": bits(16), "solicited": bits(1), "migreq": bits(1),
        "pkey": bits(16), "fecn": bits(1), "becn": bits(1), "qpn": bits(24), "ackreq": bits(1), "psn": bits(24),
        "udp_checksum": bits(16)}
    made |= {"flow_label": bits(20)} if six else {"identification": bits(16), "flags": generator.choice([0, 2])}
    if has_reth(opcode):
        made |= {"va": bits(64), "rkey": bits(32), "dma_length": bits(32)}
    if has_aeth(opcode):
        made |= {"syndrome": bits(8), "msn": bits(24)}
    if has_imm(opcode):
        made["imm"] = bits(32)
    if has_payload(opcode):
        made["payload"] = generator.randbytes(generator.choice([*LENGTHS, generator.randrange(4097)]))
    return Packet(**{**made, **fields})


def _scapy(packet):
    """The packet as Scapy builds it; extension headers that Scapy does not know are raw bytes."""
    from scapy.contrib.roce import AETH, BTH, CNPPadding
    from scapy.layers.inet import IP, UDP
    from scapy.layers.inet6 import IPv6
    from scapy.layers.l2 import Dot1Q, Ether
    from scapy.packet import Raw

    def mac(address):
        return ":".join(f"{byte:02x}" for byte in address)

    made = Ether(dst=mac(packet.destination), src=mac(packet.source))
    if packet.vlan is not None:
        made /= Dot1Q(prio=packet.vlan >> 13, dei=packet.vlan >> 12 & 1, vlan=packet.vlan & 0xFFF)
    if len(packet.source_ip) == 4:
        made /= IP(src=".".join(map(str, packet.source_ip)), dst=".".join(map(str, packet.destination_ip)),
                   tos=packet.traffic_class, ttl=packet.hop_limit, id=packet.identification, flags=packet.flags)
    else:
        import ipaddress
        made /= IPv6(src=str(ipaddress.IPv6Address(packet.source_ip)), tc=packet.traffic_class,
                     dst=str(ipaddress.IPv6Address(packet.destination_ip)), fl=packet.flow_label, hlim=packet.hop_limit)
    padding = -len(packet.payload) % 4
    made /= UDP(sport=packet.udp_port, dport=4791, chksum=packet.udp_checksum)
    made /= BTH(opcode=int(packet.opcode), solicited=packet.solicited, migreq=packet.migreq, padcount=padding,
                pkey=packet.pkey, fecn=packet.fecn, becn=packet.becn, dqpn=packet.qpn, ackreq=packet.ackreq,
                psn=packet.psn)
    if has_reth(packet.opcode):
        made /= Raw(struct.pack(">QII", packet.va, packet.rkey, packet.dma_length))
    if has_aeth(packet.opcode):
        made /= AETH(syndrome=packet.syndrome, msn=packet.msn)
    if has_imm(packet.opcode):
        made /= Raw(struct.pack(">I", packet.imm))
    if packet.opcode == Opcode.CNP:
        made /= CNPPadding()
    return made / Raw(packet.payload + bytes(padding)) if packet.payload else made


@pytest.mark.parametrize("opcode", OPCODES, ids=lambda opcode: opcode.name)
def test_scapy_builds_the_same_bytes(opcode, seed):
    pytest.importorskip("scapy")
    generator = random.Random(f"{seed} {opcode}")
    for _ in range(20):
        packet = _packet(generator, opcode=opcode)
        frame = packet.encode()
        assert bytes(_scapy(packet)) == frame
        assert decode(frame) == packet and is_roce(frame)


def test_scapy_reads_our_bytes(seed):
    pytest.importorskip("scapy")
    from scapy.contrib.roce import AETH, BTH
    from scapy.layers.inet import IP, UDP
    from scapy.layers.l2 import Ether

    generator = random.Random(seed)
    for _ in range(100):
        packet = _packet(generator)
        parsed = Ether(packet.encode())
        bth = parsed[BTH]
        assert (bth.opcode, bth.dqpn, bth.psn, bth.ackreq, bth.pkey, bth.padcount, parsed[UDP].sport) == (
            packet.opcode, packet.qpn, packet.psn, packet.ackreq, packet.pkey, -len(packet.payload) % 4,
            packet.udp_port)
        if packet.opcode == Opcode.ACKNOWLEDGE:
            assert (parsed[AETH].syndrome, parsed[AETH].msn) == (packet.syndrome, packet.msn)
        if len(packet.source_ip) == 4:
            assert (parsed[IP].ttl, parsed[IP].tos) == (packet.hop_limit, packet.traffic_class)
        bth.icrc = None         # computed again
        assert bytes(parsed)[-4:] == packet.encode()[-4:]


def test_what_routers_change_leaves_the_icrc(seed):
    packet = _packet(random.Random(seed), opcode=Opcode.WRITE_ONLY, payload=b"12345")
    for name, value in (("hop_limit", 1), ("traffic_class", 3), ("fecn", 1), ("becn", 1), ("udp_checksum", 7)):
        assert replace(packet, **{name: value}).encode()[-4:] == packet.encode()[-4:], name
    for name, value in (("psn", packet.psn ^ 1), ("udp_port", packet.udp_port ^ 1), ("payload", b"12344")):
        assert replace(packet, **{name: value}).encode()[-4:] != packet.encode()[-4:], name


def test_padding_of_ethernet_is_ignored(seed):
    packet = _packet(random.Random(seed), opcode=Opcode.ACKNOWLEDGE)
    assert decode(packet.encode() + bytes(9)) == packet


def test_every_flipped_bit_is_seen_or_masked(seed):
    """No flipped bit behind Ethernet gives another packet, but for the fields that the ICRC leaves out."""
    packet = _packet(random.Random(seed), opcode=Opcode.WRITE_ONLY_IMM, payload=b"abcdef", vlan=None,
                     identification=0, flags=2, source_ip=bytes(range(16)), destination_ip=bytes(range(16, 32)))
    frame = packet.encode()
    free = {name: 0 for name in ("traffic_class", "flow_label", "hop_limit", "udp_checksum", "fecn", "becn")}
    for bit in range(14 * 8, len(frame) * 8):
        changed = bytearray(frame)
        changed[bit // 8] ^= 0x80 >> bit % 8
        try:
            assert replace(decode(bytes(changed)), **free) == replace(packet, **free)
        except PacketError:
            pass


_PLAIN = {"destination": b"\2" * 6, "source": b"\4" * 6, "source_ip": bytes(4), "destination_ip": bytes(4)}
_FRAME = Packet(**_PLAIN, opcode=Opcode.WRITE_ONLY, payload=b"abc").encode()
_FRAME6 = Packet(**{**_PLAIN, "source_ip": bytes(16), "destination_ip": bytes(16)}, opcode=Opcode.ACKNOWLEDGE).encode()


def _changed(frame, at, new, *, right=True):
    """The frame with bytes replaced; ``right``: with checksum and ICRC of its new contents."""
    frame = bytearray(frame)
    frame[at:at + len(new)] = new
    if right:
        if frame[14] >> 4 == 4:
            frame[24:26] = bytes(2)
            frame[24:26] = struct.pack(">H", checksum(bytes(frame[14:34])))
        frame[-4:] = struct.pack("<I", icrc(bytes(frame[14:-4])))
    return bytes(frame)


@pytest.mark.parametrize("frame, sentence", [
    (b"", r"^A frame has at least 18 bytes of Ethernet and its payload, not 0\.$"),
    (_changed(_FRAME, 12, b"\x08\x06"), r"^The EtherType is 0x0806, neither IPv4 nor IPv6\.$"),
    (_FRAME[:30], r"^The frame ends in the IPv4 header, after 30 bytes\.$"),
    (_FRAME6[:50], r"^The frame ends in the IPv6 header, after 50 bytes\.$"),
    (_FRAME[:-1], r"^The IPv4 header says 64 bytes, but the frame has 63\.$"),
    (_FRAME6[:-1], r"^The IPv6 header says 28 bytes, but the frame has 27\.$"),
    (_changed(_FRAME, 14, b"\x46"),
     r"^The first byte of the IPv4 header is 0x46, not 0x45: RoCEv2 has no IP options\.$"),
    (_changed(_FRAME6, 14, b"\x50"), r"^The version in the IPv6 header is 5, not 6\.$"),
    (_changed(_FRAME, 15, b"\x03", right=False), r"^The checksum of the IPv4 header is wrong\.$"),
    (_changed(_FRAME, 20, b"\x20\x00"), r"^The frame is a fragment of an IPv4 packet\.$"),
    (_changed(_FRAME, 20, b"\x00\x01"), r"^The frame is a fragment of an IPv4 packet\.$"),
    (_changed(_FRAME, 23, b"\x06"), r"^The protocol in the IP header is 6, not 17 for UDP\.$"),
    (_changed(_FRAME6, 20, b"\x06"), r"^The protocol in the IP header is 6, not 17 for UDP\.$"),
    (_changed(_FRAME, 16, b"\x00\x2b"), r"^A RoCEv2 datagram has at least 24 bytes of UDP, BTH and ICRC, not 23\.$"),
    (_changed(_FRAME, 36, b"\x12\xb6"), r"^The UDP destination port is 4790, not 4791\.$"),
    (_changed(_FRAME, 38, b"\x00\x2b"), r"^The UDP length is 43, but IP has 44 bytes\.$"),
    (_changed(_FRAME, -4, bytes(4), right=False), r"^The ICRC is 0x00000000, but its value would be 0x[0-9a-f]{8}\.$"),
    (_changed(_FRAME, 42, b"\x13"), r"^0x13 is not an opcode of the reliable connection service\.$"),
    (_changed(_FRAME, 43, b"\x51"), r"^The transport version in the BTH is 1, not 0\.$"),
    (_changed(_FRAME6, 62, b"\x0a"),
     r"^A packet of opcode WRITE_ONLY has 16 bytes of further headers and 0 of padding, "
                                     r"but only 4 follow the BTH\.$"),
    (_changed(_FRAME, 42, b"\x0c"), r"^A packet of opcode READ_REQUEST has no payload, not 3 bytes\.$"),
    (Packet(**_PLAIN, opcode=0x0A, payload=bytes(5000)),
     r"^The payload of a packet has at most 4096 bytes, not 5000\.$"),
    (Packet(**_PLAIN, opcode=0x11, payload=b"1"), r"^A packet of opcode ACKNOWLEDGE has no payload, not 1 bytes\.$"),
    (Packet(**_PLAIN, opcode=0x13), r"^0x13 is not an opcode of the reliable connection service\.$"),
    (Packet(**_PLAIN, opcode=0x11, psn=1 << 24),
     r"^QPN, PSN and MSN have 24 bits, not 0x0, 0x1000000 and 0x0\.$"),
    (Packet(**_PLAIN, opcode=0x11, udp_port=1 << 16), r"^A field of the packet is out of its range: .*\.$"),
    (Packet(**_PLAIN, opcode=0x11, ackreq=2), r"^The flags of the BTH have 1 bit\.$"),
    (Packet(**{**_PLAIN, "source_ip": bytes(16), "destination_ip": bytes(16)}, opcode=0x11, flow_label=1 << 20),
     r"^Traffic class and flow label have 8 and 20 bits, not 0x0 and 0x100000\.$"),
    (Packet(**{**_PLAIN, "source_ip": bytes(16)}, opcode=0x11),
     r"^IP addresses have 4 or 16 bytes each, not 16 and 4\.$"),
    (Packet(**{**_PLAIN, "source": b""}, opcode=0x11), r"^An Ethernet address has 6 bytes\.$"),
])
def test_errors(frame, sentence):
    with pytest.raises(PacketError, match=sentence):
        if isinstance(frame, Packet):
            frame.encode()
        else:
            decode(frame)


def test_frames_cut_at_any_byte():
    for frame in (_FRAME, _FRAME6):
        for end in range(len(frame)):
            with pytest.raises(PacketError):
                decode(frame[:end])


def test_classification():
    assert is_roce(_FRAME) and is_roce(_FRAME6) and not is_roce(_FRAME[:30]) and not is_roce(b"")
    assert not is_roce(_changed(_FRAME, 36, b"\x12\xb6"))
    assert addressed_to(_FRAME, b"\2" * 6) and not addressed_to(_FRAME, b"\4" * 6)
    assert addressed_to(b"\xff" * 6 + _FRAME[6:], b"\4" * 6)
