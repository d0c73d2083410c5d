# SPDX-License-Identifier: Apache-2.0
"""RoCEv2 frames in software, independent of the RTL: fields to bytes and back (IBTA 1.6, annex A17).

::

    frame = Packet(destination=b"\\2" * 6, source=b"\\4" * 6, source_ip=bytes([10, 0, 0, 1]),
                   destination_ip=bytes([10, 0, 0, 2]), opcode=Opcode.WRITE_ONLY, qpn=17, psn=5, va=0x1000, rkey=7,
                   dma_length=3, payload=b"abc").encode()
    assert decode(frame).payload == b"abc"

A frame is the bytes from the Ethernet destination to the ICRC, without preamble and FCS.
"""

import struct
import zlib
from dataclasses import dataclass

from hw.errors import UserError
from hw.rdma.protocol import DEFAULT_PKEY, UDP_PORT, Opcode, has_aeth, has_imm, has_payload, has_reth

__all__ = ["CNP_BYTES", "MASK24", "Packet", "PacketError", "addressed_to", "checksum", "decode", "icrc", "is_roce"]

CNP_BYTES = 16
"""Reserved bytes of a congestion notification packet behind its BTH (annex A17.9.3)."""

MASK24 = (1 << 24) - 1

_IPV4, _IPV6, _VLAN, _UDP = 0x0800, 0x86DD, 0x8100, 17
_TAG, _TYPE, _UDP_HEADER = struct.Struct(">HHH"), struct.Struct(">H"), struct.Struct(">HHHH")
_IPV4_HEADER, _IPV6_HEADER = struct.Struct(">BBHHHBBH4s4s"), struct.Struct(">IHBB16s16s")
_BTH, _RETH, _WORD = struct.Struct(">BBHII"), struct.Struct(">QII"), struct.Struct(">I")
_ICRC, _LRH = struct.Struct("<I"), b"\xff" * 8
_KNOWN = {int(opcode): opcode for opcode in Opcode}


class PacketError(UserError):
    """A frame is not a RoCEv2 frame, or a packet cannot be encoded; the sentence names the rule."""

    status = 1


