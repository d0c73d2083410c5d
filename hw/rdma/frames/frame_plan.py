# SPDX-License-Identifier: Apache-2.0
"""Where everything is in the frame of a packet, from its header: lengths, beats, lanes.

All headers and the padded payload are multiples of 4 bytes, except that Ethernet's 14 bytes are 2 more than one. So the
payload begins, and the ICRC begins and ends, in the middle of a word of 4 bytes.
"""

from amaranth import *
from amaranth.lib import data

from hw.rdma.protocol import (
    AETH_BYTES,
    BTH_BYTES,
    ETHERNET_BYTES,
    ICRC_BYTES,
    IMM_BYTES,
    IPV4_BYTES,
    IPV6_BYTES,
    RETH_BYTES,
    UDP_BYTES,
    VLAN_BYTES,
    Opcode,
    has_aeth,
    has_imm,
    has_reth,
)

__all__ = ["BARE_HEADERS", "CNP_BYTES", "EXTENSION_BYTES", "EXTENSION_WORDS", "HEADER_BYTES", "IPV4_MORE", "IPV6_MORE",
           "SHORTEST_HEADERS", "VLAN_MORE", "extension_words", "plan_layout", "planned"]

CNP_BYTES = 16
"""Reserved bytes of a CNP behind its BTH."""

EXTENSION_BYTES = RETH_BYTES + IMM_BYTES
"""Maximum length of all extension headers."""

EXTENSION_WORDS = EXTENSION_BYTES // 4

HEADER_BYTES = ETHERNET_BYTES + VLAN_BYTES + IPV6_BYTES + UDP_BYTES + BTH_BYTES + EXTENSION_BYTES
"""Maximum length of all headers."""

SHORTEST_HEADERS = (ETHERNET_BYTES + IPV4_BYTES + UDP_BYTES + BTH_BYTES) // 4
"""Whole words of Ethernet, IPv4, UDP and BTH; 2 bytes more."""

VLAN_MORE, IPV6_MORE = VLAN_BYTES // 4, (IPV6_BYTES - IPV4_BYTES) // 4
"""Words more with a VLAN tag, and with IPv6."""

BARE_HEADERS = (UDP_BYTES + BTH_BYTES + ICRC_BYTES) // 4
"""Words in UDP's length, besides extension headers and payload."""

IPV4_MORE = IPV4_BYTES // 4
"""Words more in IPv4's length."""


def _words(opcode):
    if opcode == Opcode.CNP:
        return CNP_BYTES // 4
    return (RETH_BYTES * has_reth(opcode) + AETH_BYTES * has_aeth(opcode) + IMM_BYTES * has_imm(opcode)) // 4


def extension_words(m, opcode, *, name="extension"):
    """Words of extension headers behind the BTH; 0 for an unknown opcode."""
    words = Signal(range(EXTENSION_WORDS + 1), name=f"{name}_words")
    with m.Switch(opcode):
        for number in sorted(set(map(_words, Opcode)) - {0}):
            with m.Case(*(one.value for one in Opcode if _words(one) == number)):
                m.d.comb += words.eq(number)
    return words


def plan_layout(config):
    """The frame of a packet.

    Members
    -------
    header_words
        Whole words of all headers; 2 bytes more.
    udp_words
        Words in the length field of UDP.
    pad
        Bytes of padding behind the payload.
    waits
        Beats of the frame before the first beat of payload is taken.
    lags
        The first beat of the frame needs two of payload.
    beats
        Beats of the frame, less one.
    rotation
        Lanes by which payload moves up, modulo a beat.
    end_lane, ends_early
        The first lane after the payload, in the last beat of the frame or in the one before.
    icrc_word, straddles
        The ICRC begins in the middle of this word of its beat, and ends in the next beat, the last one.
    """
    return data.StructLayout({
        "header_words": range(HEADER_BYTES // 4 + 1), "udp_words": config.mtu_bits, "pad": 2,
        "waits": range(HEADER_BYTES // config.beat_bytes + 1), "lags": 1,
        "beats": range((HEADER_BYTES + config.max_mtu + ICRC_BYTES - 1) // config.beat_bytes + 1),
        "rotation": config.lane_bits, "end_lane": config.lane_bits, "ends_early": 1,
        "icrc_word": config.lane_bits - 2, "straddles": 1})


def planned(m, config, header, *, ipv6, vlan):
    """The plan of a packet, combinationally from its header and the kind of its frame."""
    plan = Signal(plan_layout(config))
    lanes, words = config.lane_bits, config.lane_bits - 2
    extension, base = extension_words(m, header.opcode), Signal(range(HEADER_BYTES // 4 + 1), name="base")
    padded = Signal(config.mtu_bits - 1, name="padded_words")
    end, icrc, shift = Signal(config.mtu_bits + 2, name="end"), Signal(config.mtu_bits + 1, name="icrc"), \
        Signal(signed(lanes + 8), name="shift")
    with m.Switch(Cat(vlan, ipv6)):
        for case in range(4):
            with m.Case(case):
                m.d.comb += base.eq(SHORTEST_HEADERS + (case & 1) * VLAN_MORE + (case >> 1) * IPV6_MORE)
    last = icrc + 1
    payload = header.length.any()
    m.d.comb += [
        padded.eq((header.length + 3) >> 2), plan.pad.eq(-header.length),
        plan.header_words.eq(base + extension), plan.udp_words.eq(padded + (extension + BARE_HEADERS)),
        end.eq(header.length + Cat(C(2, 2), plan.header_words)), icrc.eq(padded + plan.header_words),
        shift.eq(Cat(C(2, 2), plan.header_words) - header.lane),
        plan.lags.eq(payload & shift[-1]), plan.waits.eq(Mux(payload & ~shift[-1], shift[lanes:], 0)),
        plan.beats.eq(last >> words), plan.rotation.eq(shift), plan.end_lane.eq(end),
        plan.ends_early.eq(last[words] ^ end[lanes]),
        plan.icrc_word.eq(icrc), plan.straddles.eq(icrc[:words].all()),
    ]
    return plan
