# SPDX-License-Identifier: Apache-2.0
"""A file from one GPU to another through the card, message by message: the cocotb side of ``dmace sim pcie``.

Threads of the first GPU post a request for each message by peer-to-peer stores to BAR 2, on several queues, and poll
SC. Every message lies at an odd offset, with guard bytes on both sides of its destination.
"""

import json
import os
import random
import time
from pathlib import Path
from typing import Any, NamedTuple

import cocotb
from cocotb.triggers import Timer
from cocotb.utils import get_sim_time

from hw.common.sizes import PAGE_BYTES
from hw.dma_engine.config import DmaConfig
from hw.dma_engine.words import NativeWord
from sim.pcie.bound import CLOCK_NS
from sim.pcie.card import CardSystem
from sim.pcie.completer import CompleterSettings
from sim.pcie.dma_card import preset_sizes
from sim.progress import report

__all__ = ["FileCopy", "Message"]

GUARD, GUARD_BYTES = 0xA5, 96


class Message(NamedTuple):
    """A part of the file, and its offsets in both GPUs."""

    position: int
    length: int
    source: int
    target: int


class FileCopy:
    """Moves ``data`` between the GPUs of a system.

    Parameters
    ----------
    system : :class:`CardSystem`
        Started.
    config : :class:`DmaConfig`
        Sizes of the engine.
    data : bytes
        What to move.
    message, queues : int
        Bytes of a message at most; queues to use.
    """

    def __init__(self, system: CardSystem, config: DmaConfig, data: bytes, *, message: int, queues: int) -> None:
        self.system, self.config, self.data, self.queues = system, config, data, queues
        self.source, self.target = system.gpus[:2]
        rng = random.Random(system.settings.seed)
        self.messages: list[Message] = []
        ends = [0, 0]
        for position in range(0, len(data), message):
            length = min(message, len(data) - position)
            offsets = []
            for side in range(2):
                offset = ends[side] + GUARD_BYTES + rng.randrange(64) | 1
                ends[side] = offset + length
                offsets.append(offset)
            self.messages.append(Message(position, length, *offsets))
        self.region_bytes = max(ends) + GUARD_BYTES
        self.words = -(-self.region_bytes // PAGE_BYTES) * PAGE_BYTES
        self.cycles = self.moved = self.errors = 0
        self.mismatches: list[str] = []
        self._reported = 0.0

    @staticmethod
    def gpu_bytes(length: int, message: int, queues: int) -> int:
        """Memory that a GPU needs."""
        needed = length + (length // message + 1) * (GUARD_BYTES + 65) + (queues + 2) * PAGE_BYTES
        return 1 << max(20, needed.bit_length())

    async def run(self) -> None:
        """Set up, move everything, and compare."""
        source, target, dma = self.source, self.target, self.system.dma
        target.memory.write(0, bytes([GUARD]) * self.region_bytes)
        for message in self.messages:
            source.memory.write(message.source, self.data[message.position:message.position + message.length])
        await dma.define_region(0, base=source.base, length=self.region_bytes, domain=1, writable=False)
        await dma.define_region(1, base=target.base, length=self.region_bytes, domain=1, readable=False)
        for queue in range(self.queues):
            await dma.configure_queue(queue, domain=1, sc=source.base + self.words + PAGE_BYTES * queue,
                                      rc=target.base + self.words + PAGE_BYTES * queue)
            await dma.start(queue)
        # A read waits for the writes before it, so that no doorbell comes before its queue is started.
        await dma.state(0)
        started = get_sim_time("ns")
        for task in [cocotb.start_soon(self._move(queue)) for queue in range(self.queues)]:
            await task
        self.cycles = round((get_sim_time("ns") - started) / CLOCK_NS)
        await Timer(2, "us")
        self._compare()

    async def _move(self, queue: int) -> None:
        """A block of the GPU: post while the queue has free entries, then poll SC and RC."""
        mine, depth = self.messages[queue::self.queues], self.config.queue_depth
        word = self.words + PAGE_BYTES * queue
        for number, message in enumerate(mine):
            await self.system.wait(self.source, word, max(0, number + 1 - depth))
            await self.system.post(self.source, queue, NativeWord.copy(
                src=(0, message.source), dst=(1, message.target), length=message.length, flags=3))
            self.moved += message.length
            if time.monotonic() - self._reported > 0.1:
                self._reported = time.monotonic()
                report(done=self.moved, total=len(self.data), note="")
        for gpu in (self.source, self.target):
            self.errors += (await self.system.wait(gpu, word, len(mine))).failed

    def _compare(self) -> None:
        expected = bytearray([GUARD]) * self.region_bytes
        for message in self.messages:
            expected[message.target:message.target + message.length] = self.data[
                message.position:message.position + message.length]
        found = self.target.memory.read(0, self.region_bytes)
        if found != bytes(expected):
            for message in self.messages:
                span = slice(message.target, message.target + message.length)
                if found[span] != expected[span]:
                    self.mismatches.append(f"{message.length} bytes at {message.position} of the file are not what is "
                                           "at their destination.")
            if not self.mismatches:
                self.mismatches.append("Bytes outside the destinations have changed.")


@cocotb.test()
async def copy(dut: Any) -> None:
    """Run as ``$DMACE_RUN`` says, and write the result where it says."""
    options = json.loads(os.environ["DMACE_RUN"])
    mhz = options["engine_mhz"]
    engine, adapter = preset_sizes(options["config"], two_clocks=mhz is not None)
    data = Path(options["input"]).read_bytes()
    latency = options["latency"]
    memory = CompleterSettings(latency_ns=(latency, latency), reorder=True, split="random")
    system = CardSystem(dut, engine, adapter, engine_mhz=mhz, seed=options["seed"] % (1 << 31), gpu=memory,
                        gpu_bytes=FileCopy.gpu_bytes(len(data), options["message"], options["queues"]))
    await system.start()
    mover = FileCopy(system, engine, data, message=options["message"], queues=options["queues"])
    await mover.run()
    system.monitor.finish()
    Path(options["result"]).write_text(json.dumps({
        "config": options["config"], "engine_mhz": mhz, "seed": options["seed"],
        "input": options["input"], "queues": options["queues"],
        "requests": len(mover.messages), "bytes": len(data), "cycles": mover.cycles,
        "gigabytes_per_second": len(data) / mover.cycles / CLOCK_NS, "errors": mover.errors,
        "mismatches": len(mover.mismatches), "first_mismatches": mover.mismatches[:5]}), encoding="utf-8")
