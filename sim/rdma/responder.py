# SPDX-License-Identifier: Apache-2.0
"""The responder's half of a software queue pair: executes WRITEs and READs in the order of their PSN.

Responses follow docs/rdma.md, without selective repeat (IBTA 1.6, 9.7.4 and 9.9.3).
"""

from collections.abc import Callable
from dataclasses import dataclass

from hw.rdma.protocol import ACK, Nak, Opcode, SyndromeKind, has_imm
from sim.rdma.connection import Connection, Region, Regions, difference
from sim.rdma.packets import MASK24, Packet

__all__ = ["REQUESTS", "Record", "Responder"]

REQUESTS = frozenset(range(Opcode.READ_REQUEST + 1))
"""Opcodes that go to a responder."""

_STARTS = {Opcode.WRITE_FIRST, Opcode.WRITE_ONLY, Opcode.WRITE_ONLY_IMM}
_CONTINUES = {Opcode.WRITE_MIDDLE, Opcode.WRITE_LAST, Opcode.WRITE_LAST_IMM}
_MORE = {Opcode.WRITE_FIRST, Opcode.WRITE_MIDDLE}


@dataclass(frozen=True)
class Record:
    """A completed WRITE with immediate data: the data and the bytes of the message."""

    imm: int
    length: int


class Responder:
    """Executes requests on byte memory.

    Parameters
    ----------
    connection : Connection
    regions : mapping
        Memory by R_Key.
    send : callable
        Receives each packet to the peer.

    Attributes
    ----------
    records : list of Record
        WRITEs with immediate data that have completed; ``record_limit``: most of them, or None. Beyond it the response
        is an RNR NAK.
    failed : Nak or None
        Why no further packet is executed.
    duplicates, gaps : int
        Packets received again, and NAKs of sequence error that were sent.
    """

    def __init__(self, connection: Connection, regions: Regions, send: Callable[[Packet], None]) -> None:
        self.connection, self.regions, self.send = connection, regions, send
        self.expected, self.messages = connection.receive_psn, 0
        self.records: list[Record] = []
        self.record_limit: int | None = None
        self.failed: Nak | None = None
        self.duplicates = self.gaps = 0
        self._gap_reported = False
        # The message in progress: memory, position of the next byte, bytes that remain, and all of them.
        self._region: Region | None = None
        self._at = self._remaining = self._length = 0
        self._inside = False

    def receive(self, packet: Packet) -> None:
        """Execute a request, or respond why not."""
        if self.failed is not None:
            return
        ahead = difference(packet.psn, self.expected)
        if ahead > 0:
            if not self._gap_reported:
                self._gap_reported = True
                self.gaps += 1
                self._acknowledge(self.expected, SyndromeKind.NAK << 5 | Nak.SEQUENCE)
        elif ahead < 0:
            self.duplicates += 1
            self._repeat(packet)
        else:
            self._gap_reported = False
            self._execute(packet)

    def _repeat(self, packet: Packet) -> None:
        if packet.opcode == Opcode.READ_REQUEST:
            region = self._region_of(packet, write=False)
            count = self.connection.packets(packet.dma_length)
            if region is None or difference(packet.psn + count, self.expected) > 0:
                self._fail(Nak.REMOTE_ACCESS if region is None else Nak.INVALID_REQUEST, packet.psn)
            else:
                self._read(region, packet)
        else:
            self._acknowledge(self.expected - 1, ACK)

    def _execute(self, packet: Packet) -> None:
        opcode = packet.opcode
        if opcode == Opcode.READ_REQUEST:
            if self._inside:
                return self._fail(Nak.INVALID_REQUEST, packet.psn)
            region = self._region_of(packet, write=False)
            if region is None:
                return self._fail(Nak.REMOTE_ACCESS, packet.psn)
            self.expected = (self.expected + self.connection.packets(packet.dma_length)) & MASK24
            self.messages = (self.messages + 1) & MASK24
            return self._read(region, packet)
        wanted = _CONTINUES if self._inside else _STARTS
        if opcode not in wanted:
            return self._fail(Nak.INVALID_REQUEST, packet.psn)
        begins = opcode in _STARTS
        remaining = packet.dma_length if begins else self._remaining
        size, mtu = len(packet.payload), self.connection.mtu
        if not (size == mtu and remaining > mtu if opcode in _MORE else size == remaining <= mtu):
            return self._fail(Nak.INVALID_REQUEST, packet.psn)
        region, at = self._region, self._at
        if begins:
            region = self._region_of(packet, write=True)
            if region is None:
                return self._fail(Nak.REMOTE_ACCESS, packet.psn)
            at = packet.va - region.va
        if has_imm(opcode) and self.record_limit is not None and len(self.records) >= self.record_limit:
            return self._acknowledge(packet.psn, SyndromeKind.RNR << 5 | self.connection.rnr_timer)
        self._region, self._at, self._remaining = region, at, remaining
        if begins:
            self._length = packet.dma_length
        self._store(packet)

    def _store(self, packet: Packet) -> None:
        size = len(packet.payload)
        if size:
            assert self._region is not None
            self._region.memory[self._at:self._at + size] = packet.payload
        self._at += size
        self._remaining -= size
        self._inside = packet.opcode in _MORE
        self.expected = (self.expected + 1) & MASK24
        if not self._inside:
            self.messages = (self.messages + 1) & MASK24
            if has_imm(packet.opcode):
                self.records.append(Record(packet.imm, self._length))
        if packet.ackreq:
            self._acknowledge(packet.psn, ACK)

    def _region_of(self, packet: Packet, *, write: bool) -> Region | None:
        """The region that the RETH names, if the request may use it; any region will do for 0 bytes."""
        region = self.regions.get(packet.rkey)
        if packet.dma_length == 0:
            return region or Region(rkey=packet.rkey, va=packet.va, memory=bytearray())
        if region is None or not (region.writable if write else region.readable):
            return None
        begin = packet.va - region.va
        return region if 0 <= begin and begin + packet.dma_length <= len(region.memory) else None

    def _read(self, region: Region, packet: Packet) -> None:
        mtu, length, begin = self.connection.mtu, packet.dma_length, packet.va - region.va
        count = self.connection.packets(length)
        for number in range(count):
            first, last = number == 0, number == count - 1
            opcode = (Opcode.READ_ONLY if first and last else Opcode.READ_FIRST if first
                      else Opcode.READ_LAST if last else Opcode.READ_MIDDLE)
            made = self.connection.packet(opcode, packet.psn + number)
            made.payload = bytes(region.memory[begin + number * mtu:begin + min(length, (number + 1) * mtu)])
            if first or last:
                made.syndrome, made.msn = ACK, self.messages
            self.send(made)

    def _fail(self, code: Nak, psn: int) -> None:
        self.failed = code
        self._acknowledge(psn, SyndromeKind.NAK << 5 | code)

    def _acknowledge(self, psn: int, syndrome: int) -> None:
        made = self.connection.packet(Opcode.ACKNOWLEDGE, psn)
        made.syndrome, made.msn = syndrome, self.messages
        self.send(made)
