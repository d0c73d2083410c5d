# SPDX-License-Identifier: Apache-2.0
"""The queue store alone: random words, picks and flushes; each format of a word; full rate, overflow and the sweep."""

import random
from itertools import product

import pytest

from hw.dma_engine.config import LENGTH_WIDTH, DmaConfig
from hw.dma_engine.layouts import Check
from hw.dma_engine.words import Opcode
from tests.dma_engine.frontend.queue_store_bench import EVENTS, QUEUES, SEGMENT, Around, Bench, Word
from tests.dma_engine.frontend.sizes import SIZES, SMALL
from tests.harness.cell import run_bench

BLOCK = DmaConfig(**SIZES | {"queue_depth": 16})
CONFIGS = pytest.mark.parametrize("config", [
    pytest.param(SMALL, id="lut ram"), pytest.param(BLOCK, id="block ram", marks=pytest.mark.long)])


def random_word(rng, queue=None):
    """A word of any format, in general without a fault."""
    queue, good = rng.randrange(QUEUES) if queue is None else queue, rng.random() < 0.7
    word = Word(queue, src_region=rng.getrandbits(8), dst_region=rng.getrandbits(8))
    if rng.random() < 0.3:
        word.length = rng.getrandbits(28) if good else rng.randrange(2)
        word.check = Check.OK if good else rng.choice((Check.OK, Check.MALFORMED, Check.CONNECTION))
        word.extra = {"length_high": rng.getrandbits(6) if good else rng.randrange(2), "note": rng.getrandbits(23),
                      "src_beyond": rng.randrange(2), "dst_beyond": rng.randrange(2)}
        return word
    word.flags = rng.getrandbits(4 if good else 8)
    word.note = rng.choice((0, rng.getrandbits(18)))
    word.src_offset, word.dst_offset = rng.getrandbits(36), rng.getrandbits(36)
    word.length = rng.choice((1, 8, SEGMENT, rng.getrandbits(8) + 1, rng.getrandbits(28) + 1 >> 1, (1 << 28) - 1))
    if rng.random() < 0.2:
        word.opcode, word.length, word.dst_offset = Opcode.SIGNAL, 8, word.dst_offset & ~7
    if not good:
        word.check = rng.choice((Check.OK, Check.MALFORMED, Check.FETCH_ERROR))
        word.length = rng.choice((0, word.length))
    return word


class Traffic(Bench):
    """Sends random traffic and drains it."""

    async def traffic(self, cycles):
        rng, flushable, word = self.rng, 0, None
        for cycle in range(cycles):
            if cycle % 60 == 0:
                rate, picks, consumes, takes = (rng.choice(rates) for rates in (
                    (0.1, 0.5, 1), (0, 0.3, 1), (0, 0.5, 0.9, 1), (0, 0.1, 0.9)))
                target = rng.choice((None, None, rng.randrange(QUEUES)))
            # Now and then refusals fill the queue of events.
            refusing = cycle % 900 < 60
            if refusing:
                rate, takes, self.enabled = 1, 0, 0
            elif rng.random() < 0.02:
                self.enabled ^= 1 << rng.randrange(QUEUES)
            elif rng.random() < 0.02:
                self.enabled = (1 << QUEUES) - 1
            drive = {"consume": rng.random() < consumes, "take": rng.random() < takes}
            if rng.random() < rate:
                word = random_word(rng, rng.choice((None, target)))
                drive["word"] = word
            disabled = [index for index in range(QUEUES) if not self.enabled >> index & 1]
            if disabled and flushable and rng.random() < 0.2:
                # Nothing is picked in this cycle or the previous one.
                drive["flush"] = rng.choice(disabled)
            elif rng.random() < picks:
                waiting = [index for index, queue in enumerate(self.queues) if queue.head or queue.words]
                anything = rng.random() < 0.1 or not waiting
                drive["pick"] = rng.randrange(QUEUES) if anything else rng.choice(waiting)
                if target in waiting and rng.random() < 0.7:
                    drive["pick"] = target
            flushable = "pick" not in drive
            if rng.random() < (0.5 if refusing else 0.05):
                drive["clear"] = rng.randrange(QUEUES)
            await self.step(**drive)

    async def drain(self):
        """Consume all words in turn."""
        while self.offered or self.events or self.picked is not None or any(
                queue.head or queue.words for queue in self.queues):
            waiting = [index for index, queue in enumerate(self.queues) if queue.head or queue.words]
            await self.step(pick=self.rng.choice(waiting) if waiting else None, consume=True)

    async def through(self, words):
        """Send the words, each to an empty queue, and consume each in the next cycle."""
        for number, word in enumerate(words):
            word.queue = number % QUEUES
            await self.step(word, pick=word.queue, consume=True)
        await self.step(consume=True)
        assert self.consumed[-len(words):] == words


def run(config, rng, body):
    """Run ``body`` on a bench, and return its counts of the cases that occurred."""
    around = Around(config)
    return run_bench(around, lambda ctx: Traffic(ctx, around, rng), body)


