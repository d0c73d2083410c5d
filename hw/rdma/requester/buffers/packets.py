# SPDX-License-Identifier: Apache-2.0
"""Layouts of a packet between its acceptance from the DMA engine and its retirement."""

from amaranth.lib import data

from hw.axi import Resp
from hw.rdma.config import ADDR_WIDTH, RdmaConfig

__all__ = [
    "BURST_BEATS", "PAGE_BITS", "PIECES", "burst_layout", "chain_layout", "failure_layout", "packet_layout",
    "piece_layout", "retired_layout", "returned_entry_layout", "sent_layout",
]

PAGE_BITS = 12
"""Bits of an offset within the 4 KiB that a burst never leaves."""

BURST_BEATS = 256
"""Beats of the longest burst (AXI4)."""

PIECES = 16
"""Packets of the longest burst at the smallest MTU."""


def chain_layout(config: RdmaConfig) -> data.StructLayout:
    """A linked list of blocks: the first, and the number of others."""
    return data.StructLayout({"first": range(config.blocks), "more": range(config.packet_blocks)})


def piece_layout(config: RdmaConfig) -> data.StructLayout:
    """Stored payload of one packet of a write burst: its first and last byte in the 4 KiB, and its blocks."""
    return data.StructLayout({"start": PAGE_BITS, "end": PAGE_BITS, "chain": chain_layout(config)})


def burst_layout(config: RdmaConfig) -> data.StructLayout:
    """A write burst whose beats have all been taken.

    Members
    -------
    id, qp, rkey
    page_va
        Virtual address of the 4 KiB that it is in.
    pieces
        Number of its packets.
    total
        Bytes of all its packets.
    aligned
        It starts at lane 0 and its queue pair repeats by go-back-N: its packets are one message.
    resp
        If it has no pieces: its response. Else, unless that is OKAY, its packets are refused.
    """
    return data.StructLayout({
        "id": config.id_width, "qp": config.qp_bits, "rkey": 32, "page_va": ADDR_WIDTH, "pieces": range(PIECES + 1),
        "total": range((1 << PAGE_BITS) + 1), "aligned": 1, "resp": Resp})


def packet_layout(config: RdmaConfig) -> data.StructLayout:
    """A packet to be stored.

    Members
    -------
    read
        A READ request, whose response has ``length`` bytes; else a WRITE with ``length`` bytes of payload.
    refused
        A WRITE that is not posted: its blocks are freed, and its burst fails.
    va, rkey, dma_length
        RETH.
    lane, end_lane
        Position in a beat of the first and of the last byte.
    beats
        Beats from the first byte to the last, less one.
    chain
        Blocks of the payload of a WRITE.
    ends
        The last packet of its burst.
    """
    return data.StructLayout({
        "read": 1, "refused": 1, "qp": config.qp_bits, "opcode": 8, "va": ADDR_WIDTH, "rkey": 32,
        "dma_length": range((1 << PAGE_BITS) + 1), "length": config.mtu_bits + 1, "lane": config.lane_bits,
        "end_lane": config.lane_bits, "beats": range(BURST_BEATS), "chain": chain_layout(config),
        "id": config.id_width, "ends": 1})


def _fields(config, *names):
    packet = packet_layout(config)
    return data.StructLayout({name: packet[name].shape for name in names})


def sent_layout(config: RdmaConfig) -> data.StructLayout:
    """A stored packet's fields for transmission; ``length`` and ``lane`` of a READ request are 0."""
    return _fields(config, "qp", "opcode", "va", "rkey", "dma_length", "length", "lane", "beats", "chain")


def retired_layout(config: RdmaConfig) -> data.StructLayout:
    """A stored packet's fields for its retirement."""
    return _fields(config, "read", "chain", "id", "ends", "beats")


def returned_entry_layout(config: RdmaConfig) -> data.StructLayout:
    """A READ request's fields for the delivery of its response."""
    return _fields(config, "lane", "end_lane", "id", "ends")


def failure_layout(config: RdmaConfig) -> data.StructLayout:
    """Beats of read data with an error: ``beats`` more than one; ``ends``: the last of them is that of the burst."""
    return data.StructLayout({"id": config.id_width, "beats": range(BURST_BEATS), "ends": 1, "resp": Resp})
