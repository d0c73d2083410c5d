# SPDX-License-Identifier: Apache-2.0
"""Result of :meth:`Endpoints.log`: packets and bursts at the pins during an interval."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from hw.ace.config import AceConfig
from hw.ace.layouts import PacketKind, packet_layout

__all__ = ["Burst", "Log", "Packet", "packets"]


class Packet(NamedTuple):
    """A packet as it left at a port, or as it came: cycles of its first and last beat, and its header's fields, of
    which each kind has its own."""

    rank: int
    port: int
    came: bool
    begin: int
    end: int
    kind: PacketKind
    communicator: int
    epoch: int
    sequence: int
    phase: int
    offset: int
    beats: int
    """Length of the payload less one, as in the header."""
    reduce: int
    granted: int


class Burst(NamedTuple):
    """A burst at a memory: cycles of AR or AW, and of the last R or B."""

    rank: int
    write: bool
    begin: int
    end: int
    address: int
    beats: int


@dataclass
class Log:
    """Packets that began from cycle ``begin`` on, in order of their ends of links; bursts that began then and ended."""

    begin: int
    packets: list[Packet] = field(default_factory=list)
    bursts: list[Burst] = field(default_factory=list)


def packets(config: AceConfig, rows: Iterable[Sequence[int]]) -> list[Packet]:
    """A :class:`Packet` of each row that ends with the bits of a header."""
    fields_at = [(name, place.offset, (1 << place.width) - 1) for name, place in packet_layout(config)
                 if name in Packet._fields]
    made: list[Packet] = []
    for rank, port, came, begin, end, header in rows:
        fields = {name: header >> lsb & mask for name, lsb, mask in fields_at}
        made.append(Packet(rank, port, bool(came), begin, end, PacketKind(fields.pop("kind")), **fields))
    return made
