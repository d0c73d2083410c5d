# SPDX-License-Identifier: Apache-2.0
"""Random requests, faults and resets on a DMA engine behind the PCIe adapter, and on its model: ``dmace compare pcie``.

As :mod:`sim.dma.compare`, in rounds and sections. Each round has other limits of the configuration space, other
behaviour of the memories and other faults of the pages that fail; at its end no tag may be lost.
"""

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import cocotb
from cocotb.triggers import Timer

from hw.common.sizes import PAGE_BYTES
from hw.dma_engine.model.regions import present
from hw.dma_engine.words import Opcode, Status
from sim.dma.compare import Comparison, Stopped
from sim.dma.compare_rings import RingPoster
from sim.dma.compare_sections import Section
from sim.pcie.compare_bench import PcieTestbench
from sim.pcie.compare_faults import TIMEOUT_CYCLES
from sim.pcie.compare_layout import PcieRequestMaker
from sim.pcie.compare_resets import Resets, kinds_of
from sim.pcie.completer import SPLITS
from sim.pcie.dma_card import small_dma
from sim.pcie.faults import Fault
from sim.progress import report

__all__ = ["PcieComparison"]

_LATENCIES = ((0, 0), (100, 300), (0, 1500), (500, 500))
_PERIODS_TO_EXPIRE = 6
_FEW_TAGS = 32


