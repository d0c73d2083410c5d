# SPDX-License-Identifier: Apache-2.0
"""Common parts of the engine's tests: regions laid out around jobs, and agents that post them.

Guard bytes surround each destination, in memory and in the model, so that the comparison of memory
at the end detects every byte that is written by mistake.
"""

import os
from collections import deque

import cocotb
from cocotb.triggers import ClockCycles, First

from hw.common.sizes import PAGE_BYTES
from hw.dma_engine.config import PRESETS
from hw.dma_engine.model.engine import DmaModel
from hw.dma_engine.words import Command, NativeWord
from sim.dma.ark import FlagWatch
from sim.dma.gpu import Poller
from sim.dma.testbench import DmaTestbench

__all__ = ["Bench", "disorder", "environment", "parameter", "preset", "session_seed"]

GUARD = 0xAA
GAP = 70
"""Guard bytes between destinations: more than a beat of ``wide``."""

DOMAIN = 7
SOURCE, DESTINATION = 2, 5
SOURCE_BASE = 0x7_1234_5000
DESTINATION_BASE = 0xABCD_0000_9000
WORDS_BASE = 0x9_8765_4000


def environment(parameters):
    """Environment variables that pass parameters to :func:`parameter`."""
    return {f"DMACE_TEST_{name.upper()}": value for name, value in parameters.items()}


def preset(dut):
    """Sizes of the engine under test."""
    return PRESETS[dut._name.removeprefix("dma_")]


def parameter(name, default):
    """A parameter of the pytest function, with the type of ``default``."""
    return type(default)(os.environ.get(f"DMACE_TEST_{name.upper()}", default))


def session_seed(what=""):
    """A distinct seed for each test, derived from the session's."""
    return f"{os.environ['COCOTB_RANDOM_SEED']} {what}"


class Bench(DmaTestbench):
    """A testbench that lays out jobs and posts them to several queues."""

    def __init__(self, dut, **options):
        super().__init__(dut, preset(dut), **options)
        self._cursor = GAP          # first free byte of the destination

    # Layout of memory

    def place(self, jobs):
        """Native words of jobs, without flags; their destinations do not overlap."""
        words, available = [], self._source_bytes
        for length, source, destination in jobs:
            pages = (available - length - abs(source)) // PAGE_BYTES
            src = self.rng.randint(1, max(1, pages - 1)) * PAGE_BYTES + source
            if destination is None:
                dst = self._cursor + self.rng.choice((0, self.rng.randint(1, GAP)))
            else:
                dst = -(-(self._cursor + GAP - destination) // PAGE_BYTES) * PAGE_BYTES + destination
            self._cursor = dst + length
            words.append(NativeWord.copy(src=(SOURCE, src), dst=(DESTINATION, dst), length=length, flags=0))
        return words

    async def lay_out(self, jobs, queues=None, **settings):
        """Start ``queues`` queues, define the regions for ``jobs``, and return the jobs' words."""
        await self.start()
        longest = max(job.length for job in jobs)
        self._source_bytes = -(-longest // PAGE_BYTES) * PAGE_BYTES + 16 * PAGE_BYTES
        words = self.place(jobs)
        self.fill(SOURCE_BASE, self.rng.randbytes(self._source_bytes))
        length = -(-(self._cursor + GAP) // PAGE_BYTES) * PAGE_BYTES
        self.fill(DESTINATION_BASE - PAGE_BYTES, bytes([GUARD]) * (length + 2 * PAGE_BYTES))
        await self.define_region(SOURCE, base=SOURCE_BASE, length=self._source_bytes, domain=DOMAIN,
                                 writable=False)
        await self.define_region(DESTINATION, base=DESTINATION_BASE, length=length, domain=DOMAIN,
                                 readable=False)
        await self.start_queues(range(queues or self.config.queues), **settings)
        return words

    def words_of(self, queue):
        """Addresses of the SC and the RC word of a queue."""
        return WORDS_BASE + 64 * queue, WORDS_BASE + 64 * queue + 40

    async def start_queues(self, queues, **settings):
        for queue in queues:
            sc, rc = self.words_of(queue)
            for address in (sc, rc):
                self.fill(address, bytes(8))
            await self.configure_queue(queue, **{"domain": DOMAIN, "sc": sc, "rc": rc} | settings)
            await self.command(queue, Command.START)

    async def restart(self):
        """``rst`` for some cycles, while the buses are idle. Memory keeps its bytes and drops outstanding responses."""
        self.dut.rst.value = 1
        await self.wait(3)
        self.memory.withheld.clear()
        for port in (self.memory.reads, self.memory.writes):
            port.responder._blocked.clear()
        self.dut.rst.value = 0
        self.model = DmaModel(self.config, memory=self.model.memory)
        self.poller, self.flags = Poller(), FlagWatch(self)
        self._ended_before, self._ended_unknown, self._words_unknown = 0, False, False
        self._lost = 0
        for seen in (self.known, self._classes, self._popped, self._reported, self._quiet, self._positions,
                     self._earlier,
                     self._verified, self._unverifiable):
            seen.clear()
        await self.driver.enable_interrupts(error=True)

    # Agents

    async def run(self, words, queues=None, sizes=(1, 1, 2, 3, 4)):
        """Post words back to back to several queues and wait until all have completed."""
        queues = range(self.config.queues) if queues is None else queues
        shares = {queue: deque(words[index::len(queues)]) for index, queue in enumerate(queues)}
        for task in [cocotb.start_soon(self._agent(queue, share, sizes))
                     for queue, share in shares.items() if share]:
            await task

    async def _agent(self, queue, words, sizes):
        """Post whenever the queue has free entries; each burst's last word requests a completion word."""
        rng = self.rng
        while words and not self.mismatches:
            size = min(len(words), rng.choice(sizes))
            group = [words.popleft() for _ in range(size)]
            group = [word._replace(flags=word.flags | rng.choice((0, 0, 1, 2, 3))) for word in group]
            if not group[-1].flags & 3:
                group[-1] = group[-1]._replace(flags=group[-1].flags | rng.choice((1, 2, 3)))
            await self.wait_for_free_entries(queue, size)
            await self.post(queue, *group, offset=16 * rng.randrange(64))
        await self.wait_for_free_entries(queue, self.config.queue_depth)

    async def wait_for_free_entries(self, queue, size, timeout=400_000):
        """Wait until the queue has free entries for ``size`` words."""
        start = self.cycle
        while self.model.queues[queue].posted - self.poller.count(queue) + size > self.config.queue_depth:
            if self.mismatches:
                return
            changed = self.poller.changed(queue)
            changed.clear()
            await First(changed.wait(), ClockCycles(self.dut.clk, 1000))
            if self.cycle - start > timeout:
                self.mismatch(f"queue {queue} shows {self.poller.count(queue)} of "
                              f"{self.model.queues[queue].posted} requests after {timeout} cycles.")

    async def end(self):
        """Compare the engine's final state with the model's."""
        if not self.mismatches:
            await self.finish()
        self.assert_equal()


def disorder(memory, spread=4):
    """Let the memory respond out of order between IDs, and interleave the bursts of ``spread`` IDs."""
    memory._jitter, memory.interleave = True, spread
