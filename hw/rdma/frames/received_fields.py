# SPDX-License-Identifier: Apache-2.0
"""Fields of a received frame, selected by its kind: with or without a VLAN tag, IPv4 or IPv6. Combinational."""

from functools import reduce
from operator import add

from amaranth import *
from amaranth.lib import data

from hw.rdma.protocol import (
    BTH_BYTES,
    CE,
    DEFAULT_PKEY,
    ETHERNET_BYTES,
    IPV4_BYTES,
    IPV6_BYTES,
    RETH_BYTES,
    UDP_BYTES,
    UDP_PORT,
    VLAN_BYTES,
    Opcode,
    has_imm,
    has_payload,
    has_reth,
)

from .frame_plan import IPV6_MORE, SHORTEST_HEADERS, VLAN_MORE, extension_words
from .lanes import number_of
from .peer_table import IPV4_VERSION, PROTOCOL_UDP

__all__ = ["LENGTH_AT", "MASKED", "FrameFields", "fields_layout", "ip_at", "udp_at"]

MAPPED = 0xFFFF
"""Bits 47:32 of an IPv4-mapped address; those above are 0."""

FRAGMENT = 0x3FFF
"""Bits of IPv4's word of flags that are 0 unless it is a fragment: more fragments, and the offset."""

LENGTH_AT = 2, 4
"""Byte of the length in the header of IPv4 and of IPv6."""

MASKED = (1, 8, 10, 11), (1, 2, 3, 7)
"""Bytes that count as ones in the ICRC, in the header of IPv4 and of IPv6; in the latter, half of byte 0, too."""


def ip_at(vlan):
    """First byte of the IP header."""
    return ETHERNET_BYTES + VLAN_BYTES * vlan


def udp_at(ipv6, vlan):
    """First byte of the UDP header."""
    return ip_at(vlan) + (IPV6_BYTES if ipv6 else IPV4_BYTES)


def fields_layout():
    """Fields of a frame.

    Members
    -------
    mine, routed, aimed
        Its destination is the station's MAC address; it is UDP, and no fragment; it is to the station's IP address,
        and RoCEv2's port.
    header_words
        Whole words of all headers; 2 bytes more.
    extension
        Words of extension headers.
    udp_length
        As in UDP.
    sound
        Fields of BTH are valid, and so is the opcode.
    bare
        The opcode permits no payload.
    pad
        Bytes of padding behind the payload, as BTH has them.
    sums
        Sums of pairs of words of the IPv4 header.
    source, ce, qpn, opcode, ackreq, psn, va, rkey, dma_length, imm, syndrome, msn
        As in a received packet's header.
    """
    return data.StructLayout({
        "mine": 1, "routed": 1, "aimed": 1, "header_words": 5, "extension": 3, "udp_length": 16, "sound": 1, "bare": 1,
        "pad": 2, "sums": data.ArrayLayout(17, 5), "source": 128, "ce": 1, "qpn": 24, "opcode": 8, "ackreq": 1,
        "psn": 24, "va": 64, "rkey": 32, "dma_length": 32, "imm": 32, "syndrome": 8, "msn": 24})


class FrameFields:
    """Selects fields from the first bytes of a frame.

    Parameters
    ----------
    window : Value
        Bytes of the frame, lowest first.
    ipv6, vlan : Value
        Its kind.
    """

    def __init__(self, window: Value, *, ipv6: Value, vlan: Value) -> None:
        self.window, self.ipv6, self.vlan = window, ipv6, vlan

    def in_ip(self, at, count):
        """Number of ``count`` bytes from byte ``at`` of the IP header."""
        return Mux(self.vlan, *(number_of(self.window, ip_at(vlan) + at, count) for vlan in (1, 0)))

    def in_udp(self, at, count):
        """The same from the UDP header on."""
        four, six = ([number_of(self.window, udp_at(ipv6, vlan) + at, count) for vlan in (1, 0)] for ipv6 in (0, 1))
        return Mux(self.ipv6, Mux(self.vlan, *six), Mux(self.vlan, *four))

    def decode(self, m, station):
        """All fields, as :func:`fields_layout`."""
        found = Signal(fields_layout(), name="found")
        behind = UDP_BYTES + BTH_BYTES
        version, fragment = self.in_ip(0, 1), self.in_ip(6, 2) & FRAGMENT
        traffic = Mux(self.ipv6, self.in_ip(1, 1)[4:6], self.in_ip(1, 1)[:2])
        protocol = Mux(self.ipv6, self.in_ip(6, 1), self.in_ip(9, 1))
        bth = self.in_udp(UDP_BYTES, BTH_BYTES)
        opcode, flags = bth[-8:], bth[-16:-8]
        words = [self.in_ip(at, 2) for at in range(0, IPV4_BYTES, 2)]
        extension = extension_words(m, opcode)
        known, reth = Signal(name="known"), Signal(name="reth")
        with m.Switch(opcode):
            with m.Case(*(one.value for one in Opcode)):
                m.d.comb += known.eq(1)
        with m.Switch(opcode):
            with m.Case(*(one.value for one in Opcode if not has_payload(one))):
                m.d.comb += found.bare.eq(1)
        with m.Switch(opcode):
            with m.Case(*(one.value for one in Opcode if has_reth(one) and has_imm(one))):
                m.d.comb += reth.eq(1)
        first, pkey = self.in_udp(behind, 4), bth[-32:-16]
        m.d.comb += [
            found.mine.eq(number_of(self.window, 0, 6) == station.mac),
            found.routed.eq((protocol == PROTOCOL_UDP) & Mux(
                self.ipv6, version[4:] == 6, (version == IPV4_VERSION) & (fragment == 0))),
            found.aimed.eq((self.in_udp(2, 2) == UDP_PORT) & Mux(
                self.ipv6, self.in_ip(24, 16) == station.ipv6, self.in_ip(16, 4) == station.ipv4)),
            found.header_words.eq(SHORTEST_HEADERS + Mux(self.vlan, VLAN_MORE, 0) + Mux(self.ipv6, IPV6_MORE, 0)
                                  + extension),
            found.extension.eq(extension), found.udp_length.eq(self.in_udp(4, 2)),
            found.sound.eq(known & (flags[:4] == 0) & (pkey[:15] == DEFAULT_PKEY & 0x7FFF)),
            found.pad.eq(flags[4:6]),
            *(one.eq(reduce(add, words[2 * index:2 * index + 2])) for index, one in enumerate(found.sums)),
            found.source.eq(Mux(self.ipv6, self.in_ip(8, 16), Cat(self.in_ip(12, 4), C(MAPPED, 16)))),
            found.ce.eq(traffic == CE), found.opcode.eq(opcode), found.qpn.eq(bth[32:56]), found.ackreq.eq(bth[31]),
            found.psn.eq(bth[:24]), found.va.eq(self.in_udp(behind, 8)), found.rkey.eq(self.in_udp(behind + 8, 4)),
            found.dma_length.eq(self.in_udp(behind + 12, 4)),
            found.imm.eq(Mux(reth, self.in_udp(behind + RETH_BYTES, 4), first)),
            found.syndrome.eq(first[24:]), found.msn.eq(first[:24]),
        ]
        return found
