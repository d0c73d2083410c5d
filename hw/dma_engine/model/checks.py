# SPDX-License-Identifier: Apache-2.0
"""Statuses of requests: checks of words, regions and pages, and the memory faults that requests meet."""

from hw.common.sizes import PAGE_BYTES
from hw.dma_engine.config import DmaConfig
from hw.dma_engine.words import NativeWord, Opcode, RequestFlag, Status

from .regions import Piece, Region, present
from .state import Queue, Request

__all__ = ["Checks"]

RESERVED_FLAGS = 0xF0

_READ = {"SLVERR": Status.READ_SLVERR, "DECERR": Status.READ_DECERR}
_WRITE = {"SLVERR": Status.WRITE_SLVERR, "DECERR": Status.WRITE_DECERR}


class Checks:
    """The part of :class:`.engine.DmaModel` that predicts statuses; the only state it changes is the memory's faults.

    Parameters
    ----------
    config : :class:`DmaConfig`
    """

    def __init__(self, config: DmaConfig) -> None:
        self.config = config
        self.regions: dict[int, Region] = {}
        #: Number of each page that is present -> its address.
        self.pages: dict[int, int] = {}
        self.queues = [Queue() for _ in range(config.queues)]
        #: ``"read"`` and ``"write"`` -> page -> the status of a request that touches it.
        self.faults: dict[str, dict[int, Status]] = {"read": {}, "write": {}}
        self._withheld: set[int] = set()

    # The memory's behaviour

    def fail_page(self, address: int, *, read: str | None = None, write: str | None = None) -> None:
        """Let reads or writes of the page of ``address`` get the response "SLVERR" or "DECERR"."""
        page = address - address % PAGE_BYTES
        for kind, response, statuses in (("read", read, _READ), ("write", write, _WRITE)):
            if response is not None:
                self.faults[kind][page] = statuses[response]

    def repair_page(self, address: int) -> None:
        """Let the page respond OKAY again."""
        for faults in self.faults.values():
            faults.pop(address - address % PAGE_BYTES, None)

    def withhold(self, address: int) -> None:
        """Let the page of ``address`` not respond until it is released."""
        self._withheld.add(address - address % PAGE_BYTES)

    # Requests

    def check(self, queue: int, word: NativeWord | None) -> Status:
        """Status of a request before it reaches memory; OK if it gets there."""
        q = self.queues[queue]
        if word is None or word.opcode not in tuple(Opcode) or word.flags & RESERVED_FLAGS:
            return Status.MALFORMED
        if word.opcode == Opcode.SIGNAL and (word.length != 8 or word.dst_offset % 8):
            return Status.MALFORMED
        for flag, address in ((RequestFlag.SC, q.sc), (RequestFlag.RC, q.rc)):
            if word.flags & flag and address is None:
                return Status.MALFORMED
        if word.length == 0:
            return Status.ZERO_LENGTH
        for number, offset, right, first in (
            (word.src_region, word.src_offset, "readable", Status.SRC_REGION),
            (word.dst_region, word.dst_offset, "writable", Status.DST_REGION),
        ):
            if first is Status.SRC_REGION and word.opcode == Opcode.SIGNAL:
                continue
            region = self.regions.get(number) if number < self.config.regions else None
            if region is None or not region.valid:
                return first
            if region.domain != q.domain:
                return Status(first + 1)
            if not getattr(region, right):
                return Status(first + 2)
            if offset + word.length > region.length:
                return Status(first + 3)
        return Status.OK

    def _predict(self, queue: int, request: Request) -> Status:
        word = request.word
        checked = self.check(queue, word) if request.fault is None else request.fault
        if checked is not Status.OK:
            return checked
        assert word is not None
        for _, pieces, missing in self._touched(word):
            if any(address is None for address, _ in pieces):
                return missing
        # Read errors take precedence over write errors; within each, the first byte decides.
        for kind, pieces, _ in self._touched(word):
            for address, length in present(pieces):
                for page in range(address - address % PAGE_BYTES, address + length, PAGE_BYTES):
                    if page in self.faults[kind]:
                        return self.faults[kind][page]
        return Status.OK

    def _touched(self, word: NativeWord) -> list[tuple[str, list[Piece], Status]]:
        """Addresses that a request reads and writes, and the status if one of their pages is missing."""
        writes = "write", self.destination(word), Status.DST_PAGE
        return [writes] if word.opcode == Opcode.SIGNAL else [("read", self.source(word), Status.SRC_PAGE), writes]

    def pieces(self, region: int, offset: int, length: int) -> list[Piece]:
        """See :meth:`Region.pieces`."""
        return self.regions[region].pieces(self.pages, offset, length)

    def source(self, word: NativeWord) -> list[Piece]:
        """Addresses that a request reads, as :meth:`pieces`."""
        return self.pieces(word.src_region, word.src_offset, word.length)

    def destination(self, word: NativeWord) -> list[Piece]:
        """Addresses that a request writes, as :meth:`pieces`."""
        return self.pieces(word.dst_region, word.dst_offset, word.length)

    def attributes(self, kind: str, address: int) -> set[tuple[int, int, int]]:
        """Permitted AxCACHE, AxPROT and AxQOS of a "read" or "write" at ``address``: those of every region that may
        contain it."""
        right = {"read": "readable", "write": "writable"}[kind]
        return {region.attributes for region in self.regions.values()
                if getattr(region, right) and region.covers(self.pages, address)}

    def is_withheld(self, queue: int, word: NativeWord | None) -> bool:
        """True if memory would not respond to a request in its present state."""
        if not self._withheld or word is None or self.check(queue, word) is not Status.OK:
            return False
        return any(start <= page + PAGE_BYTES - 1 and page < start + length
                   for _, pieces, _ in self._touched(word) for start, length in present(pieces)
                   for page in self._withheld)
