# SPDX-License-Identifier: Apache-2.0
"""All headers of a frame as one vector of bytes, and the same bytes as the ICRC covers them.

The ICRC begins with 8 bytes of ones instead of Ethernet's header, and fields that routers change count as ones (IBTA
1.6, annex A17). The inversion at the start of CRC-32 makes four of the 8 bytes zeros, which have no effect: so the
bytes of Ethernet's header are zeros, except that the last four are ones.
"""

from amaranth import *
from amaranth.lib import data

from hw.rdma.protocol import (
    DEFAULT_PKEY,
    ETHERTYPE_IPV4,
    ETHERTYPE_IPV6,
    ETHERTYPE_VLAN,
    PSN_WIDTH,
    UDP_PORT,
    Opcode,
    has_aeth,
    has_imm,
    has_reth,
)

from .frame_plan import EXTENSION_BYTES, HEADER_BYTES
from .lanes import below, bytes_of
from .peer_table import IPV4_FLAGS, IPV4_VERSION, PROTOCOL_UDP, folded

__all__ = ["HeaderVector", "header_fields", "headers", "merged"]

MIGRATED = 1
"""The two upper bits of BTH's second byte: no solicited event; migration request, set where paths do not migrate."""

BECN = 0x40
"""Bit of BTH's fifth byte in a CNP."""

HeaderVector = data.StructLayout({"sent": 8 * HEADER_BYTES, "covered": 8 * HEADER_BYTES, "used": HEADER_BYTES})
"""Bytes of the headers, lowest first; as the ICRC covers them; which of them there are."""

_ZERO, _ONES = C(0, 8), C(0xFF, 8)


def header_fields():
    """Fields of the BTH and of what is behind it, ``extension``: bytes, lowest first."""
    return data.StructLayout({"opcode": 8, "ackreq": 1, "psn": PSN_WIDTH, "extension": 8 * EXTENSION_BYTES})


def merged(m, header):
    """:func:`header_fields` of a packet to send."""
    fields = Signal(header_fields())
    reth = [*bytes_of(header.va), *bytes_of(header.rkey), *bytes_of(header.dma_length)]
    imm, aeth = bytes_of(header.imm), [*bytes_of(header.syndrome), *bytes_of(header.msn)]
    m.d.comb += [fields[name].eq(header[name]) for name in ("opcode", "ackreq", "psn")]
    with m.Switch(header.opcode):
        for name, has in ((reth, has_reth), (aeth, has_aeth), (imm, has_imm)):
            with m.Case(*(one.value for one in Opcode if has(one) and not (has is has_imm and has_reth(one)))):
                m.d.comb += fields.extension.eq(Cat(*name, *(imm if has is has_reth else ())))
    return fields


def headers(m, fields, plan, peer, station, *, ipv6, vlan):
    """The :obj:`HeaderVector` of a packet, combinationally."""
    udp_bytes, ip_bytes = Cat(C(0, 2), plan.udp_words), Cat(C(0, 2), plan.udp_words + 5)
    checksum = Signal(16, name="checksum")
    once = Signal(17, name="checksum_once")
    m.d.comb += [once.eq(peer.checksum + ip_bytes), checksum.eq(~folded(once))]

    cnp = fields.opcode == Opcode.CNP
    udp = [*bytes_of(peer.udp_port), *bytes_of(C(UDP_PORT, 16)), *bytes_of(udp_bytes, 2)]
    bth = [fields.opcode, Cat(C(0, 4), plan.pad, C(MIGRATED, 2)), *bytes_of(C(DEFAULT_PKEY, 16))]
    rest = [*bytes_of(peer.qpn), Cat(C(0, 7), fields.ackreq), *bytes_of(fields.psn),
            *(fields.extension[at:at + 8] for at in range(0, 8 * EXTENSION_BYTES, 8))]
    tail = [*udp, _ZERO, _ZERO, *bth, Mux(cnp, C(BECN, 8), 0), *rest], [*udp, _ONES, _ONES, *bth, _ONES, *rest]
    ipv4 = [C(IPV4_VERSION, 8), peer.traffic_class, *bytes_of(ip_bytes, 2), _ZERO, _ZERO,
            *bytes_of(C(IPV4_FLAGS, 16)), peer.hop_limit, C(PROTOCOL_UDP, 8), *bytes_of(checksum)]
    ends = [*bytes_of(station.ipv4), *bytes_of(peer.ip[:32])]
    traffic = peer.traffic_class
    flow = [Cat(traffic[4:], C(6, 4)), Cat(C(0, 4), traffic[:4]), _ZERO, _ZERO]
    length = [*bytes_of(udp_bytes, 2), C(PROTOCOL_UDP, 8)]
    ends6 = [*bytes_of(station.ipv6), *bytes_of(peer.ip)]
    networks = (
        ([*ipv4, *ends], [ipv4[0], _ONES, *ipv4[2:8], _ONES, ipv4[9], _ONES, _ONES, *ends]),
        ([*flow, *length, peer.hop_limit, *ends6], [C(0x6F, 8), *[_ONES] * 3, *length, _ONES, *ends6]),
    )

    vector = Signal(HeaderVector)
    with m.Switch(Cat(vlan, ipv6)):
        for case in range(4):
            tagged, network = case & 1, networks[case >> 1]
            kind = C(ETHERTYPE_IPV6 if case >> 1 else ETHERTYPE_IPV4, 16)
            ethernet = [*bytes_of(peer.mac), *bytes_of(station.mac), *(
                (*bytes_of(C(ETHERTYPE_VLAN, 16)), *bytes_of(peer.vlan_tag)) if tagged else ()), *bytes_of(kind)]
            covered = [*[_ZERO] * (len(ethernet) - 4), *[_ONES] * 4]
            with m.Case(case):
                m.d.comb += [vector.sent.eq(Cat(*ethernet, *network[0], *tail[0])),
                             vector.covered.eq(Cat(*covered, *network[1], *tail[1]))]
    m.d.comb += vector.used.eq(below(Cat(C(2, 2), plan.header_words), HEADER_BYTES))
    return vector
