# SPDX-License-Identifier: Apache-2.0
"""The window table alone, against a dictionary of the segments that have ended.

The model numbers the segments of a queue from 0 without wrapping.  An entry is marked for a number exactly if a segment
of that number has ended.  The bench looks up the segments of one window from the oldest one on, and the next user of
the oldest entry once that is marked.
"""

import random
from itertools import product

import pytest

from hw.dma_engine.completion.window_table import WindowTable
from hw.dma_engine.config import DmaConfig
from hw.dma_engine.layouts import InfoLayout, done_layout, scheduled_layout
from hw.dma_engine.words import Status
from tests.dma_engine.frontend.sizes import SIZES, SMALL
from tests.harness.cell import CellBench, run_bench
from tests.harness.fields import Fields

CONFIGS = pytest.mark.parametrize("config", [
    SMALL, DmaConfig(**SIZES | {"queues": 8, "extended": 4, "extended_window": 16, "buffer_beats": 128}),
    DmaConfig(**SIZES | {"extended_window": 4}), DmaConfig(**SIZES | {"extended": 4}),
], ids=["small", "longer sweep", "equal windows", "all extended"])
ENDS = [{"end.sc": sc, "end.rc": rc, "end.irq": irq} for sc, rc, irq in product((0, 1), repeat=3)]
LENGTH_BITS = InfoLayout["length"].width


class Bench(CellBench):
    """Drives all three ports for one cycle at a time and checks each look-up."""

    def __init__(self, ctx, dut, rng):
        super().__init__(ctx, rng)
        self.dut, self.config = dut, dut.config
        self.windows = [self.config.extended_window if queue < self.config.extended else self.config.window
                        for queue in range(self.config.queues)]
        self.done, self.segment = Fields(done_layout(self.config)), Fields(scheduled_layout(self.config))
        self.clear()

    def clear(self):
        self.oldest, self.tails = [0] * self.config.queues, [0] * self.config.queues
        self.ended, self.infos, self.due = {}, {}, None

    def index(self, number):
        return number % (1 << self.config.index_width)

    async def step(self, schedule=None, end=None, lookup=None, sweep=None):
        """One cycle: a queue whose next segment is scheduled, a segment that ends, and one to look up."""
        ctx, dut, rng = self.ctx, self.dut, self.rng
        ctx.set(dut.init.active, sweep is not None)
        ctx.set(dut.init.address, rng.getrandbits(4) if sweep is None else sweep)
        # Payloads are random while nothing is valid.
        ctx.set(dut.scheduled.valid, schedule is not None)
        segment, done = rng.getrandbits(self.segment.width), rng.getrandbits(self.done.width)
        if schedule is not None:
            fields = {"queue": schedule, "index": self.index(self.tails[schedule])}
            segment = segment & ~self.segment.mask(fields) | self.segment.pack(fields)
        ctx.set(dut.scheduled.segment.as_value(), segment)
        ctx.set(dut.mark.valid, end is not None)
        if end is not None:
            queue, number, last, flags, status = end
            fields = {"queue": queue, "index": self.index(number), "last": last, "status": status} | flags
            done = done & ~self.done.mask(fields) | self.done.pack(fields)
        ctx.set(dut.mark.done.as_value(), done)
        due, self.due = self.due, None
        if lookup is None:
            ctx.set(dut.lookup.queue, rng.randrange(self.config.queues))
            ctx.set(dut.lookup.index, rng.getrandbits(self.config.index_width))
        else:
            ctx.set(dut.lookup.queue, lookup[0])
            ctx.set(dut.lookup.index, self.index(lookup[1]))
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
        # The entry of the oldest segment serves the next pass as soon as it is marked.
        span = self.windows[queue] + ((queue, self.oldest[queue]) in self.ended)
        return queue, self.oldest[queue] + self.rng.randrange(span)

    async def traffic(self, cycles):
        end, mood = None, 0.5
        for cycle in range(cycles):
            if cycle % 50 == 0:
                mood = self.rng.choice((0.2, 0.5, 0.9))
            free = [queue for queue, tail in enumerate(self.tails) if tail - self.oldest[queue] < self.windows[queue]]
            schedule = self.rng.choice(free) if free and self.rng.random() < 0.6 else None
            lookup = self.random_lookup(end) if self.rng.random() < 0.9 else None
            end = self.random_end() if self.rng.random() < mood else None
            await self.step(schedule, end, lookup)
            for queue in range(self.config.queues):
                # The oldest segments retire, in general some time after they have ended.
                while (queue, self.oldest[queue]) in self.ended and self.rng.random() < 0.3:
                    self.oldest[queue] += 1

    async def expect_empty(self):
        """No entry is marked for the first number of its generation."""
        for queue, window in enumerate(self.windows):
            for number in range(window):
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
    """Each entry in four passes over each window: a mark changes this entry for this pass, and no other one."""
    rng = random.Random("every entry")

    async def body(bench):
        for pass_ in range(4):
            for _ in range(max(bench.windows)):
                for queue, window in enumerate(bench.windows):
                    if bench.tails[queue] < (pass_ + 1) * window:
                        await bench.step(schedule=queue)
            for queue, window in enumerate(bench.windows):
                numbers = range(pass_ * window, (pass_ + 1) * window)
                for number in reversed(numbers):
                    await bench.step(end=(queue, number, pass_ & 1, ENDS[number % 8], Status.OK))
                    for other in (number, *rng.sample(numbers, 2)):
                        await bench.step(lookup=(queue, other))
            for queue, window in enumerate(bench.windows):
                for number in range(pass_ * window, (pass_ + 1) * window + 1):
                    await bench.step(lookup=(queue, number))
                    bench.oldest[queue] = number

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
            bench.oldest[queue] = number + 1

    assert run(SMALL, rng, body)["marked"] == 2 * SMALL.queues * (len(ENDS) + len(Status))


@CONFIGS
def test_sweep(config, seed):
    """After a sweep no entry is marked, whatever its generation bit was."""
    rng = random.Random(f"{seed} sweep")

    async def body(bench):
        for marked in (1, 2, None):
            for queue, number in ((queue, number) for queue, window in enumerate(bench.windows)
                                  for number in range((marked or 0) * window)):
                await bench.step(end=(queue, number, 1, ENDS[-1], Status.OK))
            for row in range(config.sweep_rows):
                await bench.step(sweep=row)
            bench.clear()
            await bench.expect_empty()
            await bench.traffic(300)

    run(config, rng, body)
