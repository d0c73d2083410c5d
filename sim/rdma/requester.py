# SPDX-License-Identifier: Apache-2.0
"""The requester's half of a software queue pair: WRITEs and READs, repeated by go-back-N until they complete.

Packets have consecutive numbers that never wrap; the PSN of packet ``n`` is the first PSN plus ``n``, modulo 2 ** 24.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from hw.rdma.protocol import RNR_TIMER_US, Nak, Opcode, SyndromeKind, has_aeth
from sim.rdma.connection import Connection, difference
from sim.rdma.packets import MASK24, Packet

__all__ = ["Failure", "Request", "Requester"]


class Failure(Enum):
    """Why a queue pair failed, as a sentence."""

    RETRIES = "The peer did not acknowledge after all retransmissions."
    RNR_RETRIES = "The peer was not ready after all retries."
    REMOTE_ACCESS = "The peer refused a key, a range or a right."
    REMOTE_INVALID = "The peer refused a request as invalid."
    REMOTE_OPERATION = "The peer's memory failed."
    BAD_RESPONSE = "A response violated the protocol."


_FAILURES = {Nak.INVALID_REQUEST: Failure.REMOTE_INVALID, Nak.REMOTE_ACCESS: Failure.REMOTE_ACCESS,
             Nak.REMOTE_OPERATION: Failure.REMOTE_OPERATION}


@dataclass(kw_only=True, eq=False)
class Request:
    """A WRITE of ``data``, or a READ if ``data`` is None, with packets ``first`` to ``first + count - 1``.

    ``done``: completed, with ``failure`` if that is not None. ``result``: bytes that a READ has received.
    """

    va: int
    rkey: int
    length: int
    data: bytes | None
    imm: int | None
    first: int
    count: int
    done: bool = False
    failure: Failure | None = None
    received: int = 0
    result: bytearray

    @property
    def end(self) -> int:
        return self.first + self.count

    @property
    def is_read(self) -> bool:
        return self.data is None


class Requester:
    """Sends requests in order, and repeats what is not acknowledged.

    Parameters
    ----------
    connection : Connection

    Attributes
    ----------
    failure : Failure or None
        Why the queue pair failed; all its requests have failed, too.
    retransmissions : int
        Times that it went back to an earlier packet.
    """

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.failure: Failure | None = None
        self.retransmissions = 0
        self._requests: deque[Request] = deque()
        self._oldest = self._next = self._sent = self._end = 0
        self._retries, self._rnr_retries = connection.retries, connection.rnr_retries
        self._deadline: float | None = None
        self._held_until = 0.0                  # after an RNR NAK
        self._repeated: int | None = None       # packet for which a gap in responses was repeated

    def write(self, va: int, rkey: int, data: bytes, imm: int | None = None) -> Request:
        """Post a WRITE."""
        return self._post(va, rkey, len(data), bytes(data), imm)

    def read(self, va: int, rkey: int, length: int) -> Request:
        """Post a READ."""
        return self._post(va, rkey, length, None, None)

    @property
    def idle(self) -> bool:
        """No request remains."""
        return not self._requests

    @property
    def deadline(self) -> float | None:
        """When :meth:`transmit` has something to do at the latest, or None."""
        if self._held_until and self._next < self._end:
            return self._held_until
        return self._deadline

    def _post(self, va: int, rkey: int, length: int, data: bytes | None, imm: int | None) -> Request:
        request = Request(va=va, rkey=rkey, length=length, data=data, imm=imm, first=self._end,
                          count=self.connection.packets(length), result=bytearray())
        if self.failure is not None:
            request.done, request.failure = True, self.failure
            return request
        self._end = request.end
        self._requests.append(request)
        return request

    def transmit(self, now: float, send: Callable[[Packet], None], limit: int) -> None:
        """Send what may be sent now, ``limit`` packets at most; retransmit after a time-out."""
        if self.failure is not None:
            return
        if self._deadline is not None and now >= self._deadline:
            self._go_back(now, count=True)
        if now < self._held_until:
            return
        self._held_until = 0.0
        for request in self._requests:
            if request.end <= self._next:
                continue
            while limit and self._next < request.end and self._next - self._oldest < self.connection.window:
                if request.is_read and self._reads_in_flight() >= self.connection.max_reads:
                    return
                send(self._packet(request))
                limit -= 1
                self._sent = max(self._sent, self._next)
                if self._deadline is None:
                    self._deadline = now + self.connection.timeout
            if self._next < request.end:
                return

    def _reads_in_flight(self) -> int:
        return sum(1 for request in self._requests if request.is_read and request.first < self._next)

    def _packet(self, request: Request) -> Packet:
        """The packet number ``_next``, which belongs to ``request``; advances ``_next``."""
        connection, number = self.connection, self._next - request.first
        psn, at = connection.send_psn + self._next, number * connection.mtu
        if request.data is None:
            made = connection.packet(Opcode.READ_REQUEST, psn)
            made.va, made.rkey, made.dma_length = request.va + at, request.rkey, request.length - at
            self._next = request.end
            made.ackreq = 1
            return made
        first, last = number == 0, number == request.count - 1
        opcode = (Opcode.WRITE_ONLY if first and last else Opcode.WRITE_FIRST if first
                  else Opcode.WRITE_LAST if last else Opcode.WRITE_MIDDLE)
        if last and request.imm is not None:
            opcode = Opcode.WRITE_ONLY_IMM if first else Opcode.WRITE_LAST_IMM
        made = connection.packet(opcode, psn)
        if first:
            made.va, made.rkey, made.dma_length = request.va, request.rkey, request.length
        if last and request.imm is not None:
            made.imm = request.imm
        made.payload = request.data[at:at + connection.mtu]
        self._next += 1
        full = self._next - self._oldest == connection.window
        made.ackreq = int(last or full or self._next % connection.ack_interval == 0)
        return made

    def receive(self, packet: Packet, now: float) -> None:
        """Take an acknowledgement or a packet of a READ response."""
        if self.failure is not None:
            return
        oldest_psn = (self.connection.send_psn + self._oldest) & MASK24
        number = self._oldest + difference(packet.psn, oldest_psn)
        if not self._oldest <= number < self._sent:
            return      # a duplicate
        if packet.opcode != Opcode.ACKNOWLEDGE:
            return self._receive_read(packet, number, now)
        kind, code = packet.syndrome >> 5 & 3, packet.syndrome & 31
        if kind == SyndromeKind.ACK:
            return self._acknowledged(number + 1, now)
        if kind == SyndromeKind.RNR:
            self._acknowledged(number, now)
            if self._rnr_retries == 0:
                return self._fail(Failure.RNR_RETRIES)
            self._rnr_retries -= self.connection.rnr_retries < 7
            self._held_until = now + RNR_TIMER_US[code] * self.connection.rnr_unit
            return self._go_back(now, count=False)
        if kind == SyndromeKind.NAK and code == Nak.SEQUENCE:
            self._acknowledged(number, now)
            return self._go_back(now, count=True)
        failure = _FAILURES.get(Nak(code)) if kind == SyndromeKind.NAK and code in set(Nak) else None
        self._acknowledged(number, now)
        return self._fail(failure or Failure.BAD_RESPONSE)

    def _receive_read(self, packet: Packet, number: int, now: float) -> None:
        if has_aeth(packet.opcode) and packet.syndrome >> 5:
            return self._fail(Failure.BAD_RESPONSE)
        self._acknowledged(number, now)
        request = self._requests[0] if self._requests else None
        if number != self._oldest or request is None:
            return      # a gap before it, from which it went back
        size = min(self.connection.mtu, request.length - request.received * self.connection.mtu)
        last = number == request.end - 1
        if not request.is_read or len(packet.payload) != size or \
                last != (packet.opcode in (Opcode.READ_LAST, Opcode.READ_ONLY)):
            return self._fail(Failure.BAD_RESPONSE)
        request.result += packet.payload
        request.received += 1
        self._advance(number + 1, now)

    def _acknowledged(self, end: int, now: float) -> None:
        """All packets before ``end`` have been executed; a READ among them whose response lacks packets is repeated."""
        for request in self._requests:
            if request.first >= end:
                break
            if request.is_read and request.received < request.count:
                missing = request.first + request.received
                if missing >= end:
                    break
                self._advance(missing, now)
                if self._repeated != missing:
                    self._repeated = missing
                    self._go_back(now, count=True)
                return
        self._advance(end, now)

    def _advance(self, end: int, now: float) -> None:
        """Retire packets before ``end``."""
        if end <= self._oldest:
            return
        self._oldest = end
        self._next = max(self._next, end)
        self._retries, self._rnr_retries = self.connection.retries, self.connection.rnr_retries
        self._repeated = None
        while self._requests and self._requests[0].end <= end:
            self._requests.popleft().done = True
        self._deadline = now + self.connection.timeout if self._oldest < self._sent else None

    def _go_back(self, now: float, *, count: bool) -> None:
        if self._next == self._oldest:
            self._deadline = None
            return
        if count:
            if self._retries == 0:
                return self._fail(Failure.RETRIES)
            self._retries -= 1
        self.retransmissions += 1
        self._next = self._oldest
        self._deadline = None

    def _fail(self, failure: Failure) -> None:
        self.failure = failure
        self._deadline = None
        while self._requests:
            request = self._requests.popleft()
            request.done, request.failure = True, failure
