# SPDX-License-Identifier: Apache-2.0
"""Resets of the card in ``dmace compare pcie``: each under traffic, then set up again, with correct work behind it."""

import random
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

import cocotb
from cocotb.task import Task
from cocotb.triggers import with_timeout

from hw.dma_engine.config import DmaConfig
from hw.dma_engine.descriptors import Descriptor
from hw.dma_engine.model.engine import DmaModel
from hw.dma_engine.words import Command, NativeWord, Status
from sim.pcie.card import RequestRefused
from sim.pcie.compare_faults import TIMEOUT_CYCLES
from sim.pcie.engine_clock import EngineClock
from sim.pcie.resets import function_level_reset, hot_reset, link_down, save, set_bus_master

if TYPE_CHECKING:
    from sim.dma.compare_rings import RingPoster
    from sim.pcie.compare_bench import PcieTestbench
    from sim.pcie.compare_layout import PcieRequestMaker

__all__ = ["ENGINE_RESET", "RESETS", "Resets", "kinds_of"]

RESETS = ("function-level", "hot", "link down", "bus-master disable")
ENGINE_RESET = "engine"
"""Reset of the engine's clock domain; on a card with two clocks."""

_LIMIT_US = 200
"""Limit of a reset of the engine, in which requests may be in flight until they expire."""


def kinds_of(bench: "PcieTestbench") -> tuple[str, ...]:
    """The kinds of reset that a card has."""
    return RESETS if bench.system.engine_clock is None else (*RESETS, ENGINE_RESET)


class Resets:
    """The resets, as methods of :class:`.compare.PcieComparison`."""

    bench: "PcieTestbench"
    model: DmaModel
    config: DmaConfig
    rng: random.Random
    make: "PcieRequestMaker"
    rings: "dict[int, RingPoster]"

    if TYPE_CHECKING:
        def _has_free_entries(self, queue: int, number: int) -> bool: ...

        async def _post(self, queue: int, word: NativeWord) -> None: ...

        async def _restart(self, queue: int) -> None: ...

        async def _settle(self, queue: int) -> None: ...

        async def _some(self, queue: int, number: int, length: int | None = None) -> None: ...

        def _check(self) -> None: ...

    async def reset(self, kind: str) -> None:
        """One of :func:`kinds_of` at a random moment under traffic on all queues."""
        bench, rng = self.bench, self.rng
        bench.trace(f"reset: {kind}")
        self.make.renew()
        for queue in range(self.config.queues):
            self.model.freeze(queue)
        actions: dict[str, Callable[[], Coroutine[Any, Any, None]]] = {
            "function-level": self._function_level, "hot": self._hot, "link down": self._link_down,
            "bus-master disable": self._bus_master, ENGINE_RESET: self._engine}
        async with bench.access:
            self._stop, bench.resetting = False, True
            tasks = [cocotb.start_soon(self._traffic(queue)) for queue in range(self.config.queues)]
            await bench.wait(rng.choice((0, rng.randrange(100), rng.randrange(2_000))))
            await actions[kind]()
            self._stop = True
            for task in tasks:
                await task
            bench.resetting = False
            await bench.quiet()
            if kind != "bus-master disable":
                bench.lose()
                bench.check_memory()
                await bench.restore()
        if kind == "bus-master disable":
            await self._recover()
        for queue in range(self.config.queues):
            if queue in self.make.ark.queues:
                self.make.ark.clear(queue)
                await bench.command(queue, Command.START)
            else:
                await self._restart(queue)
        bench.lenient = bench.flags.lossy = False
        await self.make.limit_targets()
        self.make.renew()
        for queue in range(self.config.queues):
            if queue not in self.make.ark.queues:
                await self._some(queue, 3, rng.choice((40, 700, 3000)))
        for queue in range(self.config.queues):
            await self._settle(queue)
        await bench.wait_log()
        bench.check_memory()
        self._check()

    async def _traffic(self, queue: int) -> None:
        """Good requests until the reset has ended, or the destinations are used up."""
        bench, rng = self.bench, self.rng
        if queue in self.make.ark.queues:
            self.make.ark.clear(queue)
            items = [item for item in self.make.ark.items(queue)
                     if self.model.predict(queue, item.word, item.strobes) is Status.OK]
            await self.make.ark.post(queue, items)
            return
        while not self._stop:
            if not self._has_free_entries(queue, 1):
                await bench.wait(rng.randint(20, 200))
                continue
            word = self.make.good(queue, rng.choice((None, 700, 3000, 5000)))
            if word is None:
                return
            if queue in self.rings:
                await self.rings[queue].ring.post(Descriptor.copies(word))
            else:
                await bench.post(queue, word)

    async def _function_level(self) -> None:
        await function_level_reset(self.bench.system, timeout_us=4 * 4 * TIMEOUT_CYCLES // 1000 + 100)

    async def _hot(self) -> None:
        await hot_reset(self.bench.system, duration_ns=self.rng.randint(200, 2000))

    async def _link_down(self) -> None:
        system = self.bench.system
        saved = await save(system)
        await self.bench.wait(self.rng.randrange(500))
        await link_down(system, duration_ns=self.rng.randint(200, 2000))
        await saved.restore(system)

    async def _engine(self) -> None:
        """While the CPU accesses registers: each access ends, whether it reaches the engine or not."""
        clock = self.bench.system.engine_clock
        assert clock is not None
        resets = cocotb.start_soon(self._reset_engine(clock))
        accesses = cocotb.start_soon(self._access(resets))
        await with_timeout(accesses, _LIMIT_US, "us")

    async def _reset_engine(self, clock: EngineClock) -> None:
        await self.bench.wait(self.rng.randrange(200))
        await clock.reset(self.rng.choice((1, 2, self.rng.randint(3, 300))))

    async def _access(self, resets: Task[None]) -> None:
        """Read and write registers of the engine during its reset, and afterwards until they respond again."""
        driver = self.bench.driver
        done = responds = False
        while not (done and responds):
            done, responds = resets.done(), True
            try:
                await driver.write("HISTOGRAM_BIN", bin=self.rng.randrange(2))
                await driver.read("QUEUE_STATE")
            except RequestRefused:
                responds = False
            await self.bench.wait(self.rng.randrange(20))

    async def _bus_master(self) -> None:
        self.bench.lenient = self.bench.flags.lossy = True
        await set_bus_master(self.bench.system, False)
        await self.bench.wait(self.rng.choice((1, 10, 300, 3 * TIMEOUT_CYCLES)))
        await set_bus_master(self.bench.system, True)
        await self.bench.wait(self.rng.randrange(1000))

    async def _recover(self) -> None:
        """Queues after a time without bus mastering: whatever they have reported, RESET ends it."""
        bench = self.bench
        for queue in range(self.config.queues):
            await bench.command(queue, Command.RESET)
        for queue in range(self.config.queues):
            await self._settle(queue)
        await bench.quiet()
        while await bench.driver.pop_log() is not None:
            pass
        await bench.driver.acknowledge(error=True)
        bench.driver.lost_before += await bench.driver.lost()
        bench.clear_log()
        bench.uncertain()
        bench.check_memory()
