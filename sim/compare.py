"""Random requests, good and bad, on the engine and on its model: the cocotb side of ``dmace compare dma``.

A run consists of rounds. In a round every queue gets its share of requests, whose destinations overlap
with nothing else that is under way; then everything is waited for and compared. Between the rounds stand
sections that provoke what depends on time: a full queue, a disabled one, a reset, a response that does not
come, a completion word that memory refuses.
"""

import json
import os
import time
from pathlib import Path
from typing import NamedTuple

import cocotb

from hw.dma_engine.config import PAGE_BYTES, PRESETS
from hw.dma_engine.words import Command, NativeWord, Opcode, RequestFlag, Status
from sim.progress import report
from sim.testbench import DmaTestbench

__all__ = ["Comparison"]

REGION_BYTES = 0x2_0000
LOG_ENTRIES = 16
PATIENCE = 20_000
WATCHDOG = 3_000

CHECKS = (Status.MALFORMED, Status.ZERO_LENGTH, Status.SRC_REGION, Status.SRC_DOMAIN, Status.SRC_RIGHTS,
          Status.SRC_BOUNDS, Status.DST_REGION, Status.DST_DOMAIN, Status.DST_RIGHTS, Status.DST_BOUNDS)
MEMORY = (Status.READ_SLVERR, Status.READ_DECERR, Status.WRITE_SLVERR, Status.WRITE_DECERR)


class Domain(NamedTuple):
    """A protection domain and its regions: a source, a destination, and two that change roles."""

    number: int
    source: int
    destination: int
    swapped: tuple

    def sources(self, parity):
        return self.source, self.swapped[parity]

    def destinations(self, parity):
        return self.destination, self.swapped[1 - parity]


class Item(NamedTuple):
    """Something to store to a doorbell: a whole word, or a part of one if ``part`` says which bytes."""

    word: NativeWord
    verifiable: bool = True
    part: tuple | None = None

    @property
    def strobes(self):
        return 0xFFFF if self.part is None else 0xFFFF >> 1


class Stopped(Exception):
    """There is a mismatch, and going on would only make more."""


