# SPDX-License-Identifier: Apache-2.0
"""Rows of the requester transport's tables, one for each queue pair or stored packet.

Each table is written by one stage and read by others. A PSN in a row is that of a packet which has not passed the stage
yet: ``posted`` >= ``next`` >= ``oldest`` >= ``retired``, modulo 2 ** 24.
"""

from amaranth.lib import data

from ...protocol import PSN_WIDTH

__all__ = ["OFFSET_WIDTH", "READS_WIDTH", "STAMP_WIDTH", "entry_layout", "operation_layout", "pending_read_layout",
           "progress_layout", "record_layout", "retired_layout", "sent_layout", "settings_layout", "verdict_layout"]

READS_WIDTH = 5
"""Bits of counts of READs sent and of responses; at most 16 are outstanding."""

STAMP_WIDTH = 8
"""Bits of a time, in sixteenths of the timeout in question."""

OFFSET_WIDTH = 10
"""Low bits of PSNs by which two of them inside a window of at most 256 are compared, with a sign."""


def record_layout(config):
    """A stored packet, as it was posted."""
    return data.StructLayout({"read": 1, "length": config.mtu_bits + 1, "cost": range(config.mtu_beats + 3)})


def entry_layout(config):
    """A packet that was posted when all earlier ones of its queue pair had passed a stage.

    ``turn`` changes with each entry; the stage has not used it if its own ``turn`` differs.
    """
    return data.StructLayout({"index": config.packet_bits, "turn": 1})


def settings_layout():
    """Fields of a connection that the transport uses."""
    return data.StructLayout({"timeout": 5, "retries": 3, "rnr_retries": 3, "max_reads": 4, "selective": 1,
                              "congestion": 1})


def sent_layout(config):
    """Row of the sender.

    ``next``: PSN of the next new packet; its index is ``index`` if ``linked``, else that of an entry. ``position``,
    ``resend``: PSN and index of the next packet to retransmit, while ``resending``. ``served``: equals the row of
    acknowledgements' ``request`` unless a retransmission is requested. ``reads``: READs sent.
    """
    return data.StructLayout({
        "next": PSN_WIDTH, "index": config.packet_bits, "linked": 1, "turn": 1, "position": PSN_WIDTH,
        "resend": config.packet_bits, "resending": 1, "served": 1, "reads": READS_WIDTH})


def progress_layout():
    """Row of acknowledgements and timers.

    ``oldest``: PSN of the oldest packet without acknowledgement. ``reads``: responses accepted. ``request``: changes to
    request a retransmission from ``oldest``; ``partial``: only up to the PSN whose low bits are ``last``. ``waiting``:
    after an RNR NAK with this ``code``. ``tries``, ``rnr``: retries without progress. ``armed``: the timer runs since
    ``stamp``. ``requested``: no progress since the last NAK that led to a retransmission. ``failed``: a fault was
    reported.
    """
    return data.StructLayout({
        "oldest": PSN_WIDTH, "reads": READS_WIDTH, "request": 1, "partial": 1, "last": OFFSET_WIDTH, "waiting": 1,
        "code": 5, "tries": 3, "rnr": 3, "armed": 1, "stamp": STAMP_WIDTH, "requested": 1, "failed": 1})


def retired_layout(config):
    """Row of retirement: PSN of the next packet to retire, whose index is ``index`` if ``linked``.

    ``failing``: a packet has failed, so that all later ones do.
    """
    return data.StructLayout({"failing": 1, "psn": PSN_WIDTH, "index": config.packet_bits, "linked": 1,
                              "turn": 1})


def pending_read_layout(config):
    """A READ whose response is outstanding."""
    return data.StructLayout({"psn": PSN_WIDTH, "index": config.packet_bits, "length": config.mtu_bits + 1})


def operation_layout(config):
    """Header of a received response. ``read``: of a READ; ``whole``: its opcode is READ response Only."""
    return data.StructLayout({"qp": config.qp_bits, "read": 1, "whole": 1, "psn": PSN_WIDTH, "syndrome": 8, "msn": 24,
                              "length": config.mtu_bits + 1})


def verdict_layout(config):
    """Whether a READ response is delivered, and for which stored packet."""
    return data.StructLayout({"accept": 1, "qp": config.qp_bits, "index": config.packet_bits})
