# SPDX-License-Identifier: Apache-2.0
"""WordResponses against a list of the words in flight under each AXI ID, while queues are abandoned repeatedly."""

import random
from collections import Counter, defaultdict, deque
from functools import partial

from hw.dma_engine.completion.notices import COUNT_WIDTH
from hw.dma_engine.completion.word_responses import WordResponses
from hw.dma_engine.config import TINY
from hw.dma_engine.layouts import EPOCH_WIDTH
from tests.harness.cell import run_cell

EPOCHS = 2**EPOCH_WIDTH - 1
"""Maximum of earlier epochs of a queue with outstanding responses."""

MOST_NOTICES = 2**(COUNT_WIDTH - 1) + 32
"""Maximum of a queue's outstanding words of notices: from half of the count on, no request retires."""


def _simulate(body):
    dut = WordResponses(TINY)

    async def testbench(ctx):
        await body(ctx, dut)

    run_cell(dut, testbench)


class _Memory:
    """Words in flight, in the order of their writes: each is either abandoned or still expected."""

    def __init__(self, ctx, dut, seed):
        self.ctx, self.dut, self.rng = ctx, dut, random.Random(seed)
        self.words = defaultdict(deque)             # (queue, kind) -> for each word, whether it was abandoned
        self.scanned = 0                            # the queue being scanned
        self.fresh = 0                              # cycles without a response since the latest scan or abandonment
        self.busy, self.started = False, False
        self.delayed_notice = None                  # the queue of a notice with a response in the previous cycle
        self.epochs = Counter()                     # epochs abandoned while words of the first one are outstanding
        self.seen = Counter()

    def waited(self, queue, kind):
        return self.words[queue, kind].count(False)

    def abandoned(self, queue=None):
        return sum(words.count(True) for (whose, _), words in self.words.items() if queue in (None, whose))

    def send(self):
        queue = self.rng.randrange(TINY.queues)
        kind = self.rng.choice(("sc", "rc", "notice"))
        if kind == "notice":
            if queue < TINY.extended and self.waited(queue, kind) < 9:
                self.words[queue, kind].append(False)
        elif not self.waited(queue, kind) and not (self.busy and queue == self.scanned):
            self.words[queue, kind].append(False)

    def flying(self, kind):
        return sum(bool(self.waited(queue, kind)) << queue for queue in range(TINY.queues))

    async def cycle(self, *, response=None, scan_queue=None, abandon=False):
        """``response``: queue and kind of a response. Checks the outputs of this cycle."""
        ctx, dut = self.ctx, self.dut
        ctx.set(dut.outstanding.rc, self.flying("rc"))
        ctx.set(dut.outstanding.sc, self.flying("sc"))
        for queue, reported in enumerate(dut.outstanding_notices.count):
            # Responses to notices are counted a cycle later.
            ctx.set(reported, self.waited(queue, "notice") + (self.delayed_notice == queue))
        ctx.set(dut.outstanding_notices.settled, self.delayed_notice is None)
        self.seen["unsettled"] += self.busy and self.delayed_notice == self.scanned
        self.delayed_notice = None
        ctx.set(dut.written.valid, response is not None)
        if response:
            queue, kind = response
            ctx.set(dut.written.id, {"queue": queue, "is_rc": kind == "rc", "notice": kind == "notice", "top": 1})
        ctx.set(dut.abandon.scan, scan_queue is not None)
        ctx.set(dut.abandon.valid, abandon)
        ctx.set(dut.abandon.queue, self.scanned)

        reported = ctx.get(dut.accepted.valid), ctx.get(dut.unexpected)
        if not response:
            assert reported == (0, 0)
        elif not self.words[response]:
            assert reported == (0, 1), f"{response} is unexpected"
            self.seen["unexpected"] += 1
        else:
            old = self.words[response].popleft()
            assert reported == (not old, 0), f"{response}, {'abandoned' if old else 'expected'}"
            self.seen["old before new"] += old and False in self.words[response]
            if response[1] == "notice" and not old:
                self.delayed_notice = response[0]
        before = self.abandoned() + bool(response and reported == (0, 0))
        assert ctx.get(dut.status.outstanding) == (before > 0)
        abandoned = self.abandoned(self.scanned)
        if self.fresh:
            assert ctx.get(dut.status.abandoned) or not abandoned
        else:
            assert ctx.get(dut.status.abandoned) or not self.started
        assert ctx.get(dut.status.busy) == self.busy
        discards = ctx.get(dut.discard.valid)
        assert not discards or (self.busy and not response)
        await ctx.tick()

        if discards:
            for kind in ("sc", "rc", "notice"):
                words = self.words[self.scanned, kind]
                self.seen["abandoned"] += words.count(False)
                self.seen["twice"] += True in words and False in words
                self.words[self.scanned, kind] = deque([True] * len(words))
            self.busy = False
        if scan_queue is not None or self.busy or discards:
            self.fresh, self.started = 0, True
        if abandon:
            self.busy = True
            self.epochs[self.scanned] += 1
        for queue in range(TINY.queues):
            if not self.abandoned(queue) and not (self.busy and queue == self.scanned):
                self.epochs[queue] = 0
        if scan_queue is not None:
            self.scanned = scan_queue
        elif not response:
            self.fresh += 1


