# SPDX-License-Identifier: Apache-2.0
"""A software queue pair's settings, memory regions, and arithmetic of PSNs, which both of its halves use."""

from collections.abc import Mapping
from dataclasses import dataclass

from hw.errors import UserError
from sim.rdma.packets import MASK24, Packet

__all__ = ["Connection", "Region", "Regions", "Station", "difference"]


def difference(psn: int, other: int) -> int:
    """``psn - other`` modulo 2 ** 24, from -2 ** 23 to 2 ** 23 - 1."""
    return ((psn - other + (1 << 23)) & MASK24) - (1 << 23)


@dataclass(frozen=True)
class Station:
    """Addresses of an Ethernet port: 6 bytes, and 4 or 16 bytes."""

    mac: bytes
    ip: bytes

    def __post_init__(self) -> None:
        if len(self.mac) != 6 or len(self.ip) not in (4, 16):
            raise UserError(f"A station has an Ethernet address of 6 bytes and an IP address of 4 or 16, not "
                            f"{len(self.mac)} and {len(self.ip)}.")


@dataclass(kw_only=True)
class Region:
    """Registered memory: virtual addresses from ``va`` on are the bytes of ``memory``."""

    rkey: int
    va: int
    memory: bytearray
    readable: bool = True
    writable: bool = True


Regions = Mapping[int, Region]
"""R_Key -> region."""


@dataclass(frozen=True, kw_only=True)
class Connection:
    """Settings of a queue pair of the reliable connection service.

    Parameters
    ----------
    station, peer : Station
        Own addresses and those of the peer.
    qpn, peer_qpn : int
        24 bits.
    send_psn, receive_psn : int
        PSN of the first request to send, and to receive.
    mtu : int
        Path MTU: 256, 512, 1024, 2048 or 4096 bytes.
    timeout : float
        From the last progress to retransmission, in the unit of ``now``.
    retries, rnr_retries : int
        Retransmissions without progress until the queue pair fails; 7 RNR retries are infinite.
    rnr_timer : int
        Code of the time in an RNR NAK, and ``rnr_unit``: microseconds in the unit of ``now``.
    window : int
        Packets between transmission and acknowledgement.
    max_reads : int
        READ requests in flight to the peer.
    ack_interval : int
        Packets of which at least one requests an acknowledgement, as the last one of a message does.
    congestion : bool
        A packet that met congestion is reported by a CNP, at most once in ``cnp_interval``.
    """

    station: Station
    peer: Station
    qpn: int
    peer_qpn: int
    send_psn: int = 0
    receive_psn: int = 0
    mtu: int = 1024
    timeout: float = 100_000
    retries: int = 7
    rnr_retries: int = 7
    rnr_timer: int = 12
    rnr_unit: float = 1
    window: int = 64
    max_reads: int = 4
    ack_interval: int = 8
    congestion: bool = False
    cnp_interval: float = 50_000
    vlan: int | None = None
    traffic_class: int = 2
    hop_limit: int = 64
    udp_port: int = 0xC000

    def __post_init__(self) -> None:
        if self.mtu not in (256, 512, 1024, 2048, 4096):
            raise UserError(f"The path MTU must be 256, 512, 1024, 2048 or 4096, not {self.mtu!r}.")
        for name in ("qpn", "peer_qpn", "send_psn", "receive_psn"):
            if not 0 <= getattr(self, name) <= MASK24:
                raise UserError(f"{name} must be from 0 to {MASK24}, not {getattr(self, name)!r}.")
        for name in ("window", "max_reads", "ack_interval"):
            if getattr(self, name) < 1:
                raise UserError(f"{name} must be at least 1, not {getattr(self, name)!r}.")
        if len(self.station.ip) != len(self.peer.ip):
            raise UserError("Both stations of a connection must have addresses of the same version of IP.")

    def packet(self, opcode: int, psn: int) -> Packet:
        """A packet to the peer, without extension headers and payload."""
        return Packet(destination=self.peer.mac, source=self.station.mac, source_ip=self.station.ip,
                      destination_ip=self.peer.ip, vlan=self.vlan, traffic_class=self.traffic_class,
                      hop_limit=self.hop_limit, udp_port=self.udp_port, opcode=opcode, qpn=self.peer_qpn,
                      psn=psn & MASK24)

    def packets(self, length: int) -> int:
        """PSNs of a message of ``length`` bytes."""
        return max(1, -(-length // self.mtu))
