# SPDX-License-Identifier: Apache-2.0
"""A root complex for the read path alone: splits completions at legal boundaries, and injects faults.

:func:`plan` makes all completions of a request when it is accepted, and from their faults the expected results.
"""

import hashlib
from collections import Counter
from dataclasses import dataclass, field

from amaranth.hdl import Shape

from hw.axi import Resp
from hw.pcie.tlp import ErrorCode

__all__ = ["COMPLETION_FAULTS", "TIME_FAULTS", "Completion", "Packer", "Request", "memory_beat", "plan", "unexpected"]

BOUNDARY = 64
"""Read completion boundary (RCB)."""

COMPLETION_FAULTS = (
    "unsupported", "aborted", "retry", "poisoned", "address", "count", "long", "early", "open", "truncated", "ragged",
    "empty", "reset", "block_timeout", "mismatch", "short")
"""One completion of the request is wrong."""

TIME_FAULTS = ("lost", "late", "denied")
"""The completions from one on are lost, or arrive when the request has timed out. Or the last one is not accepted by
the hard block as the request's, which stays in flight there."""


class Packer:
    """Packs and unpacks a payload by its layout."""

    def __init__(self, layout):
        self.fields = {name: (field.offset, Shape.cast(field.shape).width) for name, field in layout}

    def pack(self, **values):
        word = 0
        for name, value in values.items():
            offset, width = self.fields[name]
            value = int(getattr(value, "value", value))
            assert 0 <= value < 1 << width, f"{name} of {value} does not fit {width} bits"
            word |= value << offset
        return word

    def unpack(self, word):
        return {name: word >> offset & ((1 << width) - 1) for name, (offset, width) in self.fields.items()}


