# SPDX-License-Identifier: Apache-2.0
"""Rules across TLPs: tags of the card's requests, and completions of the requests that the card receives.

:class:`RequesterRules` sees RQ and RC, :class:`CompleterRules` CQ and CC; both see packets in the order of the pins.
"""

from collections.abc import Callable
from dataclasses import dataclass

from hw.pcie.tlp import CompleterCompletion, RequesterCompletion
from sim.pcie.requests import Request, check
from sim.pcie.stream import Packet, Violation, fields_of

__all__ = ["CompleterRules", "Limits", "RequesterRules"]

_RC, _CC = fields_of(RequesterCompletion), fields_of(CompleterCompletion)
_SUCCESSFUL, _UNSUPPORTED, _ABORT = 0, 1, 4
RCB = 128
"""Read completion boundary of an endpoint (2.3.1.1)."""


@dataclass
class Limits:
    """Limits of the configuration.

    Attributes
    ----------
    max_payload, max_read : int
        MPS and MRRS in bytes.
    tags : int
        32, or 256 with extended tags.
    bus_master : bool
        Whether requests may be sent.
    """

    max_payload: int = 128
    max_read: int = 512
    tags: int = 32
    bus_master: bool = True


class RequesterRules:
    """Requests of the card.

    Attributes
    ----------
    in_flight : dict
        Tag -> read that has not completed.
    reads, writes : int
        Requests seen.
    """

    def __init__(self) -> None:
        self.in_flight: dict[int, Request] = {}
        self.reads = self.writes = 0

    def request(self, packet: Packet, limits: Limits) -> Request:
        """A packet on RQ at its end."""
        request = Request.decode(packet, "rq")

        def need(condition: bool, rule: str) -> None:
            if not condition:
                raise Violation(f"RQ, {request}: {rule}")

        need(not packet.discontinue, "the adapter never discontinues a packet")
        check(request, max_payload=limits.max_payload, max_read=limits.max_read)
        need(limits.bus_master, "no request may be sent while bus mastering is disabled (7.5.1.1.3)")
        if request.is_read:
            need(request.tag < limits.tags, f"the tag must be below {limits.tags} (2.2.6.2)")
            need(request.tag not in self.in_flight,
                 f"the tag is in use by the {self.in_flight.get(request.tag)} (2.2.6.2)")
            self.in_flight[request.tag] = request
            self.reads += 1
        else:
            self.writes += 1
        return request

    def completion(self, packet: Packet) -> None:
        """A packet on RC, at its descriptor: its tag is free if it completes the request."""
        raw = packet.descriptor(3)
        fields = {name: raw >> offset & mask for name, (offset, mask) in _RC.items()}
        if fields["request_completed"]:
            self.in_flight.pop(fields["tag"], None)

    def reset(self) -> None:
        """All requests ended by a reset."""
        self.in_flight.clear()

    def finish(self) -> None:
        """The end of a test: nothing is in flight."""
        for request in self.in_flight.values():
            raise Violation(f"RQ, {request}: the request has not completed at the end")


@dataclass
class _Pending:
    request: Request
    sent: int = 0

    @property
    def key(self) -> tuple[int, int]:
        return self.request.fields["requester_id"], self.request.tag


