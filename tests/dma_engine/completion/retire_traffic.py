# SPDX-License-Identifier: Apache-2.0
"""Random traffic for retirement alone."""

from collections import deque
from dataclasses import dataclass

from hw.dma_engine.layouts import OpKind
from hw.dma_engine.words import QueueMode, Status
from tests.dma_engine.completion.retire_bench import (
    CHECKS,
    EPOCHS,
    EXTENDED,
    QUEUES,
    QUIET,
    SEGMENT_STATUSES,
    Around,
    Bench,
    Segment,
)
from tests.harness.cell import run_bench

__all__ = ["Mood", "Traffic", "end_all", "run"]


@dataclass
class Mood:
    """Probabilities per cycle."""

    schedule: float
    done: float
    ordered: float
    operations: float
    crowded: float
    pending: float
    reset: float
    abandon: float

    @classmethod
    def random(cls, rng):
        return cls(rng.choice((0.3, 0.9, 1)), rng.choice((0.1, 0.5, 0.9)), rng.choice((0, 0.5, 0.9)),
                   rng.choice((0.05, 0.1, 0.6)), rng.choice((0, 0, 0.5)), rng.choice((0, 0.3, 0.7)),
                   rng.choice((0, 0.005, 0.02)), rng.choice((0, 0.03, 0.1)))


