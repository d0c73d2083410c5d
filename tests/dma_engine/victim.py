# SPDX-License-Identifier: Apache-2.0
"""One queue that is subject to all faults and commands, while all others keep copying."""

import cocotb

from hw.common.sizes import PAGE_BYTES
from hw.dma_engine.words import Command, NativeWord, Status
from tests.dma_engine.bench import DOMAIN, GUARD, Bench
from tests.dma_engine.jobs import pairs

__all__ = [
    "DST", "DST_BASE", "ENDLESS", "FOREIGN", "GOOD", "INVALID", "LAST", "LENGTH", "LONG", "SMALL", "SRC", "SRC_BASE",
    "VICTIM", "VictimBench",
]

VICTIM = 1
SRC, DST, FOREIGN, INVALID, ENDLESS = 8, 9, 10, 11, 12
SRC_BASE, DST_BASE = 0xFFFF_0000_0001_0000, 0x1_0000_0000
LENGTH = 8 * PAGE_BYTES + 0x321
LAST = (1 << 36) - 1

GOOD = NativeWord.copy(src=(SRC, 6 * PAGE_BYTES + 5), dst=(DST, 6 * PAGE_BYTES + 70), length=300)
"""The good word posted before and after a bad one; it uses separate pages."""

SMALL = NativeWord.copy(src=(SRC, 40), dst=(DST, 80), length=33, flags=0)
LONG = NativeWord.copy(src=(SRC, 3000), dst=(DST, 2001), length=4 * PAGE_BYTES, flags=0)
"""A long word, which uses pages 0 to 4 of both regions."""


class VictimBench(Bench):
    """The victim's regions, with guards around and inside them, and traffic on all other queues."""

    def __init__(self, dut, **options):
        super().__init__(dut, **options)
        self._stop = False
        self.rounds = 0

    async def prepare(self, **settings):
        self._words = await self.lay_out(pairs(self.config, self.rng, 60))
        self.fill(SRC_BASE - PAGE_BYTES, self.rng.randbytes(LENGTH + 2 * PAGE_BYTES))
        self.fill(DST_BASE - PAGE_BYTES, bytes([GUARD]) * (11 * PAGE_BYTES))
        for number, base, options in (
            (SRC, SRC_BASE, {"writable": False}), (DST, DST_BASE, {"readable": False}),
            (FOREIGN, DST_BASE, {"domain": DOMAIN + 1}), (INVALID, DST_BASE, {"valid": False}),
            (ENDLESS, DST_BASE, {"length": 1 << 36}),
        ):
            await self.define_region(number, **{"base": base, "length": LENGTH, "domain": DOMAIN} | options)
        sc, rc = self.words_of(VICTIM)
        await self.command(VICTIM, Command.RESET)
        await self.settle(VICTIM)
        await self.configure_queue(VICTIM, **{"domain": DOMAIN, "sc": sc, "rc": rc} | settings)
        await self.command(VICTIM, Command.START)
        others = [queue for queue in range(min(8, self.config.queues)) if queue != VICTIM]
        self._tasks = [cocotb.start_soon(self._traffic(queue, self._words[index::len(others)]))
                       for index, queue in enumerate(others)]

    async def _traffic(self, queue, words):
        while not self._stop and not self.mismatches:
            await self.run(words, queues=[queue])
            self.rounds += 1

    async def end(self):
        self._stop = True
        for task in self._tasks:
            await task
        assert self.rounds >= len(self._tasks) or self.mismatches, f"{self.rounds} rounds of traffic"
        await super().end()

    async def clean(self):
        """Restore the guards in the victim's destination."""
        self.fill(DST_BASE, bytes([GUARD]) * 9 * PAGE_BYTES)

    async def settle_and_check(self, name):
        """Wait until the victim's state equals the model's, and check its memory."""
        await self.settle(VICTIM)
        await self.wait_log()
        self.verify(name)
        return await self.state(VICTIM)

    def verify(self, name):
        """Compare the victim's memory. Data of requests behind a failed one may have moved, or not."""
        moving = [range(start, start + request.word.length) for request in self.model.queues[VICTIM].waiting
                  if request.word and self.model.check(VICTIM, request.word) is Status.OK
                  for start in (DST_BASE + request.word.dst_offset,)]
        for base in (SRC_BASE, DST_BASE):
            for page in range(base - PAGE_BYTES, base + 10 * PAGE_BYTES, PAGE_BYTES):
                wrong = [address
                         for address in self.model.memory.differences(page, self.memory.read(page, PAGE_BYTES))
                         if not any(address in where for where in moving)]
                if wrong:
                    self.mismatch(f"{name}: {len(wrong)} wrong bytes from {wrong[0]:#x}.")
        assert not self.mismatches, f"{name}: " + " ".join(self.mismatches)

    def logged(self):
        """Number of the victim's entries in the error log."""
        return self._popped[VICTIM]

    async def bad(self, name, status, word, after, store=None):
        """Good, bad, good; then CLEAR, RESET or, in a queue that skips errors, nothing."""
        await self.clean()
        before, logged = await self.state(VICTIM), self.logged()
        second = GOOD._replace(dst_offset=7 * PAGE_BYTES + 9)
        await self.post(VICTIM, GOOD)
        if store is None:
            await self.post(VICTIM, word)
        else:
            await store()
        await self.post(VICTIM, second)
        state = await self.settle_and_check(name)
        assert self.logged() == logged + 1, f"{name}: {self.logged() - logged} entries in the log"
        skips = after == "skip"
        assert (state.held, state.status, state.failed - before.failed, state.count - before.count) == \
            (not skips, status, 1, 3 if skips else 1), f"{name}: {state}"
        if after == "clear":
            await self.command(VICTIM, Command.CLEAR)
            state = await self.settle_and_check(name)
            assert (state.held, state.status, state.count - before.count) == (0, 0, 3), f"{name}: {state}"
        elif after == "reset":
            await self.command(VICTIM, Command.RESET)
            state = await self.settle_and_check(name)
            assert (state.enabled, state.running, state.held, state.status, state.count, state.failed,
                    state.waiting, state.in_flight) == (0,) * 8, f"{name}: {state}"
            await self.command(VICTIM, Command.START)
