# SPDX-License-Identifier: Apache-2.0
"""Interrupts of queues, beside the completion writer: each comes with the response to a word that reports its request.

Every publication is numbered, and words carry the numbers: a word reports all publications up to its own.
"""

import random
from collections import deque

from amaranth import Elaboratable, Module
from amaranth.lib.wiring import connect

from hw.dma_engine.completion.interrupts import QueueInterrupts
from hw.dma_engine.completion.writer import CompletionWriter
from tests.dma_engine.frontend.sizes import SMALL
from tests.harness.cell import CellBench, run_bench

QUEUES = SMALL.queues
LATENCY = 3


class _Both(Elaboratable):
    def __init__(self):
        self.writer, self.interrupts = CompletionWriter(SMALL), QueueInterrupts(SMALL)

    def elaborate(self, platform):
        m = Module()
        m.submodules.writer, m.submodules.interrupts = self.writer, self.interrupts
        connect(m, self.writer.choice, self.interrupts.choice)
        return m


class _Bench(CellBench):
    def __init__(self, ctx, rng, both):
        super().__init__(ctx, rng)
        self.writer, self.interrupts = both.writer, both.interrupts
        self.number, self.cycle = 0, 0
        self.published, self.abandoned, self.waiting, self.flying = None, None, {}, {}
        self.words = []                                 # in memory's hands: queue, is_rc
        self.expected = deque([None] * LATENCY)         # queue of the strobe, by cycle
        self.completed = deque([None] * 2)
        self.resetting = {}                             # queue: cycle of the abandonment
        self.served = 0
        self.rate, self.stall, self.respond, self.flag, self.focus = 0.5, 0.2, 0.2, 0.5, QUEUES

    def choices(self):
        """Words chosen in the previous cycle, and what was published in it."""
        get, choice = self.ctx.get, self.writer.choice
        if get(choice.chosen):
            key = get(choice.queue), get(choice.is_rc)
            self.flying[key] = self.waiting.pop(key, set())
            self.seen["chosen"] += 1
        if self.published is not None:
            queue, kinds, number, flagged = self.published
            at_once = get(choice.at_once)
            self.seen["both at once"] += get(choice.chosen) and at_once
            for kind in kinds:
                key = queue, kind
                if at_once and kind == max(kinds):
                    assert key not in self.flying
                    self.flying[key] = {number} if flagged else set()
                    self.seen["at once"] += 1
                elif flagged:
                    self.waiting.setdefault(key, set()).add(number)
        # A word that was chosen in the cycle of the abandonment counts as in flight.
        for kind in (0, 1):
            self.waiting.pop((self.abandoned, kind), None)

    def publish(self, busy):
        rng, ports = self.rng, (self.writer.publish, self.interrupts.publish)
        valid = busy and self.chance(self.rate)
        queue = rng.randrange(self.focus)
        valid &= queue not in self.resetting
        kinds = [kind for kind in (0, 1) if valid and rng.random() < 0.6]
        flagged, record = valid and self.chance(self.flag), valid and self.chance(0.1)
        self.number += 1
        for port in ports:
            self.set(port.sc, 0 in kinds)
            self.set(port.rc, 1 in kinds)
            self.set(port.queue, queue)
            self.set(port.interrupt, flagged)
            self.set(port.record, record)
            self.set(port.word.count, self.number)
        none = flagged and not kinds and not record
        self.seen["no word"] += none
        self.completed.append(queue if none else None)
        return (queue, kinds, self.number, flagged) if kinds else None

    async def step(self, busy=True, respond=None):
        get, rng, writer = self.ctx.get, self.rng, self.writer
        published = self.publish(busy)
        self.set(writer.o.ready, not self.chance(self.stall))
        # A reset abandons its queue, and then discards the queue's words in a cycle without a response.
        abandon = None
        if busy and self.chance(0.04):
            abandon = rng.randrange(QUEUES)
            if abandon in self.resetting or (published and published[0] == abandon):
                abandon = None
        self.set(writer.abandon.valid, abandon is not None)
        self.set(writer.abandon.queue, abandon or 0)
        discard = next((queue for queue, since in self.resetting.items() if self.cycle > since + 8), None)
        if any(key[0] == discard and key not in self.words for key in self.flying):
            discard = None              # a chosen word has not left
        self.set(writer.discard.valid, discard is not None)
        self.set(writer.discard.queue, discard or 0)

        response = None
        if discard is None and self.words and self.chance(self.respond if respond is None else respond):
            response = self.words.pop(rng.randrange(len(self.words)))
        # Two cycles before its strobe, the response to a record may count.
        notice = response is None and discard is None and self.chance(0.1)
        for port in (writer.written, self.interrupts.written):
            self.set(port.valid, response is not None or notice)
            self.set(port.id.notice, notice)
            self.set(port.id.queue, response[0] if response else rng.randrange(QUEUES))
            self.set(port.id.is_rc, response[1] if response else 0)
            self.set(port.failed, rng.randrange(2))
        self.choices()
        self.outputs()

        if get(writer.o.valid & writer.o.ready):
            word = get(writer.o.payload)
            identifier = word.id
            key = identifier >> 1 & QUEUES - 1, identifier & 1
            number = word.word & 0xFFFF_FFFF
            assert all(flagged <= number for flagged in self.flying[key]), "an interrupt of a later word is armed"
            self.words.append(key)
        expected = None
        if response is not None:
            reported = self.flying.pop(response)
            self.seen["interrupt" if reported else "quiet word"] += 1
            self.served += len(reported)
            expected = response[0] if reported else None
        self.expected.append(expected)
        if abandon is not None:
            self.resetting[abandon] = self.cycle
        self.abandoned = abandon
        if discard is not None:
            del self.resetting[discard]
            self.seen["discards"] += 1
            self.words = [word for word in self.words if word[0] != discard]
            for kind in (0, 1):
                self.seen["discarded"] += bool(self.flying.pop((discard, kind), None))
        self.published = published
        await self.ctx.tick()
        self.cycle += 1

    def outputs(self):
        get = self.ctx.get
        for port, queue in ((self.interrupts.interrupts.written, self.expected.popleft()),
                            (self.interrupts.interrupts.completed, self.completed.popleft())):
            assert get(port.valid) == (queue is not None), f"cycle {self.cycle}: {queue}"
            if queue is not None:
                assert get(port.queue) == queue

    async def drain(self):
        for _ in range(200):
            await self.step(busy=False, respond=0.5)
        assert not self.flying and not self.waiting and not any(queue is not None for queue in self.expected)


def test_each_interrupt_follows_its_word(seed):
    async def body(bench):
        for _ in range(30):
            bench.rate, bench.flag = (rng.choice((0.05, 0.3, 1.0)) for _ in range(2))
            bench.stall, bench.respond = rng.choice((0, 0.2, 0.8)), rng.choice((0.05, 0.3, 1.0))
            bench.focus = rng.choice((1, 2, QUEUES))
            for _ in range(100):
                await bench.step()

    rng, both = random.Random(f"interrupts {seed}"), _Both()
    seen = run_bench(both, lambda ctx: _Bench(ctx, rng, both), body)
    print(seen)
    for case in ("chosen", "at once", "both at once", "no word", "interrupt", "quiet word", "discarded"):
        assert seen[case], f"no {case}"
