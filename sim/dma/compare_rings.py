# SPDX-License-Identifier: Apache-2.0
"""Descriptor rings in ``dmace compare dma``: random words as lists and 2-D copies, duplicate and reordered tails."""

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from hw.common.sizes import PAGE_BYTES
from hw.dma_engine.descriptors import LIST_WORDS, RECORD_BYTES, Descriptor, DescriptorFlag, DescriptorKind, RingLocation
from hw.dma_engine.words import NativeWord
from sim.dma.rings import DescriptorRing

if TYPE_CHECKING:
    from sim.dma.compare_requests import Item
    from sim.dma.testbench import DmaTestbench

__all__ = ["RingPoster", "place_ring"]


def place_ring(bench: "DmaTestbench", page: Callable[[int], int], *, alone: bool) -> RingLocation:
    """A :class:`RingLocation` of random size; ``page`` finds pages for a number of bytes.

    ``alone``: the other queue of its pair has no ring.
    """
    size = bench.rng.randint(3, 6)
    location = RingLocation(base=page(PAGE_BYTES), size=size,
                            records=page(PAGE_BYTES) if bench.rng.random() < 0.8 else None,
                            pair=alone and bench.rng.random() < 0.5)
    if location.records is not None:
        bench.fill(location.records, bytes(RECORD_BYTES * location.entries))
    return location


class RingPoster:
    """Posts to one queue by its descriptor ring.

    Parameters
    ----------
    bench : :class:`DmaTestbench`
    queue : int
        Configured with a ring.
    """

    def __init__(self, bench: "DmaTestbench", queue: int) -> None:
        self.bench, self.queue, self.rng = bench, queue, bench.rng
        driver = bench.model.queues[queue].ring
        assert driver is not None
        self.location = driver.location
        self.ring = DescriptorRing(bench, queue, self.location)

    def describe(self, items: "Iterable[Item]") -> list[bytes]:
        """Descriptors, 64 bytes each, of what would go out in one burst of words."""
        rng, items = self.rng, list(items)
        found: list[bytes] = []
        while items:
            if items[0].part is not None:
                del items[0]
                found.append(self._broken())
                continue
            if rng.random() < 0.25 and items[0].word.flags == 0 and (rows := self._rows(items[0].word)) is not None:
                del items[0]
                found.append(rows.to_bytes())
                continue
            count = rng.randint(1, LIST_WORDS)
            count = next((index for index, item in enumerate(items[:count]) if item.part is not None), count)
            words, items = items[:count], items[count:]
            found.append(Descriptor.copies(*(item.word for item in words), flags=self._flags(),
                                           tag=rng.getrandbits(16)).to_bytes())
        return found

    def _flags(self) -> DescriptorFlag:
        q, rng, flags = self.bench.model.queues[self.queue], self.rng, DescriptorFlag(0)
        for flag, there, often in ((DescriptorFlag.SC, q.sc, 0.3), (DescriptorFlag.RC, q.rc, 0.3),
                                   (DescriptorFlag.RECORD, self.location.records, 0.6),
                                   (DescriptorFlag.FENCE, True, 0.1), (DescriptorFlag.IRQ, True, 0.1)):
            if there is not None and rng.random() < often:
                flags |= flag
        return flags

    def _rows(self, word: NativeWord) -> Descriptor | None:
        """The same destination as a word's, in rows; None where the word cannot be divided."""
        rng = self.rng
        rows = rng.choice([rows for rows in range(1, 41) if word.length % rows == 0] or [0])
        if rows == 0:
            return None
        length = word.length // rows
        return Descriptor(DescriptorKind.COPY2D, int(self._flags()), rng.getrandbits(16),
                          (word._replace(length=length),), rows, rng.choice((length, length, 0, -1, 1000)), length)

    def _broken(self) -> bytes:
        """A descriptor that is malformed as a whole."""
        header = bytearray(64)
        header[0:4] = self.rng.choice((b"\x00\x00", b"\x03\x10", b"\x01\x00", b"\x02\x10", b"\x01\x52")) + b"\x34\x12"
        return bytes(header)

    def has_free_entries(self, number: int, ended: int) -> bool:
        return self.ring.free(ended) >= number

    async def post(self, descriptors: Sequence[bytes], *, verifiable: bool = True) -> None:
        """Put descriptors into the ring and ring one or several doorbells, some of them delayed."""
        rng, bench = self.rng, self.bench
        reported = self.ring.tail
        self.ring.write(*descriptors)
        options = {"size": rng.choice((2, 3)), "offset": 8 * rng.randrange(256)}
        if rng.random() < 0.3 and self.ring.tail - reported > 1:
            # An intermediate tail, and later the same again.
            middle = rng.randrange(reported + 1, self.ring.tail)
            await bench.ring(self.queue, middle, verifiable=verifiable, **options)
            await self.ring.notify(verifiable=verifiable, **options)
            await bench.ring(self.queue, rng.choice((reported, middle)), verifiable=verifiable, **options)
        else:
            await self.ring.notify(verifiable=verifiable, **options)
            if rng.random() < 0.2:
                await bench.ring(self.queue, self.ring.tail, verifiable=verifiable, **options)
