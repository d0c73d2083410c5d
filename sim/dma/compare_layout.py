# SPDX-License-Identifier: Apache-2.0
"""Memory and queues for ``dmace compare dma``: domains, regions with pages and faults, and how each queue is driven."""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, cast

from hw.common.sizes import PAGE_BYTES
from hw.dma_engine.config import TARGETS
from hw.dma_engine.queue_settings import QUEUE_SETTINGS, QueueSetting
from hw.dma_engine.words import Command
from sim.dma.compare_ark import ArkQueues
from sim.dma.compare_rings import place_ring

if TYPE_CHECKING:
    from sim.dma.compare_requests import RequestMaker
    from sim.dma.testbench import DmaTestbench

__all__ = ["REGION_BYTES", "Domain", "MemoryLayout"]

REGION_BYTES = 0x2_0000


class Domain(NamedTuple):
    """A protection domain and its regions: a source, a destination, and two that change roles."""

    number: int
    source: int
    destination: int
    swapped: tuple[int, int]

    def sources(self, parity: int) -> tuple[int, int]:
        return self.source, self.swapped[parity]

    def destinations(self, parity: int) -> tuple[int, int]:
        return self.destination, self.swapped[1 - parity]


class MemoryLayout:
    """Lays out memory and queues at random.

    Parameters
    ----------
    bench : :class:`DmaTestbench`
        Started; its generator is used for everything.

    Attributes
    ----------
    domains : list of Domain
    homes : list of Domain
        The domain of each queue.
    """

    def __init__(self, bench: "DmaTestbench") -> None:
        self.bench, self.model, self.config, self.rng = bench, bench.model, bench.config, bench.rng
        self.domains: list[Domain] = []
        self.homes: list[Domain] = []
        #: Region -> where it begins to be used; memory before it is left alone.
        self.begins: dict[int, int] = {}
        self._free_page = self.config.pages
        self.ark = ArkQueues(cast("RequestMaker", self))
        self._taken: list[tuple[int, int]] = []

    async def lay_out(self) -> None:
        """Regions anywhere in 64 bits with faulty pages in them, an entry that is not valid, the queues."""
        bench, rng = self.bench, self.rng
        numbers = rng.sample(range(self.config.regions), self.config.regions)
        # One that is in the table but not valid, some that are not in it, and one that is in no table.
        self.unknown = [numbers.pop(), *numbers[-2:], *([255] if self.config.regions < 256 else [])]
        domains = min(4, self.config.queues,
                      (self.config.regions - 3 - self.ark.segments * len(self.ark.queues)) // 4)
        kinds = rng.sample((None, "small", "large"), 3)
        for index, number in enumerate(rng.sample(range(256), domains)):
            shape = kinds[index % 3], kinds[(index + 1) % 3], None, rng.choice(kinds)
            regions = [await self.region(numbers.pop(0), number, *rights, kind)
                       for rights, kind in zip(((True, False), (False, True), (True, True), (True, True)), shape,
                                               strict=True)]
            self.domains.append(Domain(number, regions[0], regions[1], (regions[2], regions[3])))
        await bench.define_region(self.unknown[0], base=self.page(REGION_BYTES), length=REGION_BYTES,
                                  domain=self.domains[0].number, valid=False)
        # Most queues have both words; some have one, or none.
        has = [(1, 1), (1, 0), (0, 1), (0, 0)] + [(1, 1)] * (self.config.queues - 4)
        rng.shuffle(has)
        # Rings drive some of the other extended queues, at least one.
        others = [queue for queue in range(self.config.extended) if queue not in self.ark.queues]
        driven = rng.sample(others, rng.randint(1, len(others)))
        for queue in range(self.config.queues):
            self.homes.append(self.domains[queue % domains])
            if queue in self.ark.queues:
                await self.ark.lay_out(queue, self.homes[queue], numbers)
                continue
            places = [self.page(PAGE_BYTES) + 8 * rng.randrange(PAGE_BYTES // 8) for _ in range(2)]
            for place in places:
                bench.fill(place & -PAGE_BYTES, bytes(PAGE_BYTES))
            sc, rc = (place if here else None for place, here in zip(places, has[queue], strict=True))
            await bench.configure_queue(queue, domain=self.homes[queue].number, sc=sc, rc=rc,
                                        skip_errors=rng.random() < 0.4, **self.scheduling(),
                                        ring=place_ring(bench, self.page, alone=queue ^ 1 not in driven)
                                        if queue in driven else None)
            await bench.command(queue, Command.START)
        await self.limit_targets()

    async def limit_targets(self, *, lift: bool = False) -> None:
        """Set random limits for the targets, or none."""
        rng = self.rng
        for target in range(TARGETS):
            # With a limit of one beat, a single miscounted beat blocks permanently.
            beats = rng.choice((0, 1, rng.randint(2, 200)))
            await self.bench.driver.limit_target(target, beats=0 if lift else beats, slow=rng.random() < 0.3)

    def scheduling(self) -> dict[str, int]:
        """Random settings that affect when a queue's segments are scheduled, and no result."""
        rng = self.rng

        def chosen(setting: QueueSetting) -> int:
            if setting.name == "limit":     # most queues have none: a limit serializes all else
                return rng.choice((0, 0, rng.randrange(self.config.window)))
            return rng.choice(setting.values(self.config))

        return {setting.name: chosen(setting) for setting in QUEUE_SETTINGS if setting.scheduling}

    def page(self, length: int, multiple: int = PAGE_BYTES) -> int:
        """Address of a page for ``length`` bytes, at least a page from all others."""
        while True:
            base = self.rng.getrandbits(self.rng.choice((33, 36, 40, 48, 64))) & -multiple
            if base < PAGE_BYTES or base + length + PAGE_BYTES > 1 << 64:
                continue
            if all(base + length + PAGE_BYTES <= first or last + PAGE_BYTES <= base
                   for first, last in self._taken):
                self._taken.append((base, base + length + PAGE_BYTES))
                return base

    @property
    def pages_left(self) -> int:
        """Unused entries of the page table; a region with pages takes three."""
        return self._free_page

    async def region(self, number: int, domain: int, readable: bool, writable: bool, kind: str | None) -> int:
        """A region, contiguous or of "small" or "large" pages; of one with pages, the last is missing."""
        bench, rng = self.bench, self.rng
        end = self.begins[number] = 0
        page_bytes = {None: 0, "small": 64 << 10, "large": 2 << 20}[kind]
        rights = {"domain": domain, "readable": readable, "writable": writable, "cache": rng.randrange(16),
                  "prot": rng.randrange(8), "qos": rng.randrange(16)}
        if kind is None:
            base = self.page(REGION_BYTES)
            bench.fill(base - PAGE_BYTES, rng.randbytes(REGION_BYTES + 2 * PAGE_BYTES))
            await bench.define_region(number, base=base, length=REGION_BYTES - rng.randrange(PAGE_BYTES), **rights)
        else:
            # The first region with pages gets the last entries of the table: its last page is beyond it.
            first = self._free_page - 2
            self._free_page = first - 1
            end = 2 * page_bytes
            self.begins[number] = page_bytes - REGION_BYTES // 2 if kind == "large" else 0
            for page in range(2):
                frame = self.page(page_bytes, page_bytes)
                await bench.define_page(first + page, frame + (rng.randrange(32) << 16 if kind == "large" else 0))
                used = self.begins[number] if page == 0 else 0, page_bytes if page == 0 else REGION_BYTES // 2
                bench.fill(frame + used[0] - PAGE_BYTES, rng.randbytes(used[1] - used[0] + 2 * PAGE_BYTES))
            await bench.define_region(number, base=rng.getrandbits(52) << 12, paged=True, large=kind == "large",
                                      length=end + rng.randrange(1, page_bytes), first_page=first, **rights)
        begin = self.begins[number]
        faults = [(what, response) for what, right in (("read", readable), ("write", writable)) if right
                  for response in ("SLVERR", "DECERR")]
        # Both responses of a kind side by side, so that a request can touch both.
        rng.shuffle(faults)
        for side in ("read", "write"):
            page = begin + rng.randrange(1, REGION_BYTES // PAGE_BYTES - 2) * PAGE_BYTES
            for response in (response for what, response in faults if what == side):
                (address, _), = self.model.pieces(number, page, 1)
                assert address is not None
                bench.fail_page(address, **{side: response})
                page += PAGE_BYTES
        return number

    def _pages_of(self, number: int, accept: Callable[[int | None], bool]) -> list[int]:
        """Offsets of pages in the used part of a region for whose address ``accept`` holds; None where missing."""
        region, begin = self.model.regions[number], self.begins[number]
        ends = {begin + REGION_BYTES, 2 * region.page_bytes + PAGE_BYTES} if region.paged else {region.length}
        offsets = (offset for end in ends for offset in range(max(begin, end - REGION_BYTES) & -PAGE_BYTES,
                                                              min(end, region.length), PAGE_BYTES))
        return sorted({offset for offset in offsets if accept(self.model.pieces(number, offset, 1)[0][0])})
