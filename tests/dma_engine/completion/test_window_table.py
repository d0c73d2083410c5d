# SPDX-License-Identifier: Apache-2.0
"""The window table alone, against a dictionary of the segments that have ended.

The model numbers the segments of a queue from 0 without wrapping.  An entry is marked for a number exactly if a segment
of that number has ended.  The bench looks up the segments of one window from the oldest one on, and the entry of the
next segment, which a queue always holds.
"""

import random
from itertools import product

import pytest

from hw.dma_engine.completion.window_table import WindowTable
from hw.dma_engine.config import BLOCK_ENTRIES, DmaConfig
from hw.dma_engine.layouts import InfoLayout, done_layout, scheduled_layout
from hw.dma_engine.words import Status
from tests.dma_engine.frontend.sizes import SIZES, SMALL
from tests.dma_engine.windows import Windows
from tests.harness.cell import CellBench, run_bench
from tests.harness.fields import Fields

CONFIGS = pytest.mark.parametrize("config", [
    SMALL, DmaConfig(**SIZES | {"queues": 8, "entries": 64, "extended": 4, "buffer_beats": 128}),
    DmaConfig(**SIZES | {"entries": 128}), DmaConfig(**SIZES | {"extended": 4}),
], ids=["small", "longer sweep", "many entries", "all extended"])
ENDS = [{"end.sc": sc, "end.rc": rc, "end.irq": irq} for sc, rc, irq in product((0, 1), repeat=3)]
LENGTH_BITS = InfoLayout["length"].width


class Bench(CellBench):
    """Drives all three ports for one cycle at a time and checks each look-up."""

    def __init__(self, ctx, dut, rng):
        super().__init__(ctx, rng)
        self.dut, self.config = dut, dut.config
        self.done, self.segment = Fields(done_layout(self.config)), Fields(scheduled_layout(self.config))
        self.clear()

    def clear(self):
        self.oldest, self.tails = [0] * self.config.queues, [0] * self.config.queues
        self.windows = Windows(self.config, self.rng)
        self.indices, self.nexts = {}, {}
        self.ended, self.infos, self.due = {}, {}, None

    def index(self, queue, number):
        """Index of a segment in flight or of the next one."""
        return self.windows.next_index(queue) if number == self.tails[queue] else self.indices[queue, number]

    def retire(self, queue):
        self.windows.retire(self.indices[queue, self.oldest[queue]])
        self.oldest[queue] += 1

    async def step(self, schedule=None, end=None, lookup=None, sweep=None):
        """One cycle: a queue whose next segment is scheduled, a segment that ends, and one to look up."""
        ctx, dut, rng = self.ctx, self.dut, self.rng
        ctx.set(dut.init.active, sweep is not None)
        ctx.set(dut.init.address, rng.getrandbits(4) if sweep is None else sweep)
        # Payloads are random while nothing is valid.
        ctx.set(dut.scheduled.valid, schedule is not None)
        segment, done = rng.getrandbits(self.segment.width), rng.getrandbits(self.done.width)
        if schedule is not None:
            index, following = self.windows.schedule(schedule)
            self.indices[schedule, self.tails[schedule]] = index
            self.nexts[schedule, self.tails[schedule]] = tuple(following.values())
            fields = {"queue": schedule, "index": index} | following
            segment = segment & ~self.segment.mask(fields) | self.segment.pack(fields)
        ctx.set(dut.scheduled.segment.as_value(), segment)
        ctx.set(dut.mark.valid, end is not None)
        if end is not None:
            queue, number, last, flags, status = end
            fields = {"queue": queue, "index": self.indices[queue, number], "last": last, "status": status} | flags
            done = done & ~self.done.mask(fields) | self.done.pack(fields)
        ctx.set(dut.mark.done.as_value(), done)
        due, self.due = self.due, None
        if lookup is None:
            ctx.set(dut.lookup.index, rng.getrandbits(self.config.index_width))
        else:
            if lookup[0] == schedule and lookup[1] == self.tails[schedule]:
                ctx.set(dut.lookup.index, self.indices[lookup])
            else:
                ctx.set(dut.lookup.index, self.index(*lookup))
            # Either value is right in the cycle of a write.
            loose = lookup == (end and end[:2]), lookup[0] == schedule and lookup[1] == self.tails[schedule]
            self.due = lookup, self.ended.get(lookup), self.infos.get(lookup), loose
        if due is not None:
            self.check(*due)
        await ctx.tick()
        if schedule is not None:
            self.infos[schedule, self.tails[schedule]] = (
                self.segment.unpack(segment, "request.length") % (1 << LENGTH_BITS),
                self.segment.unpack(segment, "request.note"))
            self.tails[schedule] += 1
        if end is not None:
            self.seen["marked again"] += end[:2] in self.ended
            self.ended[end[:2]] = end[2:]

    def check(self, key, ended, info, loose):
        """Compare the outputs with the look-up of the cycle before."""
        (queue, number), (marking, scheduling) = key, loose
        lookup, where = self.dut.lookup, f"segment {number} of queue {queue}"
        if not marking:
            assert self.ctx.get(lookup.marked) == (ended is not None), where
            self.seen["marked" if ended else "unmarked"] += 1
            self.seen["early"] += number >= self.tails[queue]
            if ended:
                entry, (last, flags, status) = self.ctx.get(lookup.entry), ended
                assert (entry.last, entry.failed, entry.status) == (last, status != Status.OK, status), where
                # The flags of a failed segment have no meaning.
                if status == Status.OK:
                    assert {f"end.{name}": entry.end[name] for name in ("sc", "rc", "irq")} == flags, where
        if info and not scheduling and queue < self.config.extended:
            got = self.ctx.get(lookup.info.as_value())
            assert (got % (1 << LENGTH_BITS), got >> LENGTH_BITS) == info, where
            self.seen["info"] += 1
        if info and not scheduling:
            following = self.ctx.get(lookup.next)
            assert (following.number, following.generation) == self.nexts[key], where

    def random_end(self):
        """A random end of a segment of the window: in general one that has not ended yet."""
        flying = [(queue, number) for queue, (oldest, tail) in enumerate(zip(self.oldest, self.tails, strict=True))
                  for number in range(oldest, tail)]
        fresh = [key for key in flying if key not in self.ended] if self.rng.random() < 0.9 else flying
        if not fresh:
            return None
        status = Status.OK if self.rng.random() < 0.6 else self.rng.choice(list(Status))
        return *self.rng.choice(fresh), self.rng.randrange(2), self.rng.choice(ENDS), status

    def random_lookup(self, after):
        """A segment to look up: often the one that ended in the cycle before."""
        if after and self.rng.random() < 0.4:
            return after[:2]
        queue = self.rng.randrange(self.config.queues)
        return queue, self.rng.randint(self.oldest[queue], self.tails[queue])

    async def traffic(self, cycles):
        end, mood = None, 0.5
        for cycle in range(cycles):
            if cycle % 50 == 0:
                mood = self.rng.choice((0.2, 0.5, 0.9))
            free = [queue for queue in range(self.config.queues) if self.windows.may_schedule(queue)]
            schedule = self.rng.choice(free) if free and self.rng.random() < 0.6 else None
            lookup = self.random_lookup(end if end and end[1] >= self.oldest[end[0]] else None
                                        ) if self.rng.random() < 0.9 else None
            end = self.random_end() if self.rng.random() < mood else None
            await self.step(schedule, end, lookup)
            for queue in range(self.config.queues):
                # The oldest segments retire, in general some time after they have ended.
                while (queue, self.oldest[queue]) in self.ended and self.rng.random() < 0.3:
                    self.retire(queue)

    async def expect_empty(self):
        """No entry is marked in its first use."""
        for queue in range(self.config.queues):
            for number in range(self.config.window):
                await self.step(lookup=(queue, number), schedule=queue)
                await self.step(lookup=(queue, number))
        await self.step()

    async def drain(self):
        """One more cycle, in which the latest look-up is checked."""
        await self.step()


