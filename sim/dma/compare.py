# SPDX-License-Identifier: Apache-2.0
"""Random requests, good and bad, on the engine and on its model: the cocotb side of ``dmace compare dma``.

A run consists of rounds. In a round every queue gets its share of requests, whose destinations do not overlap
with any other in flight; after their completion all state is compared. Between the rounds, sections provoke
timing-dependent cases: a full queue, a disabled one, a reset, a missing response, a completion word with an error
response.
"""

import json
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import cocotb

from hw.dma_engine.config import PRESETS
from hw.dma_engine.words import Command, Status
from sim.configurations import configuration
from sim.dma.compare_ark import Item as ArkItem
from sim.dma.compare_requests import Item, RequestMaker
from sim.dma.compare_rings import RingPoster
from sim.dma.compare_sections import WATCHDOG, Section, Sections
from sim.dma.testbench import DmaTestbench
from sim.progress import report

__all__ = ["Comparison"]

TIMEOUT = 20_000


class Stopped(Exception):
    """There is a mismatch, and continuing would only cause more."""


class Comparison(Sections):
    """One run.

    Parameters
    ----------
    bench : :class:`DmaTestbench`
        Started.
    requests : int
        How many to post at least.
    """

    def __init__(self, bench: DmaTestbench, requests: int) -> None:
        self.bench, self.model, self.config, self.rng = bench, bench.model, bench.config, bench.rng
        self.requests, self.make = requests, RequestMaker(bench)
        # The watchdog is on in half of the runs; only what is provoked may time out.
        self.watchdog = self.rng.choice((0, WATCHDOG))
        self._reported = 0.0

    async def run(self) -> None:
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
            sections = self.sections
            remaining = self.rng.sample(sections, len(sections))
            per_round = max(20, min(400, self.requests // 6))
            while self.bench.posted < self.requests or remaining:
                await self._round(min(per_round, max(20, self.requests - self.bench.posted)))
                # Each once, and then any of them again.
                if remaining or self.rng.random() < 0.5:
                    await self._section(remaining.pop() if remaining else self.rng.choice(sections))
            await self.bench.finish()
            provoked = {entry.status for entry in self.model.log}
            for status in Status:
                if status is not Status.OK and status not in provoked:
                    self.bench.mismatch(f"{status.name} was never provoked.")
        except Stopped:
            pass

    def _check(self) -> None:
        if self.bench.mismatches:
            raise Stopped

    def notify(self, note: str = "") -> None:
        """Report progress, a few times a second."""
        if time.monotonic() - self._reported > 0.2:
            self._reported = time.monotonic()
            report(done=min(self.bench.posted, self.requests), total=self.requests, cycles=self.bench.cycle,
                   note=note, mismatches=len(self.bench.mismatches))

    # Rounds

    async def _round(self, number: int) -> None:
        """About ``number`` requests on all queues at once."""
        self.make.renew()
        plans: dict[int, list[Any]] = {queue: [] for queue in range(self.config.queues)}
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

    async def _agent(self, queue: int, items: Sequence[Item]) -> None:
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
                while not self._has_free_entries(queue, len(group) if ring is None else len(descriptors)):
                    await self._progress(queue)
                if ring is None:
                    await self._store(queue, group)
                else:
                    await ring.post(descriptors, verifiable=all(item.verifiable for item in group))
                self.notify()
                self._check()
            await self._drain(queue)
        except Stopped:
            pass

    async def _ark_agent(self, queue: int, groups: Sequence[Sequence[ArkItem]]) -> None:
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
                    await self._settle(queue)
                    await bench.command(queue, Command.START)
                await self._drain(queue)
                self.notify()
        except Stopped:
            pass

    def _group(self, items: Sequence[Item]) -> tuple[Sequence[Item], Sequence[Item]]:
        """The items of one burst."""
        if items[0].part is not None:
            return items[:1], items[1:]
        most = self.rng.choice((1, 1, 1, 2, 4, 8))
        size = next((index for index, item in enumerate(items[:most]) if item.part is not None or index >=
                     self.config.queue_depth), min(most, len(items)))
        return items[:size], items[size:]

    async def _store(self, queue: int, group: Sequence[Item]) -> None:
        bench, offset = self.bench, 16 * self.rng.randrange(200)
        if group[0].part is not None:
            first, length = group[0].part
            # A part that begins and ends at 8 bytes may also come as a narrow beat.
            size = 3 if length == 8 and first % 8 == 0 and self.rng.random() < 0.5 else 4
            await bench.store(queue, group[0].word.to_bytes()[first:first + length], offset=offset + first,
                              size=size)
            return
        # `verifiable` holds for a whole burst.
        for item in group:
            if not item.verifiable:
                break
        else:
            await bench.post(queue, *(item.word for item in group), offset=offset)
            return
        await bench.post(queue, *(item.word for item in group), offset=offset, verifiable=False)

    def _fails(self, queue: int, group: Sequence[ArkItem]) -> bool:
        return any(self.model.predict(queue, item.word, item.strobes) is not Status.OK for item in group)

    def _ended(self, queue: int) -> int:
        """Requests of a queue that have ended, as far as the GPU knows."""
        return max(self.bench.poller.count(queue), self.bench.known[queue])

    def _has_free_entries(self, queue: int, number: int) -> bool:
        """Whether this number of words, or descriptors, can be posted now."""
        if queue in self.rings:
            return self.rings[queue].has_free_entries(number, self._ended(queue))
        return self.model.queues[queue].posted - self._ended(queue) + number <= self.config.queue_depth

    async def _progress(self, queue: int) -> None:
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
            if bench.cycle - start > TIMEOUT:
                await bench.settle(queue)
                if not bench.mismatches:
                    start = bench.cycle

    async def _resolve(self, queue: int) -> None:
        """Wait for what a queue comes to, and clear it if that is an error."""
        await self._settle(queue)
        if self.model.queues[queue].held is not None:
            if self.rng.random() < 0.01:
                # The watchdog ignores requests held by an error.
                await self.bench.wait(3 * WATCHDOG)
                await self._settle(queue)
            await self.bench.command(queue, Command.CLEAR)

    async def _drain(self, queue: int) -> None:
        """Wait for the end of all that was posted to a queue."""
        while True:
            held = self.model.queues[queue].held
            await self._resolve(queue)
            if held is None:
                return

    async def _nap(self, queue: int) -> None:
        """Pause a queue, check that its segments in flight complete, and start it again."""
        bench, start = self.bench, self.bench.cycle
        await bench.command(queue, Command.PAUSE)
        await bench.wait(self.rng.randint(0, 100))
        while (state := await bench.state(queue)).in_flight and not state.held:
            if bench.cycle - start > TIMEOUT:
                bench.mismatch(f"paused queue {queue} still has {state.in_flight} segments in flight.")
                raise Stopped
            await bench.wait(32)
        await bench.command(queue, Command.START)

    async def _settle(self, queue: int) -> None:
        """Wait until a queue shows what the model does."""
        await self.bench.settle(queue, timeout=TIMEOUT)
        self._check()

    async def _section(self, section: Section) -> None:
        """One section on a queue that fits it, with everything quiet before and after."""
        self.make.renew()
        fitting = [queue for queue, q in enumerate(self.model.queues)
                   if (q.ring is None or section in (self._disabled, self._completion_error)) and q.ark is None
                   and (q.sc is not None or q.rc is not None)]
        if section in (self._ring_range, self._ring_fetch, self._ring_reset):
            fitting = list(self.rings)
        self.notify(section.__name__.strip("_").replace("_", " "))
        if not fitting:
            fitting = [queue for queue, q in enumerate(self.model.queues) if q.ring is None and q.ark is None]
        await section(self.rng.choice(fitting))
        self._check()
        await self.bench.wait_log()
        self.bench.check_memory()
        self._check()


@cocotb.test()
async def compare(dut: Any) -> None:
    """Run as ``$DMACE_RUN`` says, and write the result where it says."""
    options = json.loads(os.environ["DMACE_RUN"])
    config = configuration(options["sizes"]) if "sizes" in options else PRESETS[options["config"]]
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
