"""The golden model's regions: where their bytes are."""

from dataclasses import dataclass

__all__ = ["Region"]


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

    @property
    def attributes(self):
        """AxCACHE, AxPROT and AxQOS of the region's bursts; Allocate needs Modifiable."""
        return (self.cache if self.cache & 2 else self.cache & 3), self.prot, self.qos

    @property
    def page_bytes(self):
        return 2 << 20 if self.large else 64 << 10

    def pieces(self, pages, offset, length):
        """Where the bytes of a range are, in their order: ``(address, bytes)``, and an address of None where the page
        is missing. ``pages`` has the address of each page that is present, by its number in the page table."""
        if not self.paged:
            return [(self.base + offset, length)]
        found = []
        while length:
            number, place = divmod(offset, self.page_bytes)
            size = min(length, self.page_bytes - place)
            address = pages.get(self.first_page + number)
            found.append((None if address is None else address - address % self.page_bytes + place, size))
            offset, length = offset + size, length - size
        return found

    def covers(self, pages, address):
        """Whether one of the region's bytes is at ``address``."""
        return any(start is not None and start <= address < start + size
                   for start, size in self.pieces(pages, 0, self.length))
