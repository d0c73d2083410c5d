# SPDX-License-Identifier: Apache-2.0
"""Words that other parts of an endpoint post to the doorbell port, beside stores of threads."""

import random
from collections import deque

import pytest

from hw.common.doorbell import Doorbell
from tests.common.test_doorbell import HALF, Beat, Bench, Burst
from tests.dma_engine.frontend.sizes import SMALL
from tests.harness.cell import run_bench


class PostBench(Bench):
    """Posts words, and checks that each leaves once, in order, stable while it stalls, and in turn with stores."""

    def __init__(self, ctx, dut, rng, stalls):
        super().__init__(ctx, dut, rng, stalls)
        self.posts = deque()
        self.offered = False            # a word was posted and not yet taken
        self.shown = None               # the item that stalled in the previous cycle
        self.passed = 0                 # items of the other source that left while one waited

    async def step(self, **options):
        words = self.dut.posts.words
        self.offered = bool(self.posts) and (self.offered or not self.chance(self.stalls))
        self.set(words.valid, self.offered)
        if self.offered:
            queue, data = self.posts[0]
            self.set(words.payload, {"queue": queue, "data": data})
        self.set(self.dut.vacant, vacant := self.rng.getrandbits(self.config.queues))
        await super().step(**options)
        assert self.ctx.get(self.dut.posts.free) == vacant | self.driven

    def _posted(self):
        """The item of the oldest posted word, and whether it is a tail."""
        queue, data = self.posts[0]
        burst, beat = Burst(queue, 0, []), Beat(data, 0xFFFF)
        kind = self.is_tail(burst)
        return kind, self.tail(burst, beat) if kind else self.store(burst, beat)

    def _items(self, ready, sweep):
        ctx, ports, words = self.ctx, {False: self.dut.o, True: self.dut.tails.doorbells}, self.dut.posts.words
        valid = [kind for kind, port in ports.items() if ctx.get(port.valid)]
        assert len(valid) <= 1
        taken = bool(ctx.get(words.valid) and ctx.get(words.ready))
        if not valid:
            assert not taken
            assert self.shown is None, "An item was withdrawn"
            return
        kind = valid[0]
        item = kind, ctx.get(ports[kind].payload.as_value())
        assert self.shown in (None, item), "An item changed while it stalled"
        self.shown = None if ready[ports[kind]] else item
        if self.items:
            burst, beat = self.items[0]
            stored = kind == self.is_tail(burst) and item[1] == (self.tail if kind else self.store)(burst, beat)
        else:
            stored = False
        is_post = self.offered and item == self._posted() and (taken or not stored or not ready[ports[kind]])
        if not is_post:
            assert not taken
            super()._items(ready, sweep)
            waits = self.offered
        else:
            assert not sweep and taken == ready[ports[kind]]
            # With stalls, a beat may wait for its address.
            waits = bool(self.items) and not self.stalls
            if taken:
                assert bool(ctx.get(words.refused)) == bool(ctx.get(ports[kind].refused))
                self.posts.popleft()
                self.offered = False
                self.seen["posts"] += 1
        if ready[ports[kind]]:
            self.passed = self.passed + 1 if waits and self.last == is_post else 0
            assert self.passed < 2, "One source leaves again and again while the other one waits"
            self.last = is_post

    last = None

    async def drain(self):
        for _ in range(4000):
            if not self.posts:
                break
            await self.step()
        assert not self.posts
        await super().drain()


def run(rng, body, *, stalls):
    dut = Doorbell(SMALL, posts=True)
    return run_bench(dut, lambda ctx: PostBench(ctx, dut, rng, stalls), body)


@pytest.mark.parametrize("stalls", [0, 0.3, 0.8])
@pytest.mark.parametrize("driven", range(1 << SMALL.extended))
def test_random(seed, stalls, driven):
    rng = random.Random(f"{seed} posts {stalls} {driven}")

    async def body(bench):
        bench.driven = driven
        for _ in range(120):
            if rng.random() < 0.7:
                bench.add(bench.random_burst())
            for _ in range(rng.choice((0, 1, 1, 5))):
                data = sum(rng.choice((HALF, rng.getrandbits(64))) << 64 * half for half in range(2))
                bench.posts.append((rng.randrange(SMALL.queues), data))
            while len(bench.addresses) > 4 or len(bench.posts) > 6:
                await bench.step()

    seen = run(rng, body, stalls=stalls)
    assert min(seen[name] for name in ("stores", "posts", "slverr", "okay")) > 5, seen


def test_a_word_leaves_in_its_cycle(seed):
    """A posted word has no latency, and follows its predecessor without a bubble."""
    rng = random.Random(f"{seed} rate")

    async def body(bench):
        bench.posts += [(3, rng.getrandbits(128)) for _ in range(10)]
        for count in range(1, 11):
            await bench.step()
            assert bench.seen["posts"] == count

    run(rng, body, stalls=0)
