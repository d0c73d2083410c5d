# SPDX-License-Identifier: Apache-2.0
"""Numbers of RoCEv2: opcodes, syndromes, header sizes (IBTA 1.6, chapter 9 and annexes A16 and A17; IANA)."""

from enum import IntEnum

__all__ = [
    "ACK", "AETH_BYTES", "BTH_BYTES", "CE", "DEFAULT_PKEY", "ETHERNET_BYTES", "ETHERTYPE_IPV4", "ETHERTYPE_IPV6",
    "ETHERTYPE_VLAN", "ICRC_BYTES", "IMM_BYTES", "IPV4_BYTES", "IPV6_BYTES", "PSN_WIDTH", "QPN_WIDTH", "RETH_BYTES",
    "RNR_TIMER_US", "UDP_BYTES", "UDP_PORT", "VLAN_BYTES", "Nak", "Opcode", "SyndromeKind", "has_aeth", "has_imm",
    "has_payload", "has_reth",
]

PSN_WIDTH, QPN_WIDTH = 24, 24

ETHERNET_BYTES, VLAN_BYTES, IPV4_BYTES, IPV6_BYTES, UDP_BYTES = 14, 4, 20, 40, 8
BTH_BYTES, RETH_BYTES, AETH_BYTES, IMM_BYTES, ICRC_BYTES = 12, 16, 4, 4, 4

ETHERTYPE_IPV4, ETHERTYPE_IPV6, ETHERTYPE_VLAN = 0x0800, 0x86DD, 0x8100
UDP_PORT = 4791
DEFAULT_PKEY = 0xFFFF
"""The only partition key that is sent; of a received one, the 15 lower bits are compared."""

CE = 3
"""ECN field of a packet that met congestion (RFC 3168)."""


class Opcode(IntEnum):
    """BTH opcodes of the reliable connection service, and the congestion notification packet."""

    SEND_FIRST = 0x00
    SEND_MIDDLE = 0x01
    SEND_LAST = 0x02
    SEND_LAST_IMM = 0x03
    SEND_ONLY = 0x04
    SEND_ONLY_IMM = 0x05
    WRITE_FIRST = 0x06
    WRITE_MIDDLE = 0x07
    WRITE_LAST = 0x08
    WRITE_LAST_IMM = 0x09
    WRITE_ONLY = 0x0A
    WRITE_ONLY_IMM = 0x0B
    READ_REQUEST = 0x0C
    READ_FIRST = 0x0D
    READ_MIDDLE = 0x0E
    READ_LAST = 0x0F
    READ_ONLY = 0x10
    ACKNOWLEDGE = 0x11
    CNP = 0x81


_RETH = {Opcode.WRITE_FIRST, Opcode.WRITE_ONLY, Opcode.WRITE_ONLY_IMM, Opcode.READ_REQUEST}
_AETH = {Opcode.READ_FIRST, Opcode.READ_LAST, Opcode.READ_ONLY, Opcode.ACKNOWLEDGE}
_IMM = {Opcode.SEND_LAST_IMM, Opcode.SEND_ONLY_IMM, Opcode.WRITE_LAST_IMM, Opcode.WRITE_ONLY_IMM}
_BARE = {Opcode.READ_REQUEST, Opcode.ACKNOWLEDGE, Opcode.CNP}


def has_reth(opcode: int) -> bool:
    return opcode in _RETH


def has_aeth(opcode: int) -> bool:
    return opcode in _AETH


def has_imm(opcode: int) -> bool:
    return opcode in _IMM


def has_payload(opcode: int) -> bool:
    """Whether payload may follow the headers. A CNP has 16 reserved bytes there, which are no payload."""
    return opcode not in _BARE


class SyndromeKind(IntEnum):
    """Bits 6:5 of the AETH syndrome (IBTA 1.6, 9.7.5.1)."""

    ACK = 0
    RNR = 1
    NAK = 3


ACK = 0x1F
"""Syndrome of an ACK without end-to-end credits, which are not used: all five lower bits are set."""


class Nak(IntEnum):
    """NAK codes, the five lower bits of a syndrome of kind NAK (IBTA 1.6, table 58)."""

    SEQUENCE = 0
    INVALID_REQUEST = 1
    REMOTE_ACCESS = 2
    REMOTE_OPERATION = 3


RNR_TIMER_US = (
    655_360, 10, 20, 30, 40, 60, 80, 120, 160, 240, 320, 480, 640, 960, 1_280, 1_920, 2_560, 3_840, 5_120, 7_680,
    10_240, 15_360, 20_480, 30_720, 40_960, 61_440, 81_920, 122_880, 163_840, 245_760, 327_680, 491_520)
"""Microseconds to wait after an RNR NAK, by the five lower bits of its syndrome (IBTA 1.6, table 59)."""
