# SPDX-License-Identifier: Apache-2.0
"""The least time of a copy through the card: link, RQ, RC, and tags over latency."""

from dataclasses import dataclass

__all__ = ["CopyBound", "copy_bound"]

CLOCK_NS = 4.0
"""250 MHz."""

WRITE_OVERHEAD, READ_OVERHEAD, COMPLETION_OVERHEAD = 24, 24, 20
"""Bytes of a TLP on the link beside its payload: header, framing, sequence number and LCRC. Headers have four DW in
requests to 64-bit addresses, and three in completions."""

RQ_DESCRIPTOR, RC_DESCRIPTOR = 4, 3
"""Double words in front of the payload."""


@dataclass(frozen=True)
class CopyBound:
    """Cycles per copy that each resource takes; the largest is the bound."""

    upstream: float
    downstream: float
    rq: float
    rc: float
    tags: float

    @property
    def cycles(self) -> float:
        """Cycles per copy."""
        return max(self.upstream, self.downstream, self.rq, self.rc, self.tags)

    @property
    def limit(self) -> str:
        """Name of the resource that decides."""
        return max(("upstream", "downstream", "rq", "rc", "tags"), key=lambda name: float(getattr(self, name)))


def copy_bound(size: int, *, data_width: int, link_bytes: float, max_payload: int, max_read: int, tags: int,
               latency: float, words: int = 0) -> CopyBound:
    """Bound of aligned copies of ``size`` bytes.

    Parameters
    ----------
    data_width : int
        Bits of RQ and RC; with 512, a TLP starts at either half of a beat, otherwise with a beat.
    link_bytes : float
        Bytes per cycle in each direction.
    max_payload, max_read : int
        Largest write, and completion; largest read request.
    tags : int
        Reads in flight.
    latency : float
        Cycles from a read request on RQ to its completion on RC.
    words : int
        Completion words of 8 bytes that are written for each copy.
    """
    unit = 8 if data_width == 512 else data_width // 32
    beats = unit / (data_width // 32)

    def units(dwords: int) -> float:
        return -(-dwords // unit) * beats

    def pieces(most: int) -> list[int]:
        return [min(most, size - start) for start in range(0, size, most)]

    reads, payloads = pieces(max_read), pieces(max_payload)
    completions = [min(max_payload, read - start) for read in reads for start in range(0, read, max_payload)]
    return CopyBound(
        upstream=(size + WRITE_OVERHEAD * len(payloads) + READ_OVERHEAD * len(reads)
                  + words * (8 + WRITE_OVERHEAD)) / link_bytes,
        downstream=(size + COMPLETION_OVERHEAD * len(completions)) / link_bytes,
        rq=sum(units(RQ_DESCRIPTOR + -(-payload // 4)) for payload in payloads)
        + len(reads) * units(RQ_DESCRIPTOR) + words * units(RQ_DESCRIPTOR + 2),
        rc=sum(units(RC_DESCRIPTOR + -(-completion // 4)) for completion in completions),
        tags=len(reads) * latency / tags)
