# SPDX-License-Identifier: Apache-2.0
"""The aligner alone, against the bytes of each burst.

The model is that of a copy: the bytes of a segment at one alignment in its read beats, and at another in its write
beats.  The bench plays the sequencer and the beat buffer with the steps of a segment as their contract defines them,
stalls both ends, and changes epochs while beats are inside.
"""

import random
from collections import deque
from dataclasses import dataclass, field
from itertools import product

import pytest

from hw.dma_engine.config import DmaConfig
from hw.dma_engine.layouts import EPOCH_WIDTH
from hw.dma_engine.mover.aligner import OUTPUT_DEPTH, Aligner
from hw.dma_engine.mover.sequencer import step_layout
from tests.dma_engine.frontend.sizes import SIZES, SMALL
from tests.harness.cell import CellBench, run_bench

WIDER = DmaConfig(**SIZES | {"data_width": 256, "segment_bytes": 128})
EPOCHS = 1 << EPOCH_WIDTH
LATENCY = 3

#: Name -> probability of a cycle without a step, and of a cycle without WREADY.
STALLS = {"none": (0, 0), "no steps": (0.5, 0), "W": (0, 0.6), "both": (0.3, 0.3)}


@dataclass
class Step:
    """One step, its beat of read data if it takes one, and the beat that it emits."""

    payload: int
    data: int | None = None
    error: int = 0
    emitted: dict | None = None     # lane -> byte
    failed: bool = False
    last: bool = False
    queue: int = 0
    epoch: int = 0
    cycle: int = 0