class CompleterRules:
    """Completions of the card.

    Attributes
    ----------
    completions : int
        Packets seen on CC.
    """

    def __init__(self) -> None:
        self._pending: dict[tuple[int, int], _Pending] = {}
        self.completions = 0

    @property
    def outstanding(self) -> int:
        """Non-posted requests that have not completed."""
        return len(self._pending)

    def request(self, packet: Packet) -> Request:
        """A packet on CQ at its end."""
        request = Request.decode(packet, "cq")
        if not request.is_write and request.kind < 12:
            pending = _Pending(request)
            if pending.key in self._pending:
                raise Violation(f"CQ, {request}: the requester uses a tag that is in flight")
            self._pending[pending.key] = pending
        return request

    def completion(self, packet: Packet, limits: Limits) -> None:
        """A packet on CC at its end."""
        self.completions += 1
        raw = packet.descriptor(3)
        fields = {name: raw >> offset & mask for name, (offset, mask) in _CC.items()}
        requester = fields["requester_id"]
        title = (f"completion with tag {fields['tag']} for requester {requester >> 8:02x}:{requester >> 3 & 31:02x}."
                 f"{requester & 7}, status {fields['status']}, {fields['dwords']} DW, byte count "
                 f"{fields['byte_count']}, lower address {fields['lower_address']:#x}")

        def need(condition: bool, rule: str) -> None:
            if not condition:
                raise Violation(f"CC, {title}: {rule}")

        need(not packet.discontinue, "the adapter never discontinues a packet")
        for name in fields:
            if name.startswith("_reserved") or name in (
                    "address_type", "locked", "poisoned", "completer_bus", "completer_id_enable", "force_ecrc"):
                need(not fields[name], f"the field {name} must be 0, not {fields[name]}")
        pending = self._pending.get((requester, fields["tag"]))
        if pending is None:
            raise Violation(f"CC, {title}: no request with this requester and tag is in flight (2.3.2)")
        request = pending.request
        for name in ("traffic_class", "attributes"):
            need(fields[name] == request.fields[name],
                 f"the field {name} must be as in the request, {request.fields[name]}, not {fields[name]} (2.2.9)")
        function = request.fields["target_function"]
        need(fields["completer_function"] == function,
             f"the completer's function must be the request's target, {function}, not {fields['completer_function']}")
        payload = len(packet.words) - 3
        need(fields["status"] in (_SUCCESSFUL, _UNSUPPORTED, _ABORT),
             "the status must be 0, 1 or 4 for a memory or I/O request (2.2.9)")
        if fields["status"] == _SUCCESSFUL:
            need(fields["dwords"] == payload, f"the payload must have as many DW as the length says, not {payload}")
        else:
            need(payload == 5, "an unsuccessful completion must be followed by byte enables and descriptor of its "
                 f"request, 5 DW (PG213), not {payload}")
            need(packet.words[3] & 0xFF == request.first_be | request.last_be << 4,
                 "the byte enables behind an unsuccessful completion must be those of its request (PG213)")
            need(sum(word << 32 * number for number, word in enumerate(packet.words[4:])) == request.descriptor,
                 "the descriptor behind an unsuccessful completion must be that of its request (PG213)")
        if request.is_read:
            self._read(pending, fields, limits, need)
        else:
            need(not fields["dwords"] or request.kind == 2, "only a read completes with data")
            need(fields["byte_count"] == 4, "the byte count must be 4 without a memory read (2.2.9)")
            need(fields["lower_address"] == 0, "the lower address must be 0 without a memory read (2.2.9)")
            del self._pending[pending.key]

    def _read(self, pending: _Pending, fields: dict[str, int], limits: Limits,
              need: Callable[[bool, str], None]) -> None:
        request = pending.request
        remaining, address = request.byte_count - pending.sent, request.start + pending.sent
        need(fields["byte_count"] == remaining, f"the byte count must be the remaining {remaining} bytes (2.2.9)")
        if fields["status"] != _SUCCESSFUL:
            need(not fields["dwords"], "an unsuccessful completion must have no data (2.2.9)")
            need(fields["lower_address"] in (0, address & 127),
                 f"the lower address must be 0 or {address & 127:#x} in an unsuccessful completion")
            del self._pending[pending.key]
            return
        need(fields["dwords"] > 0, "a successful completion of a read must have data (2.2.9)")
        need(fields["lower_address"] == address & 127,
             f"the lower address must be {address & 127:#x}, from the first byte at {address:#x} (2.2.9)")
        need(4 * fields["dwords"] <= limits.max_payload,
             f"a payload must not exceed the maximum payload size of {limits.max_payload} bytes (2.2.2)")
        size = 4 * fields["dwords"] - address % 4
        if size < remaining:
            need((address + size) % RCB == 0,
                 f"a completion must end at the request's end or at a multiple of {RCB} bytes (2.3.1.1), "
                 f"not at {address + size:#x}")
            pending.sent += size
        else:
            need(size - remaining < 4, f"the length must not exceed the remaining {remaining} bytes")
            del self._pending[pending.key]

    def reset(self) -> None:
        """All requests ended by a reset."""
        self._pending.clear()

    def finish(self) -> None:
        """The end of a test: every request has completed."""
        for pending in self._pending.values():
            raise Violation(f"CQ, {pending.request}: the request has not completed at the end")

