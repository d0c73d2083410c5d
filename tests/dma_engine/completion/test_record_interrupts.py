# SPDX-License-Identifier: Apache-2.0
"""Interrupts of records: each comes with the response to its record, or to one that had left before that."""

import random
from collections import Counter, deque

from hw.dma_engine.completion.record_interrupts import RecordInterrupts
from tests.dma_engine.frontend.sizes import SMALL
from tests.harness.cell import CellBench, run_bench

RINGS = SMALL.extended
LATENCY = 2


class _Bench(CellBench):
    """Numbers the records of each ring; memory responds in their order."""

    def __init__(self, ctx, rng, dut):
        super().__init__(ctx, rng)
        self.dut, self.cycle = dut, 0
        self.sent, self.written = Counter(), Counter()
        self.flagged = {ring: deque() for ring in range(RINGS)}     # number, and the response that must serve it
        self.due, self.left_at = {}, Counter()
        self.counts = deque([(0,) * RINGS] * 2)
        self.responses = deque([None] * LATENCY)
        self.send = self.flag = self.respond = 0.3

    async def step(self, busy=True):
        get, rng, dut = self.ctx.get, self.rng, self.dut
        for port, value in zip(dut.counts.count, self.counts.popleft(), strict=True):
            self.set(port, value)
        # A queue is discarded only some cycles after its last record has left.
        discard = rng.randrange(RINGS) if busy and self.chance(0.02) else None
        if discard is not None and self.cycle - self.left_at[discard] < 3:
            discard = None
        sender = rng.randrange(RINGS) if busy and self.chance(self.send) else None
        flagged = sender is not None and sender != discard and self.chance(self.flag)
        waiting = [ring for ring in range(RINGS) if self.written[ring] < self.sent[ring]]
        # A response takes a few cycles, and never comes with the end of a reset.
        ring = rng.choice(waiting) if waiting and discard is None and self.chance(self.respond) else None
        self.set(dut.sent.valid, flagged)
        self.set(dut.sent.queue, sender if flagged else rng.randrange(RINGS))
        notice = ring is not None
        self.set(dut.written.valid, notice or self.chance(0.3))
        self.set(dut.written.id.notice, notice)
        self.set(dut.written.id.queue, ring if notice else rng.randrange(RINGS))
        self.set(dut.discard.valid, discard is not None)
        self.set(dut.discard.queue, discard or 0)

        self.check(self.responses.popleft(), get(dut.o))
        await self.ctx.tick()
        self.cycle += 1
        if notice:
            self.written[ring] += 1
        self.responses.append((ring, self.written[ring]) if notice else None)
        if sender is not None and sender != discard:
            self.sent[sender] += 1
            self.left_at[sender] = self.cycle
            if flagged:
                self.flagged[sender].append(self.sent[sender])
        if discard is not None:
            # Nothing of the queue has left in the cycles before.
            self.written[discard] = self.sent[discard]
            self.flagged[discard].clear()
            self.due.pop(discard, None)
            self.responses = deque(None if entry and entry[0] == discard else entry for entry in self.responses)
            self.seen["discarded"] += 1
        self.counts.append(tuple(self.sent[ring] - self.written[ring] for ring in range(RINGS)))
        if discard is not None:
            for _ in range(4):      # settle
                await self.quiet(discard)

    async def quiet(self, discard):
        """A cycle without events, as a queue that is reset has none."""
        dut = self.dut
        for port in (dut.sent.valid, dut.written.valid, dut.discard.valid):
            self.set(port, 0)
        for port, value in zip(dut.counts.count, self.counts.popleft(), strict=True):
            self.set(port, value)
        entry = self.responses.popleft()
        self.check(entry, self.ctx.get(dut.o))
        self.responses.append(None)
        self.counts.append(tuple(self.sent[ring] - self.written[ring] for ring in range(RINGS)))
        await self.ctx.tick()
        self.cycle += 1

    def check(self, entry, strobe):
        if entry is None:
            assert not strobe
            return
        ring, number = entry
        waiting = self.flagged[ring]
        if strobe:
            assert waiting and waiting[0] <= number, f"record {number} of ring {ring} has no interrupt"
            reported = 0
            while waiting and waiting[0] <= number:
                waiting.popleft()
                reported += 1
            self.seen["interrupt"] += 1
            self.seen["coalesced"] += reported > 1
            # Later ones wait for those that have left by now, at most.
            self.due[ring] = self.sent[ring]
        elif waiting and waiting[0] <= number:
            self.seen["waits longer"] += 1
            assert number < self.due.get(ring, 0), f"record {waiting[0]} of ring {ring} has no interrupt at {number}"

    async def drain(self):
        self.respond = 0.5
        for _ in range(400):
            await self.step(busy=False)
        assert not any(self.flagged.values())


def test_each_interrupt_follows_its_record(seed):
    async def body(bench):
        for _ in range(40):
            bench.send, bench.flag, bench.respond = (rng.choice((0.1, 0.4, 0.9)) for _ in range(3))
            for _ in range(100):
                await bench.step()

    rng, dut = random.Random(f"records {seed}"), RecordInterrupts(SMALL)
    seen = run_bench(dut, lambda ctx: _Bench(ctx, rng, dut), body)
    print(seen)
    for case in ("interrupt", "coalesced", "waits longer", "discarded"):
        assert seen[case], f"no {case}"
