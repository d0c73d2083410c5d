# SPDX-License-Identifier: Apache-2.0
"""A requester behind a channel that drops, duplicates, delays and reorders packets in both directions."""

from dataclasses import dataclass, field

from hw.rdma.protocol import ACK, Nak, Opcode, SyndromeKind
from tests.rdma.responder_bench import Request
from tests.rdma.responder_model import HALF, WRAP

TIMEOUT, RNR_WAIT = 900, 300


@dataclass
class Unit:
    """A packet of a WRITE, or a READ: ``first`` is its PSN before the modulo, ``count`` the PSNs that it takes."""

    first: int
    count: int
    request: Request
    data: dict = field(default_factory=dict)

    @property
    def is_read(self):
        return self.request.opcode == Opcode.READ_REQUEST


class Requester:
    """One queue pair's messages, sent in order, with go-back-N or selective repeat.

    ``done``: PSN before which everything is acknowledged. ``fatal``: syndromes of NAKs that may not occur.
    """

    def __init__(self, qp, psn, *, mtu, window, reads, selective=False):
        self.qp, self.mtu, self.window, self.reads, self.selective = qp, mtu, window, reads, selective
        self.units, self.top, self.done, self.next = [], psn, psn, psn
        self.received, self.fatal = set(), []
        self.progress_at = self.wait_until = 0
        self.acknowledged = []

    def write(self, va, rkey, payload, imm=None):
        """A message in packets; with selective repeat, each packet is one of its own."""
        chunks = [payload[at:at + self.mtu] for at in range(0, len(payload), self.mtu)] or [b""]
        for number, chunk in enumerate(chunks):
            first, last = number == 0, number == len(chunks) - 1
            fields = {"va": va, "rkey": rkey, "dma_length": len(payload)}
            if self.selective:
                first = last = True
                fields = {"va": va + number * self.mtu, "rkey": rkey, "dma_length": len(chunk)}
            if first and last:
                op = Opcode.WRITE_ONLY if imm is None or number < len(chunks) - 1 else Opcode.WRITE_ONLY_IMM
            elif last:
                op = Opcode.WRITE_LAST if imm is None else Opcode.WRITE_LAST_IMM
            else:
                op = Opcode.WRITE_FIRST if first else Opcode.WRITE_MIDDLE
            self._add(1, Request(self.qp, op, self.top % WRAP, chunk, int(last and self.top % 3 != 0),
                                 imm=imm or 0, **(fields if first else {})))

    def read(self, va, rkey, size):
        return self._add(max(1, -(-size // self.mtu)),
                         Request(self.qp, Opcode.READ_REQUEST, self.top % WRAP, va=va, rkey=rkey, dma_length=size))

    def _add(self, count, request):
        self.units.append(Unit(self.top, count, request))
        self.top += count
        return self.units[-1]

    def _unit(self, psn):
        return next(unit for unit in self.units if unit.first <= psn < unit.first + unit.count)

    def packet(self, cycle):
        """The packet to send in this cycle, or None."""
        if self.done < self.top and cycle - self.progress_at > TIMEOUT:
            self.next, self.progress_at = self.done, cycle
        while self.next in self.received:
            self.next += 1
        if self.next >= self.top or self.next - self.done >= self.window or cycle < self.wait_until:
            return None
        unit = self._unit(self.next)
        reads = sum(one.is_read and one.first + one.count > self.done and one.first < self.next for one in self.units)
        if unit.is_read:
            if reads >= self.reads:
                return None
            skip = self.next - unit.first
            request, size = unit.request, skip * self.mtu
            self.next = unit.first + unit.count
            return Request(self.qp, request.opcode, (unit.first + skip) % WRAP, va=request.va + size,
                           rkey=request.rkey, dma_length=request.dma_length - size)
        self.next += 1
        last = self.next == self.top or self.next - self.done >= self.window
        return Request(**{**vars(unit.request), "ackreq": 1 if last else unit.request.ackreq})

    def reply(self, reply, cycle):
        psn = self.done + (reply.psn - self.done + HALF) % WRAP - HALF
        if reply.opcode == Opcode.ACKNOWLEDGE:
            kind, code = reply.syndrome >> 5, reply.syndrome & 31
            if reply.syndrome == ACK:
                self._complete(psn + 1, cycle)
                return
            if kind == SyndromeKind.NAK and code != Nak.SEQUENCE:
                self.fatal.append(reply)
                return
            self._complete(psn, cycle)
            if psn < self.done:
                return
            if kind == SyndromeKind.RNR:
                self.next, self.wait_until = psn, cycle + RNR_WAIT
            elif self.selective:
                got = psn + (reply.msn - psn + HALF) % WRAP - HALF
                none = abs(got - psn) == HALF
                assert none or psn < got < self.top, f"names {got}, which was not sent"
                if not none:
                    self.received.add(got)
                self.next = min(self.next, psn) if none or self.next > got + 8 else self.next
                self.progress_at = min(self.progress_at, cycle - TIMEOUT // 2)
            else:
                self.next = psn
        else:
            if not self.done <= psn < self.top:
                return
            unit = self._unit(psn)
            assert unit.is_read
            self._complete(psn, cycle)
            if psn == self.done:
                number = psn - unit.first
                size = min(self.mtu, unit.request.dma_length - number * self.mtu)
                assert len(reply.payload) == size, reply
                unit.data[number] = reply.payload
                self.done, self.progress_at = psn + 1, cycle
                self.next = max(self.next, self.done)
            elif psn > self.done:
                self.next = self.done

    def _complete(self, psn, cycle):
        """All before ``psn`` is acknowledged, but for READs: one without its response is requested again."""
        for unit in self.units:
            if unit.first + unit.count > self.done and unit.first < psn and unit.is_read:
                if unit.first <= self.done and self.done < psn:
                    self.next = min(self.next, self.done)
                psn = min(psn, max(self.done, unit.first))
                break
        if psn > self.done:
            self.done, self.progress_at = psn, cycle
            self.next = max(self.next, self.done)
            self.received = {one for one in self.received if one >= self.done}


class Channel:
    """Packets in both directions, each with a delay of its own, or lost, or twice."""

    def __init__(self, rng, *, loss, twice, delay):
        self.rng, self.loss, self.twice, self.delay, self.packets = rng, loss, twice, delay, []
        self.sent = 0

    def send(self, packet, cycle):
        for _ in range(1 + (self.rng.random() < self.twice)):
            if self.rng.random() >= self.loss:
                late = self.delay if self.rng.random() < 0.1 else 0
                self.packets.append((cycle + 10 + self.rng.randrange(1 + late), self.sent, packet))
                self.sent += 1

    def arrived(self, cycle):
        found = sorted(one for one in self.packets if one[0] <= cycle)
        self.packets = [one for one in self.packets if one[0] > cycle]
        return [packet for _, _, packet in found]
