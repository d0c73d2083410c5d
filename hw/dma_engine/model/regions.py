# SPDX-License-Identifier: Apache-2.0
"""The golden model's regions: addresses of their bytes."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from hw.common.sizes import ADDR_WIDTH

__all__ = ["Piece", "Region", "present"]

Piece = tuple[int | None, int]
"""Address and number of bytes of a part of a range; no address if the page is missing."""


def present(pieces: Iterable[Piece]) -> list[tuple[int, int]]:
    """The pieces whose page is present."""
    return [(address, size) for address, size in pieces if address is not None]


@dataclass(frozen=True, kw_only=True)
class Region:
    """An entry of the region table; its fields are those of the REGION registers."""

    base: int
    length: int
    domain: int = 0
    readable: bool = True
    writable: bool = True
    valid: bool = True
    cache: int = 0
    prot: int = 0
    qos: int = 0
    paged: bool = False
    large: bool = False
    first_page: int = 0

    def __post_init__(self) -> None:
        if self.valid and not self.paged and self.base + self.length > 1 << ADDR_WIDTH:
            raise ValueError(f"A region must be within {ADDR_WIDTH} bits of address, not end at "
                             f"{self.base + self.length:#x}")

    @property
    def attributes(self) -> tuple[int, int, int]:
        """AxCACHE, AxPROT and AxQOS of the region's bursts; Allocate needs Modifiable."""
        return (self.cache if self.cache & 2 else self.cache & 3), self.prot, self.qos

    @property
    def page_bytes(self) -> int:
        return 2 << 20 if self.large else 64 << 10

    def pieces(self, pages: Mapping[int, int], offset: int, length: int) -> list[Piece]:
        """Addresses of the bytes of a range, in order: ``(address, bytes)``, with None as the address if the page is
        missing. ``pages`` maps the number of each present page of the page table to its address."""
        if not self.paged:
            return [(self.base + offset, length)]
        found: list[Piece] = []
        while length:
            number, location = divmod(offset, self.page_bytes)
            size = min(length, self.page_bytes - location)
            address = pages.get(self.first_page + number)
            found.append((None if address is None else address - address % self.page_bytes + location, size))
            offset, length = offset + size, length - size
        return found

    def covers(self, pages: Mapping[int, int], address: int) -> bool:
        """True if one of the region's bytes is at ``address``."""
        return any(start is not None and start <= address < start + size
                   for start, size in self.pieces(pages, 0, self.length))
