# SPDX-License-Identifier: Apache-2.0
"""Requests for ``dmace compare dma``, good and bad.

A request is made for a purpose (it will succeed, it will fail with a certain status) and then shown to the
model, which says whether it will; so nothing here need know how statuses are decided.
"""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from hw.common.sizes import PAGE_BYTES
from hw.dma_engine.words import NativeWord, Opcode, RequestFlag, Status
from sim.dma.compare_layout import REGION_BYTES, Domain, MemoryLayout

if TYPE_CHECKING:
    from sim.dma.testbench import DmaTestbench

__all__ = ["CHECKS", "MEMORY", "Item", "RequestMaker"]

SIGNAL_BYTES = 8
"""Length of every signal; so most requests of that length are signals."""

CHECKS = (Status.MALFORMED, Status.ZERO_LENGTH, Status.SRC_REGION, Status.SRC_DOMAIN, Status.SRC_RIGHTS,
          Status.SRC_BOUNDS, Status.DST_REGION, Status.DST_DOMAIN, Status.DST_RIGHTS, Status.DST_BOUNDS)
PAGES = (Status.SRC_PAGE, Status.DST_PAGE)
MEMORY = (Status.READ_SLVERR, Status.READ_DECERR, Status.WRITE_SLVERR, Status.WRITE_DECERR)


Address = Callable[[int, int], int]
"""Offset in a source region that is at most some limit."""


class Item(NamedTuple):
    """Something to store to a doorbell: a whole word, or a part of one if ``part`` says which bytes."""

    word: NativeWord
    verifiable: bool = True
    part: tuple[int, int] | None = None

    @property
    def strobes(self) -> int:
        return 0xFFFF if self.part is None else 0xFFFF >> 1


