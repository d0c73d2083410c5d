# SPDX-License-Identifier: Apache-2.0
"""A responder from the specification, one request at a time; shares no logic with the hardware.

Each request completes before the next one of its queue pair, so that responses are exact: no ACK covers several
``ackreq``, and no NAK is out of date.
"""

from dataclasses import dataclass, field

from hw.rdma.fault import Fault
from hw.rdma.protocol import ACK, Nak, Opcode, SyndromeKind
from tests.rdma.responder_bench import Reply, Request

WRAP = 1 << 24
HALF = WRAP >> 1
ACK_INTERVAL = 16
LONGEST = 1 << 31


@dataclass
class Region:
    key: int
    domain: int
    va: int
    length: int
    address: int
    readable: bool = True
    writable: bool = True
    valid: bool = True


@dataclass
class Connection:
    expected: int
    mtu: int = 256
    domain: int = 0
    write: bool = True
    read: bool = True
    selective: bool = False
    rnr_timer: int = 0
    ring: int | None = None
    ring_bits: int = 0
    qpn: int = 0
    alive: bool = True
    messages: int = 0
    silent: bool = False        # a NAK was sent, and the expected packet has not been executed since
    since: int = 0
    records: int = 0
    head: int = 0
    message: dict | None = None
    remembered: set = field(default_factory=set)


class Refused(Exception):
    """A request that fails its queue pair: NAK code and fault."""


