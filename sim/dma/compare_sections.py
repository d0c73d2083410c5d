# SPDX-License-Identifier: Apache-2.0
"""Sections of ``dmace compare dma``: each provokes a timing-dependent case on one queue."""

import random
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from hw.common.sizes import PAGE_BYTES
from hw.dma_engine.config import DmaConfig
from hw.dma_engine.descriptors import RECORD_BYTES, Descriptor
from hw.dma_engine.model.engine import DmaModel
from hw.dma_engine.model.regions import present
from hw.dma_engine.words import Command, NativeWord, RequestFlag

if TYPE_CHECKING:
    from sim.dma.compare_requests import RequestMaker
    from sim.dma.compare_rings import RingPoster
    from sim.dma.testbench import DmaTestbench

__all__ = ["WATCHDOG", "Section", "Sections"]

Section = Callable[[int], Coroutine[Any, Any, None]]
"""A case that is provoked on a queue."""

WATCHDOG = 3_000


class Sections:
    """The sections, as methods of :class:`.compare.Comparison`; each takes a queue and leaves it at rest."""

    bench: "DmaTestbench"
    model: DmaModel
    config: DmaConfig
    rng: random.Random
    make: "RequestMaker"
    rings: "dict[int, RingPoster]"
    ablation: dict[str, bool]
    watchdog: int

    if TYPE_CHECKING:
        async def _settle(self, queue: int) -> None: ...

        async def _resolve(self, queue: int) -> None: ...

        async def _drain(self, queue: int) -> None: ...

    @property
    def sections(self) -> list[Section]:
        """All of them."""
        return [self._overflow, self._disabled, self._reset, self._completion_error, self._time_out,
                self._moderation, self._ring_range, self._ring_fetch, self._ring_reset]

    def _other(self, queue: int) -> int:
        """Another queue that is given native words."""
        return self.rng.choice([other for other in range(self.config.queues)
                                if other != queue and other not in self.make.ark.queues])

    async def _some(self, queue: int, number: int, length: int | None = None) -> None:
        """Post good requests to a queue."""
        for _ in range(number):
            await self._post(queue, self._good(queue, length))

    def _good(self, queue: int, length: int | None = None) -> NativeWord:
        """A request that will succeed: destinations were just freed."""
        word = self.make.good(queue, length)
        assert word is not None
        return word

    async def _post(self, queue: int, word: NativeWord) -> None:
        """Post a word to a queue, or make a descriptor of it."""
        if queue in self.rings:
            await self.rings[queue].ring.post(Descriptor.copies(word))
        else:
            await self.bench.post(queue, word)

    async def _restart(self, queue: int) -> None:
        """START after RESET."""
        if queue in self.rings:
            ring, bench = self.rings[queue].ring, self.bench
            ring.restart()
            if ring.location.records is not None:
                bench.fill(ring.location.records, bytes(RECORD_BYTES * ring.location.entries))
        await self.bench.command(queue, Command.START)

    async def _overflow(self, queue: int) -> None:
        bench = self.bench
        await bench.command(queue, Command.PAUSE)
        await self._some(queue, self.config.queue_depth + 1, 40)
        await self._some(queue, 3, 40)
        await self._settle(queue)
        await bench.wait_log()
        await bench.command(queue, Command.START)
        await self._settle(queue)
        await self._some(queue, 1, 40)
        await self._settle(queue)
        await bench.command(queue, Command.CLEAR)
        await self._some(queue, 3, 40)
        await self._settle(queue)

    async def _disabled(self, queue: int) -> None:
        bench = self.bench
        await bench.command(queue, Command.RESET)
        await self._settle(queue)
        await self._some(queue, 2, 40)
        await self._settle(queue)
        await bench.wait_log()
        await bench.command(queue, Command.CLEAR)
        await self._restart(queue)
        await self._some(queue, 2, 40)
        await self._settle(queue)

    async def _reset(self, queue: int) -> None:
        bench = self.bench
        other = self._other(queue)
        self.model.freeze(queue)
        for _ in range(self.rng.randint(1, min(8, self.config.queue_depth))):
            await self._some(queue, 1, self.rng.choice((40, 3000, 5000)))
            await self._some(other, 1, 700)
            await self._resolve(other)
        await bench.wait(self.rng.randint(0, 200))
        await bench.command(queue, Command.RESET)
        await self._settle(queue)
        await bench.command(queue, Command.START)
        await self._some(queue, 3, 700)
        await self._settle(queue)
        await self._settle(other)

    async def _completion_error(self, queue: int) -> None:
        bench, q = self.bench, self.model.queues[queue]
        kind, flag = ("sc", RequestFlag.SC) if q.sc is not None else ("rc", RequestFlag.RC)
        address = getattr(q, kind)
        bench.fail_page(address, write=self.rng.choice(("SLVERR", "DECERR")))
        await self._post(queue, self._good(queue, 99)._replace(flags=int(flag)))
        await self._settle(queue)
        await bench.wait_log()
        bench.repair_page(getattr(q, kind))
        await self._post(queue, self._good(queue, 99)._replace(flags=int(flag)))
        await self._settle(queue)

    async def _moderation(self, queue: int) -> None:
        bench, rng = self.bench, self.rng
        moderation = {"count": rng.randint(0, 4), "cycles": rng.choice((0, 300))}
        bench.model.moderate_interrupts(**moderation)
        await bench.driver.moderate_interrupts(**moderation)
        await bench.acknowledge_completion()
        for _ in range(rng.randint(1, 6)):
            word = self._good(queue, 40)
            await bench.post(queue, word._replace(flags=word.flags | int(RequestFlag.IRQ)))
        await self._settle(queue)
        await bench.wait(moderation["cycles"])
        await bench.check_interrupt()
        bench.model.moderate_interrupts()
        await bench.driver.moderate_interrupts()
        await bench.check_interrupt()

    async def _ring_range(self, queue: int) -> None:
        bench, ring = self.bench, self.rings[queue].ring
        away = self.rng.choice((ring.location.entries + 1, -ring.location.entries - 3,
                                self.rng.randrange(1 << 20, 1 << 31)))
        await self._some(queue, 2, 700)
        await self._settle(queue)
        await bench.ring(queue, ring.tail + away)
        await bench.ring(queue, ring.tail)
        await self._settle(queue)
        await bench.wait_log()
        await bench.command(queue, Command.CLEAR)
        await self._some(queue, 2, 40)
        await self._settle(queue)

    async def _ring_fetch(self, queue: int) -> None:
        """Descriptors that cannot be read, some in flight together with good ones."""
        bench, ring = self.bench, self.rings[queue].ring
        await self._some(queue, 2, 700)
        await self._settle(queue)
        bench.fail_page(ring.location.base, read=self.rng.choice(("SLVERR", "DECERR")))
        for _ in range(self.rng.randint(1, 3)):
            ring.write(Descriptor.copies(self._good(queue, 40)))
        await ring.notify()
        await self._drain(queue)
        await bench.wait_log()
        bench.repair_page(ring.location.base)
        await self._some(queue, 2, 40)
        await self._settle(queue)

    async def _ring_reset(self, queue: int) -> None:
        """RESET while descriptors are fetched, expanded, moved."""
        bench, ring = self.bench, self.rings[queue].ring
        other = self._other(queue)
        self.model.freeze(queue)
        for _ in range(self.rng.randint(1, ring.location.entries)):
            words = [self.make.good(queue, self.rng.choice((40, 40, 3000))) for _ in range(self.rng.randint(1, 3))]
            if None not in words:
                ring.write(Descriptor.copies(*filter(None, words)))
        await ring.notify()
        await self._some(other, 1, 700)
        await bench.wait(self.rng.randint(0, 200))
        await bench.command(queue, Command.RESET)
        await self._settle(queue)
        await self._restart(queue)
        await self._some(queue, 3, 700)
        await self._settle(queue)
        await self._settle(other)

    async def _time_out(self, queue: int) -> None:
        bench, model = self.bench, self.model
        # Short, so that stalled data leaves free entries of the buffer to the other queue.
        word, other = self._good(queue, self.rng.randint(1, 200)), self._other(queue)
        # The read in flight must not be one whose response is withheld.
        side = self.rng.choice(("src", "dst")) if "single_read" not in self.ablation else "dst"
        # Outstanding data counts for its target, and so for the other queue if it has the same target.
        await self.make.limit_targets(lift=True)
        pieces = model.source(word) if side == "src" else model.destination(word)
        pages = [page for start, length in present(pieces)
                 for page in range(start & -PAGE_BYTES, start + length, PAGE_BYTES)]
        bench.trace(f"withholding {pages[0]:#x}, {side} of queue {queue}")
        for page in pages:
            bench.withhold(page)
        await bench.driver.set_watchdog(WATCHDOG)
        await bench.post(queue, word)
        await self._some(queue, 2, 40)
        model.time_out(queue)
        await self._some(other, 3, 600)
        await self._settle(queue)
        await self._settle(other)
        await bench.wait_log()
        # Or it would find the queue waiting again.
        await bench.driver.set_watchdog(0)
        if self.rng.random() < 0.5:
            # The response comes before the queue is cleared: nothing ends.
            for page in pages:
                bench.release(page)
            await bench.wait(500)
            await self._settle(queue)
            await bench.command(queue, Command.CLEAR)
        else:
            await bench.command(queue, Command.CLEAR)
            await bench.wait(500)
            await self._settle(queue)
            for page in pages:
                bench.release(page)
        await self._settle(queue)
        await self.make.limit_targets()
        await bench.driver.set_watchdog(self.watchdog)