@dataclass(kw_only=True, slots=True)
class Packet:
    """One RoCEv2 frame.

    Parameters
    ----------
    destination, source : bytes
        Ethernet addresses, 6 bytes.
    vlan : int or None
        IEEE 802.1Q tag of 16 bits.
    source_ip, destination_ip : bytes
        Both 4 bytes (IPv4) or both 16 (IPv6).
    traffic_class, hop_limit : int
        DSCP and ECN field; time to live.
    identification, flags : int
        Of IPv4: 16 bits; 3 bits, of which 2 is "do not fragment".
    flow_label : int
        Of IPv6, 20 bits.
    udp_port, udp_checksum : int
        Source port, and the checksum field as it is: RoCEv2 may leave it 0.
    opcode, solicited, migreq, pkey, fecn, becn, qpn, ackreq, psn
        Of the BTH; ``qpn`` is that of the destination.
    va, rkey, dma_length
        Of the RETH, for opcodes that have one.
    syndrome, msn
        Of the AETH.
    imm : int
        Immediate data.
    payload : bytes
        Without padding; at most 4096.
    """

    destination: bytes
    source: bytes
    source_ip: bytes
    destination_ip: bytes
    opcode: int
    vlan: int | None = None
    traffic_class: int = 0
    hop_limit: int = 64
    identification: int = 0
    flags: int = 2
    flow_label: int = 0
    udp_port: int = 0xC000
    udp_checksum: int = 0
    solicited: int = 0
    migreq: int = 1
    pkey: int = DEFAULT_PKEY
    fecn: int = 0
    becn: int = 0
    qpn: int = 0
    ackreq: int = 0
    psn: int = 0
    va: int = 0
    rkey: int = 0
    dma_length: int = 0
    syndrome: int = 0
    msn: int = 0
    imm: int = 0
    payload: bytes = b""

    def encode(self) -> bytes:
        """The frame's bytes, with checksum, padding and ICRC. Raises :class:`PacketError` for a field out of range."""
        try:
            return self._encode()
        except struct.error as reason:
            raise PacketError(f"A field of the packet is out of its range: {reason}.") from None

    def _encode(self) -> bytes:
        opcode, payload = self.opcode, self.payload
        if opcode not in _KNOWN:
            raise PacketError(f"{opcode:#x} is not an opcode of the reliable connection service.")
        if payload and not has_payload(opcode):
            raise PacketError(f"A packet of opcode {_KNOWN[opcode].name} has no payload, not {len(payload)} bytes.")
        if len(payload) > 4096:
            raise PacketError(f"The payload of a packet has at most 4096 bytes, not {len(payload)}.")
        if len(self.destination) != 6 or len(self.source) != 6:
            raise PacketError("An Ethernet address has 6 bytes.")
        if self.qpn > MASK24 or self.psn > MASK24 or self.msn > MASK24 or min(self.qpn, self.psn, self.msn) < 0:
            raise PacketError(f"QPN, PSN and MSN have 24 bits, not {self.qpn:#x}, {self.psn:#x} and {self.msn:#x}.")
        if (self.solicited | self.migreq | self.fecn | self.becn | self.ackreq) >> 1:
            raise PacketError("The flags of the BTH have 1 bit.")
        padding = -len(payload) & 3
        parts = [_BTH.pack(opcode, self.solicited << 7 | self.migreq << 6 | padding << 4, self.pkey,
                           self.fecn << 31 | self.becn << 30 | self.qpn, self.ackreq << 31 | self.psn)]
        if has_reth(opcode):
            parts.append(_RETH.pack(self.va, self.rkey, self.dma_length))
        if has_aeth(opcode):
            parts.append(_WORD.pack(self.syndrome << 24 | self.msn))
        if has_imm(opcode):
            parts.append(_WORD.pack(self.imm))
        parts.append(bytes(CNP_BYTES) if opcode == Opcode.CNP else payload + bytes(padding))
        transport = b"".join(parts)
        size = len(transport) + 12
        udp = _UDP_HEADER.pack(self.udp_port, UDP_PORT, size, self.udp_checksum)
        ip, kind = self._ip(size)
        tag = _TYPE.pack(kind) if self.vlan is None else _TAG.pack(_VLAN, self.vlan, kind)
        packet = ip + udp + transport
        return self.destination + self.source + tag + packet + _ICRC.pack(icrc(packet))

    def _ip(self, size: int) -> tuple[bytes, int]:
        """Header of a datagram of ``size`` bytes, and its EtherType."""
        if len(self.source_ip) == len(self.destination_ip) == 4:
            fields = (0x45, self.traffic_class, 20 + size, self.identification, self.flags << 13, self.hop_limit, _UDP)
            addresses = self.source_ip, self.destination_ip
            return _IPV4_HEADER.pack(*fields, checksum(_IPV4_HEADER.pack(*fields, 0, *addresses)), *addresses), _IPV4
        if len(self.source_ip) == len(self.destination_ip) == 16:
            if self.traffic_class >> 8 or self.flow_label >> 20:
                raise PacketError(f"Traffic class and flow label have 8 and 20 bits, not {self.traffic_class:#x} and "
                                  f"{self.flow_label:#x}.")
            return _IPV6_HEADER.pack(6 << 28 | self.traffic_class << 20 | self.flow_label, size, _UDP, self.hop_limit,
                                     self.source_ip, self.destination_ip), _IPV6
        raise PacketError(f"IP addresses have 4 or 16 bytes each, not {len(self.source_ip)} and "
                          f"{len(self.destination_ip)}.")


def checksum(header: bytes) -> int:
    """Internet checksum (RFC 1071) of an even number of bytes; 0 for a header that includes its right checksum."""
    total: int = sum(struct.unpack(f">{len(header) // 2}H", header))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total ^ 0xFFFF


