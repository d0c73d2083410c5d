# SPDX-License-Identifier: Apache-2.0
"""Registers of the RoCEv2 unit: one description for gateware, driver, C header and documentation."""

from collections.abc import Sequence

from hw.common.sizes import ADDR_WIDTH, DOMAIN_WIDTH
from hw.regs import (
    Access,
    Field,
    Register,
    RegisterMap,
    constant_field,
    number_field,
    refusal_registers,
    register_pair,
)

from .config import LENGTH_WIDTH, RdmaConfig
from .protocol import PSN_WIDTH, QPN_WIDTH

__all__ = ["COUNTERS", "STAGED", "register_map"]

ID_VALUE = 0x5244_4D41
"""ASCII ``RDMA``."""

VERSION = 1

_MAP_WIDTH = 12

RO, RW, W1C, PULSE = Access.RO, Access.RW, Access.W1C, Access.PULSE

COUNTERS = (
    ("FRAMES_RECEIVED", "RoCEv2 frames whose checks have all passed."),
    ("FRAMES_MALFORMED", "RoCEv2 frames dropped because a header or a length is wrong, or the MAC marked them."),
    ("FRAMES_CORRUPT", "RoCEv2 frames dropped because their ICRC is wrong."),
    ("FRAMES_OVERFLOW", "RoCEv2 frames dropped because the receive buffer was full."),
    ("FRAMES_MARKED", "Received frames that met congestion."),
    ("FRAMES_UNKNOWN", "RoCEv2 frames dropped because their queue pair is not open."),
    ("FRAMES_FOREIGN", "RoCEv2 frames dropped because their sender is not the peer of their queue pair."),
    ("OTHER_RECEIVED", "Other frames passed on."),
    ("OTHER_DROPPED", "Other frames dropped because their buffer was full."),
    ("BURSTS_REFUSED", "Bursts of the DMA engine that failed without a packet."),
    ("BUFFER_STALLS", "Cycles in which a beat of the DMA engine waited for space in the payload buffer."),
    ("PACKETS_SENT", "Request packets sent, including retransmissions."),
    ("PACKETS_RESENT", "Retransmitted request packets."),
    ("PACKETS_RETIRED", "Request packets acknowledged or failed."),
    ("TIMEOUTS", "Timeouts of queue pairs without acknowledgement."),
    ("NAKS_RECEIVED", "NAKs of sequence error received."),
    ("RNRS_RECEIVED", "RNR NAKs received."),
    ("CNPS_RECEIVED", "Congestion notification packets received."),
    ("RETURNS_DROPPED", "READ responses dropped, since they belong to no packet in flight."),
    ("REQUESTS_EXECUTED", "Request packets of peers executed."),
    ("REQUESTS_REPEATED", "Request packets of peers that had been executed before."),
    ("REQUESTS_EARLY", "Request packets of peers beyond a gap."),
    ("REQUESTS_FORBIDDEN", "Request packets of peers with a wrong key, range or right."),
    ("REQUESTS_INVALID", "Request packets of peers with a wrong opcode or length."),
    ("REQUESTS_NOT_READY", "Request packets of peers that met a full ring of records."),
    ("RESPONSES_SENT", "Packets sent to peers' requests: READ responses, acknowledgements, NAKs, CNPs."),
    ("MEMORY_UNEXPECTED", "Unexpected responses of memory, dropped."),
)
"""Name and meaning of each free-running 32-bit counter."""