class PcieComparison(Resets, Comparison):
    """One run.

    Parameters
    ----------
    bench : :class:`PcieTestbench`
        Started.
    requests, resets : int
        How many at least.

    Attributes
    ----------
    leaked : int
        Tags that were not free at the end of a round.
    resets : dict
        Kind -> number.
    """

    bench: PcieTestbench
    make: PcieRequestMaker

    def __init__(self, bench: PcieTestbench, requests: int, resets: int) -> None:
        self.bench, self.model, self.config, self.rng = bench, bench.model, bench.config, bench.rng
        self.requests, self.make = requests, PcieRequestMaker(bench)
        self.watchdog, self.ablation = 0, {}
        self._reported = 0.0
        self.leaked = 0
        self.resets = dict.fromkeys(kinds_of(bench), 0)
        self._resets_left, self._expired = resets, 0

    async def run(self) -> None:
        """Everything. Differences are in the testbench's ``mismatches``."""
        bench, rng = self.bench, self.rng
        try:
            await self._vary()
            await self.make.lay_out()
            self.rings = {queue: RingPoster(bench, queue)
                          for queue, q in enumerate(self.model.queues) if q.ring is not None}
            remaining = rng.sample(self.sections, len(self.sections)) if self.requests >= 100 else []
            total = self._resets_left
            per_round = max(20, min(200, self.requests // max(6, total)))
            while bench.posted < self.requests or remaining or self._resets_left:
                await self._vary()
                await self._round(min(per_round, max(20, self.requests - bench.posted)))
                if remaining or rng.random() < 0.4:
                    await self._section(remaining.pop() if remaining else rng.choice(self.sections))
                await self._check_tags()
                if self._resets_left and (total - self._resets_left) * self.requests <= total * bench.posted:
                    await self._next_reset()
            await bench.finish()
        except Stopped:
            pass

    async def _next_reset(self) -> None:
        await self.bench.check_adapter()
        kind = min(self.resets, key=lambda name: (self.resets[name], self.rng.random()))
        self.notify(f"reset: {kind}")
        await self.reset(kind)
        self.resets[kind] += 1
        self._resets_left -= 1

    @property
    def sections(self) -> list[Section]:
        return [self._overflow, self._disabled, self._reset, self._moderation, self._ring_range, self._ring_fetch,
                self._ring_reset, self._one_fault, self._one_fault, self._late_duplicates]

    # The system's behaviour

    async def _vary(self) -> None:
        """Choose all that may differ between rounds; nothing is in flight."""
        system, rng = self.bench.system, self.rng
        await self.bench.configure(max_payload=rng.choice((128, 256, 512)), max_read=rng.choice((128, 256, 512)),
                                   extended_tags=rng.random() < 0.7)
        for number, (_, _, completer) in enumerate(self.bench.memory.parts):
            host = number == len(system.gpus)
            completer.settings = replace(
                completer.settings, split=rng.choice(SPLITS), reorder=rng.random() < 0.6,
                latency_ns=rng.choice(_LATENCIES), concurrency=rng.choice((None, None, 16)),
                rcb=rng.choice((64, 128)) if host else 128)
        stalls = rng.random() < 0.4
        system.card.stall({name: self._stalls(rng.choice((0.05, 0.3, 0.7))) if stalls and rng.random() < 0.6 else None
                           for name in ("cq", "cc", "rq", "rc")})
        if system.engine_clock is not None:
            await system.engine_clock.shift()
        self.bench.faulty.change()
        self.bench.faulty.extra(Fault.UNEXPECTED_TAG, rng.randrange(4))

    def _stalls(self, share: float) -> Iterator[bool]:
        while True:
            stalled = self.rng.random() < share
            for _ in range(self.rng.choice((1, 2, 10))):
                yield stalled

    # Sections

    async def _one_fault(self, queue: int) -> None:
        """One read of one request fails; other queues have reads of other pages in flight."""
        bench, rng, model = self.bench, self.rng, self.model
        await self.make.limit_targets(lift=True)
        word = self._good(queue, rng.choice((1, 100, 700, 4000, 9000)))
        while word.opcode != Opcode.COPY:
            word = self._good(queue, 100)
        pages = [(page, min(page + PAGE_BYTES, start + length) - max(page, start))
                 for start, length in present(model.source(word))
                 for page in range(start & -PAGE_BYTES, start + length, PAGE_BYTES)]
        page, length = rng.choice(pages)
        response = rng.choice(("SLVERR", "DECERR"))
        injection, where = bench.faulty.one(page, PAGE_BYTES, response, rng.randrange(max(1, length // 512)))
        model.fail_page(page, read=response)
        other = self._other(queue)
        await self._some(other, 2, 700)
        await self._post(queue, word)
        await self._some(other, 2, 700)
        await self._drain(queue)
        await self._settle(other)
        await bench.wait_log()
        if bench.faulty.pending(injection, where):
            bench.mismatch(f"the fault {injection.fault.name} in the page at {page:#x} has not happened.")
        model.repair_page(page)
        await self.make.limit_targets()
        # The same bytes, which are good now.
        await self._post(queue, word._replace(flags=0))
        await self._settle(queue)

    async def _late_duplicates(self, queue: int) -> None:
        """Completions arrive once more when all requests have ended, and their tags are free."""
        bench = self.bench
        extra = bench.faulty.extra(Fault.DUPLICATE, 4)
        await self._some(queue, 4, 3000)
        await self._drain(queue)
        for injection, where in extra:
            bench.faulty.pending(injection, where)
        await Timer(100, "us")
        await self._some(queue, 2, 700)
        await self._settle(queue)

    # Tags

    async def _check_tags(self) -> None:
        """Twice as many reads as there are tags use all of them in turn, so that none is lost."""
        bench, card = self.bench, self.bench.system.card
        await bench.quiet()
        if any(request is not None for request in card.active_request) or bench.expiry.count > self._expired:
            await bench.wait(_PERIODS_TO_EXPIRE * TIMEOUT_CYCLES)
        self._expired = bench.expiry.count
        bench.system.monitor.finish()
        tags = bench.system.adapter_config.tags
        queue = self._other(-1)
        for extended, expected in ((True, range(_FEW_TAGS, tags)), (False, range(_FEW_TAGS))):
            await bench.configure(max_payload=256, max_read=128, extended_tags=extended)
            bench.tags.clear()
            while bench.tags.total() < 2 * len(expected):
                self.make.renew()
                await self._some(queue, 4, 4096)
                await self._settle(queue)
                await bench.wait_log()
                bench.check_memory()
            if missing := set(expected) - set(bench.tags):
                self.leaked += len(missing)
                bench.mismatch(f"tags {', '.join(map(str, sorted(missing)))} are not used any more.")
        self._check()


@cocotb.test()
async def compare(dut: Any) -> None:
    """Run as ``$DMACE_RUN`` says, and write the result where it says."""
    options = json.loads(os.environ["DMACE_RUN"])
    mhz = options["engine_mhz"]
    bench = PcieTestbench(dut, *small_dma(options["width"], two_clocks=mhz is not None), engine_mhz=mhz,
                          seed=options["seed"])
    await bench.start()
    comparison = PcieComparison(bench, options["requests"], options["resets"])
    await comparison.run()
    faults = bench.faulty.injected()
    failures = bench.failures()
    result = {
        "width": options["width"], "engine_mhz": mhz, "seed": options["seed"],
        "requests": bench.posted, "cycles": bench.cycle,
        "faults": {fault.name.lower().replace("_", " "): faults[fault] for fault in Fault},
        "resets": comparison.resets,
        "failures": {status.name: failures[status.name] for status in Status if failures[status.name]},
        "leaked": comparison.leaked, "mismatches": len(bench.mismatches), "first_mismatches": bench.mismatches[:10],
    }
    Path(options["result"]).write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    report(done=options["requests"], total=options["requests"], cycles=bench.cycle, note="",
           mismatches=len(bench.mismatches))
