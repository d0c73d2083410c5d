# SPDX-License-Identifier: Apache-2.0
"""TriggerPoster: the words of each firing in order, on the port of their page, and refusals."""

import random
from collections import deque
from dataclasses import replace

import pytest

from hw.triggers.config import TriggerConfig
from hw.triggers.model import halves
from hw.triggers.poster import TriggerPoster
from hw.triggers.words import Refusal, TickWord
from tests.harness.cell import CellBench, run_bench

CONFIG = TriggerConfig(blocks=2, dma_pages=3, ace_pages=2)
PIPELINED = replace(CONFIG, pipelined=True)
STAMPED = (1 << 64) - (1 << 28)
RECENT = 2

both = pytest.mark.parametrize("config", [CONFIG, PIPELINED], ids=["plain", "pipelined"])


class _Bench(CellBench):
    """Lets firings leave while the poster is ready. ``rates``: of transfers to engines, of their refusals, and of
    transfers to chains."""

    def __init__(self, ctx, dut, rng, rates):
        super().__init__(ctx, rng)
        self.dut, self.rates = dut, rates
        self.words = [[0, 0] for _ in range(CONFIG.counters)]
        self.masks = [0] * CONFIG.blocks
        self.items = deque()            # counter, port, and word or tick, not yet posted
        self.refusals = deque()
        # Firings that have been requested, each with its refusal or what is posted.
        self.requested = deque([None] * dut.config.read_latency)
        self.firing = None              # that left in the previous cycle
        self.fired = self.to_fire = 0
        self.idle_cycles = 0            # since the last firing
        self.posted_pages = deque([None] * RECENT, RECENT)

    async def cycle(self, *, leave=None, write=None, pages=None, heads=(0, 0), free=-1):
        """``leave``: counter, page, pair, stamp, number. ``write``: counter, second, word, clear. ``pages``: block and
        mask. ``heads``: pages of the oldest firings. Returns whether the firing left."""
        ctx, dut = self.ctx, self.dut
        ctx.set(dut.words.valid, write is not None)
        for name, value in zip(("counter", "second", "word", "clear"), write or (0, 0, 0, 0), strict=True):
            ctx.set(getattr(dut.words, name), value)
        ctx.set(dut.settings.pages_valid, pages is not None)
        ctx.set(dut.settings.pages_block, pages[0] if pages else 0)
        ctx.set(dut.settings.pages, pages[1] if pages else 0)
        ctx.set(dut.dma.free, free & 7)
        ctx.set(dut.ace.free, free >> 3 & 3)
        counter, page, pair, stamp, number = self.firing or [self.rng.getrandbits(6) for _ in range(5)]
        fields = {"counter": counter, "page": page, "pair": pair & 1, "stamp": stamp & 1}
        if self.rng.getrandbits(1) or number >> 16:
            fields |= {"sum": 1, "base": -number % (1 << 32), "behind": self.rng.getrandbits(2)}
        else:
            behind = self.rng.getrandbits(2)
            fields |= {"sum": 0, "base": (number + behind) % (1 << 16), "behind": behind}
        for name, value in fields.items():
            ctx.set(dut.firing.payload[name], value)
        ctx.set(dut.firing.valid, self.firing is not None)
        self._check_pages(heads, free)

        leaves = leave is not None and bool(ctx.get(dut.ready))
        assert not (leaves and (self.firing or self.items or any(self.requested)))
        ctx.set(dut.leave.valid, leaves)
        if leaves:
            ctx.set(dut.leave.counter, leave[0])
            ctx.set(dut.leave.allowed, self._allowed(leave[0] // 64, leave[1]))
        active = {counter // 64 for counter, _, _ in self.items} | ({self.firing[0] // 64} if self.firing else set())
        if dut.config.pipelined and self.firing:
            assert not ctx.get(dut.active)
        elif active:
            assert ctx.get(dut.active) == sum(1 << block for block in active)
        page = self._transfer()
        self.requested.append((leave, *self._outcome(*leave)) if leaves else None)
        self.firing, refusals, items = self.requested.popleft() or (None, (), ())
        self.to_fire += bool(self.firing) and not refusals
        self.refusals += refusals
        self.items += items
        await ctx.tick()
        self.posted_pages.append(page)
        self._check_reports()
        if write is not None:
            counter, second, word, clear = write
            self.words[counter] = [0, 0] if clear else [
                word if half == second else old for half, old in enumerate(self.words[counter])]
        if pages is not None:
            self.masks[pages[0]] = pages[1]
        return leaves

    def _allowed(self, block, page):
        return page == CONFIG.pages + block or (page < CONFIG.pages and bool(self.masks[block] >> page & 1))

    def _check_pages(self, heads, free):
        for block, page in enumerate(heads):
            # The last look-up is of any block.
            look_up = self.dut.pages[self.rng.choice((block, -1))]
            self.ctx.set(look_up.block, block)
            self.ctx.set(look_up.page, page)
            assert self.ctx.get(look_up.allowed) == self._allowed(block, page)
            shown = self.ctx.get(look_up.free)
            if page == CONFIG.pages + block:
                assert shown
            elif page < CONFIG.pages:
                assert not shown or (free >> page & 1 and page not in self.posted_pages)
                if free >> page & 1 and not shown:
                    self.seen["hidden"] += 1
                    assert self.firing or self.ctx.get(self.dut.active) or self.idle_cycles < RECENT

    def _outcome(self, counter, page, pair, stamp, number):
        """Refusals of the firing, or the words and ticks that it posts."""
        block, words = counter // 64, list(self.words[counter][:1 + pair])
        if not self._allowed(block, page):
            return [(block, counter % 64, Refusal.PAGE)], []
        if stamp:
            words[-1] = words[-1] & ~STAMPED | number << 28
        if page >= CONFIG.pages:
            words = [half for word in words for half, _ in halves(word)]
        return [], [(counter, page, word) for word in words]

    def _transfer(self):
        """Move a word or a tick; returns the page of a word."""
        ctx, dut = self.ctx, self.dut
        post, refuse, chain = self.rates
        for port in (dut.dma.words, dut.ace.words):
            ctx.set(port.ready, self.chance(post))
            ctx.set(port.refused, self.chance(refuse))
        ctx.set(dut.chain.ready, self.chance(chain))
        self.idle_cycles = 0 if ctx.get(dut.active) else self.idle_cycles + 1
        offers = [ctx.get(dut.dma.words.valid), ctx.get(dut.ace.words.valid), ctx.get(dut.chain.valid)]
        if not any(offers):
            return None
        counter, page, word = self.items[0]
        port = int(page >= CONFIG.dma_pages) + (page >= CONFIG.pages)
        assert offers == [number == port for number in range(3)]
        if port == 2:
            tick, payload = TickWord.unpack(word), dut.chain.payload
            assert [ctx.get(payload[name]) for name in ("counter", "any", "generation", "value", "malformed")] == [
                counter // 64 * 64 + tick.counter, tick.any, tick.generation, tick.value,
                bool(tick.reserved or tick.reserved_high)]
            if ctx.get(dut.chain.ready):
                self.items.popleft()
                self.seen["tick"] += 1
            return None
        words = (dut.dma.words, dut.ace.words)[port]
        assert ctx.get(words.payload.queue) == page - port * CONFIG.dma_pages
        assert ctx.get(words.payload.data) == word
        if not ctx.get(words.ready):
            return None
        self.items.popleft()
        self.seen["word"] += 1
        if ctx.get(words.refused):
            self.refusals.append((counter // 64, counter % 64, Refusal.QUEUE))
        return page

    def _check_reports(self):
        ctx, refusal = self.ctx, self.dut.refusal
        self.fired += ctx.get(self.dut.fired)
        if ctx.get(refusal.valid):
            found = tuple(ctx.get(getattr(refusal, name)) for name in ("block", "index", "code"))
            assert found == self.refusals.popleft()
            self.seen[Refusal(found[2])] += 1

    async def drain(self):
        for _ in range(1000):
            if not (self.items or any(self.requested)):
                break
            await self.cycle()
        for _ in range(8):
            await self.cycle()
        assert not self.items and not self.refusals and self.fired == self.to_fire
        assert self.ctx.get(self.dut.ready) and not self.ctx.get(self.dut.active)


def _run(body, config=CONFIG, *, seed=0, rates=(1.0, 0.0, 1.0)):
    dut = TriggerPoster(config)
    return run_bench(dut, lambda ctx: _Bench(ctx, dut, random.Random(seed), rates), body)


@both
@pytest.mark.parametrize("rates", [(1.0, 0.0, 1.0), (0.5, 0.3, 0.3), (0.1, 0.9, 0.1)])
def test_random(rates, config, seed):
    async def body(bench):
        rng = bench.rng
        for counter in range(CONFIG.counters):
            for second in range(2):
                await bench.cycle(write=(counter, second, _word(rng), 0))
        for block in range(CONFIG.blocks):
            await bench.cycle(pages=(block, rng.getrandbits(5) | 1 << block))
        leave = None
        for _ in range(800):
            if leave is None and bench.chance(0.8):
                counter = rng.randrange(CONFIG.counters)
                page = rng.choice((*range(8), CONFIG.tick_page(counter // 64), rng.randrange(256)))
                leave = (counter, page, rng.getrandbits(1), rng.getrandbits(1),
                         rng.choice((0, rng.getrandbits(16), rng.getrandbits(32))))
            # The words of a counter do not change in the cycle in which its firing leaves.
            other = rng.randrange(CONFIG.counters)
            write = other, rng.getrandbits(1), _word(rng), bench.chance(0.1)
            left = await bench.cycle(
                leave=leave, heads=(rng.randrange(9), rng.randrange(9)), free=rng.getrandbits(5),
                write=write if bench.chance(0.3) and (leave is None or other != leave[0]) else None,
                pages=(rng.randrange(2), rng.getrandbits(5)) if leave is None and bench.chance(0.1) else None)
            leave = None if left else leave

    seen = _run(body, config, seed=f"{seed} {rates}", rates=rates)
    assert all(seen[case] for case in ("word", "tick", "hidden", Refusal.PAGE))
    assert bool(seen[Refusal.QUEUE]) == (rates[1] > 0)


def _word(rng):
    word = rng.getrandbits(128)
    return word & rng.choice((-1, -1, (1 << 128) - (1 << 64), (1 << 64) - 1, 0))


@both
def test_words_may_change_once_a_firing_has_left(config):
    """The next preparation overlaps with the posting."""
    async def body(bench):
        await bench.cycle(write=(70, 0, 111, 0), pages=(1, -1 & 31))
        await bench.cycle(write=(70, 1, 222, 0))
        assert await bench.cycle(leave=(70, 4, 1, 0, 0))
        await bench.cycle(write=(70, 1, 444, 0))
        await bench.cycle(write=(70, 0, 333, 0))
        await bench.drain()
        assert await bench.cycle(leave=(70, 4, 1, 0, 0))
        await bench.cycle(write=(70, 0, 0, 1))

    _run(body, config)


@both
@pytest.mark.parametrize(("pair", "page", "cycles"), [(0, 0, 2), (1, 4, 3), (0, 5, 3), (1, 5, 5)])
def test_throughput(pair, page, cycles, config):
    """Cycles from one firing to the next."""
    cycles += 3 if config.pipelined else 0

    async def body(bench):
        await bench.cycle(pages=(0, 31))
        for second in range(2):
            await bench.cycle(write=(9, second, 1 << 24 | 1 << 88, 0))
        left = [await bench.cycle(leave=(9, page, pair, 0, 0)) for _ in range(10 * cycles)]
        assert left == ([True] + [False] * (cycles - 1)) * 10

    _run(body, config)


def test_an_empty_chain_does_not_wait():
    """Halves of 0 are no ticks: they need no transfer."""
    async def body(bench):
        left = [await bench.cycle(leave=(70, CONFIG.tick_page(1), 1, 0, 0)) for _ in range(6)]
        assert left == [True, False, False, False, False, True]

    _run(body, rates=(1.0, 0.0, 0.0))


@both
@pytest.mark.parametrize("number", [0, 1, 0xFFFF, (1 << 32) - 1])
def test_stamp(number, config):
    """It replaces all of bits 63:28, and nothing else, of the last word only."""
    async def body(bench):
        await bench.cycle(pages=(0, 31))
        for second in range(2):
            await bench.cycle(write=(9, second, (1 << 128) - 1, 0))
        for pair in range(2):
            while not await bench.cycle(leave=(9, 1, pair, 1, number)):
                pass

    _run(body, config)