def _identity(config: RdmaConfig) -> Sequence[Register]:
    return (
        Register("ID", [constant_field("value", 32, ID_VALUE, "ASCII RDMA.")], doc="Identifies this block."),
        Register("VERSION", [constant_field("value", 32, VERSION, "Version of this register map.")],
                 doc="A new version requires a change of software."),
        Register("SIZES", [
            constant_field("beat_bits", 4, config.lane_bits, "Log2 of bytes per beat."),
            constant_field("qp_bits", 4, config.qp_bits, "Log2 of the number of queue pairs."),
            constant_field("window_bits", 4, (config.window - 1).bit_length(), "Log2 of packets in flight per QP."),
            constant_field("mtu_bits", 4, config.mtu_bits, "Log2 of the longest payload in bytes."),
            constant_field("remote_bits", 4, config.remote_bits, "Log2 of the number of remote memories."),
            constant_field("region_bits", 4, config.region_bits, "Log2 of the number of local regions."),
            constant_field("read_bits", 4, (config.reads - 1).bit_length(), "Log2 of READs that a peer may issue."),
            constant_field("selective", 1, int(config.selective), "Selective repeat is included."),
        ], doc="Sizes of this unit."),
        Register("TIMER", [
            constant_field("cycle_bits", 4, (config.timer_cycles - 1).bit_length(), "Log2 of cycles in 4.096 us."),
        ], doc="Unit of timeouts."),
    )


def _station() -> Sequence[Register]:
    return (
        *register_pair("MAC", 48, RW, doc="Ethernet address of this port, its first byte in bits 47:40"),
        Register("IPV4", [Field("value", 32, RW, doc="The first byte is in bits 31:24.")],
                 doc="IPv4 address of this port."),
        *(Register(f"IPV6_{part}", [Field("value", 32, RW, doc=f"Bits {32 * part + 31}:{32 * part}.")],
                   doc="IPv6 address of this port; its first byte is in bits 127:120.") for part in range(4)),
    )


def _flag(name: str, doc: str, lsb: int | None = None) -> Field:
    return Field(name, 1, RW, doc=doc) if lsb is None else Field(name, 1, RW, lsb=lsb, doc=doc)


def _queue_pairs(config: RdmaConfig) -> Sequence[Register]:
    return (
        Register("QP_ACCESS", [
            Field("domain", DOMAIN_WIDTH, RW, doc="Protection domain of the regions that the peer may use."),
            _flag("remote_write", "The peer may write."), _flag("remote_read", "The peer may read."),
        ], doc="Rights of the peer."),
        Register("QP_NUMBER", [Field("qpn", QPN_WIDTH, RW, doc="Own QPN; its lower bits are the queue pair's number.")],
                 doc="Number of the queue pair on the wire."),
        Register("QP_PEER", [Field("peer_qpn", QPN_WIDTH, RW, doc="The peer's QPN.")], doc="The peer's queue pair."),
        Register("QP_SEND_PSN", [Field("send_psn", PSN_WIDTH, RW, doc="PSN of the first request.")],
                 doc="First PSN to send."),
        Register("QP_RECEIVE_PSN", [Field("receive_psn", PSN_WIDTH, RW, doc="PSN of the peer's first request.")],
                 doc="First PSN to expect."),
        *register_pair("QP_PEER_MAC", 48, RW, doc="Ethernet address of the peer or of the next hop"),
        *(Register(f"QP_PEER_IP_{part}", [Field("value", 32, RW, doc=f"Bits {32 * part + 31}:{32 * part}.")],
                   doc="IP address of the peer; IPv4 as an IPv4-mapped address (RFC 4291, 2.5.5.2).")
          for part in range(4)),
        Register("QP_ROUTE", [
            Field("udp_port", 16, RW, doc="UDP source port."),
            Field("traffic_class", 8, RW, doc="DSCP and ECN field."),
            Field("hop_limit", 8, RW, doc="Hop limit or time to live."),
        ], doc="Fields of UDP and IP headers."),
        Register("QP_VLAN", [
            Field("vlan_tag", 16, RW, doc="PCP, DEI and VID."),
            _flag("ipv6", "Frames are IPv6.", 30), _flag("vlan", "Frames have an IEEE 802.1Q tag.", 31),
        ], doc="Form of the frames."),
        Register("QP_OPTIONS", [
            Field("mtu", 3, RW, legal=range(config.mtu_bits - 7), doc="Log2 of the path MTU, less 8."),
            Field("timeout", 5, RW, doc="Local ACK timeout: 4.096 us times 2 to the power of this; 0 for none."),
            Field("retries", 3, RW, doc="Retransmissions without progress until the queue pair fails."),
            Field("rnr_retries", 3, RW, doc="Likewise after RNR NAKs; 7 for no limit."),
            Field("rnr_timer", 5, RW, doc="Code of the time that an RNR NAK of this unit demands."),
            Field("max_reads", 4, RW, doc="READ requests in flight to the peer, less one."),
            _flag("selective", "The peer repeats selectively, too."), _flag("congestion", "CNPs reduce the rate."),
        ], doc="Options of the queue pair."),
        *register_pair("QP_RING_BASE", ADDR_WIDTH, RW, doc="Ring of records; a multiple of 16"),
        Register("QP_RING", [
            Field("ring_bits", 5, RW, doc="Log2 of the records in the ring."),
            _flag("ring", "There is a ring; without it, immediate data gets RNR NAKs.", 31),
        ], doc="Ring of records about WRITEs with immediate data."),
        Register("QP_COMMIT", [
            number_field("qp", config.queue_pairs, PULSE, doc="Queue pair to open or close."),
            Field("open", 1, PULSE, lsb=31, doc="1 opens, 0 closes."),
        ], doc="Opens a queue pair with the values above, when it is closed and idle; or closes it."),
    )