class RequestMaker(MemoryLayout):
    """Makes requests in memory that it has laid out.

    Parameters
    ----------
    bench : :class:`DmaTestbench`
        Started; its generator is used for everything.
    """

    def __init__(self, bench: "DmaTestbench") -> None:
        super().__init__(bench)
        #: Region -> where the next destination in it may begin.
        self.used: dict[int, int] = {}
        self.parity = 0
        self.wanted = [*CHECKS, *PAGES, *MEMORY]

    def renew(self) -> None:
        """All destinations are free again; regions that change roles do so."""
        self.parity, self.used = 1 - self.parity, dict(self.begins)

    def length(self) -> int:
        """Lengths at the edges of beats, bursts and pages more often than others."""
        rng, beat = self.rng, self.config.beat_bytes
        kind = rng.random()
        if kind < 0.04:
            return SIGNAL_BYTES
        if kind < 0.40:
            return rng.randint(1, 2 * beat + 1)
        if kind < 0.55:
            return rng.choice((63, 64, 65))
        if kind < 0.70:
            return rng.choice((255, 256, 257))
        if kind < 0.80:
            return max(1, self.config.segment_bytes * rng.choice((1, 2)) + rng.randint(-2, 2))
        if kind < 0.86:
            return rng.choice((4095, 4096, 4097))
        if kind < 0.998:
            return rng.randint(1, 1500)
        return rng.choice((65535, 65536, 65537, 40_000))

    def _offset(self, limit: int) -> int:
        """An offset below ``limit``, often aligned or next to a page's border."""
        rng, kind = self.rng, self.rng.random()
        offset = rng.randint(0, limit)
        if kind < 0.25:
            return offset & -self.config.beat_bytes
        if kind < 0.6:
            return min(limit, max(0, (offset & -PAGE_BYTES) + rng.randint(-70, 70)))
        return offset

    def _flags(self, queue: int) -> RequestFlag:
        q, rng = self.model.queues[queue], self.rng
        flags = RequestFlag(0)
        if q.sc is not None and rng.random() < 0.5:
            flags |= RequestFlag.SC
        if q.rc is not None and rng.random() < 0.5:
            flags |= RequestFlag.RC
        for flag in (RequestFlag.FENCE, RequestFlag.IRQ):
            if rng.random() < 0.1:
                flags |= flag
        return flags

    def _try(self, queue: int, length: int, accept: Callable[[Status, NativeWord], bool],
             place: Address | None = None) -> NativeWord | None:
        """A copy whose destination is new in this round and whose prediction is accepted, or None."""
        rng, home = self.rng, self.homes[queue]
        for attempt in range(40):
            source, destination = rng.choice(home.sources(self.parity)), rng.choice(home.destinations(self.parity))
            begin = self.begins[source]
            source_available = self.model.regions[source].length - length
            start = self.used.get(destination, 0)
            available = min(source_available - begin, REGION_BYTES + PAGE_BYTES)
            start += rng.choice((0, 0, 1, rng.randint(0, 70), rng.randint(0, 70), self._offset(PAGE_BYTES)))
            if attempt > 20:
                # The place may be on a faulty page.
                start += rng.choice((1, 2)) * PAGE_BYTES
            if source_available < 0 or start + length > self.model.regions[destination].length:
                continue
            if length == SIGNAL_BYTES and place is None:
                start = -(-start // SIGNAL_BYTES) * SIGNAL_BYTES
                word = NativeWord.signal(dst=(destination, start), value=rng.getrandbits(44), flags=self._flags(queue))
            else:
                word = NativeWord.copy(
                    src=(source, place(source, source_available) if place else begin + self._offset(available)),
                    dst=(destination, start), length=length, flags=self._flags(queue))
            if accept(self.model.predict(queue, word), word):
                self.used[destination] = start + length
                return word
        return None

    def good(self, queue: int, length: int | None = None) -> NativeWord | None:
        """A copy that will succeed, or None where no free destination is left."""
        length = length or self.length()
        for size in (length, min(length, 300), 1):
            word = self._try(queue, size, lambda status, word: status is Status.OK
                             and not self.model.is_withheld(queue, word))
            if word is not None:
                return word
        return None

    def bad(self, queue: int, status: Status) -> Item | None:
        """A request that will end with ``status``, or None if none was found."""
        if status in MEMORY + PAGES:
            return self._faulty(queue, status)
        for _ in range(60):
            item = self._broken(queue, status)
            if item is not None and self.model.predict(queue, item.word, item.strobes) is status:
                return item
        return None

    def _faulty(self, queue: int, status: Status) -> Item | None:
        """A request that touches a faulty or missing page, or that and the next."""
        rng, home = self.rng, self.homes[queue]
        kind = "read" if status in (*MEMORY[:2], Status.SRC_PAGE) else "write"

        def faulty_pages(number: int) -> list[int]:
            return self._pages_of(number, lambda page: page is None if status in PAGES
                                  else page is not None and self.model.faults[kind].get(page) is status)

        def near(page: int, length: int) -> int:
            """Where to begin so that the page, or its end and the next, is touched."""
            begin = page + rng.choice((0, PAGE_BYTES)) - rng.randint(0, length + 2)
            return max(begin, 0)

        for _ in range(60):
            length = self.length()
            place: Address | None = None
            if kind == "write":
                number = rng.choice(home.destinations(self.parity))
                pages = [page for page in faulty_pages(number) if page >= self.used.get(number, 0)]
                if not pages:
                    continue
                self.used[number] = max(self.used.get(number, 0), near(rng.choice(pages), length))
            else:
                if rng.random() < 0.3 and (faults := list(self._write_faults(home))):
                    # Where the beginning cannot be written either, reading still decides.
                    number, page = rng.choice(faults)
                    self.used[number] = max(self.used.get(number, 0), page)
                    length = rng.randint(self.config.segment_bytes, 2 * PAGE_BYTES)

                def somewhere(source: int, limit: int, length: int = length) -> int:
                    pages = faulty_pages(source)
                    return min(near(rng.choice(pages), length), limit) if pages else limit // 2

                place = somewhere
            word = self._try(queue, length, lambda got, word: got is status, place)
            if word is not None:
                return Item(word)
        return None

    def _write_faults(self, home: Domain) -> Iterator[tuple[int, int]]:
        """``(region, offset)`` of pages that cannot be written, in what is left of a domain's destinations."""
        for number in home.destinations(self.parity):
            for page in self._pages_of(number, lambda page: page in self.model.faults["write"]):
                if self.used.get(number, 0) <= page:
                    yield number, page

    def _broken(self, queue: int, status: Status) -> Item | None:
        """A request that may well fail a check."""
        rng, home = self.rng, self.homes[queue]
        foreign = [region for domain in self.domains if domain is not home for region in domain[1:3]]
        source, destination = rng.choice(home.sources(self.parity)), rng.choice(home.destinations(self.parity))
        length = self.length()
        fields: dict[str, int] = {
            "opcode": Opcode.COPY, "flags": self._flags(queue), "src_region": source, "dst_region": destination,
            "src_offset": self.begins[source] + rng.randrange(1 << 10), "length": length,
            "dst_offset": self.begins[destination] + rng.randrange(1 << 10),
        }
        q, name = self.model.queues[queue], status.name
        if status is Status.MALFORMED:
            kind = rng.randrange(5)
            if kind == 0:
                fields["opcode"] = rng.choice([code for code in range(16) if code not in tuple(Opcode)])
            elif kind == 4:
                fields |= {"opcode": Opcode.SIGNAL, "length": rng.choice((0, 4, 7, 8, 9, 16))}
            elif kind == 1:
                fields["flags"] |= 1 << rng.randrange(4, 8)
            elif kind == 2:
                fields["flags"] |= (RequestFlag.SC if q.sc is None else 0) | (RequestFlag.RC if q.rc is None else 0)
            else:
                first = rng.randrange(16)
                part = rng.choice(((0, 8), (8, 8), (0, 15), (1, 15), (first, rng.randint(1, 16 - first))))
                return Item(NativeWord(**fields), part=part) if part != (0, 16) else None
        elif status is Status.ZERO_LENGTH:
            fields["length"] = 0
        else:
            side, what = name[:3].lower(), name[4:]
            region = self.model.regions[fields[f"{side}_region"]]
            if what == "REGION":
                fields[f"{side}_region"] = rng.choice(self.unknown)
            elif what == "DOMAIN":
                fields[f"{side}_region"] = rng.choice(foreign) if foreign else 0
            elif what == "RIGHTS":
                fields[f"{side}_region"] = home.destination if side == "src" else home.source
            else:
                beyond = region.length - length + 1
                fields[f"{side}_offset"] = rng.choice((beyond, beyond + rng.randrange(99), (1 << 36) - 1))
                if rng.random() < 0.2:
                    fields["length"] = (1 << 28) - 1
        if rng.random() < 0.3:
            # Several things wrong at once: the first in the order of Status counts.
            later = rng.choice(("dst_region", "dst_offset", "src_offset"))
            fields[later] = 255 if later == "dst_region" else (1 << 36) - 1
        return Item(NativeWord(**fields)) if fields["src_offset"] >= 0 <= fields["dst_offset"] else None

    def items(self, queue: int) -> list[Item]:
        """The next one or two items for a queue; none where no free destination is left."""
        rng = self.rng
        if self.wanted:
            status = self.wanted.pop(0)
            if (item := self.bad(queue, status)) is None:
                self.wanted.append(status)
            else:
                return [item]
        if rng.random() < 0.12:
            item = self.bad(queue, rng.choice(CHECKS + PAGES + MEMORY))
            return [] if item is None else [item]
        word = self.good(queue)
        if word is None:
            return []
        if rng.random() < 0.06:
            return self._chain(queue, word)
        return [Item(word)]

    def _chain(self, queue: int, word: NativeWord) -> list[Item]:
        """A copy and a fenced one that needs the first to have ended."""
        home = self.homes[queue]
        if word.dst_region in home.swapped and self.rng.random() < 0.6:
            # The second reads what the first wrote.
            second = self._try(queue, word.length, lambda status, word: status is Status.OK)
            if second is not None:
                second = second._replace(src_region=word.dst_region, src_offset=word.dst_offset)
        else:
            # The second writes over the first.
            second = self.good(queue, word.length)
            if second is not None and second.length == word.length:
                second = second._replace(dst_region=word.dst_region, dst_offset=word.dst_offset)
            else:
                second = None
        if second is None:
            return [Item(word)]
        second = second._replace(flags=second.flags | RequestFlag.FENCE)
        if self.model.predict(queue, second) is not Status.OK:
            return [Item(word)]
        return [Item(word, verifiable=False), Item(second)]