def test_responses(seed):
    """Responses of earlier epochs have no effect, whatever the new epoch has in flight; all others are accepted."""
    seen = Counter()

    async def body(number, ctx, dut):
        memory = _Memory(ctx, dut, f"{seed} {number}")
        rng = memory.rng
        for _ in range(TINY.queues + 2):
            await memory.cycle()
        for step in range(4000):
            # Memory with many outstanding responses, and memory with few.
            eager = step // 250 % 2
            for _ in range(rng.randrange(3)):
                memory.send()
            response = scan_queue = None
            abandon = False
            some = [key for key, words in memory.words.items() if words]
            if rng.random() < (0.4 if eager else 0.05) and some:
                response = rng.choice(some)
            elif rng.random() < 0.05:
                key = rng.randrange(TINY.queues), rng.choice(("sc", "rc"))
                response = None if memory.words[key] else key
            if not memory.busy:
                if rng.random() < 0.1:
                    scan_queue = rng.randrange(TINY.queues)
                elif memory.fresh > 2 and memory.epochs[memory.scanned] < EPOCHS and rng.random() < 0.3:
                    abandon = True
                    # The last cycle for a response to the old epoch.
                    last = memory.scanned, "notice"
                    response = last if memory.words[last] and rng.random() < 0.5 else response
            await memory.cycle(response=response, scan_queue=scan_queue, abandon=abandon)
        while memory.busy or any(memory.words.values()):
            await memory.cycle(response=next((key for key, words in memory.words.items() if words), None)
                               if rng.random() < 0.7 else None)
        await memory.cycle()
        assert not ctx.get(dut.status.outstanding)
        for queue in range(TINY.queues):
            await memory.cycle(scan_queue=queue)
            for _ in range(3):
                await memory.cycle()
            assert not ctx.get(dut.status.abandoned)
        seen.update(memory.seen)

    for number in range(5):
        _simulate(partial(body, number))
    assert min(seen[name] for name in ("unexpected", "old before new", "abandoned", "twice", "unsettled")) > 5, seen


def test_maximum_of_outstanding_responses():
    """All responses are counted with the maximum number of epochs and the maximum of words in each."""
    async def body(ctx, dut):
        ctx.set(dut.outstanding_notices.settled, 1)
        await ctx.tick().repeat(TINY.queues + 2)
        signals = {"rc": (dut.outstanding.rc, 1), "sc": (dut.outstanding.sc, 1),
                   "notice": (dut.outstanding_notices.count[0], MOST_NOTICES)}
        for _ in range(EPOCHS):
            ctx.set(dut.abandon.scan, 1)
            await ctx.tick()
            ctx.set(dut.abandon.scan, 0)
            await ctx.tick().repeat(2)
            for signal, value in signals.values():
                ctx.set(signal, value)
            ctx.set(dut.abandon.valid, 1)
            await ctx.tick()
            ctx.set(dut.abandon.valid, 0)
            while ctx.get(dut.status.busy):
                await ctx.tick()
            for signal, _ in signals.values():
                ctx.set(signal, 0)
        ctx.set(dut.written.valid, 1)
        for kind, (_, value) in signals.items():
            ctx.set(dut.written.id, {"queue": 0, "is_rc": kind == "rc", "notice": kind == "notice", "top": 1})
            for number in range(EPOCHS * value):
                assert ctx.get(dut.status.outstanding) and not ctx.get(dut.unexpected), f"{kind} {number}"
                await ctx.tick()
            assert ctx.get(dut.unexpected), kind
        assert not ctx.get(dut.status.outstanding)
        ctx.set(dut.written.valid, 0)
        await ctx.tick().repeat(2)
        assert not ctx.get(dut.status.abandoned)

    _simulate(body)