STAGED = {
    "QP_ACCESS": ("domain", "remote_write", "remote_read"), "QP_NUMBER": ("qpn",), "QP_PEER": ("peer_qpn",),
    "QP_SEND_PSN": ("send_psn",), "QP_RECEIVE_PSN": ("receive_psn",),
    "QP_ROUTE": ("udp_port", "traffic_class", "hop_limit"), "QP_VLAN": ("vlan_tag", "ipv6", "vlan"),
    "QP_OPTIONS": ("mtu", "timeout", "retries", "rnr_retries", "rnr_timer", "max_reads", "selective", "congestion"),
    "QP_RING": ("ring_bits", "ring"),
}
"""Fields of a queue pair that have a name of their own, by register."""


def _memory(config: RdmaConfig) -> Sequence[Register]:
    return (
        *register_pair("REGION_VA", 64, RW, doc="First virtual address, as peers name it"),
        *register_pair("REGION_LENGTH", LENGTH_WIDTH, RW, doc="Bytes"),
        *register_pair("REGION_ADDRESS", ADDR_WIDTH, RW, doc="Address of the first byte on the memory port"),
        Register("REGION_ACCESS", [
            Field("key", 8, RW, doc="Lower 8 bits of the R_Key; the others are the region's number."),
            Field("domain", DOMAIN_WIDTH, RW, doc="Protection domain."),
            _flag("readable", "Peers may read."), _flag("writable", "Peers may write."),
            _flag("valid", "The entry is valid.", 31),
        ], doc="Rights of a region."),
        Register("REGION_COMMIT", [number_field("region", config.regions, PULSE, doc="Entry to write.")],
                 doc="Writes the staged region to the table. It applies to packets checked later."),
        *register_pair("REMOTE_VA", 64, RW, doc="Virtual address of offset 0 at the peer"),
        *register_pair("REMOTE_LENGTH", LENGTH_WIDTH, RW, doc="Bytes"),
        Register("REMOTE_RKEY", [Field("rkey", 32, RW, doc="R_Key of the peer's region.")], doc="Key to send."),
        Register("REMOTE_ACCESS", [
            number_field("qp", config.queue_pairs, RW, doc="Queue pair that reaches the peer."),
            _flag("valid", "The entry is valid.", 31),
        ], doc="Queue pair of a remote memory."),
        Register("REMOTE_COMMIT", [number_field("remote", config.remotes, PULSE, doc="Entry to write.")],
                 doc="Writes the staged remote memory to the table. It applies to bursts that arrive later."),
        Register("RECORDS_HEAD", [Field("head", 32, RW, doc="Number of the first record that is not consumed.")],
                 doc="Consumed records, modulo 2^32; counted from 0 when the queue pair is opened."),
        Register("RECORDS_COMMIT", [number_field("qp", config.queue_pairs, PULSE, doc="Queue pair of the ring.")],
                 doc="Frees the records before RECORDS_HEAD."),
    )