class Traffic(Bench):
    """Sends random traffic, drains it, and resets the engine."""

    def request(self, queue):
        """The segments of a random request, in order."""
        rng, kind = self.rng, self.rng.random()
        flags = {name: rng.randrange(2) for name in ("sc", "rc", "irq")}
        segments = [Segment(queue, flags=flags, last=False) for _ in range(rng.choice((1, 1, 2, 3, 5)))]
        check, aborted = rng.choice(CHECKS), False
        for number, segment in enumerate(segments):
            segment.last = number == len(segments) - 1
            if aborted and rng.random() < 0.7:
                segment.status, segment.aborted = Status.MALFORMED, True
            elif kind < 0.1:
                segment.status, aborted = check, True
            elif kind < 0.4:
                segment.status = rng.choice([Status.OK, *SEGMENT_STATUSES])
                aborted |= segment.status == Status.SRC_PAGE
            segment.rejected = segment.aborted or segment.status in (*CHECKS, Status.SRC_PAGE, Status.DST_PAGE)
        return segments

    def abandon(self, index):
        """Start a new epoch of a queue that resets, and end each of its segments; one queue at a time."""
        queue = self.queues[index]
        oldest = min((segment.epoch for segment in (*self.flying, *self.rejects) if segment.queue == index),
                     default=queue.epoch)
        if self.abandoned is not None or queue.epoch + 1 - oldest >= EPOCHS:
            return
        queue.epoch += 1
        self.abandoned, self.waits = index if queue.oldest < queue.tail else None, False
        self.seen["abandoned"] += 1

    def operation(self):
        """A random operation, in general an event or a CLEAR; a queue that has drained completes its reset."""
        for index, queue in enumerate(self.queues):
            if queue.resetting and not queue.reset and queue.oldest == queue.tail and index != self.abandoned:
                queue.reset = True
                return OpKind.RESET, index, 0
        rng, held = self.rng, [index for index, queue in enumerate(self.queues) if queue.held and not queue.resetting]
        index = rng.choice(held) if held and rng.random() < 0.7 else rng.randrange(QUEUES)
        if rng.random() < 0.5 and not self.queues[index].resetting:
            return OpKind.CLEAR, index, rng.getrandbits(6)
        counted = () if self.queues[index].resetting else (Status.OVERFLOW, Status.TIMEOUT, Status.RING_RANGE)
        return OpKind.EVENT, index, rng.choice((*QUIET, *counted))

    def settings(self, index):
        modes = list(QueueMode) if index < EXTENDED else [QueueMode.NATIVE]
        self.configure(index, mode=self.rng.choice(modes), skip_errors=int(self.rng.random() < 0.6),
                       sc_enable=int(self.rng.random() < 0.7), rc_enable=int(self.rng.random() < 0.7))

    def disturb(self, mood):
        """Change states and settings at random."""
        rng = self.rng
        if rng.random() < 0.02:
            self.settings(rng.randrange(QUEUES))
        if rng.random() < 0.1:
            self.crowded = int(rng.random() < mood.crowded)
        if rng.random() < 0.3:
            self.pending = sum((rng.random() < mood.pending) << queue for queue in range(QUEUES))
        for index, queue in enumerate(self.queues):
            if not queue.resetting and rng.random() < mood.reset and index not in [op[1] for op in self.ops if op]:
                queue.resetting, queue.plan = True, deque()
            elif queue.resetting and not queue.reset and rng.random() < mood.abandon:
                self.abandon(index)

    async def traffic(self, cycles):
        rng = self.rng
        for cycle in range(cycles):
            if cycle % 80 == 0:
                mood = Mood.random(rng)
                self.every_word = int(rng.random() < 0.2)
            self.disturb(mood)
            drive = {"offer": rng.random() < 0.8}
            index = rng.randrange(QUEUES)
            queue = self.queues[index]
            if rng.random() < mood.schedule and not queue.resetting and self.windows.may_schedule(index):
                if not queue.plan:
                    queue.plan.extend(self.request(index))
                drive["schedule"] = queue.plan.popleft()
            for name, rejected in (("done", False), ("reject", True)):
                ready = [segment for segment in self.flying
                         if segment.rejected == rejected and self.cycle - segment.scheduled >= 2]
                if ready and rng.random() < mood.done:
                    drive[name] = ready[0] if rng.random() < mood.ordered else rng.choice(ready)
                    self.flying.remove(drive[name])
            if rng.random() < mood.operations:
                drive["op"] = self.operation()
            await self.step(**drive)

    async def drain(self):
        """Complete everything; each queue retires all of its segments."""
        self.crowded = self.every_word = self.pending = 0
        for _ in range(60 * QUEUES):
            drive = {}
            done = next((segment for segment in self.flying if self.cycle - segment.scheduled >= 2), None)
            if done is not None:
                self.flying.remove(done)
                drive["reject" if done.rejected else "done"] = done
            resets = any(queue.resetting and not queue.reset for queue in self.queues)
            held = [index for index, queue in enumerate(self.queues) if queue.held and not queue.resetting]
            if self.cycle % 8 == 0 and held:
                drive["op"] = OpKind.CLEAR, self.rng.choice(held), 0
            elif self.cycle % 8 == 4 and resets:
                op = self.operation()
                drive["op"] = op if op[0] is OpKind.RESET else None
            await self.step(**drive)
            if not (self.rejects or self.abandoned is not None or any(
                    queue.held or queue.resetting or queue.segments for queue in self.queues)):
                break
        for index, queue in enumerate(self.queues):
            assert queue.oldest == queue.tail, f"queue {index} does not drain"

    async def reset(self):
        """Reset and sweep; nothing is taken meanwhile."""
        dut, ctx = self.dut, self.ctx
        for signal in (dut.done.valid, dut.rejected.valid, dut.abandoned.valid, dut.scheduled.valid):
            self.set(signal, 0)
        self.set(dut.ops.valid, 1)
        self.set(self.around.rst, 1)
        self.set(dut.init.active, 1)
        await ctx.tick()
        self.set(self.around.rst, 0)
        for row in range(self.config.sweep_rows):
            self.set(dut.init.address, row)
            assert not any(map(ctx.get, (dut.ops.ready, dut.rejected.ready, dut.abandoned.ready, dut.retired.valid)))
            await ctx.tick()
        self.set(dut.init.active, 0)
        self.clear()


def run(config, rng, body):
    """Run ``body`` on a bench, and return its counts of the cases that occurred."""
    around = Around(config)

    async def after_reset(bench):
        await bench.reset()
        await body(bench)

    return run_bench(around, lambda ctx: Traffic(ctx, around, rng), after_reset)


async def end_all(bench, segments, *, shuffled=False, op=None):
    """Schedule the segments, and end one per cycle, in which ``op`` is sent too."""
    for segment in segments:
        await bench.step(schedule=segment)
    await bench.step(op=op)
    if shuffled:
        bench.rng.shuffle(segments)
    for segment in segments:
        bench.flying.remove(segment)
        await bench.step(done=segment, op=op)
