# SPDX-License-Identifier: Apache-2.0
"""Payloads between the stages of the responder."""

from enum import IntEnum

from amaranth.lib import data

from hw.common.sizes import PAGE_BYTES

from ..config import ADDR_WIDTH, RdmaConfig
from ..layouts import transmit_layout
from ..protocol import PSN_WIDTH

__all__ = ["COUNT_WIDTH", "GENERATION_WIDTH", "MOST_MESSAGES", "MSN_WIDTH", "Kind", "burst_bits", "checked_layout",
           "entry_layout", "flight_layout", "issued_width", "op_layout", "payload_layout", "progress_layout",
           "read_job_layout", "read_packet_layout", "reply_layout", "settings_layout", "verdict_layout"]

COUNT_WIDTH, MSN_WIDTH = 32, 24

GENERATION_WIDTH = 16
"""Bits of the number of a write to the table of regions, by which a changed region is recognised."""

MOST_MESSAGES = 16
"""Most PSNs by which the expected one advances in a step: bits in a word of the selective window."""


class Kind(IntEnum):
    """Effect of a request when it completes."""

    NOTHING = 0
    DONE = 1
    """The next PSN is expected: acknowledge it."""
    REPEATED = 2
    """A duplicate: acknowledge again."""
    SELECTED = 3
    """A packet beyond a gap is in memory: NAK of sequence error that names it."""
    NAK = 4
    READ = 5
    READ_AGAIN = 6
    """A READ whose PSN was passed before."""
    OPEN = 7


def burst_bits(config: RdmaConfig) -> int:
    """Log2 of the bytes of the longest burst, whose multiples no burst crosses: 256 beats, at most 4 KiB."""
    return min((PAGE_BYTES - 1).bit_length(), config.lane_bits + 8)


def issued_width(config: RdmaConfig) -> int:
    """Bits of a counter of requests, of which fewer than half its range are incomplete."""
    return (2 * config.writes + 64).bit_length()


def _imm():
    """Immediate data; bytes of the message; number of its record."""
    return {"imm": 1, "value": 32, "total": 32, "number": COUNT_WIDTH}


def _region(config):
    return {"region": config.region_bits, "generation": GENERATION_WIDTH}


def op_layout(config):
    """The header of a request; or a queue pair that opens, ``open``, with only ``qp`` valid."""
    return data.StructLayout({
        "open": 1, "qp": config.qp_bits, "opcode": 8, "ackreq": 1, "psn": PSN_WIDTH, "va": 64, "rkey": 32,
        "dma_length": 32, "value": 32, "length": config.mtu_bits + 1})


def payload_layout(config):
    return data.StructLayout({"data": config.data_width, "last": 1})


def settings_layout():
    """Fields of a connection that checks use. ``mtu``: log2 of it, less 8; ``mask``: bits of a number of records that
    are 0 if the ring is not full."""
    return data.StructLayout({
        "domain": 8, "mtu": 3, "rnr_timer": 5, "selective": 1, "remote_write": 1, "remote_read": 1, "ring": 1,
        "mask": COUNT_WIDTH, "receive_psn": PSN_WIDTH})


def checked_layout(config):
    """A request after all checks that need no state of its queue pair.

    ``write``, ``begins``, ``ends``: WRITE, its first packet, its last. ``sized``: the payload has the length that its
    opcode demands, as far as the packet alone shows. ``allowed``: key, range and rights of a packet with RETH.
    ``address``: of its first byte in memory. ``packets``: PSNs that it takes.
    """
    return data.StructLayout({
        "open": 1, "qp": config.qp_bits, "psn": PSN_WIDTH, "ackreq": 1, "write": 1, "read": 1, "begins": 1, "ends": 1,
        "imm": 1, "value": 32, "sized": 1, "allowed": 1, "address": ADDR_WIDTH, **_region(config),
        "length": config.mtu_bits + 1, "dma_length": 32, "packets": PSN_WIDTH, "mtu": 3, "rnr_timer": 5,
        "selective": 1, "ring": 1, "mask": COUNT_WIDTH, "receive_psn": PSN_WIDTH})


def entry_layout(config):
    """A request whose order and access are checked, until it completes.

    Members
    -------
    kind : Kind
    psn, next
        Of the packet, and expected after it.
    messages
        Messages that it completes, 0 to 16.
    syndrome
        Of a NAK.
    address, length, mtu
        Of a READ: first byte, bytes, and log2 of the path MTU, less 8.
    imm, value, total, number
        A record follows.
    selective
        The MSN field of a NAK of sequence error names a received PSN.
    void
        Without a response: its queue pair has failed.
    error
        Memory responded with an error.
    """
    return data.StructLayout({
        "kind": Kind, "qp": config.qp_bits, "psn": PSN_WIDTH, "next": PSN_WIDTH, "messages": 5, "ackreq": 1,
        "syndrome": 8, "address": ADDR_WIDTH, "length": 32, "mtu": 3, **_region(config), **_imm(), "selective": 1,
        "void": 1, "error": 1})


def verdict_layout(config):
    """``payload``: beats follow; ``write``: they are written to ``entry.address``, else dropped."""
    return data.StructLayout({"entry": entry_layout(config), "payload": 1, "write": 1})


def flight_layout(config):
    """An entry in flight: complete after ``bursts`` responses of memory. ``again``: it was complete before, and its
    record, or that of an earlier entry, is."""
    return data.StructLayout({"entry": entry_layout(config), "bursts": 2, "again": 1})


def progress_layout(config):
    """Completed requests of a queue pair.

    ``next``: PSN after the newest completed one. ``msn``: complete messages. ``since``: packets since the last that was
    to be acknowledged. ``syndrome``, ``selective``: of the newest NAK. ``completed``: requests, for comparison with
    those issued.
    """
    return data.StructLayout({
        "next": PSN_WIDTH, "msn": MSN_WIDTH, "since": 4, "syndrome": 8, "selective": 1,
        "completed": issued_width(config)})


def read_job_layout(config):
    """A READ that waits for its responses; ``void``: it has none."""
    return data.StructLayout({
        "address": ADDR_WIDTH, "length": 32, "psn": PSN_WIDTH, "msn": MSN_WIDTH, "mtu": 3, **_region(config),
        "void": 1})


def read_packet_layout(config):
    """A packet of a READ response whose data is being read.

    ``beats``: of data. ``ends``: the READ is complete after it. ``void``: nothing is sent. ``refused``: a NAK of remote
    access error is sent instead.
    """
    return data.StructLayout({
        "qp": config.qp_bits, "opcode": 8, "psn": PSN_WIDTH, "msn": MSN_WIDTH, "length": config.mtu_bits + 1,
        "lane": config.lane_bits, "beats": range(config.mtu_beats + 2), "ends": 1, "void": 1, "refused": 1})


def reply_layout(config):
    """A beat of a packet to send. ``fault``: code of the fault of its queue pair, which fails when it has left."""
    return data.StructLayout({"beat": transmit_layout(config), "fault": 4})