def _status(config: RdmaConfig) -> Sequence[Register]:
    return (
        Register("QP_SELECT", [number_field("qp", config.queue_pairs, RW, doc="Queue pair to select.")],
                 doc="Selects the queue pair of the following registers."),
        Register("QP_STATE", [
            Field("open", 1, RO, doc="It was opened, and not closed."), Field("failed", 1, RO, doc="It has failed."),
            Field("busy", 1, RO, doc="Memory is being read or written for the peer."),
            Field("fault", 4, RO, lsb=8, doc="Why it has failed; see docs/rdma.md."),
        ], doc="State. A queue pair is idle if it is not open, not busy, and no packet is outstanding."),
        Register("QP_OUTSTANDING", [Field("packets", config.packet_bits + 1, RO, doc="Packets.")],
                 doc="Packets that are waiting, or in flight."),
        Register("QP_OLDEST", [Field("psn", PSN_WIDTH, RO, doc="PSN.")], doc="Oldest PSN without acknowledgement."),
        Register("QP_NEXT", [Field("psn", PSN_WIDTH, RO, doc="PSN.")], doc="PSN of the next new packet."),
        Register("QP_EXPECTED", [Field("psn", PSN_WIDTH, RO, doc="PSN.")], doc="PSN of the peer's next request."),
        Register("QP_MESSAGES", [Field("msn", 24, RO, doc="MSN.")], doc="Messages of the peer that have completed."),
        Register("QP_RATE", [Field("rate", 9, RO, doc="256 is the line rate.")], doc="Rate after congestion."),
        Register("FAULT", [
            Field("qp", config.qp_bits, RO, doc="Queue pair."), Field("code", 4, RO, lsb=16, doc="Why it has failed."),
            Field("valid", 1, RO, lsb=31, doc="A queue pair has failed."),
        ], doc="The oldest failure that was not taken."),
        Register("FAULT_TAKE", [Field("take", 1, PULSE, doc="1 takes the failure.")],
                 doc="Removes the failure that FAULT shows."),
        Register("FREE", [
            Field("packets", config.packet_bits + 1, RO, doc="Free entries for packets."),
            Field("blocks", (config.blocks - 1).bit_length() + 1, RO, lsb=16, doc="Free units of the payload buffer."),
        ], doc="Free space of the requester."),
        Register("IRQ_STATUS", [
            Field("register", 1, W1C, doc="A register write was refused; see REFUSED_WRITE."),
            Field("fault", 1, W1C, doc="A queue pair has failed; see FAULT."),
        ], doc="Interrupt sources."),
        Register("IRQ_ENABLE", [Field(name, 1, RW, doc=f"Let {name} drive irq.") for name in ("register", "fault")],
                 doc="The irq output is high while an enabled source is set."),
    )


def register_map(config: RdmaConfig) -> RegisterMap:
    """Registers of the RoCEv2 unit."""
    counters = [Register(f"COUNT_{name}", [Field("value", 32, RO, doc="Wraps; zeroed by rst only.")], doc=doc)
                for name, doc in COUNTERS]
    return RegisterMap("rdma", [*_identity(config), *_station(), *_queue_pairs(config), *_memory(config),
                                *_status(config), *refusal_registers(_MAP_WIDTH), *counters],
                       doc="Registers of the RoCEv2 unit.", addr_width=_MAP_WIDTH)
