# SPDX-License-Identifier: Apache-2.0
"""A file moved by the engine, message by message, on many queues: the cocotb side of ``dmace sim dma``.

Blocks of a simulated GPU, one per queue, post a request for each message and poll the queue's SC and RC.
Every message lies at an odd offset, with guard bytes on both sides of its destination, in one of several
regions anywhere above 4 GiB.
"""

import json
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import cocotb

from hw.common.sizes import PAGE_BYTES
from hw.common.words import CompletionWord
from hw.dma_engine.config import PRESETS
from hw.dma_engine.words import Command, NativeWord
from sim.dma.lifecycles import Lifecycles
from sim.dma.testbench import DmaTestbench
from sim.dma.timeline import draw
from sim.dma.trace import Recorder
from sim.progress import report

__all__ = ["Message", "Mover"]

GUARD = 0xA5
GUARD_BYTES = 96
PAIRS = 4
TIMEOUT = 50_000


class Message(NamedTuple):
    """A part of the file and where it goes from and to, as ``(region, offset)``."""

    position: int
    length: int
    source: tuple[int, int]
    destination: tuple[int, int]


class Mover:
    """Moves ``data``.

    Parameters
    ----------
    bench : :class:`DmaTestbench`
        Started.
    data : bytes
        What to move.
    pieces : list of int
        Lengths of its parts, which no message crosses.
    message : int
        Bytes of a message at most.
    queues : int
        How many to use.
    """

    def __init__(self, bench: DmaTestbench, data: bytes, *, pieces: Sequence[int], message: int, queues: int) -> None:
        self.bench, self.data, self.queues = bench, data, queues
        self.messages: list[Message] = []
        self._split(pieces, message)
        # (queue, number) -> cycle of its post.
        self.posted_at: dict[tuple[int, int], int] = {}
        self.latencies: list[int] = []
        # Queue -> requests whose RC has been seen.
        self._seen: dict[int, int] = {}
        self._reported = 0.0
        self._moved = 0
        self.cycles = 0

    def _split(self, pieces: Sequence[int], most: int) -> None:
        """Messages, dealt to pairs of regions in turn; offsets in them are odd."""
        rng = self.bench.rng
        self.pairs = min(PAIRS, self.bench.config.regions // 2)
        ends = [[0, 0] for _ in range(self.pairs)]
        position = 0
        for piece in pieces:
            for start in range(position, position + piece, most):
                length = min(most, position + piece - start)
                pair = len(self.messages) % self.pairs
                offsets = []
                for side in range(2):
                    offset = ends[pair][side] + GUARD_BYTES + rng.randrange(PAGE_BYTES // 32)
                    offset |= 1
                    ends[pair][side] = offset + length
                    offsets.append(offset)
                self.messages.append(Message(start, length, (2 * pair, offsets[0]), (2 * pair + 1, offsets[1])))
            position += piece
        self.region_bytes = [end + GUARD_BYTES for pair in ends for end in pair]

    async def lay_out(self) -> None:
        """Regions, the file's bytes in the sources, guard bytes in the destinations, queues."""
        bench, rng = self.bench, self.bench.rng
        bases: list[int] = []
        # Each region in a span of its own, above 4 GiB.
        spans = rng.sample(range(1, 1 << 24), len(self.region_bytes) + self.queues)
        for number, length in enumerate(self.region_bytes):
            bases.append((spans.pop() << 40) + rng.randrange(1 << 26) * PAGE_BYTES)
            bench.fill(bases[number] - PAGE_BYTES, bytes([GUARD]) * (length + 2 * PAGE_BYTES))
            source = number % 2 == 0
            await bench.define_region(number, base=bases[number], length=length, domain=1, readable=source,
                                      writable=not source)
        for message in self.messages:
            region, offset = message.source
            bench.fill(bases[region] + offset, self._bytes(message))
        self.bases = bases
        for queue in range(self.queues):
            word = (spans.pop() << 40) + 8 * rng.randrange(1 << 36)
            bench.fill(word, bytes(8))
            bench.fill(word + PAGE_BYTES, bytes(8))
            await bench.configure_queue(queue, domain=1, sc=word, rc=word + PAGE_BYTES)
            await bench.command(queue, Command.START)

    def _bytes(self, message: Message) -> bytes:
        return self.data[message.position:message.position + message.length]

    async def run(self) -> None:
        """Move everything, then compare."""
        await self.lay_out()
        self.bench.on_word = self._word
        start = self.bench.cycle
        self._end = start
        tasks = [cocotb.start_soon(self._block(queue)) for queue in range(self.queues)]
        for task in tasks:
            await task
        self.cycles = self._end - start
        self._compare()
        await self.bench.finish()

    async def _block(self, queue: int) -> None:
        """A block of the GPU: post while the queue has free entries, then poll."""
        bench, poller = self.bench, self.bench.poller
        mine = self.messages[queue::self.queues]
        posted, progress = 0, bench.cycle
        while min(poller.seen(queue, kind).count for kind in ("sc", "rc")) < len(mine):
            available = bench.config.queue_depth - (posted - poller.seen(queue, "rc").count)
            if posted < len(mine) and available > 0:
                message = mine[posted]
                self.posted_at[queue, posted] = bench.cycle
                posted += 1
                await bench.post(queue, NativeWord.copy(src=message.source, dst=message.destination,
                                                        length=message.length))
                progress = bench.cycle
                continue
            changed = poller.changed(queue)
            changed.clear()
            await bench.until(changed, 1000)
            if changed.is_set():
                progress = bench.cycle
            if poller.seen(queue, "rc").failed or bench.cycle - progress > TIMEOUT:
                state = await bench.state(queue)
                bench.mismatch(f"queue {queue} makes no progress: {state}.")
                return

    def _word(self, queue: int, kind: str, word: CompletionWord) -> None:
        """A thread sees a new completion word."""
        if kind != "rc":
            return
        before = self._seen.get(queue, 0)
        for number in range(before, word.count):
            self.latencies.append(self.bench.cycle - self.posted_at.pop((queue, number)))
            self._moved += self.messages[queue + number * self.queues].length
        self._seen[queue] = max(before, word.count)
        self._end = self.bench.cycle
        if time.monotonic() - self._reported > 0.1:
            self._reported = time.monotonic()
            report(done=self._moved, total=len(self.data), cycles=self.bench.cycle, note="")

    def _compare(self) -> None:
        """The destinations hold the file."""
        for number, message in enumerate(self.messages):
            region, offset = message.destination
            if self.bench.memory.read(self.bases[region] + offset, message.length) != self._bytes(message):
                self.bench.mismatch(f"message {number}, {message.length} bytes at {message.position} of the "
                                    "file, is not what is at its destination.")


@cocotb.test()
async def copy(dut: Any) -> None:
    """Run as ``$DMACE_RUN`` says, and write the result where it says."""
    options = json.loads(os.environ["DMACE_RUN"])
    data = Path(options["input"]).read_bytes()
    bench = DmaTestbench(dut, PRESETS[options["config"]], seed=options["seed"], stalls=options["stalls"],
                         latency=options["latency"])
    recorder = Recorder(bench) if options["trace"] or options["plot"] else None
    mover = Mover(bench, data, pieces=options["pieces"] or [len(data)], message=options["message"],
                  queues=options["queues"])
    await bench.start()
    await mover.run()
    if options["trace"] and recorder:
        recorder.write(options["trace"])
    if options["plot"] and recorder:
        draw(Lifecycles(recorder.events, bench.config.queue_bits), options["plot"])
    latencies = mover.latencies or [0]
    result = {
        "config": options["config"], "seed": options["seed"], "input": options["input"], "queues": mover.queues,
        "message": options["message"], "requests": len(mover.messages), "bytes": len(data),
        "cycles": mover.cycles, "bytes_per_cycle": round(len(data) / max(mover.cycles, 1), 3),
        "bus_bytes_per_cycle": bench.config.beat_bytes,
        "mean_latency": round(sum(latencies) / len(latencies), 1), "worst_latency": max(latencies),
        "errors": sum(bench.errors.values()), "mismatches": len(bench.mismatches),
        "first_mismatches": bench.mismatches[:10],
    }
    Path(options["result"]).write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    report(done=len(data), total=len(data), cycles=bench.cycle, note="")
