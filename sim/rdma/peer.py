# SPDX-License-Identifier: Apache-2.0
"""A RoCEv2 endpoint in software: the other end of the RTL, of soft-RoCE, or of itself.

::

    peer = Peer(Station(mac, ip))
    peer.add_region(Region(rkey=7, va=0x1000, memory=bytearray(4096)))
    pair = peer.connect(Connection(station=peer.station, peer=other, qpn=17, peer_qpn=18))
    request = pair.requester.write(0x1000, 7, b"abc")
    while not request.done:
        frames = peer.transmit(now)         # to the other end
        peer.receive(frame, now)            # for each frame from there

Time is a number in any unit; ``timeout`` of the connections is in the same. Nothing happens between calls.
"""

from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field

from hw.errors import UserError
from hw.rdma.protocol import CE, Opcode
from sim.rdma.connection import Connection, Region, Station
from sim.rdma.packets import Packet, PacketError, decode
from sim.rdma.requester import Requester
from sim.rdma.responder import REQUESTS, Responder

__all__ = ["Peer", "QueuePair"]


@dataclass(kw_only=True, eq=False)
class QueuePair:
    """Both halves of a connection, and its congestion notifications."""

    connection: Connection
    requester: Requester
    responder: Responder
    notified: float | None = None
    notifications: int = field(default=0)
    """CNPs received."""


class Peer:
    """One Ethernet port with queue pairs and memory.

    Parameters
    ----------
    station : Station
        Its addresses.

    Attributes
    ----------
    counts : Counter
        Frames by what became of them: ``received``, ``sent``, ``other`` (not to this station), ``wrong`` (not decoded;
        ``last_error`` is the latest reason), ``unknown`` (no such queue pair, or not from its peer).
    """

    def __init__(self, station: Station) -> None:
        self.station = station
        self.regions: dict[int, Region] = {}
        self.pairs: dict[int, QueuePair] = {}
        self.counts: Counter[str] = Counter()
        self.last_error = ""
        self.observe: Callable[[Packet], None] = lambda packet: None
        """Receives each packet that was decoded."""
        self._out: deque[Packet] = deque()
        self._turn = 0

    def add_region(self, region: Region) -> Region:
        """Register memory under its R_Key."""
        if region.rkey in self.regions:
            raise UserError(f"The R_Key {region.rkey:#x} has a region already.")
        self.regions[region.rkey] = region
        return region

    def connect(self, connection: Connection) -> QueuePair:
        """Open a queue pair. The station's IP address may differ from the peer's: a port can have several."""
        if connection.station.mac != self.station.mac:
            raise UserError("The connection belongs to another station.")
        if connection.qpn in self.pairs:
            raise UserError(f"The queue pair {connection.qpn:#x} is open already.")
        made = QueuePair(connection=connection, requester=Requester(connection),
                         responder=Responder(connection, self.regions, self._out.append))
        self.pairs[connection.qpn] = made
        return made

    def receive(self, frame: bytes, now: float) -> None:
        """Take a frame from the network; one that is wrong or not for this station is counted, and dropped."""
        if frame[:6] != self.station.mac:
            self.counts["other"] += 1
            return
        try:
            packet = decode(frame)
        except PacketError as error:
            self.counts["wrong"] += 1
            self.last_error = str(error)
            return
        self.counts["received"] += 1
        self.observe(packet)
        pair = self.pairs.get(packet.qpn)
        if pair is None or packet.source_ip != pair.connection.peer.ip \
                or packet.destination_ip != pair.connection.station.ip or packet.pkey & 0x7FFF != 0x7FFF:
            self.counts["unknown"] += 1
            return
        if packet.traffic_class & 3 == CE:
            self._notify(pair, now)
        if packet.opcode == Opcode.CNP:
            pair.notifications += 1
        elif packet.opcode in REQUESTS:
            pair.responder.receive(packet)
        else:
            pair.requester.receive(packet, now)

    def _notify(self, pair: QueuePair, now: float) -> None:
        connection = pair.connection
        if not connection.congestion or (pair.notified is not None and now < pair.notified + connection.cnp_interval):
            return
        pair.notified = now
        made = connection.packet(Opcode.CNP, 0)
        made.becn = 1
        self._out.append(made)

    def transmit(self, now: float, limit: int = 1 << 30) -> list[bytes]:
        """Frames to send now, ``limit`` at most: responses first, then requests of the queue pairs in turn."""
        packets: list[Packet] = []
        while self._out and len(packets) < limit:
            packets.append(self._out.popleft())
        pairs = list(self.pairs.values())
        self._turn = (self._turn + 1) % max(1, len(pairs))
        for pair in pairs[self._turn:] + pairs[:self._turn]:
            pair.requester.transmit(now, packets.append, limit - len(packets))
        self.counts["sent"] += len(packets)
        return [packet.encode() for packet in packets]

    @property
    def deadline(self) -> float | None:
        """Time of the next retransmission, or None."""
        times = [time for pair in self.pairs.values() if (time := pair.requester.deadline) is not None]
        return min(times, default=None)

    @property
    def idle(self) -> bool:
        """No request of its queue pairs remains, and nothing waits for transmission."""
        return not self._out and all(pair.requester.idle for pair in self.pairs.values())