class ResponderModel:
    """Takes requests; returns replies; writes ``memory``, a dict of bytes by address."""

    def __init__(self, window, memory):
        self.window, self.memory = window, memory
        self.regions, self.connections, self.faults = {}, {}, []

    def request(self, request: Request) -> list[Reply]:
        qp = self.connections[request.qp]
        if not qp.alive:
            return []
        distance = (request.psn - qp.expected) % WRAP
        if distance >= HALF:
            return self._duplicate(qp, request)
        if distance:
            return self._beyond_gap(qp, request, distance)
        try:
            return self._execute(qp, request)
        except Refused as error:
            code, fault = error.args
            qp.alive = False
            self.faults.append((request.qp, fault))
            return [self._nak(qp, request, code)]

    # -- The three positions of a PSN.

    def _duplicate(self, qp, request):
        if request.opcode == Opcode.READ_REQUEST:
            if request.payload or not self._range(qp, request, "read"):
                return []
            return self._read(qp, request, qp.messages)
        if self._is_write(request):
            return [self._ack(qp, request)]
        return []

    def _beyond_gap(self, qp, request, distance):
        named = qp.expected ^ HALF
        if qp.selective and distance < self.window and request.psn in qp.remembered:
            return [self._nak(qp, request, Nak.SEQUENCE, request.psn)] if request.opcode < 6 + 7 else []
        if (qp.selective and request.opcode == Opcode.WRITE_ONLY and distance < self.window
                and len(request.payload) == request.dma_length <= qp.mtu and self._range(qp, request, "write")):
            self._store(qp, request.va, request.rkey, request.payload)
            qp.remembered.add(request.psn)
            qp.silent = True
            return [self._nak(qp, request, Nak.SEQUENCE, request.psn)]
        if qp.silent:
            return []
        qp.silent = True
        return [self._nak(qp, request, Nak.SEQUENCE, named if qp.selective else None)]

    def _execute(self, qp, request):
        invalid = Refused(Nak.INVALID_REQUEST, Fault.LOCAL_INVALID)
        denied = Refused(Nak.REMOTE_ACCESS, Fault.LOCAL_ACCESS)
        op, size = request.opcode, len(request.payload)
        if op == Opcode.READ_REQUEST:
            if qp.message or request.payload or request.dma_length > LONGEST:
                raise invalid
            packets = max(1, -(-request.dma_length // qp.mtu))
            if packets > 1 and qp.remembered:
                raise invalid
            if not self._range(qp, request, "read"):
                raise denied
            qp.messages += 1
            qp.silent, qp.since = False, 0
            replies = self._read(qp, request, qp.messages)
            steps = self._skip(qp, request.psn, packets)
            qp.expected = (qp.expected + steps) % WRAP
            qp.messages += steps - packets
            return [*replies, self._ack(qp, request)] if steps > packets else replies
        if not self._is_write(request):
            raise invalid
        first = op in (Opcode.WRITE_FIRST, Opcode.WRITE_ONLY, Opcode.WRITE_ONLY_IMM)
        last = op not in (Opcode.WRITE_FIRST, Opcode.WRITE_MIDDLE)
        if first != (qp.message is None):
            raise invalid
        message = dict(va=request.va, rkey=request.rkey, total=request.dma_length, done=0) if first else qp.message
        done = message["done"] + size
        if size > qp.mtu or (not last and (size < qp.mtu or done >= message["total"])):
            raise invalid
        if last and (done != message["total"] or (not first and size == 0)):
            raise invalid
        if first and request.dma_length > LONGEST:
            raise invalid
        if first and not self._range(qp, request, "write"):
            raise denied
        immediate = op in (Opcode.WRITE_ONLY_IMM, Opcode.WRITE_LAST_IMM)
        if immediate and (qp.ring is None or qp.records - qp.head >= 1 << qp.ring_bits):
            qp.silent = True
            return [self._reply(qp, request, SyndromeKind.RNR << 5 | qp.rnr_timer, qp.expected)]
        self._store(qp, message["va"] + message["done"], message["rkey"], request.payload)
        message["done"] = done
        qp.message = None if last else message
        if immediate:
            self._record(qp, request.imm, message["total"])
        steps = self._skip(qp, request.psn, 1)
        qp.expected = (qp.expected + steps) % WRAP
        qp.messages += last + steps - 1
        qp.silent = False
        qp.since += 1
        if request.ackreq or steps > 1 or qp.since == ACK_INTERVAL:
            qp.since = 0
            return [self._ack(qp, request)]
        return []

    # -- Checks, memory, replies.

    @staticmethod
    def _skip(qp, psn, steps):
        """PSNs from ``psn`` to the next missing one, of which ``steps`` are the request's own."""
        while (psn + steps) % WRAP in qp.remembered:
            qp.remembered.remove((psn + steps) % WRAP)
            steps += 1
        return steps

    @staticmethod
    def _is_write(request):
        return Opcode.WRITE_FIRST <= request.opcode <= Opcode.WRITE_ONLY_IMM

    def _region(self, rkey):
        region = self.regions.get(rkey >> 8)
        return region if region and region.valid and region.key == rkey & 0xFF else None

    def _range(self, qp, request, right):
        if request.dma_length == 0:
            return True
        if request.dma_length > LONGEST:
            return False
        region = self._region(request.rkey)
        return bool(
            region and region.domain == qp.domain and getattr(qp, right)
            and (region.readable if right == "read" else region.writable)
            and region.va <= request.va and request.va + request.dma_length <= region.va + region.length)

    def _store(self, qp, va, rkey, payload):
        if payload:
            region = self._region(rkey)
            self.memory.update(enumerate(payload, region.address + va - region.va))

    def _record(self, qp, imm, total):
        at = qp.ring + 16 * (qp.records % (1 << qp.ring_bits))
        phase = 1 - (qp.records >> qp.ring_bits) % 2
        value = imm | total << 32 | qp.qpn << 64 | phase << 127
        self.memory.update(enumerate(value.to_bytes(16, "little"), at))
        qp.records += 1

    def _read(self, qp, request, messages):
        total = request.dma_length
        packets = max(1, -(-total // qp.mtu))
        replies = []
        for number in range(packets):
            size = min(qp.mtu, total - number * qp.mtu)
            payload = b""
            if size:
                region = self._region(request.rkey)
                first = region.address + request.va - region.va + number * qp.mtu
                payload = bytes(self.memory[at] for at in range(first, first + size))
            opcode = (Opcode.READ_ONLY if packets == 1 else Opcode.READ_FIRST if number == 0
                      else Opcode.READ_LAST if number == packets - 1 else Opcode.READ_MIDDLE)
            middle = opcode == Opcode.READ_MIDDLE
            replies.append(Reply(request.qp, opcode, (request.psn + number) % WRAP, 0 if middle else ACK,
                                 0 if middle else messages % WRAP, payload))
        return replies

    def _reply(self, qp, request, syndrome, psn, msn=None):
        return Reply(request.qp, Opcode.ACKNOWLEDGE, psn % WRAP, syndrome,
                     (qp.messages if msn is None else msn) % WRAP, b"")

    def _ack(self, qp, request):
        return self._reply(qp, request, ACK, qp.expected - 1)

    def _nak(self, qp, request, code, msn=None):
        return self._reply(qp, request, SyndromeKind.NAK << 5 | code, qp.expected, msn)
