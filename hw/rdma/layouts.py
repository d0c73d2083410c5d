# SPDX-License-Identifier: Apache-2.0
"""Payloads between the stages of the RoCEv2 unit, sized by the configuration."""

from amaranth.lib import data

from hw.axi.streams import read_beat_layout as axi_read_beat_layout
from hw.axi.streams import read_burst_layout, write_beat_layout, write_response_layout
from hw.common.sizes import DOMAIN_WIDTH

from .config import ADDR_WIDTH, LENGTH_WIDTH, REMOTE_LSB, REMOTE_OFFSET_WIDTH, REMOTE_WIDTH
from .protocol import PSN_WIDTH, QPN_WIDTH

__all__ = [
    "RemoteAddress", "connection_layout", "posted_layout", "read_beat_layout",
    "read_layout", "receive_header_layout", "receive_layout", "region_layout", "remote_layout", "response_layout",
    "retire_layout", "returned_layout", "send_layout", "transmit_header_layout", "transmit_layout", "write_layout",
]


def read_layout(config):
    """A read burst."""
    return read_burst_layout(addr_width=ADDR_WIDTH, id_width=config.id_width)


def read_beat_layout(config):
    """A beat of read data."""
    return axi_read_beat_layout(data_width=config.data_width, id_width=config.id_width)


def write_layout(config):
    """A beat to be written; the first of a burst carries the address as well."""
    return write_beat_layout(addr_width=ADDR_WIDTH, data_width=config.data_width, id_width=config.id_width)


def response_layout(config):
    """The response to a write burst."""
    return write_response_layout(id_width=config.id_width)


RemoteAddress = data.StructLayout({
    "offset": REMOTE_OFFSET_WIDTH, "number": REMOTE_WIDTH, "port": 63 - REMOTE_LSB - REMOTE_WIDTH, "remote": 1})
"""An address of the DMA engine in a remote memory."""


def _extensions():
    """Fields of RETH, immediate data and AETH; those that the opcode does not have are not used."""
    return {"va": 64, "rkey": 32, "dma_length": 32, "imm": 32, "syndrome": 8, "msn": 24}


def transmit_header_layout(config):
    """A packet to send on queue pair ``qp``; the frame builder knows addresses and the peer's QPN.

    ``length``: bytes of payload, without padding. ``lane``: the first of them in the first beat of payload.
    """
    return data.StructLayout({
        "qp": config.qp_bits, "opcode": 8, "ackreq": 1, "psn": PSN_WIDTH, **_extensions(),
        "length": config.mtu_bits + 1, "lane": config.lane_bits})


def transmit_layout(config):
    """A beat of a packet to send: ``header`` is valid in the first. A packet without payload has one beat.

    Payload is contiguous from byte ``header.lane`` of the first beat to the last beat.
    """
    return data.StructLayout({"header": transmit_header_layout(config), "data": config.data_width, "first": 1,
                              "last": 1})


def receive_header_layout(config):
    """A received packet whose checks of Ethernet, IP, UDP, BTH and ICRC have passed.

    ``qpn``: destination. ``source``: sender's address, IPv4 as an IPv4-mapped one (RFC 4291, 2.5.5.2). ``ce``: it met
    congestion. ``qp``: number of the queue pair; valid after dispatch.
    """
    return data.StructLayout({
        "qp": config.qp_bits, "qpn": QPN_WIDTH, "source": 128, "ce": 1, "opcode": 8, "ackreq": 1, "psn": PSN_WIDTH,
        **_extensions(), "length": config.mtu_bits + 1})


def receive_layout(config):
    """A beat of a received packet: ``header`` is valid in the first; payload starts at lane 0 of the first beat.

    A packet without payload has one beat.
    """
    return data.StructLayout({"header": receive_header_layout(config), "data": config.data_width, "first": 1,
                              "last": 1})


