# SPDX-License-Identifier: Apache-2.0
"""A responder of the reliable connection service, written from the specification, and a network with faults."""

from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count

from hw.rdma.protocol import ACK, Nak, Opcode, SyndromeKind

__all__ = ["Network", "Packet", "Peer", "Response"]

_MASK = (1 << 24) - 1


def _distance(psn, origin):
    """``psn - origin`` modulo 2 ** 24, with a sign."""
    return (psn - origin + (1 << 23) & _MASK) - (1 << 23)


@dataclass(frozen=True)
class Packet:
    """A request on the line; ``length``: bytes of the READ response."""

    qp: int
    psn: int
    index: int
    ackreq: bool
    read: bool
    length: int
    tag: int
    epoch: int


@dataclass(frozen=True)
class Response:
    """A response on the line, with the fields of ``receive_layout``."""

    qp: int
    opcode: int
    psn: int
    syndrome: int = 0
    msn: int = 0
    length: int = 0
    tag: int = 0


def nak(code):
    return SyndromeKind.NAK << 5 | code


def rnr(code):
    return SyndromeKind.RNR << 5 | code


@dataclass
class Peer:
    """Responder of one queue pair (IBTA 1.6, 9.7.4 and 9.7.5).

    ``executed`` has the tags of executed requests, in order of their PSN when the last gap is filled; ``stored`` those
    of later WRITEs that selective repeat has accepted. ``refuse(packet)``: a syndrome for a request that is expected
    next, or None. ``coalesce(packet)``: whether an acknowledgement that was requested is left to a later one.
    """

    expected: int
    selective: bool = False
    refuse: object = lambda packet: None
    coalesce: object = lambda packet: False
    volunteer: object = lambda packet: False
    alive: bool = True
    naked: bool = False
    executed: list = field(default_factory=list)
    stored: dict = field(default_factory=dict)

    def take(self, packet):
        """Responses to a request that has arrived."""
        if not self.alive:
            return []
        qp, ahead = packet.qp, _distance(packet.psn, self.expected)
        if ahead > 0:
            accepted = self.selective and not packet.read
            if accepted:
                self.stored.setdefault(packet.psn, packet.tag)
            if self.naked:
                return []
            self.naked = True
            return [Response(qp, Opcode.ACKNOWLEDGE, self.expected, nak(Nak.SEQUENCE),
                             msn=packet.psn if accepted else 0)]
        if ahead < 0:
            return [self._read(packet) if packet.read else self._ack(qp)]
        refused = self.refuse(packet)
        if refused is not None:
            if refused >> 5 == SyndromeKind.RNR:
                self.naked = True       # later packets are dropped in silence
            return [Response(qp, Opcode.ACKNOWLEDGE, packet.psn, refused)]
        self.naked = False
        self.executed.append(packet.tag)
        self.expected = self.expected + 1 & _MASK
        response = self._read(packet) if packet.read else None
        while self.expected in self.stored:
            self.executed.append(self.stored.pop(self.expected))
            self.expected = self.expected + 1 & _MASK
        if response is not None:
            return [response]
        if (packet.ackreq and not self.coalesce(packet)) or self.volunteer(packet):
            return [self._ack(qp)]
        return []

    def _ack(self, qp):
        return Response(qp, Opcode.ACKNOWLEDGE, self.expected - 1 & _MASK, SyndromeKind.ACK << 5 | ACK)

    def _read(self, packet):
        return Response(packet.qp, Opcode.READ_ONLY, packet.psn, SyndromeKind.ACK << 5 | ACK, length=packet.length,
                        tag=packet.tag)


class Network:
    """Delivers items after ``latency`` cycles; some are lost, duplicated, or delayed by up to ``jitter`` further
    cycles."""

    def __init__(self, rng, *, latency, loss=0.0, duplicate=0.0, reorder=0.0, jitter=100):
        self.rng, self.latency, self.loss, self.duplicate = rng, latency, loss, duplicate
        self.reorder, self.jitter = reorder, jitter
        self._items, self._number = [], count()
        self.lost = 0

    def put(self, cycle, item):
        copies = 1 + (self.duplicate > 0 and self.rng.random() < self.duplicate)
        for _ in range(copies):
            if self.loss > 0 and self.rng.random() < self.loss:
                self.lost += 1
                continue
            extra = self.rng.randrange(self.jitter) if self.reorder > 0 and self.rng.random() < self.reorder else 0
            heappush(self._items, (cycle + self.latency + extra, next(self._number), item))

    def take(self, until):
        """Items that arrive before cycle ``until``, with their cycle."""
        while self._items and self._items[0][0] < until:
            cycle, _, item = heappop(self._items)
            yield cycle, item