def run(config, rng, body):
    """Run ``body`` on a bench, and return its counts of the cases that occurred."""
    dut = WindowTable(config)
    return run_bench(dut, lambda ctx: Bench(ctx, dut, rng), body)


@CONFIGS
def test_random(config, seed):
    """Segments of all queues are scheduled, end in any order, some twice, and are looked up all the time."""
    rng = random.Random(f"{seed} window table")
    seen = run(config, rng, lambda bench: bench.traffic(2500))
    assert min(seen[name] for name in ("marked", "unmarked", "marked again", "early", "info")) > 50, seen


@CONFIGS
def test_every_entry(config):
    """Each entry in four uses: a mark changes this entry for this use, and no other one."""
    rng = random.Random("every entry")

    async def body(bench):
        for use in range(4):
            numbers = []
            while len(numbers) < config.entries - config.queues * BLOCK_ENTRIES:
                queue = rng.choice([queue for queue in range(config.queues) if bench.windows.may_schedule(queue)])
                numbers.append((queue, bench.tails[queue]))
                await bench.step(schedule=queue)
            for key in rng.sample(numbers, len(numbers)):
                await bench.step(end=(*key, use & 1, ENDS[key[1] % 8], Status.OK))
                for other in (key, *rng.sample(numbers, 2)):
                    await bench.step(lookup=other)
            for queue in range(config.queues):
                while bench.oldest[queue] < bench.tails[queue]:
                    await bench.step(lookup=(queue, bench.oldest[queue]))
                    bench.retire(queue)
                await bench.step(lookup=(queue, bench.tails[queue]))

    run(config, rng, body)


def test_results():
    """Each status, and for success each set of flags, of a last segment and of another one."""
    rng = random.Random("results")

    async def body(bench):
        cases = [*((Status.OK, flags) for flags in ENDS), *((status, rng.choice(ENDS)) for status in Status)]
        for (status, flags), last, queue in product(cases, (0, 1), range(SMALL.queues)):
            number = bench.tails[queue]
            await bench.step(schedule=queue)
            await bench.step(end=(queue, number, last, flags, status))
            await bench.step(lookup=(queue, number))
            bench.retire(queue)

    assert run(SMALL, rng, body)["marked"] == 2 * SMALL.queues * (len(ENDS) + len(Status))


@CONFIGS
def test_sweep(config, seed):
    """After a sweep no entry is marked, whatever its generation bit was."""
    rng = random.Random(f"{seed} sweep")

    async def body(bench):
        for _ in range(3):
            await bench.traffic(300)
            for row in range(config.sweep_rows):
                await bench.step(sweep=row)
            bench.clear()
            await bench.expect_empty()

    run(config, rng, body)
