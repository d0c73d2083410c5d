# SPDX-License-Identifier: Apache-2.0
"""ARK queues in ``dmace compare dma``: their segments, connections and flags, and what is posted to them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from hw.common.sizes import PAGE_BYTES
from hw.dma_engine.words import ARK_EMPTY, ArkWord, Command, Status
from sim.dma.ark import ARRAY_BYTES

if TYPE_CHECKING:
    from sim.dma.compare_layout import Domain
    from sim.dma.compare_requests import RequestMaker

__all__ = ["ArkQueues"]

BAD = (Status.MALFORMED, Status.ZERO_LENGTH, Status.CONNECTION, Status.SRC_REGION, Status.SRC_BOUNDS,
       Status.DST_REGION, Status.DST_BOUNDS)
EMPTY = ARK_EMPTY.to_bytes(8, "little")


class Item(NamedTuple):
    """A word to store, whole or its first four bytes."""

    word: ArkWord
    strobes: int = 0xFFFF


@dataclass
class Home:
    """Where the requests of one ARK queue come from and go to."""

    domain: "Domain"
    #: Region of the queue's segment 0.
    base: int
    #: Regions that no other queue writes.
    destinations: list[int]
    connection: int
    connection_base: int
    #: Addresses of its arrays.
    arrays: list[int]


class ArkQueues:
    """Some of the extended queues, in ARK mode.

    Parameters
    ----------
    make : :class:`RequestMaker`
        Lays out everything else.
    """

    def __init__(self, make: "RequestMaker") -> None:
        self.make, self.bench, self.rng, self.config = make, make.bench, make.rng, make.config
        extended = range(self.config.extended)
        self.segments = 2 if self.config.regions <= 16 else 6
        # One connection belongs to none of them, and two domains have eight regions.
        most = min(len(extended), self.config.connections, (self.config.regions - 11) // self.segments + 1) - 1
        self.queues = set(self.rng.sample(extended, self.rng.randint(1, most)))
        self.homes: dict[int, Home] = {}
        self.wanted = list(BAD)

    async def lay_out(self, queue: int, domain: "Domain", numbers: list[int]) -> None:
        """Configure a queue and start it; takes region numbers from the list."""
        rng, bench = self.rng, self.bench
        # The last connection belongs to no queue that may use it.
        connections = rng.sample(range(self.config.connections), self.config.connections - 1)
        taken = {home.connection for home in self.homes.values()}
        connection = next(number for number in connections if number not in taken)
        destinations = [await self.make.region(numbers.pop(0), domain.number, False, True,
                                               "small" if self.config.pages > 32 and rng.random() < 0.3 and
                                               self.make.pages_left >= 3 else None)
                        for _ in range(self.segments)]
        home = Home(domain, rng.randrange(domain.source + 1), destinations, connection,
                    rng.randrange(min(destinations) + 1), [self._array() for _ in range(2)])
        self.homes[queue] = home
        sc, rc = home.arrays
        await bench.define_connection(connection, base=home.connection_base, rc=rc, domain=domain.number)
        others = [number for number in range(self.config.connections) if number not in taken | {connection}]
        self.foreign = rng.choice(others)
        await bench.define_connection(self.foreign, base=home.connection_base, rc=rc, domain=domain.number ^ 1,
                                      valid=rng.random() < 0.5)
        await bench.configure_queue(queue, domain=domain.number, sc=sc if rng.random() < 0.8 else None, ark=home.base,
                                    skip_errors=rng.random() < 0.4, **self.make.scheduling())
        await bench.command(queue, Command.START)

    def _array(self) -> int:
        """Address of an array, anywhere, also across a page's border."""
        page = self.make.page(3 * PAGE_BYTES)
        self.bench.fill(page, bytes(3 * PAGE_BYTES))
        return page + 8 * self.rng.randrange(2 * PAGE_BYTES // 8)

    def items(self, queue: int) -> list[Item]:
        """Requests that may be in flight together: no destination twice."""
        rng, home = self.rng, self.homes[queue]
        found = [Item(word) for number in rng.sample(home.destinations, rng.randint(1, len(home.destinations)))
                 if (word := self._copy(home, number)) is not None]
        if self.wanted or rng.random() < 0.4:
            status = self.wanted[0] if self.wanted else rng.choice(BAD)
            item = self._broken(queue, status)
            if self.make.model.predict(queue, item.word, item.strobes) is status:
                self.wanted = self.wanted[1:]
                found.insert(rng.randint(0, len(found)), item)
        return found

    def _copy(self, home: Home, destination: int) -> ArkWord | None:
        rng = self.rng
        sources = [number for number in home.domain.sources(self.make.parity) if 0 <= number - home.base < 256]
        if destination - home.connection_base > 255:
            return None
        return ArkWord.send(src=rng.choice(sources) - home.base, dst=destination - home.connection_base,
                            connection=home.connection, length=self.make.length())

    def _broken(self, queue: int, status: Status) -> Item:
        """A word that may well fail a check."""
        rng, home = self.rng, self.homes[queue]
        word = self._copy(home, rng.choice(home.destinations))
        assert word is not None
        name = status.name
        if status is Status.MALFORMED:
            if rng.random() < 0.3:
                return Item(word, 0xF)
            return Item(rng.choice((word._replace(req=rng.randint(1, 3)),
                                    word._replace(reserved=1 << rng.randrange(5)))))
        if status is Status.ZERO_LENGTH:
            word = word._replace(length=0)
        elif status is Status.CONNECTION:
            others = [number for number in range(128) if number not in {h.connection for h in self.homes.values()}]
            word = word._replace(connection=rng.choice((self.foreign, rng.choice(others))))
        elif name.endswith("REGION"):
            base = home.base if name.startswith("SRC") else home.connection_base
            unknown = [number - base for number in self.make.unknown if 0 <= number - base < 256]
            word = word._replace(**{name[:3].lower(): rng.choice((*unknown, 255))})
        else:
            word = word._replace(length=rng.choice((1 << rng.randint(18, 33), (1 << 34) - 1)))
        if rng.random() < 0.3 and status < Status.SRC_REGION:
            word = word._replace(src=255, dst=255)
        return Item(word)

    def clear(self, queue: int) -> None:
        """Software's update of flags that it has seen."""
        for array in self.homes[queue].arrays:
            self.bench.fill(array, bytes(ARRAY_BYTES))

    async def post(self, queue: int, items: Sequence[Item]) -> None:
        """Store words in halves, in pairs and in bursts, with empty words between them."""
        rng, bench = self.rng, self.bench
        items = list(items)
        while items:
            if items[0].strobes != 0xFFFF or rng.random() < 0.4:
                item, offset = items.pop(0), 8 * rng.randrange(100)
                part = item.strobes != 0xFFFF
                await bench.store(queue, item.word.to_bytes()[:4 if part else 8], offset=offset,
                                  size=2 if part else rng.choice((3, 4)))
                continue
            data = b""
            for _ in range(rng.randint(1, 4)):
                if items and items[0].strobes == 0xFFFF:
                    data += EMPTY * (rng.random() < 0.2) + items.pop(0).word.to_bytes()
            await bench.store(queue, data, offset=8 * rng.randrange(100), size=rng.choice((3, 4)))
