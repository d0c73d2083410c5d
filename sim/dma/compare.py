"""Random requests, good and bad, on the engine and on its model: the cocotb side of ``dmace compare dma``.

A run consists of rounds. In a round every queue gets its share of requests, whose destinations overlap
with nothing else that is under way; then everything is waited for and compared. Between the rounds stand
sections that provoke what depends on time: a full queue, a disabled one, a reset, a response that does not
come, a completion word that memory refuses.
"""

import json
import os
import time
from pathlib import Path

import cocotb

from hw.common.sizes import PAGE_BYTES
from hw.dma_engine.config import PRESETS
from hw.dma_engine.descriptors import RECORD_BYTES, Descriptor
from hw.dma_engine.words import Command, RequestFlag, Status
from sim.dma.compare_requests import RequestMaker
from sim.dma.compare_rings import RingPoster
from sim.dma.testbench import DmaTestbench
from sim.progress import report

__all__ = ["Comparison"]

PATIENCE = 20_000
WATCHDOG = 3_000


class Stopped(Exception):
    """There is a mismatch, and going on would only make more."""


class Comparison:
    """One run.

    Parameters
    ----------
    bench : :class:`DmaTestbench`
        Started.
    requests : int
        How many to post at least.
    """

    def __init__(self, bench, requests):
        self.bench, self.model, self.config, self.rng = bench, bench.model, bench.config, bench.rng
        self.requests, self.make = requests, RequestMaker(bench)
        # The watchdog is on in half of the runs; only what is provoked may time out.
        self.watchdog = self.rng.choice((0, WATCHDOG))
        self._told = 0.0

    async def run(self):
        """Everything. Differences are in the testbench's ``mismatches``."""
        try:
            await self.make.lay_out()
            self.rings = {queue: RingPoster(self.bench, queue)
                          for queue, q in enumerate(self.model.queues) if q.ring is not None}
            await self.bench.driver.set_watchdog(self.watchdog)
            # Slower, and the same in all else.
            self.ablation = self.rng.choices(({}, {"single_read": True}, {"every_word": True}), (6, 1, 1))[0]
            self.bench.trace(f"ablation {self.ablation}")
            await self.bench.driver.set_ablation(**self.ablation)
            sections = [self._overflow, self._disabled, self._reset, self._completion_error, self._time_out,
                        self._moderation, self._ring_range, self._ring_fetch, self._ring_reset]
            owed = self.rng.sample(sections, len(sections))
            per_round = max(20, min(400, self.requests // 6))
            while self.bench.posted < self.requests or owed:
                await self._round(min(per_round, max(20, self.requests - self.bench.posted)))
                # Each once, and then any of them again.
                if owed or self.rng.random() < 0.5:
                    await self._section(owed.pop() if owed else self.rng.choice(sections))
            await self.bench.finish()
            provoked = {entry.status for entry in self.model.log}
            for status in Status:
                if status is not Status.OK and status not in provoked:
                    self.bench.mismatch(f"{status.name} was never provoked.")
        except Stopped:
            pass

    def _check(self):
        if self.bench.mismatches:
            raise Stopped

    def tell(self, note=""):
        """Report progress, a few times a second."""
        if time.monotonic() - self._told > 0.2:
            self._told = time.monotonic()
            report(done=min(self.bench.posted, self.requests), total=self.requests, cycles=self.bench.cycle,
                   note=note, mismatches=len(self.bench.mismatches))

    # Rounds

    async def _round(self, number):
        """About ``number`` requests on all queues at once."""
        self.make.renew()
        plans = {queue: [] for queue in range(self.config.queues)}
        busy = self.rng.sample(range(self.config.queues), self.rng.randint(1, self.config.queues))
        planned = empty = 0
        while planned < number and empty < 20:
            queue = self.rng.choice(busy)
            ark = queue in self.make.ark.queues
            items = self.make.ark.items(queue) if ark else self.make.items(queue)
            plans[queue] += [items] if ark else items
            planned += len(items)
            empty = 0 if items else empty + 1
        tasks = [cocotb.start_soon((self._ark_agent if queue in self.make.ark.queues else self._agent)(
            queue, plans[queue])) for queue in busy]
        for task in tasks:
            await task
        self._check()
        await self.bench.wait_log()
        self.bench.check_memory()
        self._check()

    async def _agent(self, queue, items):
        """A GPU block that posts to one queue and sees to its errors."""
        bench, rng = self.bench, self.rng
        try:
            while items:
                group, items = self._group(items)
                if rng.random() < 0.3:
                    await bench.wait(rng.randint(1, 60))
                if rng.random() < 0.02:
                    await self._nap(queue)
                ring = self.rings.get(queue)
                descriptors = [] if ring is None else ring.describe(group)
                while not self._has_room(queue, len(group) if ring is None else len(descriptors)):
                    await self._progress(queue)
                if ring is None:
                    await self._store(queue, group)
                else:
                    await ring.post(descriptors, verifiable=all(item.verifiable for item in group))
                self.tell()
                self._check()
            await self._drain(queue)
        except Stopped:
            pass

    async def _ark_agent(self, queue, groups):
        """A GPU block that clears its flags, posts to an ARK queue, and waits for the end of everything."""
        bench, ark = self.bench, self.make.ark
        try:
            for items in groups:
                reset = self.rng.random() < 0.05 and not self._fails(queue, items)
                ark.clear(queue)
                if reset:
                    self.model.freeze(queue)
                await ark.post(queue, items)
                if reset:
                    await bench.wait(self.rng.randint(0, 200))
                    await bench.command(queue, Command.RESET)
                    await self._rest(queue)
                    await bench.command(queue, Command.START)
                await self._drain(queue)
                self.tell()
        except Stopped:
            pass

    def _group(self, items):
        """What goes out in one burst."""
        if items[0].part is not None:
            return items[:1], items[1:]
        most = self.rng.choice((1, 1, 1, 2, 4, 8))
        size = next((index for index, item in enumerate(items[:most]) if item.part is not None or index >=
                     self.config.queue_depth), min(most, len(items)))
        return items[:size], items[size:]

    async def _store(self, queue, group):
        bench, offset = self.bench, 16 * self.rng.randrange(200)
        if group[0].part is not None:
            first, length = group[0].part
            # A part that begins and ends at 8 bytes may also come as a narrow beat.
            size = 3 if length == 8 and first % 8 == 0 and self.rng.random() < 0.5 else 4
            await bench.store(queue, group[0].word.to_bytes()[first:first + length], offset=offset + first,
                              size=size)
            return
        # Whether a request's bytes can be looked at is told per burst.
        for item in group:
            if not item.verifiable:
                break
        else:
            await bench.post(queue, *(item.word for item in group), offset=offset)
            return
        await bench.post(queue, *(item.word for item in group), offset=offset, verifiable=False)

    def _fails(self, queue, group):
        return any(self.model.predict(queue, item.word, item.strobes) is not Status.OK for item in group)

    def _ended(self, queue):
        """Requests of a queue that have ended, as far as the GPU knows."""
        return max(self.bench.poller.count(queue), self.bench.known[queue])

    def _has_room(self, queue, number):
        """Whether so many words, or descriptors, can be posted now."""
        if queue in self.rings:
            return self.rings[queue].has_room(number, self._ended(queue))
        return self.model.queues[queue].posted - self._ended(queue) + number <= self.config.queue_depth

    async def _progress(self, queue):
        """Wait until something of a queue has ended."""
        bench, before, start = self.bench, self._ended(queue), self.bench.cycle
        if self.model.queues[queue].held is not None:
            await self._resolve(queue)
            return
        while self._ended(queue) == before:
            self._check()
            changed = bench.poller.changed(queue)
            changed.clear()
            await bench.until(changed, 100)
            if not changed.is_set():
                await bench.state(queue)
            if bench.cycle - start > PATIENCE:
                await bench.settle(queue)
                if not bench.mismatches:
                    start = bench.cycle

    async def _resolve(self, queue):
        """Wait for what a queue comes to, and clear it if that is an error."""
        await self._rest(queue)
        if self.model.queues[queue].held is not None:
            if self.rng.random() < 0.01:
                # What an error holds is nothing to the watchdog.
                await self.bench.wait(3 * WATCHDOG)
                await self._rest(queue)
            await self.bench.command(queue, Command.CLEAR)

    async def _drain(self, queue):
        """Wait for the end of all that was posted to a queue."""
        while True:
            held = self.model.queues[queue].held
            await self._resolve(queue)
            if held is None:
                return

    async def _nap(self, queue):
        """Pause a queue, see that it comes to rest, and start it again."""
        bench, start = self.bench, self.bench.cycle
        await bench.command(queue, Command.PAUSE)
        await bench.wait(self.rng.randint(0, 100))
        while (state := await bench.state(queue)).in_flight and not state.held:
            if bench.cycle - start > PATIENCE:
                bench.mismatch(f"paused queue {queue} still has {state.in_flight} segments in flight.")
                raise Stopped
            await bench.wait(32)
        await bench.command(queue, Command.START)

    async def _rest(self, queue):
        """Wait until a queue shows what the model does."""
        await self.bench.settle(queue, patience=PATIENCE)
        self._check()

    # Sections

    async def _section(self, section):
        """One section on a queue that fits it, with everything quiet before and after."""
        self.make.renew()
        fitting = [queue for queue, q in enumerate(self.model.queues)
                   if (q.ring is None or section in (self._disabled, self._completion_error)) and q.ark is None
                   and (q.sc is not None or q.rc is not None)]
        if section in (self._ring_range, self._ring_fetch, self._ring_reset):
            fitting = list(self.rings)
        self.tell(section.__name__.strip("_").replace("_", " "))
        if not fitting:
            fitting = [queue for queue, q in enumerate(self.model.queues) if q.ring is None and q.ark is None]
        await section(self.rng.choice(fitting))
        self._check()
        await self.bench.wait_log()
        self.bench.check_memory()
        self._check()

    def _other(self, queue):
        """Another queue that is given native words."""
        return self.rng.choice([other for other in range(self.config.queues)
                                if other != queue and other not in self.make.ark.queues])

    async def _some(self, queue, number, length=None):
        """Post good requests to a queue."""
        for _ in range(number):
            await self._post(queue, self.make.good(queue, length))

    async def _post(self, queue, word):
        """Post a word to a queue, or make a descriptor of it."""
        if queue in self.rings:
            await self.rings[queue].ring.post(Descriptor.copies(word))
        else:
            await self.bench.post(queue, word)

    async def _start_anew(self, queue):
        """START after RESET."""
        if queue in self.rings:
            ring, bench = self.rings[queue].ring, self.bench
            ring.restart()
            if ring.place.records is not None:
                bench.fill(ring.place.records, bytes(RECORD_BYTES * ring.place.entries))
        await self.bench.command(queue, Command.START)

    async def _overflow(self, queue):
        bench = self.bench
        await bench.command(queue, Command.PAUSE)
        await self._some(queue, self.config.queue_depth + 1, 40)
        await self._some(queue, 3, 40)
        await self._rest(queue)
        await bench.wait_log()
        await bench.command(queue, Command.START)
        await self._rest(queue)
        await self._some(queue, 1, 40)
        await self._rest(queue)
        await bench.command(queue, Command.CLEAR)
        await self._some(queue, 3, 40)
        await self._rest(queue)

    async def _disabled(self, queue):
        bench = self.bench
        await bench.command(queue, Command.RESET)
        await self._rest(queue)
        await self._some(queue, 2, 40)
        await self._rest(queue)
        await bench.wait_log()
        await bench.command(queue, Command.CLEAR)
        await self._start_anew(queue)
        await self._some(queue, 2, 40)
        await self._rest(queue)

    async def _reset(self, queue):
        bench = self.bench
        other = self._other(queue)
        self.model.freeze(queue)
        for _ in range(self.rng.randint(1, min(8, self.config.queue_depth))):
            await self._some(queue, 1, self.rng.choice((40, 3000, 5000)))
            await self._some(other, 1, 700)
            await self._resolve(other)
        await bench.wait(self.rng.randint(0, 200))
        await bench.command(queue, Command.RESET)
        await self._rest(queue)
        await bench.command(queue, Command.START)
        await self._some(queue, 3, 700)
        await self._rest(queue)
        await self._rest(other)

    async def _completion_error(self, queue):
        bench, q = self.bench, self.model.queues[queue]
        kind, flag = ("sc", RequestFlag.SC) if q.sc is not None else ("rc", RequestFlag.RC)
        bench.fail_page(getattr(q, kind), write=self.rng.choice(("SLVERR", "DECERR")))
        await self._post(queue, self.make.good(queue, 99)._replace(flags=int(flag)))
        await self._rest(queue)
        await bench.wait_log()
        bench.mend_page(getattr(q, kind))
        await self._post(queue, self.make.good(queue, 99)._replace(flags=int(flag)))
        await self._rest(queue)

    async def _moderation(self, queue):
        bench, rng = self.bench, self.rng
        moderation = {"count": rng.randint(0, 4), "cycles": rng.choice((0, 300))}
        bench.model.moderate_interrupts(**moderation)
        await bench.driver.moderate_interrupts(**moderation)
        await bench.acknowledge_completion()
        for _ in range(rng.randint(1, 6)):
            word = self.make.good(queue, 40)
            await bench.post(queue, word._replace(flags=word.flags | int(RequestFlag.IRQ)))
        await self._rest(queue)
        await bench.wait(moderation["cycles"])
        await bench.check_interrupt()
        bench.model.moderate_interrupts()
        await bench.driver.moderate_interrupts()
        await bench.check_interrupt()

    async def _ring_range(self, queue):
        bench, ring = self.bench, self.rings[queue].ring
        away = self.rng.choice((ring.place.entries + 1, -ring.place.entries - 3, self.rng.randrange(1 << 20, 1 << 31)))
        await self._some(queue, 2, 700)
        await self._rest(queue)
        await bench.ring(queue, ring.tail + away)
        await bench.ring(queue, ring.tail)
        await self._rest(queue)
        await bench.wait_log()
        await bench.command(queue, Command.CLEAR)
        await self._some(queue, 2, 40)
        await self._rest(queue)

    async def _ring_fetch(self, queue):
        """Descriptors that cannot be read, some of which are on their way with good ones."""
        bench, ring = self.bench, self.rings[queue].ring
        await self._some(queue, 2, 700)
        await self._rest(queue)
        bench.fail_page(ring.place.base, read=self.rng.choice(("SLVERR", "DECERR")))
        for _ in range(self.rng.randint(1, 3)):
            ring.write(Descriptor.copies(self.make.good(queue, 40)))
        await ring.tell()
        await self._drain(queue)
        await bench.wait_log()
        bench.mend_page(ring.place.base)
        await self._some(queue, 2, 40)
        await self._rest(queue)

    async def _ring_reset(self, queue):
        """RESET while descriptors are fetched, expanded, moved."""
        bench, ring = self.bench, self.rings[queue].ring
        other = self._other(queue)
        self.model.freeze(queue)
        for _ in range(self.rng.randint(1, ring.place.entries)):
            words = [self.make.good(queue, self.rng.choice((40, 40, 3000))) for _ in range(self.rng.randint(1, 3))]
            if None not in words:
                ring.write(Descriptor.copies(*words))
        await ring.tell()
        await self._some(other, 1, 700)
        await bench.wait(self.rng.randint(0, 200))
        await bench.command(queue, Command.RESET)
        await self._rest(queue)
        await self._start_anew(queue)
        await self._some(queue, 3, 700)
        await self._rest(queue)
        await self._rest(other)

    async def _time_out(self, queue):
        bench, model = self.bench, self.model
        # Short, so that what waits for memory leaves room in the buffer for the other queue.
        word, other = self.make.good(queue, self.rng.randint(1, 200)), self._other(queue)
        # The one read in flight may not be that which memory never answers.
        side = self.rng.choice(("src", "dst")) if "single_read" not in self.ablation else "dst"
        # What does not come counts for its target, and so for the other queue if that has the same.
        await self.make.limit_targets(lift=True)
        pieces = model.source(word) if side == "src" else model.destination(word)
        pages = [page for start, length in pieces for page in range(start & -PAGE_BYTES, start + length, PAGE_BYTES)]
        bench.trace(f"withholding {pages[0]:#x}, {side} of queue {queue}")
        for page in pages:
            bench.withhold(page)
        await bench.driver.set_watchdog(WATCHDOG)
        await bench.post(queue, word)
        await self._some(queue, 2, 40)
        model.time_out(queue)
        await self._some(other, 3, 600)
        await self._rest(queue)
        await self._rest(other)
        await bench.wait_log()
        # Or it would find the queue waiting again.
        await bench.driver.set_watchdog(0)
        if self.rng.random() < 0.5:
            # The response comes before the queue is cleared: nothing ends.
            for page in pages:
                bench.release(page)
            await bench.wait(500)
            await self._rest(queue)
            await bench.command(queue, Command.CLEAR)
        else:
            await bench.command(queue, Command.CLEAR)
            await bench.wait(500)
            await self._rest(queue)
            for page in pages:
                bench.release(page)
        await self._rest(queue)
        await self.make.limit_targets()
        await bench.driver.set_watchdog(self.watchdog)


@cocotb.test()
async def compare(dut):
    """Run as ``$DMACE_RUN`` says, and write the result where it says."""
    options = json.loads(os.environ["DMACE_RUN"])
    config = PRESETS[options["config"]]
    bench = DmaTestbench(dut, config, seed=options["seed"], stalls=options["stalls"],
                         latency=options["latency"])
    await bench.start()
    comparison = Comparison(bench, options["requests"])
    await comparison.run()
    result = {
        "config": options["config"], "seed": options["seed"], "requests": bench.posted, "cycles": bench.cycle,
        "errors_provoked": {status.name: sum(entry.status is status for entry in bench.model.log)
                            for status in Status if status},
        "mismatches": len(bench.mismatches), "first_mismatches": bench.mismatches[:10],
    }
    Path(options["result"]).write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    report(done=options["requests"], total=options["requests"], cycles=bench.cycle, note="",
           mismatches=len(bench.mismatches))