@dataclass
class Burst:
    """A segment: its bytes begin at ``src`` in the read beats and at ``dst`` in the write beats."""

    src: int
    dst: int
    size: int
    errors: set = field(default_factory=set)

    def steps(self, config, rng, common):
        width, layout = config.beat_bytes, step_layout(config)
        reads, writes = ((at + self.size - 1) // width + 1 for at in (self.src, self.dst))
        data, ahead = rng.randbytes(reads * width), int(self.dst < self.src)
        for number in range(writes + ahead):
            beat, take = number - ahead, number < reads
            edges = {"starts": beat == 0, "ends": beat == writes - 1} if beat >= 0 else {
                "starts": rng.randrange(2), "ends": rng.randrange(2)}
            step = Step(layout.const(common | edges | {
                "take": take, "emit": beat >= 0, "first": number == 0, "shift": (self.dst - self.src) % width,
                "start_lane": self.dst, "end_lane": (self.dst + self.size - 1) % width,
                "word": rng.getrandbits(64)}).as_value().value)
            if take:
                step.data = int.from_bytes(data[number * width:][:width], "little")
                step.error = number in self.errors
            if beat >= 0:
                step.emitted = {at % width: data[at - self.dst + self.src] for at in range(
                    max(beat * width, self.dst), min((beat + 1) * width, self.dst + self.size))}
                step.failed = any(error <= min(number, reads - 1) for error in self.errors)
                step.last = beat == writes - 1
            yield step


@dataclass
class Word:
    """A completion word of 8 or 4 bytes at ``lane``."""

    lane: int
    half: bool

    def steps(self, config, rng, common):
        word, end = rng.randbytes(4) * 2 if self.half else rng.randbytes(8), self.lane | (3 if self.half else 7)
        payload = step_layout(config).const(common | {
            "emit": 1, "first": 1, "starts": 1, "ends": 1, "completion": 1, "start_lane": self.lane, "end_lane": end,
            "shift": rng.randrange(config.beat_bytes), "word": int.from_bytes(word, "little")})
        yield Step(payload.as_value().value, last=True,
                   emitted={lane: word[lane % 8] for lane in range(self.lane, end + 1)})


class Bench(CellBench):
    """Drives the aligner one cycle at a time and checks each beat that it writes."""

    def __init__(self, ctx, dut, rng):
        super().__init__(ctx, rng)
        self.dut = dut
        self.epochs = [0] * dut.config.queues
        self.waiting, self.offered = deque(), False
        self.inside, self.counted = deque(), 0      # steps that emit and were taken; those whose strobes are final
        self.beat = rng.getrandbits(dut.config.data_width), 1
        self.before = list(self.epochs)             # as of the cycle before
        self.held, self.cycle = None, 0

    def add(self, item, *, old=0):
        """Queue the steps of a burst or word; ``old`` is the number of epochs by which it is outdated."""
        queue = self.rng.randrange(len(self.epochs))
        epoch = self.epochs[queue] - old
        for step in item.steps(self.dut.config, self.rng, {"queue": queue, "epoch": epoch % EPOCHS}):
            step.queue, step.epoch = queue, epoch
            self.waiting.append(step)

    def advance_epoch(self, queue):
        """Make the queue's steps outdated, unless an epoch number would be used twice."""
        oldest = min((step.epoch for step in (*self.inside, *self.waiting) if step.queue == queue),
                     default=self.epochs[queue])
        if self.epochs[queue] + 1 - oldest < EPOCHS:
            self.epochs[queue] += 1

    async def step(self, gap=False, stall=False):
        """One cycle: no new step is offered if ``gap``, and WREADY is low if ``stall``."""
        ctx, dut = self.ctx, self.dut
        self.offered = bool(self.waiting) and (self.offered or not gap)
        ctx.set(dut.steps.valid, self.offered)
        ctx.set(dut.steps.payload.as_value(), self.waiting[0].payload if self.offered else self.rng.getrandbits(60))
        ctx.set(dut.w.ready, not stall)
        ctx.set(dut.beat.data, self.beat[0])
        ctx.set(dut.beat.error, self.beat[1])
        ctx.set(dut.epoch.epoch, self.epochs[ctx.get(dut.epoch.queue)] % EPOCHS)

        level, valid = ctx.get(dut.w_level.level), ctx.get(dut.w.valid)
        taken = valid and not stall
        assert ctx.get(dut.w_level.taken) == taken
        assert self.counted <= level <= len(self.inside), f"{level} beats are final, of {len(self.inside)}"
        # The epochs that decide are those of the cycle before a beat is counted.
        for step in list(self.inside)[self.counted:level]:
            step.failed |= step.epoch != self.before[step.queue]
        self.counted = level - taken
        assert level or not valid, "A beat is on W whose strobes are not final"
        if valid:
            self.check(self.held, stall)
        else:
            assert self.held is None, "WVALID is withdrawn"
        if taken:
            self.inside.popleft()
        ready = ctx.get(dut.steps.ready)
        self.seen["full"] += self.offered and not ready
        step = self.waiting.popleft() if self.offered and ready else None
        self.offered = self.offered and not ready
        await ctx.tick()
        if step and step.data is not None:
            self.beat = step.data, step.error
        if step and step.emitted is not None:
            step.cycle = self.cycle
            self.inside.append(step)
        self.before = list(self.epochs)
        self.cycle += 1

    def check(self, held, stall):
        """Compare the beat on W with the oldest one that is expected, and with that of the cycle before."""
        ctx, dut = self.ctx, self.dut
        assert self.inside, "A beat is written that no step emits"
        step, data, strobes = self.inside[0], ctx.get(dut.w.payload.data), ctx.get(dut.w.payload.strb)
        found = data, strobes, ctx.get(dut.w.payload.last)
        assert held in (None, found), "The beat on W changes while it stalls"
        self.held = found if stall else None
        assert self.cycle - step.cycle >= LATENCY
        self.seen["late"] += self.cycle - step.cycle > LATENCY
        assert found[2] == step.last
        self.seen["failed" if step.failed else "written"] += 1
        assert strobes == (0 if step.failed else sum(1 << lane for lane in step.emitted)), step
        for lane, value in step.emitted.items():
            assert step.failed or data >> 8 * lane & 0xFF == value, f"lane {lane} of {step}"

    async def drain(self):
        """Complete all steps, and a few cycles more in which nothing may be written."""
        while self.waiting or self.inside:
            await self.step()
        for _ in range(LATENCY + OUTPUT_DEPTH):
            await self.step()


def bursts(width, sizes):
    """Every alignment of the source and of the destination with each size."""
    return [Burst(src, dst, size) for src, dst, size in product(range(width), range(width), sizes)]


def run(config, rng, body):
    """Run ``body`` on a bench, and return its counts of the cases that occurred."""
    dut = Aligner(config)
    return run_bench(dut, lambda ctx: Bench(ctx, dut, rng), body)


@pytest.mark.parametrize("stalls", STALLS)
def test_alignments(stalls, seed):
    """Every source alignment, destination alignment and length up to two beats and a byte; W and steps stall."""
    rng = random.Random(f"{seed} {stalls}")
    cases = bursts(SMALL.beat_bytes, range(1, 2 * SMALL.beat_bytes + 2))
    rng.shuffle(cases)
    no_step, no_ready = STALLS[stalls]

    async def body(bench):
        while cases or bench.waiting:
            if cases and not bench.waiting:
                bench.add(cases.pop())
            await bench.step(rng.random() < no_step, rng.random() < no_ready)

    seen = run(SMALL, rng, body)
    assert not seen["failed"]
    if stalls == "none":
        assert not seen["full"] and not seen["late"], "A step per cycle, and a beat three cycles later"


def test_wide_bus(seed):
    """Samples of the alignments and lengths on a bus whose rotator has more stages, with words in between."""
    rng, width = random.Random(f"{seed} wide"), WIDER.beat_bytes

    async def body(bench):
        for _ in range(600):
            src, dst = rng.choices((0, width - 1, rng.randrange(width), rng.randrange(width)), k=2)
            bench.add(Burst(src, dst, rng.randint(1, 2 * width + 1)))
            if rng.random() < 0.3:
                bench.add(random_word(rng, width))
            while bench.waiting:
                await bench.step(rng.random() < 0.2, rng.random() < 0.2)

    run(WIDER, rng, body)


def random_word(rng, width):
    half = rng.random() < 0.5
    return Word(rng.randrange(0, width, 4 if half else 8), half)


def test_errors_and_epochs(seed):
    """Read errors, words, outdated bursts, and epochs that change while beats are inside and W stalls for long.

    A read error clears the strobes of its beat and of the burst's later ones, and of nothing else; an epoch those of
    the beats that ``w_level`` does not count yet.
    """
    rng, width = random.Random(f"{seed} errors"), SMALL.beat_bytes

    async def body(bench):
        mood = 0.5
        for cycle in range(6000):
            if cycle % 40 == 0:
                mood = rng.choice((0, 0.3, 0.97))
            if not bench.waiting:
                old = rng.choice((0, 0, 0, 0, 0, 1, 2))
                if rng.random() < 0.3:
                    bench.add(random_word(rng, width), old=old)
                else:
                    errors = {number for number in range(5) if rng.random() < 0.1}
                    bench.add(Burst(rng.randrange(width), rng.randrange(width), rng.randint(1, 4 * width), errors),
                              old=old)
            if rng.random() < 0.15:
                bench.advance_epoch(rng.randrange(len(bench.epochs)))
            await bench.step(rng.random() < 0.2, rng.random() < mood)

    seen = run(SMALL, rng, body)
    assert min(seen[name] for name in ("failed", "written", "full", "late")) > 100, seen


def test_withheld_ready(seed):
    """While WREADY is low, the aligner takes steps until its queue and stages are full, and loses none of them."""
    rng, width = random.Random(f"{seed} withheld"), SMALL.beat_bytes

    async def body(bench):
        for cycles in (1, 5, 300):
            for _ in range(OUTPUT_DEPTH + 4):
                bench.add(Burst(rng.randrange(width), rng.randrange(width), width))
            waiting = len(bench.waiting)
            for _ in range(cycles):
                await bench.step(stall=True)
            assert bench.ctx.get(bench.dut.w_level.level) <= OUTPUT_DEPTH + 1
            assert cycles < 20 or (waiting > len(bench.waiting) and bench.counted == OUTPUT_DEPTH + 1)
            await bench.drain()

    run(SMALL, rng, body)
