# SPDX-License-Identifier: Apache-2.0
"""Memory requests on RQ and CQ, and the rules that hold for each one alone (PCI Express Base 2.2.5, 2.2.7)."""

from collections.abc import Iterator
from dataclasses import dataclass

from hw.pcie.tlp import CompleterRequest, RequesterRequest
from sim.pcie.completer import enabled_bytes
from sim.pcie.stream import Packet, Violation, fields_of

__all__ = ["Request", "broken_rules"]

_FIELDS = {"rq": fields_of(RequesterRequest), "cq": fields_of(CompleterRequest)}
PAGE_BYTES = 4096
_KINDS = {0: "memory read", 1: "memory write"}
_LEADING, _TRAILING = (0b1111, 0b1110, 0b1100, 0b1000), (0b1111, 0b0111, 0b0011, 0b0001)


@dataclass(frozen=True)
class Request:
    """A request, from its packet.

    Attributes
    ----------
    address : int
        Of the first double word.
    fields : dict
        All fields of the descriptor.
    payload : tuple of int
        Double words behind the descriptor.
    descriptor : int
        All of it.
    """

    address: int
    dwords: int
    kind: int
    tag: int
    first_be: int
    last_be: int
    traffic_class: int
    attributes: int
    fields: dict[str, int]
    payload: tuple[int, ...]
    descriptor: int

    @classmethod
    def decode(cls, packet: Packet, interface: str) -> "Request":
        """A packet of ``rq`` or ``cq``."""
        raw = packet.descriptor(4)
        fields = {name: raw >> offset & mask for name, (offset, mask) in _FIELDS[interface].items()}
        return cls(fields["address"] << 2, fields["dwords"], fields["request_type"], fields["tag"], packet.first_be,
                   packet.last_be, fields["traffic_class"], fields["attributes"], fields, tuple(packet.words[4:]), raw)

    @property
    def is_read(self) -> bool:
        return self.kind == 0

    @property
    def is_write(self) -> bool:
        return self.kind == 1

    @property
    def start(self) -> int:
        """Address of the first enabled byte."""
        return self.address + enabled_bytes(self.first_be, self.last_be, self.dwords)[0]

    @property
    def byte_count(self) -> int:
        """Bytes from the first to the last enabled one; 1 if none is (table 2-39)."""
        return enabled_bytes(self.first_be, self.last_be, self.dwords)[1]

    def __str__(self) -> str:
        kind = _KINDS.get(self.kind, f"request of type {self.kind}")
        tag = "" if self.is_write else f", tag {self.tag}"
        return (f"{kind} of {self.dwords} DW at {self.address:#x}, byte enables {self.first_be:#x} and "
                f"{self.last_be:#x}{tag}")


def _lengths(request: Request, max_payload: int, max_read: int) -> Iterator[str]:
    dwords, payload = request.dwords, len(request.payload)
    if not 1 <= dwords <= 1024:
        yield f"the length must be from 1 to 1024 DW, not {dwords}"
    if request.is_read and payload:
        yield f"a read must have no payload, not {payload} DW"
    if request.is_write and payload != dwords:
        yield f"the payload must have as many DW as the length says, not {payload}"
    if request.is_write and 4 * dwords > max_payload:
        yield f"a payload must not exceed the maximum payload size of {max_payload} bytes (2.2.2)"
    if request.is_read and 4 * dwords > max_read:
        yield f"a read must not exceed the maximum read request size of {max_read} bytes (2.2.7)"
    if request.address % PAGE_BYTES + 4 * dwords > PAGE_BYTES:
        yield "a request must not cross a 4 KiB boundary (2.2.7)"


def _byte_enables(request: Request) -> Iterator[str]:
    first, last = request.first_be, request.last_be
    if request.dwords == 1 and last:
        yield "the last byte enables must be 0 with a length of 1 DW (2.2.5)"
    if request.dwords > 1:
        if not first:
            yield "the first byte enables must not be 0 with a length above 1 DW (2.2.5)"
        if not last:
            yield "the last byte enables must not be 0 with a length above 1 DW (2.2.5)"
        aligned = request.dwords == 2 and request.address % 8 == 0
        if first and last and not aligned and (first not in _LEADING or last not in _TRAILING):
            yield "byte enables must be contiguous with 3 DW or more, and with 2 DW across a QW boundary (2.2.5)"


def _reserved(request: Request) -> Iterator[str]:
    for name in ("completer_id", "requester_function", "requester_bus", "requester_id_enable", "force_ecrc",
                 "address_type", "poisoned", "traffic_class"):
        if value := request.fields[name]:
            yield f"the field {name} must be 0 in the adapter's requests, not {value}"


def broken_rules(request: Request, *, max_payload: int, max_read: int) -> Iterator[str]:
    """A sentence for each rule that a request on RQ breaks by itself."""
    if request.kind not in _KINDS:
        yield "the adapter sends memory reads and writes only"
        return
    yield from _lengths(request, max_payload, max_read)
    yield from _byte_enables(request)
    yield from _reserved(request)


def check(request: Request, *, max_payload: int, max_read: int) -> None:
    """Raise :class:`Violation` at the first rule that a request on RQ breaks."""
    for rule in broken_rules(request, max_payload=max_payload, max_read=max_read):
        raise Violation(f"RQ, {request}: {rule}")
