# SPDX-License-Identifier: Apache-2.0
"""Replies of a station to requests for its Ethernet address: ARP (RFC 826), and neighbour discovery (RFC 4861)."""

import struct
from collections.abc import Sequence

from sim.rdma.packets import checksum

__all__ = ["is_request", "reply"]

_ARP = struct.Struct(">HHBBH6s4s6s4s")
_IPV6 = struct.Struct(">IHBB16s16s")
_ADVERTISEMENT = struct.Struct(">BBHI16sBB6s")
_ICMPV6, _SOLICITATION, _ADVERTISED = 58, 135, 136
_SOLICITED_OVERRIDE, _TARGET_ADDRESS = 0x60000000, 2
_SHORTEST = 60


def is_request(frame: bytes) -> bool:
    """Whether a frame, with a VLAN tag or without, is ARP or a neighbour solicitation."""
    at, kind = _start(frame)
    return kind == b"\x08\x06" or (kind == b"\x86\xdd" and frame[at + 6:at + 7] == bytes([_ICMPV6])
                                   and frame[at + 40:at + 41] == bytes([_SOLICITATION]))


def reply(frame: bytes, mac: bytes, addresses: Sequence[bytes]) -> bytes | None:
    """Reply to a request for one of a station's addresses, in the VLAN of the request; None for any other frame.

    Parameters
    ----------
    frame : bytes
    mac : bytes
        The station's Ethernet address.
    addresses : sequence of bytes
        Its IP addresses, 4 or 16 bytes each.
    """
    at, kind = _start(frame)
    if not is_request(frame):
        return None
    body = _arp(frame[at:], mac, addresses) if kind == b"\x08\x06" else _advertisement(frame[at:], mac, addresses)
    return None if body is None else (frame[6:12] + mac + frame[12:at] + body).ljust(_SHORTEST, b"\0")


def _start(frame: bytes) -> tuple[int, bytes]:
    """First byte behind the Ethernet header and a VLAN tag, and the EtherType."""
    at = 18 if frame[12:14] == b"\x81\x00" else 14
    return at, frame[at - 2:at]


def _arp(body: bytes, mac: bytes, addresses: Sequence[bytes]) -> bytes | None:
    if len(body) < _ARP.size:
        return None
    hardware, protocol, _, _, operation, sender_mac, sender, _, wanted = _ARP.unpack_from(body)
    if (hardware, protocol, operation) != (1, 0x0800, 1) or wanted not in addresses:
        return None
    return _ARP.pack(1, 0x0800, 6, 4, 2, mac, wanted, sender_mac, sender)


def _advertisement(body: bytes, mac: bytes, addresses: Sequence[bytes]) -> bytes | None:
    if len(body) < _IPV6.size + 24:
        return None
    source, wanted = body[8:24], body[48:64]
    if wanted not in addresses or not any(source):      # duplicate address detection has no source
        return None
    fields = (_ADVERTISED, 0, 0, _SOLICITED_OVERRIDE, wanted, _TARGET_ADDRESS, 1, mac)
    size = _ADVERTISEMENT.size
    pseudo = wanted + source + struct.pack(">II", size, _ICMPV6)
    message = bytearray(_ADVERTISEMENT.pack(*fields))
    message[2:4] = struct.pack(">H", checksum(pseudo + bytes(message)))
    return _IPV6.pack(6 << 28, size, _ICMPV6, 255, wanted, source) + bytes(message)