def icrc(packet: bytes) -> int:
    """Invariant CRC of the bytes from the IP header to the last one before the ICRC, which it does not have yet.

    Fields that routers may change count as ones: traffic class, hop limit and checksum of IP, flow label, UDP
    checksum, and byte 4 of the BTH (A17.3.3). The ICRC is sent with the lowest byte first.
    """
    masked = bytearray(packet)
    if packet[0] >> 4 == 4:
        masked[1] = masked[8] = masked[10] = masked[11] = 0xFF
        udp = 20
    else:
        masked[:4] = b"\x6f\xff\xff\xff"
        masked[7] = 0xFF
        udp = 40
    masked[udp + 6] = masked[udp + 7] = masked[udp + 12] = 0xFF
    return zlib.crc32(masked, zlib.crc32(_LRH))


def addressed_to(frame: bytes, address: bytes) -> bool:
    """Whether a frame's Ethernet destination is ``address``, or broadcast."""
    return frame[:6] in (address, b"\xff" * 6)


def is_roce(frame: bytes) -> bool:
    """Whether a frame is UDP to the port of RoCEv2, right or wrong otherwise."""
    at = 18 if frame[12:14] == b"\x81\x00" else 14
    kind = frame[at - 2:at]
    if kind == b"\x08\x00":
        return frame[at + 9:at + 10] == b"\x11" and frame[at + 22:at + 24] == _TYPE.pack(UDP_PORT)
    return kind == b"\x86\xdd" and frame[at + 6:at + 7] == b"\x11" and frame[at + 42:at + 44] == _TYPE.pack(UDP_PORT)


def decode(frame: bytes, *, check_icrc: bool = True) -> Packet:
    """The packet of a frame; bytes beyond the length in the IP header are Ethernet's padding.

    Raises
    ------
    PacketError
        If the frame is cut, or not a right RoCEv2 frame of a known opcode.
    """
    if len(frame) < 18:
        raise PacketError(f"A frame has at least 18 bytes of Ethernet and its payload, not {len(frame)}.")
    at, vlan = 14, None
    (kind,) = _TYPE.unpack_from(frame, 12)
    if kind == _VLAN:
        vlan, kind = struct.unpack_from(">HH", frame, 14)
        at = 18
    if kind == _IPV4:
        values, size, udp = _decode_ipv4(frame, at)
    elif kind == _IPV6:
        values, size, udp = _decode_ipv6(frame, at)
    else:
        raise PacketError(f"The EtherType is {kind:#06x}, neither IPv4 nor IPv6.")
    if size < 24:
        raise PacketError(f"A RoCEv2 datagram has at least 24 bytes of UDP, BTH and ICRC, not {size}.")
    source_port, port, length, udp_checksum = _UDP_HEADER.unpack_from(frame, udp)
    if port != UDP_PORT:
        raise PacketError(f"The UDP destination port is {port}, not {UDP_PORT}.")
    if length != size:
        raise PacketError(f"The UDP length is {length}, but IP has {size} bytes.")
    end = udp + size - 4
    if check_icrc:
        (found,), right = _ICRC.unpack_from(frame, end), icrc(frame[at:end])
        if found != right:
            raise PacketError(f"The ICRC is {found:#010x}, but its value would be {right:#010x}.")
    made = Packet(destination=bytes(frame[:6]), source=bytes(frame[6:12]), vlan=vlan, udp_port=source_port,
                  udp_checksum=udp_checksum, opcode=0, **values)  # type: ignore[arg-type]  # a dict of both kinds
    _decode_transport(frame, udp + 8, end, made)
    return made


