# SPDX-License-Identifier: Apache-2.0
"""Register-level driver of the RoCEv2 unit: station, queue pairs, memory, failures."""

import ipaddress
from contextlib import nullcontext
from dataclasses import dataclass
from typing import NamedTuple

from dmace.drivers.registers import Bus, Lock, RegisterDriver
from hw.common.sizes import is_integer
from hw.rdma.config import LENGTH_WIDTH, RdmaConfig
from hw.rdma.fault import Fault
from hw.rdma.protocol import PSN_WIDTH, QPN_WIDTH
from hw.rdma.registers import COUNTERS, STAGED, register_map

__all__ = ["Connection", "FailedQueuePair", "QueuePairState", "RdmaDriver", "mac_number"]

_IPV4_MAPPED = 0xFFFF << 32
"""Prefix of an IPv4 address as an IPv6 one (RFC 4291, 2.5.5.2)."""

_MTUS = (256, 512, 1024, 2048, 4096)


def mac_number(text: str) -> int:
    """An Ethernet address of the form ``02:00:00:00:00:01``, its first byte in the highest bits."""
    parts = text.split(":")
    if len(parts) != 6 or any(len(part) != 2 or not set(part.lower()) <= set("0123456789abcdef") for part in parts):
        raise ValueError(f"An Ethernet address has six pairs of hexadecimal digits with colons between, not {text!r}")
    return int("".join(parts), 16)


@dataclass(frozen=True, kw_only=True)
class Connection:
    """A queue pair to open.

    Parameters
    ----------
    qpn : int
        Own number, 24 bits. Its lower bits are the number of the queue pair in the unit; choose other upper bits for
        each connection, so that late packets of an earlier one are dropped.
    peer_qpn : int
        The peer's number, 24 bits.
    peer_mac : str
        Ethernet address of the peer or of the next hop.
    peer_ip : str
        IPv4 or IPv6 address of the peer.
    send_psn, receive_psn : int
        PSN of the first request to send and to receive, 24 bits.
    mtu : int
        Path MTU: 256, 512, 1024, 2048 or 4096, and at most ``max_mtu`` of the unit.
    domain : int
        Protection domain of the regions that the peer may use.
    remote_write, remote_read : bool
        Rights of the peer.
    timeout : int
        Local ACK timeout, 4.096 us times 2 ** ``timeout``; 0 for none. At least the longest round trip.
    retries, rnr_retries : int
        Retransmissions without progress until the queue pair fails, 0 to 7; 7 RNR retries are infinite.
    rnr_timer : int
        Code of the time that the peer waits after an RNR NAK (IBTA 1.6, table 59).
    max_reads : int
        READ requests in flight to the peer, 1 to 16, and at most as many as it accepts.
    selective : bool
        The peer is a unit of this kind, too: lost packets are repeated selectively.
    congestion : bool
        CNPs reduce the rate.
    vlan : int or None
        IEEE 802.1Q tag: PCP, DEI and VID.
    udp_port : int
        UDP source port, from which the network chooses among paths.
    traffic_class : int
        DSCP and ECN field; the default has ECT(0), so that switches mark packets instead of dropping them.
    hop_limit : int
        Hop limit or time to live.
    ring : (base, records) or None
        Ring of records about WRITEs with immediate data: address on the memory port, and a power of two.
    """

    qpn: int
    peer_qpn: int
    peer_mac: str
    peer_ip: str
    send_psn: int = 0
    receive_psn: int = 0
    mtu: int = 1024
    domain: int = 0
    remote_write: bool = True
    remote_read: bool = True
    timeout: int = 14
    retries: int = 7
    rnr_retries: int = 7
    rnr_timer: int = 12
    max_reads: int = 16
    selective: bool = False
    congestion: bool = True
    vlan: int | None = None
    udp_port: int = 0xC000
    traffic_class: int = 2
    hop_limit: int = 64
    ring: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        limits = {"qpn": QPN_WIDTH, "peer_qpn": QPN_WIDTH, "send_psn": PSN_WIDTH, "receive_psn": PSN_WIDTH,
                  "domain": 8, "timeout": 5, "retries": 3, "rnr_retries": 3, "rnr_timer": 5, "udp_port": 16,
                  "traffic_class": 8, "hop_limit": 8}
        for name, width in limits.items():
            if not is_integer(getattr(self, name), 0, (1 << width) - 1):
                raise ValueError(f"{name} must be an integer from 0 to {(1 << width) - 1}, not {getattr(self, name)!r}")
        if not is_integer(self.max_reads, 1, 16):
            raise ValueError(f"max_reads must be an integer from 1 to 16, not {self.max_reads!r}")
        if self.mtu not in _MTUS:
            raise ValueError(f"The MTU must be 256, 512, 1024, 2048 or 4096, not {self.mtu!r}")
        if self.vlan is not None and not is_integer(self.vlan, 0, 0xFFFF):
            raise ValueError(f"A VLAN tag must be an integer from 0 to 65535, not {self.vlan!r}")
        if self.ring is not None:
            base, records = self.ring
            if not is_integer(base, 0, (1 << 64) - 16) or base % 16:
                raise ValueError(f"The ring's base must be a multiple of 16, not {base!r}")
            if not is_integer(records, 1, 1 << 31) or records & (records - 1):
                raise ValueError(f"A ring must have a power of two of records, not {records!r}")
        mac_number(self.peer_mac)
        ipaddress.ip_address(self.peer_ip)