def connection_layout():
    """A queue pair, as software opens it.

    Members
    -------
    open
        Packets are sent and accepted. Clear: the queue pair is closed; what is in flight fails.
    domain
        Protection domain of its memory regions.
    qpn, peer_qpn
        Own number, whose lower bits are the number of the queue pair here; the peer's.
    send_psn, receive_psn
        PSN of the first request to send, and of the first to receive.
    peer_mac, peer_ip, ipv6
        Addresses of the peer; IPv4 as an IPv4-mapped address.
    vlan, vlan_tag
        Whether frames have an IEEE 802.1Q tag, and its PCP, DEI and VID.
    udp_port, traffic_class, hop_limit
        UDP source port; DSCP and ECN field; hop limit or time to live.
    mtu
        Log2 of the path MTU, less 8.
    timeout
        Local ACK timeout: 4.096 us times 2 ** ``timeout``; 0 for none.
    retries, rnr_retries
        Retransmissions without progress until the queue pair fails; 7 RNR retries are infinite.
    rnr_timer
        Code of the time that an RNR NAK demands.
    max_reads
        READ requests in flight to the peer, 1 to 16, less one.
    selective
        The peer is a unit of this kind, too: lost packets are repeated selectively.
    congestion
        CNPs reduce the rate.
    remote_write, remote_read
        Rights of the peer.
    ring_base, ring_bits, ring
        Ring of 2 ** ``ring_bits`` records of 16 bytes about WRITEs with immediate data, if ``ring``.
    """
    return data.StructLayout({
        "open": 1, "domain": DOMAIN_WIDTH, "qpn": QPN_WIDTH, "peer_qpn": QPN_WIDTH, "send_psn": PSN_WIDTH,
        "receive_psn": PSN_WIDTH, "peer_mac": 48, "peer_ip": 128, "ipv6": 1, "vlan": 1, "vlan_tag": 16, "udp_port": 16,
        "traffic_class": 8, "hop_limit": 8, "mtu": 3, "timeout": 5, "retries": 3, "rnr_retries": 3, "rnr_timer": 5,
        "max_reads": 4, "selective": 1, "congestion": 1, "remote_write": 1, "remote_read": 1, "ring_base": 64,
        "ring_bits": 5, "ring": 1})


def region_layout():
    """Local memory that peers may use by R_Key: virtual addresses ``va`` to ``va + length - 1`` are at ``address``.

    ``key``: the lower 8 bits of its R_Key; the others are its number.
    """
    return data.StructLayout({
        "valid": 1, "key": 8, "domain": DOMAIN_WIDTH, "readable": 1, "writable": 1, "va": 64, "length": LENGTH_WIDTH,
        "address": ADDR_WIDTH})


def remote_layout(config):
    """A peer's memory: offset 0 is virtual address ``va`` of the region with ``rkey``, reached by queue pair ``qp``.

    ``length``: its bytes. Requests beyond fail here.
    """
    return data.StructLayout({"valid": 1, "qp": config.qp_bits, "rkey": 32, "va": 64, "length": LENGTH_WIDTH})


# -- Between the requester's buffers and its transport.

def posted_layout(config):
    """A packet that was stored in the requester's buffers and is to be sent on ``qp``, in the order of posting.

    ``index``: number of the stored packet. ``read``: it is a READ request, whose response is one packet with ``length``
    bytes (0 for writes). ``cost``: beats of its payload, plus 2 for its headers.
    """
    return data.StructLayout({"index": config.packet_bits, "qp": config.qp_bits, "read": 1,
                              "length": config.mtu_bits + 1, "cost": range(config.mtu_beats + 3)})


def send_layout(config):
    """Send stored packet ``index`` now, with this PSN; it stays stored until it retires."""
    return data.StructLayout({"index": config.packet_bits, "psn": PSN_WIDTH, "ackreq": 1})


def returned_layout(config):
    """A beat of the response to READ ``index``; payload starts at lane 0."""
    return data.StructLayout({"index": config.packet_bits, "data": config.data_width, "first": 1, "last": 1})


def retire_layout(config):
    """Stored packet ``index`` is acknowledged, or has ``failed``; all packets of a queue pair retire in order."""
    return data.StructLayout({"index": config.packet_bits, "failed": 1})