def _decode_ipv4(frame: bytes, at: int) -> tuple[dict[str, int | bytes], int, int]:
    """Fields, bytes of the datagram, and its start."""
    if len(frame) < at + 20:
        raise PacketError(f"The frame ends in the IPv4 header, after {len(frame)} bytes.")
    first, traffic_class, total, identification, fragment, hops, protocol, _, source, destination = \
        _IPV4_HEADER.unpack_from(frame, at)
    if first != 0x45:
        raise PacketError(f"The first byte of the IPv4 header is {first:#04x}, not 0x45: RoCEv2 has no IP options.")
    if checksum(bytes(frame[at:at + 20])):
        raise PacketError("The checksum of the IPv4 header is wrong.")
    if fragment & 0x3FFF:
        raise PacketError("The frame is a fragment of an IPv4 packet.")
    if protocol != _UDP:
        raise PacketError(f"The protocol in the IP header is {protocol}, not 17 for UDP.")
    if total > len(frame) - at:
        raise PacketError(f"The IPv4 header says {total} bytes, but the frame has {len(frame) - at}.")
    return {"traffic_class": traffic_class, "identification": identification, "flags": fragment >> 13,
            "hop_limit": hops, "source_ip": source, "destination_ip": destination}, total - 20, at + 20


def _decode_ipv6(frame: bytes, at: int) -> tuple[dict[str, int | bytes], int, int]:
    if len(frame) < at + 40:
        raise PacketError(f"The frame ends in the IPv6 header, after {len(frame)} bytes.")
    first, size, protocol, hops, source, destination = _IPV6_HEADER.unpack_from(frame, at)
    if first >> 28 != 6:
        raise PacketError(f"The version in the IPv6 header is {first >> 28}, not 6.")
    if protocol != _UDP:
        raise PacketError(f"The protocol in the IP header is {protocol}, not 17 for UDP.")
    if size > len(frame) - at - 40:
        raise PacketError(f"The IPv6 header says {size} bytes, but the frame has {len(frame) - at - 40}.")
    return {"traffic_class": first >> 20 & 0xFF, "flow_label": first & 0xFFFFF, "hop_limit": hops,
            "source_ip": source, "destination_ip": destination}, size, at + 40


def _decode_transport(frame: bytes, at: int, end: int, made: Packet) -> None:
    """Set what follows the UDP header: bytes ``at`` to ``end``."""
    number, bits, made.pkey, to, sequence = _BTH.unpack_from(frame, at)
    opcode = _KNOWN.get(number)
    if opcode is None:
        raise PacketError(f"{number:#x} is not an opcode of the reliable connection service.")
    if bits & 15:
        raise PacketError(f"The transport version in the BTH is {bits & 15}, not 0.")
    made.opcode, made.solicited, made.migreq, padding = opcode, bits >> 7, bits >> 6 & 1, bits >> 4 & 3
    made.fecn, made.becn, made.qpn = to >> 31, to >> 30 & 1, to & MASK24
    made.ackreq, made.psn = sequence >> 31, sequence & MASK24
    at += 12
    needed = 16 * has_reth(opcode) + 4 * has_aeth(opcode) + 4 * has_imm(opcode) + CNP_BYTES * (opcode == Opcode.CNP)
    if end - at < needed + padding:
        raise PacketError(f"A packet of opcode {opcode.name} has {needed} bytes of further headers and {padding} of "
                          f"padding, but only {end - at} follow the BTH.")
    if has_reth(opcode):
        made.va, made.rkey, made.dma_length = _RETH.unpack_from(frame, at)
        at += 16
    if has_aeth(opcode):
        (word,) = _WORD.unpack_from(frame, at)
        made.syndrome, made.msn = word >> 24, word & MASK24
        at += 4
    if has_imm(opcode):
        (made.imm,) = _WORD.unpack_from(frame, at)
        at += 4
    if opcode == Opcode.CNP:
        at += CNP_BYTES
    made.payload = bytes(frame[at:end - padding])
    if made.payload and not has_payload(opcode):
        raise PacketError(f"A packet of opcode {opcode.name} has no payload, not {len(made.payload)} bytes.")
    if len(made.payload) > 4096:
        raise PacketError(f"The payload of a packet has at most 4096 bytes, not {len(made.payload)}.")
    if (end - at) & 3:
        raise PacketError(f"Payload and padding are a multiple of 4 bytes, not {end - at}.")