class QueuePairState(NamedTuple):
    """A queue pair, as QP_STATE and the registers after it show it.

    ``fault`` is None unless it has failed. ``outstanding``: packets that wait or are in flight. ``oldest``, ``next``:
    PSNs of the oldest packet without acknowledgement and of the next new one. ``expected``: PSN of the peer's next
    request. ``messages``: MSN. ``rate``: share of the line rate.
    """

    open: bool
    busy: bool
    fault: Fault | None
    outstanding: int
    oldest: int
    next: int
    expected: int
    messages: int
    rate: float

    @property
    def idle(self) -> bool:
        """It may be opened."""
        return not self.open and not self.busy and not self.outstanding


class FailedQueuePair(NamedTuple):
    """A failure that software takes."""

    qp: int
    fault: Fault


class RdmaDriver(RegisterDriver):
    """Privileged software's access to a RoCEv2 unit. Raises ValueError for a number, address or length that cannot be.

    Parameters
    ----------
    bus : :class:`dmace.drivers.registers.Bus`
        Access to the unit's registers.
    config : :class:`RdmaConfig`
    """

    def __init__(self, bus: Bus, config: RdmaConfig, *, lock: Lock = nullcontext) -> None:
        super().__init__(bus, register_map(config), lock=lock)
        self.config = config

    async def check_identity(self) -> None:
        """Raise RuntimeError unless this is a unit of the expected sizes."""
        await self._check_identity("SIZES", "TIMER")

    async def set_station(self, *, mac: str, ipv4: str = "0.0.0.0", ipv6: str = "::") -> None:
        """Addresses of the Ethernet port, while all queue pairs are closed."""
        await self._write_pair("MAC", mac_number(mac))
        await self.write("IPV4", value=int(ipaddress.IPv4Address(ipv4)))
        await self._write_parts("IPV6", int(ipaddress.IPv6Address(ipv6)))

    async def open(self, connection: Connection) -> int:
        """Open a queue pair that is idle; return its number in the unit."""
        if connection.mtu > self.config.max_mtu:
            raise ValueError(f"The MTU of this unit is at most {self.config.max_mtu}, not {connection.mtu}")
        if connection.selective and not self.config.selective:
            raise ValueError("This unit has no selective repeat.")
        qp = connection.qpn % self.config.queue_pairs
        peer = ipaddress.ip_address(connection.peer_ip)
        base, records = connection.ring or (0, 1)
        values = {name: int(getattr(connection, name)) for names in STAGED.values() for name in names
                  if hasattr(connection, name) and name not in ("mtu", "max_reads", "ring", "vlan")}
        values |= {
            "mtu": connection.mtu.bit_length() - 9, "max_reads": connection.max_reads - 1,
            "ipv6": int(peer.version == 6), "vlan": int(connection.vlan is not None),
            "vlan_tag": connection.vlan or 0, "ring": int(connection.ring is not None),
            "ring_bits": records.bit_length() - 1,
        }
        async with self._lock():
            if not (await self.state(qp)).idle:
                raise ValueError(f"Queue pair {qp} is not idle, so it cannot be opened")
            for register, names in STAGED.items():
                await self.write(register, **{name: values[name] for name in names})
            await self._write_pair("QP_PEER_MAC", mac_number(connection.peer_mac))
            await self._write_parts("QP_PEER_IP", int(peer) | (_IPV4_MAPPED if peer.version == 4 else 0))
            await self._write_pair("QP_RING_BASE", base)
            await self.write("QP_COMMIT", qp=qp, open=1)
        return qp

    async def close(self, qp: int) -> None:
        """Close a queue pair: what it has in flight fails. It may be opened again when its state is idle."""
        self._check(qp, self.config.queue_pairs, "A queue pair")
        await self.write("QP_COMMIT", qp=qp, open=0)

    async def define_region(self, number: int, *, va: int, length: int, address: int, key: int = 0, domain: int = 0,
                            readable: bool = True, writable: bool = True, valid: bool = True) -> int:
        """Write an entry of the table of local regions; return the R_Key that peers send.

        Parameters
        ----------
        va : int
            First virtual address, as peers name it.
        length : int
            Bytes, less than 2 ** 48.
        address : int
            Address of the first byte on the memory port.
        key : int
            Lower 8 bits of the R_Key. Change it when a region is defined again, so that old keys do not open it.
        """
        self._check(number, self.config.regions, "A region")
        self._check(key, 256, "A key")
        self._check_span(va, length)
        self._check_span(address, length)
        async with self._lock():
            for name, value in (("VA", va), ("LENGTH", length), ("ADDRESS", address)):
                await self._write_pair(f"REGION_{name}", value)
            await self.write("REGION_ACCESS", key=key, domain=domain, readable=int(readable), writable=int(writable),
                             valid=int(valid))
            await self.write("REGION_COMMIT", region=number)
        return number << 8 | key

    async def define_remote(self, number: int, *, qp: int, rkey: int, va: int, length: int, valid: bool = True) -> None:
        """Write an entry of the table of remote memories: a peer's region with ``rkey``, from address ``va`` on."""
        self._check(number, self.config.remotes, "A remote memory")
        self._check(qp, self.config.queue_pairs, "A queue pair")
        self._check(rkey, 1 << 32, "An R_Key")
        self._check_span(va, length)
        async with self._lock():
            await self._write_pair("REMOTE_VA", va)
            await self._write_pair("REMOTE_LENGTH", length)
            await self.write("REMOTE_RKEY", rkey=rkey)
            await self.write("REMOTE_ACCESS", qp=qp, valid=int(valid))
            await self.write("REMOTE_COMMIT", remote=number)

    async def free_records(self, qp: int, head: int) -> None:
        """Report that the records before number ``head``, counted since the queue pair was opened, are consumed."""
        self._check(qp, self.config.queue_pairs, "A queue pair")
        async with self._lock():
            await self.write("RECORDS_HEAD", head=head % (1 << 32))
            await self.write("RECORDS_COMMIT", qp=qp)

    async def state(self, qp: int) -> QueuePairState:
        """State of a queue pair."""
        self._check(qp, self.config.queue_pairs, "A queue pair")
        await self.write("QP_SELECT", qp=qp)
        state = await self.read("QP_STATE")
        outstanding, oldest, following, expected, messages, rate = [
            next(iter((await self.read(f"QP_{name}")).values()))
            for name in ("OUTSTANDING", "OLDEST", "NEXT", "EXPECTED", "MESSAGES", "RATE")]
        return QueuePairState(
            open=bool(state["open"]), busy=bool(state["busy"]),
            fault=Fault(state["fault"]) if state["failed"] else None, outstanding=outstanding, oldest=oldest,
            next=following, expected=expected, messages=messages,
            rate=rate / 256)

    async def take_fault(self) -> FailedQueuePair | None:
        """The oldest failure that was not taken, or None."""
        fields = await self.read("FAULT")
        if not fields["valid"]:
            return None
        await self.write("FAULT_TAKE", take=1)
        return FailedQueuePair(fields["qp"], Fault(fields["code"]))

    async def counters(self) -> dict[str, int]:
        """All free-running counters, name -> value."""
        return {name.lower(): (await self.read(f"COUNT_{name}"))["value"] for name, _ in COUNTERS}

    async def _write_parts(self, name: str, value: int) -> None:
        for part in range(4):
            await self.write(f"{name}_{part}", value=value >> 32 * part & 0xFFFF_FFFF)

    @staticmethod
    def _check(value: int, count: int, what: str) -> None:
        if not is_integer(value, 0, count - 1):
            raise ValueError(f"{what} must be an integer from 0 to {count - 1}, not {value!r}")

    @staticmethod
    def _check_span(first: int, length: int) -> None:
        if not is_integer(length, 0, (1 << LENGTH_WIDTH) - 1):
            raise ValueError(f"A length must be an integer from 0 to {(1 << LENGTH_WIDTH) - 1}, not {length!r}")
        if not is_integer(first, 0, (1 << 64) - max(1, length)):
            raise ValueError(f"A span must end below 2 ** 64, not begin at {first!r} with {length} bytes")