def memory_beat(address, beat_bytes):
    """Contents of memory at a beat."""
    text = hashlib.blake2b((address // 64).to_bytes(8, "little"), digest_size=64).digest()
    return int.from_bytes(text[address % 64:address % 64 + beat_bytes], "little")


@dataclass
class Request:
    """A read request in flight: bytes ``start`` to ``end``, none for a flush."""

    tag: int
    start: int
    end: int
    issued: int
    flush: bool = False
    fault: str | None = None
    completions: list["Completion"] = field(default_factory=list)
    outcome: dict[int, Resp] = field(default_factory=dict)
    events: Counter = field(default_factory=Counter)
    busy_until: int | None = None


@dataclass
class Completion:
    """Beats on the port, each a dictionary of its fields."""

    beats: list[dict[str, int]]
    earliest: int
    final: bool = False


def plan(request, rng, *, beat_bytes, fault, timeout, delay, cuts):
    """Fill in the request's completions and expected results; ``cuts`` is their density at the boundary."""
    request.fault = fault
    start, end, now = request.start, request.end, request.issued
    beats = [0] if request.flush else list(range(start - start % beat_bytes, end, beat_bytes))
    request.outcome = dict.fromkeys(beats, Resp.OKAY)
    if request.flush:
        parts = [(start, start + 1)]
    else:
        cuts = [cut for cut in range(start - start % BOUNDARY + BOUNDARY, end, BOUNDARY) if rng.random() < cuts]
        parts = list(zip([start, *cuts], [*cuts, end], strict=True))
    chosen = rng.randrange(len(parts))
    if fault in ("open", "long", "denied"):
        chosen = len(parts) - 1
    if fault in ("early", "ragged") and len(parts) > 1:
        chosen = rng.randrange(len(parts) - 1)
    earliest = now + delay()
    for number, (first, after) in enumerate(parts):
        made = _completion(request, first, after, beat_bytes, rng)
        made.earliest = earliest
        if number == chosen and fault:
            failed = _apply(made, fault, request, rng, beat_bytes)
            bad = _beat(request, after - 1 if fault == "truncated" else first, beat_bytes)
            for beat in beats:
                if beat >= bad:
                    request.outcome[beat] = failed
            request.events[_event(fault)] += 1
        elif number > chosen and fault:
            request.events["unexpected"] += fault != "lost"
        if fault == "late" and number >= chosen:
            made.earliest = now + 2 * timeout + timeout // 4
            request.events["unexpected"] += number == chosen
        request.completions.append(made)
        if made.final:
            break
        earliest += delay() // 2
    if fault == "lost":
        del request.completions[chosen:]
    if fault in ("lost", "denied"):
        request.busy_until = now + 4 * timeout


def _beat(request, address, beat_bytes):
    return 0 if request.flush else address - address % beat_bytes


def _completion(request, first, after, beat_bytes, rng):
    words = (after + 3) // 4 - first // 4
    begin = first - first % beat_bytes
    fields = {"tag": request.tag, "address": first % 4096, "dwords": words, "byte_count": request.end - first,
              "completed": int(after == request.end), "error": ErrorCode.NONE, "status": 0}
    addresses = range(begin, after, beat_bytes)
    made = []
    for address in addresses:
        value = rng.getrandbits(8 * beat_bytes) if request.flush else memory_beat(address, beat_bytes)
        if address < first:
            # Bytes before the first one have no meaning.
            unused = (1 << 8 * (first - address)) - 1
            value = value & ~unused | rng.getrandbits(8 * beat_bytes) & unused
        made.append(fields | {"data": value, "first": int(address == begin), "last": int(address == addresses[-1])})
    return Completion(made, 0, after == request.end)


def _apply(made, fault, request, rng, beat_bytes):
    """Make the completion wrong; returns the response of its beats."""
    beats = made.beats
    only = beats[0]
    words = beat_bytes // 4

    def change(**values):
        for beat in beats:
            beat.update(values)

    def without_data(**values):
        beats[:] = [only | {"dwords": 0, "last": 1, "completed": 1, **values}]
        made.final = True

    match fault:
        case "unsupported":
            without_data(status=1, error=ErrorCode.BAD_STATUS)
            return Resp.DECERR
        case "aborted":
            without_data(status=4, error=ErrorCode.BAD_STATUS)
        case "retry":
            without_data(status=2, error=rng.choice((ErrorCode.NONE, ErrorCode.BAD_STATUS)))
        case "reset":
            without_data(error=ErrorCode.FUNCTION_RESET, address=rng.getrandbits(12), byte_count=rng.getrandbits(12))
        case "block_timeout":
            without_data(error=ErrorCode.TIMEOUT, address=rng.getrandbits(12), byte_count=0, status=rng.randrange(8))
        case "empty":
            without_data()
        case "poisoned":
            change(error=ErrorCode.POISONED)
        case "mismatch":
            change(error=rng.choice((ErrorCode.MISMATCH, ErrorCode.INVALID_ADDRESS, ErrorCode.INVALID_TAG, 10)))
        case "denied":
            change(completed=0,
                   error=rng.choice((ErrorCode.MISMATCH, ErrorCode.INVALID_ADDRESS, ErrorCode.INVALID_TAG)))
            made.final = False
        case "address":
            change(address=only["address"] ^ 1 << rng.randrange(12))
        case "count":
            change(byte_count=only["byte_count"] + rng.choice((1, 4, beat_bytes, 2048)))
        case "long":
            extra = rng.randint(1, 3)
            change(dwords=only["dwords"] + extra * words, last=0, completed=rng.randrange(2))
            beats.extend(beats[-1] | {"first": 0} for _ in range(extra))
            beats[-1]["last"] = 1
        case "short":
            # The completion lacks DW at its end, by its descriptor.
            change(dwords=max(only["dwords"] - 1, 1) if only["dwords"] > 1 else 2)
        case "early":
            change(completed=1 - only["completed"])
            made.final = True
        case "open":
            change(completed=0)
        case "truncated":
            beats[-1]["error"] = ErrorCode.INVALID_LENGTH
        case "ragged":
            change(dwords=only["dwords"] + 1)
    return Resp.SLVERR


def _event(fault):
    return {"retry": "aborted", "lost": "timed_out", "late": "timed_out", "block_timeout": "timed_out"}.get(
        fault, fault if fault in ("unsupported", "aborted", "poisoned") else "malformed")


def unexpected(tag, rng, beat_bytes, beats=None):
    """A completion that no request has."""
    count = beats or rng.randint(1, 3)
    return Completion([
        {"tag": tag, "address": 0, "dwords": count * beat_bytes // 4, "byte_count": count * beat_bytes, "completed": 1,
         "error": ErrorCode.NONE, "status": 0, "data": 0, "first": int(number == 0), "last": int(number == count - 1)}
        for number in range(count)], 0, True)