class Comparison:
    """One run.

    Parameters
    ----------
    bench : :class:`DmaTestbench`
        Started.
    requests : int
        How many to post at least.
    """

    def __init__(self, bench, requests):
        self.bench, self.model, self.config, self.rng = bench, bench.model, bench.config, bench.rng
        self.requests = requests
        self.domains, self.homes = [], []
        self.used = {}                      # region -> where the next destination in it may begin
        self.owed = 0                       # log entries that the posted words make
        self.parity = 0
        self.wanted = [*CHECKS, *MEMORY]
        # The watchdog is on in half of the runs; only what is provoked may time out.
        self.watchdog = self.rng.choice((0, WATCHDOG))
        self._taken = []
        self._told = 0.0

    async def run(self):
        """Everything. Differences are in the testbench's ``mismatches``."""
        try:
            await self._lay_out()
            sections = [self._overflow, self._disabled, self._reset, self._completion_error, self._time_out]
            owed = self.rng.sample(sections, len(sections))
            per_round = max(20, min(400, self.requests // 6))
            while self.bench.posted < self.requests or owed:
                await self._round(min(per_round, max(20, self.requests - self.bench.posted)))
                # Each once, and then any of them again.
                if owed or self.rng.random() < 0.5:
                    await self._section(owed.pop() if owed else self.rng.choice(sections))
            await self.bench.finish()
            for status in Status:
                if status is not Status.OK and not self.bench.errors[status.name]:
                    self.bench.mismatch(f"{status.name} was never provoked.")
        except Stopped:
            pass

    def _check(self):
        if self.bench.mismatches:
            raise Stopped

    def tell(self, note=""):
        """Report progress, a few times a second."""
        if time.monotonic() - self._told > 0.2:
            self._told = time.monotonic()
            report(done=min(self.bench.posted, self.requests), total=self.requests, cycles=self.bench.cycle,
                   note=note, mismatches=len(self.bench.mismatches))

    # The ground

    async def _lay_out(self):
        """Regions anywhere in 64 bits with faulty pages in them, an entry that is not valid, the queues."""
        bench, rng = self.bench, self.rng
        numbers = rng.sample(range(self.config.regions), self.config.regions)
        # One that is in the table but not valid, some that are not in it, and one that is in no table.
        self.unknown = [numbers.pop(), *numbers[-2:], *([255] if self.config.regions < 256 else [])]
        domains = min(4, self.config.queues, (self.config.regions - 3) // 4)
        for number in rng.sample(range(256), domains):
            regions = [await self._region(numbers.pop(0), number, *rights)
                       for rights in ((True, False), (False, True), (True, True), (True, True))]
            self.domains.append(Domain(number, regions[0], regions[1], tuple(regions[2:])))
        await bench.define_region(self.unknown[0], base=self._page(REGION_BYTES), length=REGION_BYTES,
                                  domain=self.domains[0].number, valid=False)
        # Most queues have both words; some have one, or none.
        has = [(1, 1), (1, 0), (0, 1), (0, 0)] + [(1, 1)] * (self.config.queues - 4)
        rng.shuffle(has)
        for queue in range(self.config.queues):
            self.homes.append(self.domains[queue % domains])
            places = [self._page(PAGE_BYTES) + 8 * rng.randrange(PAGE_BYTES // 8) for _ in range(2)]
            for place in places:
                bench.fill(place & -PAGE_BYTES, bytes(PAGE_BYTES))
            sc, rc = (place if here else None for place, here in zip(places, has[queue], strict=True))
            await bench.configure_queue(queue, domain=self.homes[queue].number, sc=sc, rc=rc,
                                        skip_errors=rng.random() < 0.4)
            await bench.command(queue, Command.START)
        await bench.driver.set_watchdog(self.watchdog)
        bench.trace(f"domains {self.domains}")
        self.tell("laid out")

    def _page(self, length):
        """Address of a page with room for ``length`` bytes, and a page of distance to everything else."""
        while True:
            base = self.rng.getrandbits(self.rng.choice((33, 36, 40, 48, 64))) & -PAGE_BYTES
            if base < PAGE_BYTES or base + length + PAGE_BYTES > 1 << 64:
                continue
            if all(base + length + PAGE_BYTES <= first or last + PAGE_BYTES <= base
                   for first, last in self._taken):
                self._taken.append((base, base + length + PAGE_BYTES))
                return base

    async def _region(self, number, domain, readable, writable):
        bench, rng = self.bench, self.rng
        base = self._page(REGION_BYTES)
        bench.fill(base - PAGE_BYTES, rng.randbytes(REGION_BYTES + 2 * PAGE_BYTES))
        faults = [(kind, response) for kind, right in (("read", readable), ("write", writable)) if right
                  for response in ("SLVERR", "DECERR")]
        # Both responses of a kind side by side, so that a request can touch both.
        rng.shuffle(faults)
        for kind in ("read", "write"):
            page = rng.randrange(1, REGION_BYTES // PAGE_BYTES - 2)
            for response in (response for what, response in faults if what == kind):
                bench.fail_page(base + page * PAGE_BYTES, **{kind: response})
                page += 1
        await bench.define_region(number, base=base, length=REGION_BYTES - rng.randrange(PAGE_BYTES),
                                  domain=domain, readable=readable, writable=writable)
        return number

    # Requests

    def _length(self):
        """Lengths at the edges of beats, bursts and pages more often than others."""
        rng, beat = self.rng, self.config.beat_bytes
        kind = rng.random()
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

    def _place(self, limit):
        """An offset below ``limit``, often aligned or next to a page's border."""
        rng, kind = self.rng, self.rng.random()
        offset = rng.randint(0, limit)
        if kind < 0.25:
            return offset & -self.config.beat_bytes
        if kind < 0.6:
            return min(limit, max(0, (offset & -PAGE_BYTES) + rng.randint(-70, 70)))
        return offset

    def _flags(self, queue):
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

    def _try(self, queue, length, accept, place=None):
        """A copy whose destination is new in this round and whose prediction is accepted, or None."""
        rng, home = self.rng, self.homes[queue]
        for attempt in range(40):
            source, destination = rng.choice(home.sources(self.parity)), rng.choice(home.destinations(self.parity))
            source_room = self.model.regions[source].length - length
            start = self.used.get(destination, 0)
            start += rng.choice((0, 0, 1, rng.randint(0, 70), rng.randint(0, 70), self._place(PAGE_BYTES)))
            if attempt > 20:
                # The place may be on a faulty page.
                start += rng.choice((1, 2)) * PAGE_BYTES
            if source_room < 0 or start + length > self.model.regions[destination].length:
                continue
            word = NativeWord.copy(src=(source, place(source, source_room) if place else self._place(source_room)),
                                   dst=(destination, start), length=length, flags=self._flags(queue))
            if accept(self.model.predict(queue, word), word):
                self.used[destination] = start + length
                return word
        return None

    def good(self, queue, length=None):
        """A copy that will succeed, or None where there is no room for its destination any more."""
        length = length or self._length()
        for size in (length, min(length, 300), 1):
            word = self._try(queue, size, lambda status, word: status is Status.OK
                             and not self.model.is_withheld(queue, word))
            if word is not None:
                return word
        return None

    def bad(self, queue, status):
        """A request that will end with ``status``, or None if none was found."""
        if status in MEMORY:
            return self._faulty(queue, status)
        for _ in range(60):
            item = self._broken(queue, status)
            if item is not None and self.model.predict(queue, item.word, item.strobes) is status:
                return item
        return None

    def _faulty(self, queue, status):
        """A request that touches a faulty page, or that and the next."""
        rng, home = self.rng, self.homes[queue]
        kind = "read" if status in MEMORY[:2] else "write"

        def faulty_pages(number):
            region = self.model.regions[number]
            return [page - region.base for page, response in self.model.faults[kind].items()
                    if response is status and region.base <= page < region.base + region.length]

        def near(page, length):
            """Where to begin so that the page, or its end and the next, is touched."""
            begin = page + rng.choice((0, PAGE_BYTES)) - rng.randint(0, length + 2)
            return max(begin, 0)

        for _ in range(60):
            length, place = self._length(), None
            if kind == "write":
                number = rng.choice(home.destinations(self.parity))
                pages = [page for page in faulty_pages(number) if page >= self.used.get(number, 0)]
                if not pages:
                    continue
                self.used[number] = max(self.used.get(number, 0), near(rng.choice(pages), length))
            else:
                if rng.random() < 0.3 and (pages := list(self._write_faults(home))):
                    # Where the beginning cannot be written either, reading still decides.
                    number, page = rng.choice(pages)
                    self.used[number] = max(self.used.get(number, 0), page)
                    length = rng.randint(self.config.segment_bytes, 2 * PAGE_BYTES)

                def place(source, limit, length=length):
                    pages = faulty_pages(source)
                    return min(near(rng.choice(pages), length), limit) if pages else self._place(limit)
            word = self._try(queue, length, lambda got, word: got is status, place)
            if word is not None:
                return Item(word)
        return None

    def _write_faults(self, home):
        """``(region, offset)`` of pages that cannot be written, in what is left of a domain's destinations."""
        for number in home.destinations(self.parity):
            region = self.model.regions[number]
            for page in self.model.faults["write"]:
                if self.used.get(number, 0) <= page - region.base < region.length:
                    yield number, page - region.base

    def _broken(self, queue, status):
        """A request that may well fail a check."""
        rng, home = self.rng, self.homes[queue]
        foreign = [region for domain in self.domains if domain is not home for region in domain[1:3]]
        source, destination = rng.choice(home.sources(self.parity)), rng.choice(home.destinations(self.parity))
        length = self._length()
        fields = {
            "opcode": Opcode.COPY, "flags": self._flags(queue), "src_region": source, "dst_region": destination,
            "src_offset": rng.randrange(1 << 10), "length": length, "dst_offset": rng.randrange(1 << 10),
        }
        q, name = self.model.queues[queue], status.name
        if status is Status.MALFORMED:
            kind = rng.randrange(4)
            if kind == 0:
                fields["opcode"] = rng.choice([code for code in range(16) if code != Opcode.COPY])
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

    def _items(self, queue):
        """The next one or two things that a queue is to be given; none where there is no room."""
        rng = self.rng
        if self.wanted:
            status = self.wanted.pop(0)
            if (item := self.bad(queue, status)) is None:
                self.wanted.append(status)
            else:
                return [item]
        if rng.random() < 0.12:
            item = self.bad(queue, rng.choice(CHECKS + MEMORY))
            return [] if item is None else [item]
        word = self.good(queue)
        if word is None:
            return []
        if rng.random() < 0.06:
            return self._chain(queue, word)
        return [Item(word)]

    def _chain(self, queue, word):
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

    # Rounds

    async def _round(self, number):
        """About ``number`` requests on all queues at once."""
        self.parity, self.used = 1 - self.parity, {}
        self.owed = len(self.model.log)
        plans = {queue: [] for queue in range(self.config.queues)}
        busy = self.rng.sample(range(self.config.queues), self.rng.randint(1, self.config.queues))
        planned = empty = 0
        while planned < number and empty < 20:
            queue = self.rng.choice(busy)
            items = self._items(queue)
            plans[queue] += items
            planned += len(items)
            empty = 0 if items else empty + 1
        tasks = [cocotb.start_soon(self._agent(queue, plans[queue])) for queue in busy]
        for task in tasks:
            await task
        self._check()
        await self.bench.wait_log()
        self.bench.check_memory()
        self._check()

    async def _agent(self, queue, items):
        """A GPU block that posts to one queue and sees to its errors."""
        bench, rng = self.bench, self.rng
        try:
            while items:
                group, items = self._group(items)
                if rng.random() < 0.3:
                    await bench.wait(rng.randint(1, 60))
                if rng.random() < 0.02:
                    await self._nap(queue)
                await self._log_room(queue, group)
                while self._outstanding(queue) + len(group) > self.config.queue_depth:
                    await self._progress(queue)
                await self._store(queue, group)
                self.tell()
                self._check()
            await self._drain(queue)
        except Stopped:
            pass

    def _group(self, items):
        """What goes out in one burst."""
        if items[0].part is not None:
            return items[:1], items[1:]
        most = self.rng.choice((1, 1, 1, 2, 4, 8))
        size = next((index for index, item in enumerate(items[:most]) if item.part is not None or index >=
                     self.config.queue_depth), min(most, len(items)))
        return items[:size], items[size:]

    async def _store(self, queue, group):
        bench, offset = self.bench, 16 * self.rng.randrange(200)
        self.owed += self._failing(queue, group)
        if group[0].part is not None:
            first, length = group[0].part
            # A part that begins and ends at 8 bytes may also come as a narrow beat.
            size = 3 if length == 8 and first % 8 == 0 and self.rng.random() < 0.5 else 4
            await bench.store(queue, group[0].word.to_bytes()[first:first + length], offset=offset + first,
                              size=size)
            return
        # Whether a request's bytes can be looked at is told per burst.
        for item in group:
            if not item.verifiable:
                break
        else:
            await bench.post(queue, *(item.word for item in group), offset=offset)
            return
        await bench.post(queue, *(item.word for item in group), offset=offset, verifiable=False)

    def _failing(self, queue, group):
        return sum(self.model.predict(queue, item.word, item.strobes) is not Status.OK for item in group)

    def _outstanding(self, queue):
        """Words that the hardware may still hold, as far as the GPU knows."""
        return self.model.queues[queue].posted - max(self.bench.poller.count(queue), self.bench.known[queue])

    async def _log_room(self, queue, group):
        """Wait until the log cannot overflow; whoever waits here owes it nothing."""
        failing = self._failing(queue, group)
        if failing and self.owed - self.bench.popped + failing > LOG_ENTRIES:
            await self._drain(queue)
            start = self.bench.cycle
            while self.owed - self.bench.popped + failing > LOG_ENTRIES:
                if self.bench.cycle - start > 10 * PATIENCE:
                    self.bench.mismatch(f"the log gave {self.bench.popped} entries, {self.owed} were expected.")
                self._check()
                await self.bench.wait(16)

    async def _progress(self, queue):
        """Wait until something of a queue has ended."""
        bench, before, start = self.bench, self._outstanding(queue), self.bench.cycle
        if self.model.queues[queue].held is not None:
            await self._resolve(queue)
            return
        while self._outstanding(queue) == before:
            self._check()
            changed = bench.poller.changed(queue)
            changed.clear()
            await bench.until(changed, 100)
            if not changed.is_set():
                await bench.state(queue)
            if bench.cycle - start > PATIENCE:
                await bench.settle(queue)
                if not bench.mismatches:
                    start = bench.cycle

    async def _resolve(self, queue):
        """Wait for what a queue comes to, and clear it if that is an error."""
        await self._rest(queue)
        if self.model.queues[queue].held is not None:
            if self.rng.random() < 0.01:
                # What an error holds is nothing to the watchdog.
                await self.bench.wait(3 * WATCHDOG)
                await self._rest(queue)
            await self.bench.command(queue, Command.CLEAR)

    async def _drain(self, queue):
        """Wait for the end of all that was posted to a queue."""
        while True:
            held = self.model.queues[queue].held
            await self._resolve(queue)
            if held is None:
                return

    async def _nap(self, queue):
        """Pause a queue, see that it comes to rest, and start it again."""
        bench, start = self.bench, self.bench.cycle
        await bench.command(queue, Command.PAUSE)
        await bench.wait(self.rng.randint(0, 100))
        while (state := await bench.state(queue)).in_flight and not state.held:
            if bench.cycle - start > PATIENCE:
                bench.mismatch(f"paused queue {queue} still has {state.in_flight} segments in flight.")
                raise Stopped
            await bench.wait(32)
        await bench.command(queue, Command.START)

    async def _rest(self, queue):
        """Wait until a queue shows what the model does."""
        await self.bench.settle(queue, patience=PATIENCE)
        self._check()

    # Sections

    async def _section(self, section):
        """One section on a queue that fits it, with everything quiet before and after."""
        self.parity, self.used = 1 - self.parity, {}
        fitting = [queue for queue, q in enumerate(self.model.queues) if q.sc is not None or q.rc is not None]
        self.tell(section.__name__.strip("_").replace("_", " "))
        await section(self.rng.choice(fitting or [0]))
        self._check()
        await self.bench.wait_log()
        self.bench.check_memory()
        self._check()

    async def _some(self, queue, number, length=None):
        """Post good requests to a queue."""
        for _ in range(number):
            await self.bench.post(queue, self.good(queue, length))

    async def _overflow(self, queue):
        bench = self.bench
        await bench.command(queue, Command.PAUSE)
        await self._some(queue, self.config.queue_depth + 1, 40)
        await self._some(queue, 3, 40)
        await self._rest(queue)
        await bench.wait_log()
        await bench.command(queue, Command.START)
        await self._rest(queue)
        await self._some(queue, 1, 40)
        await self._rest(queue)
        await bench.command(queue, Command.CLEAR)
        await self._some(queue, 3, 40)
        await self._rest(queue)

    async def _disabled(self, queue):
        bench = self.bench
        await bench.command(queue, Command.RESET)
        await self._rest(queue)
        await self._some(queue, 2, 40)
        await self._rest(queue)
        await bench.wait_log()
        await bench.command(queue, Command.CLEAR)
        await bench.command(queue, Command.START)
        await self._some(queue, 2, 40)
        await self._rest(queue)

    async def _reset(self, queue):
        bench = self.bench
        other = (queue + 1) % self.config.queues
        self.model.freeze(queue)
        for _ in range(self.rng.randint(1, min(8, self.config.queue_depth))):
            await self._some(queue, 1, self.rng.choice((40, 3000, 5000)))
            await self._some(other, 1, 700)
            await self._resolve(other)
        await bench.wait(self.rng.randint(0, 200))
        await bench.command(queue, Command.RESET)
        await self._rest(queue)
        await bench.command(queue, Command.START)
        await self._some(queue, 3, 700)
        await self._rest(queue)
        await self._rest(other)

    async def _completion_error(self, queue):
        bench, q = self.bench, self.model.queues[queue]
        kind, flag = ("sc", RequestFlag.SC) if q.sc is not None else ("rc", RequestFlag.RC)
        bench.fail_page(getattr(q, kind), write=self.rng.choice(("SLVERR", "DECERR")))
        await bench.post(queue, self.good(queue, 99)._replace(flags=int(flag)))
        await self._rest(queue)
        await bench.wait_log()
        bench.mend_page(getattr(q, kind))
        await bench.post(queue, self.good(queue, 99)._replace(flags=int(flag)))
        await self._rest(queue)

    async def _time_out(self, queue):
        bench, model = self.bench, self.model
        # Short, so that what waits for memory leaves room in the buffer for the other queue.
        word, other = self.good(queue, self.rng.randint(1, 200)), (queue + 1) % self.config.queues
        side = self.rng.choice(("src", "dst"))
        start = model.regions[getattr(word, f"{side}_region")].base + getattr(word, f"{side}_offset")
        pages = range(start & -PAGE_BYTES, start + word.length, PAGE_BYTES)
        bench.trace(f"withholding {start:#x}, {side} of queue {queue}")
        for page in pages:
            bench.withhold(page)
        await bench.driver.set_watchdog(WATCHDOG)
        await bench.post(queue, word)
        await self._some(queue, 2, 40)
        model.time_out(queue)
        await self._some(other, 3, 600)
        await self._rest(queue)
        await self._rest(other)
        await bench.wait_log()
        # Or it would find the queue waiting again.
        await bench.driver.set_watchdog(0)
        if self.rng.random() < 0.5:
            # The response comes before the queue is cleared: nothing ends.
            for page in pages:
                bench.release(page)
            await bench.wait(500)
            await self._rest(queue)
            await bench.command(queue, Command.CLEAR)
        else:
            await bench.command(queue, Command.CLEAR)
            await bench.wait(500)
            await self._rest(queue)
            for page in pages:
                bench.release(page)
        await self._rest(queue)
        await bench.driver.set_watchdog(self.watchdog)


@cocotb.test()
async def compare(dut):
    """Run as ``$DMACE_RUN`` says, and write the result where it says."""
    options = json.loads(os.environ["DMACE_RUN"])
    config = PRESETS[options["config"]]
    bench = DmaTestbench(dut, config, seed=options["seed"], stalls=options["stalls"],
                         latency=options["latency"])
    await bench.start()
    comparison = Comparison(bench, options["requests"])
    await comparison.run()
    result = {
        "config": options["config"], "seed": options["seed"], "requests": bench.posted, "cycles": bench.cycle,
        "errors_provoked": {status.name: bench.errors[status.name] for status in Status if status},
        "mismatches": len(bench.mismatches), "first_mismatches": bench.mismatches[:10],
    }
    Path(options["result"]).write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    report(done=options["requests"], total=options["requests"], cycles=bench.cycle, note="",
           mismatches=len(bench.mismatches))