@CONFIGS
def test_random(config, seed):
    """Words of all formats, refusals, clears, flushes and any order of picks, with stalls of events and of picks."""
    rng = random.Random(f"{seed} queues")
    seen = run(config, rng, lambda bench: bench.traffic(4500))
    assert min(seen[name] for name in ("direct", "stored", "replaced", "moved up", "fetched in vain", "overflow",
                                       "disabled", "stalled", "cleared", "flushed")) > 5, seen


def test_formats():
    """Every opcode with every value of the flags, each bit of the length, each earlier fault with each kind of word."""
    rng = random.Random("formats")
    words = [Word(0, opcode, flags, length=8, dst_offset=rng.getrandbits(33) << 3)
             for opcode, flags in product(range(16), range(256))]
    words += [Word(0, opcode, length=length, check=check, dst_offset=offset, note=rng.getrandbits(18))
              for opcode, length, offset in product((0, *Opcode, 3), (0, 1, 7, 8, 9, 1 << 27), (0, 1, 4, 8))
              for check in (Check.OK, Check.MALFORMED, Check.FETCH_ERROR)]
    for bit in range(LENGTH_WIDTH):
        words += [Word(0, Opcode.SIGNAL, length=8 ^ 1 << bit), Word(0, length=1 << bit),
                  Word(0, length=0, extra={"length_high": 1 << bit % 6})]
    words += [Word(0, length=length, check=check, extra={"length_high": high, "note": rng.getrandbits(23)})
              for length, high in product((0, 1, 1 << 27), (0, 1, 32))
              for check in (Check.OK, Check.MALFORMED, Check.CONNECTION)]
    assert run(SMALL, rng, lambda bench: bench.through(words))["direct"] == len(words)


def test_segments(seed):
    """The number and the end of the segments: each position of the destination with lengths around whole segments."""
    rng = random.Random(f"{seed} segments")
    lengths = [*range(1, SEGMENT + 3), *range(2 * SEGMENT - 2, 2 * SEGMENT + 2), 4 * SEGMENT, (1 << 28) - 1]
    run(SMALL, rng, lambda bench: bench.through([
        Word(0, length=length, dst_offset=rng.getrandbits(31) * SEGMENT + position)
        for position, length in product(range(SEGMENT), lengths)]))


@CONFIGS
def test_full_rate(config, seed):
    """One queue takes a word and gives one in each cycle, with few and with many words waiting."""
    rng = random.Random(f"{seed} rate")

    async def body(bench):
        for waiting in (1, config.queue_depth - 2):
            queue = rng.randrange(QUEUES)
            for _ in range(waiting + 1):
                await bench.step(random_word(rng, queue))
            await bench.step(random_word(rng, queue), pick=queue)
            count = len(bench.consumed)
            for _ in range(3 * config.queue_depth):
                assert await bench.step(random_word(rng, queue), pick=queue, consume=True)
            assert len(bench.consumed) == count + 3 * config.queue_depth
            await bench.drain()

    run(config, rng, body)


@CONFIGS
def test_overflow(config, seed):
    """A queue holds one word and ``queue_depth`` behind it; it then refuses words until it is cleared."""
    rng = random.Random(f"{seed} overflow")

    async def body(bench):
        for queue in range(QUEUES):
            for _ in range(config.queue_depth + 1):
                await bench.step(random_word(rng, queue))
            assert bench.seen["overflow"] == queue
            for _ in range(3):
                await bench.step(random_word(rng, queue))
                await bench.step(random_word(rng, (queue + 1) % QUEUES), pick=queue)
                await bench.step(consume=True)
            assert bench.seen["overflow"] == queue + 1
            await bench.step(clear=queue)
            await bench.step(random_word(rng, queue))
            assert len(bench.queues[queue].words) == config.queue_depth - 2
            await bench.drain()

    run(config, rng, body)


@CONFIGS
def test_events_stall(config):
    """Refusals stall words while as many events wait as there are entries; none is lost."""
    rng = random.Random("events")

    async def body(bench):
        bench.enabled = 0b0101
        for number in range(20):
            await bench.step(random_word(rng, (1, 3)[number % 2]), clear=(3, 1)[number % 2], take=False)
        assert len(bench.events) == EVENTS and bench.offered
        for _ in range(30):
            await bench.step(clear=rng.choice((1, 3)))
            await bench.step(random_word(rng), take=False)

    assert run(config, rng, body)["stalled"] > 10


@CONFIGS
def test_sweep(config, seed):
    """After a reset amid traffic and a sweep, all queues are empty and accept as many words as before."""
    rng = random.Random(f"{seed} sweep")

    async def body(bench):
        for _ in range(3):
            await bench.traffic(300)
            await bench.reset()
            bench.enabled = (1 << QUEUES) - 1
            for queue in range(QUEUES):
                for _ in range(config.queue_depth + 2):
                    await bench.step(random_word(rng, queue))
            await bench.drain()

    assert run(config, rng, body)["overflow"] >= 3 * QUEUES
