# SPDX-License-Identifier: Apache-2.0
"""Send and receive buffers in the memories of endpoints, with guards around them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from hw.common.sizes import PAGE_BYTES
from hw.errors import UserError
from sim.ace.shared_library import ClusterFailed

__all__ = ["BEFORE", "REGIONS", "Buffers", "Location", "Placement"]

_SEND, _RECEIVE = 0, 1

Bytes = npt.NDArray[np.uint8]

REGIONS: dict[int, dict[str, Any]] = {
    _SEND: {"base": 1 << 32, "length": 1 << 32, "writable": False},
    _RECEIVE: {"base": 2 << 32, "length": 1 << 32}}
"""Number -> options of :meth:`AceDriver.define_region`. Collectives in place use only the second."""

_GUARD = np.full(64, 0xA5, np.uint8)
BEFORE = 0x5A
"""Initial value of each byte of a receive buffer."""


class Location(NamedTuple):
    """A byte of a region."""

    region: int
    offset: int

    @property
    def address(self) -> int:
        base: int = REGIONS[self.region]["base"]
        return base + self.offset


@dataclass(frozen=True)
class _Image:
    """The initial contents of memory from an address on."""

    location: Location
    data: Bytes


@dataclass(frozen=True)
class Placement:
    """Addresses of a rank's buffers, and which of the ``written`` bytes from ``dst`` on may change; None: none."""

    src: Location
    dst: Location
    written: int | None
    images: tuple[_Image, ...]


class _Memories(Protocol):
    """The memories of :class:`Endpoints`."""

    def write_memory(self, rank: int, address: int, data: Bytes) -> None: ...

    def read_memory(self, rank: int, address: int, count: int) -> Bytes: ...


class Buffers:
    """Buffers of the collectives in progress.

    Parameters
    ----------
    endpoints : :class:`Endpoints`
    """

    def __init__(self, endpoints: _Memories) -> None:
        self._endpoints = endpoints
        self._ends: dict[tuple[int, int], int] = {}

    def place(self, rank: int, data: Bytes, *, received: int, writes: bool, skews: Sequence[int],
              in_place: Sequence[int] | None) -> Placement:
        """Fill a rank's buffers and return their :class:`Placement`.

        Parameters
        ----------
        data : array of bytes
            Contents of the send buffer.
        received : int
            Bytes of the receive buffer.
        writes : bool
            The rank's receive buffer is written.
        skews : pair of int
            Bytes from a multiple of 4096 to the send and to the receive buffer.
        in_place : pair of int, or None
            Let them overlap: bytes from the start of the longer one to the send and to the receive buffer.
        """
        written = received if writes else None
        before = np.full(received, BEFORE, np.uint8)
        if in_place is None:
            source, target = self._put(rank, _SEND, data, skews[0]), self._put(rank, _RECEIVE, before, skews[1])
            src, dst = (Location(image.location.region, image.location.offset + len(_GUARD))
                        for image in (source, target))
            return Placement(src, dst, written, (source, target))
        if len(before) > len(data):
            before[in_place[0]:in_place[0] + len(data)] = data
            data = before
        image = self._put(rank, _RECEIVE, data, skews[1])
        src, dst = (Location(_RECEIVE, image.location.offset + len(_GUARD) + offset) for offset in in_place)
        return Placement(src, dst, written, (image,))

    def _put(self, rank: int, region: int, data: Bytes, skew: int) -> _Image:
        offset = self._ends.get((rank, region), 0) + PAGE_BYTES + skew - len(_GUARD)
        image = _Image(Location(region, offset), np.concatenate([_GUARD, data, _GUARD]))
        end = offset + len(image.data)
        if end > REGIONS[region]["length"]:
            raise UserError(f"The buffers of rank {rank} do not fit a region of {REGIONS[region]['length']:,} bytes.")
        self._ends[rank, region] = -(-end // PAGE_BYTES) * PAGE_BYTES
        self._endpoints.write_memory(rank, image.location.address, image.data)
        return image

    def result(self, rank: int, placement: Placement) -> Bytes | None:
        """Bytes of the receive buffer, or None. Raises :class:`ClusterFailed` where anything else has changed."""
        for image in placement.images:
            start = image.location.address
            changed = self._endpoints.read_memory(rank, start, len(image.data)) != image.data
            if placement.written and placement.dst.region == image.location.region:
                may = placement.dst.address - start
                changed[may:may + placement.written] = False
            if changed.any():
                raise ClusterFailed(f"Memory of rank {rank} changed at {start + int(changed.argmax()):#x}, which is no "
                                    "part of its receive buffer.")
        if placement.written is None:
            return None
        return self._endpoints.read_memory(rank, placement.dst.address, placement.written)

    def free(self) -> None:
        """Start again at the first address; earlier placements are dropped."""
        self._ends = {}
