# SPDX-License-Identifier: Apache-2.0
"""Throughput and latency of copies between GPUs through the card: the cocotb side of ``dmace bench pcie --cocotb``.

One GPU posts copies from its memory to that of another; SC and RC are on. Throughput is counted in segments that the
engine has issued, by its counter, between two times in which all queues are kept full. The packets on the card's pins
give the latencies.
"""

import json
import os
from pathlib import Path
from typing import Any

import cocotb
from cocotb.triggers import RisingEdge, Timer
from cocotb.utils import get_sim_time
from cocotbext.pcie.core.port import PCIE_GEN_RATE

from hw.common.sizes import PAGE_BYTES
from hw.common.words import CompletionWord
from hw.dma_engine.words import NativeWord
from sim.pcie.bench_rows import throughput_row
from sim.pcie.bound import CLOCK_NS
from sim.pcie.card import CardSystem
from sim.pcie.completer import CompleterSettings
from sim.pcie.dma_card import preset_sizes
from sim.pcie.hard_block import LINKS
from sim.progress import report

__all__ = ["Traffic"]

REGION_BYTES = 1 << 20
WORDS = 3 << 20
"""Offset of completion words in a GPU's memory; a page for each queue."""

SETTLE_US, MEASURE_US = 8, 20
"""Time before a measurement, and its length."""


class Traffic:
    """Keeps queues full of copies of one size.

    Parameters
    ----------
    system : :class:`CardSystem`
        Started.
    size : int
        Bytes of each copy.
    queues, depth : int
        Queues in use, and requests of each that have not completed at most.
    """

    def __init__(self, system: CardSystem, size: int, *, queues: int, depth: int) -> None:
        self.system, self.size, self.queues, self.depth = system, size, queues, depth
        self.source, self.target = system.gpus[:2]
        self.stopped = False
        self._tasks: list[Any] = []
        self._posted = [0] * queues
        self._position = 0

    def start(self) -> None:
        self._tasks = [cocotb.start_soon(self._post(queue)) for queue in range(self.queues)]

    async def stop(self) -> None:
        """Stop posting, and drop what is still waiting."""
        self.stopped = True
        for task in self._tasks:
            await task
        await restart(self.system, self.queues)

    def _count(self, queue: int) -> int:
        word = self.source.memory.read(WORDS + queue * PAGE_BYTES, 8)
        return CompletionWord.unpack(int.from_bytes(word, "little")).count

    async def _post(self, queue: int) -> None:
        while not self.stopped:
            available = self.depth - (self._posted[queue] - self._count(queue))
            if available < min(4, self.depth):
                await Timer(40, "ns")
                continue
            words = []
            for _ in range(min(4, available)):
                words.append(NativeWord.copy(src=(0, self._position), dst=(1, self._position), length=self.size,
                                             flags=3))
                self._position += self.size
                if self._position + self.size > REGION_BYTES:
                    self._position = 0
            self._posted[queue] += len(words)
            await self.system.post(self.source, queue, *words, merged=4)


async def restart(system: CardSystem, queues: int) -> None:
    """RESET and start queues; their words count from 0."""
    for queue in range(queues):
        await system.dma.reset(queue)
    for queue in range(queues):
        while (await system.dma.state(queue)).resetting:
            pass
        for gpu in system.gpus[:2]:
            gpu.memory.write(WORDS + queue * PAGE_BYTES, bytes(8))
        await system.dma.start(queue)
    # A read waits for the writes before it.
    await system.dma.state(0)


class _Pins:
    """Times of packets on the card's pins."""

    def __init__(self, dut: Any) -> None:
        self._dut = dut
        self.seen: dict[str, list[float]] = {name: [] for name in ("cq", "rq", "rc")}
        for name in self.seen:
            cocotb.start_soon(self._watch(name))

    async def _watch(self, name: str) -> None:
        valid, ready = getattr(self._dut, f"{name}__tvalid"), getattr(self._dut, f"{name}__tready")
        while True:
            await RisingEdge(self._dut.clk)
            if int(valid.value) and int(ready.value):
                self.seen[name].append(get_sim_time("ns"))
            elif not int(valid.value):
                await RisingEdge(valid)


async def _segments(system: CardSystem) -> tuple[int, float]:
    """Segments that the engine has issued, and the time at which the register was read, to within a round trip."""
    before = get_sim_time("ns")
    count = (await system.dma.read("COUNT_SEGMENTS"))["value"]
    return count, (before + get_sim_time("ns")) / 2


async def _set_up(system: CardSystem, queues: int) -> None:
    source, target = system.gpus[:2]
    await system.dma.define_region(0, base=source.base, length=REGION_BYTES, writable=False)
    await system.dma.define_region(1, base=target.base, length=REGION_BYTES, readable=False)
    for queue in range(queues):
        for gpu in (source, target):
            gpu.memory.write(WORDS + queue * PAGE_BYTES, bytes(8))
        await system.dma.configure_queue(queue, sc=source.base + WORDS + queue * PAGE_BYTES,
                                         rc=target.base + WORDS + queue * PAGE_BYTES)
        await system.dma.start(queue)
    # A read waits for the writes before it.
    await system.dma.state(0)


async def _latency(system: CardSystem, pins: _Pins, size: int) -> dict[str, float]:
    """Times of one copy in an idle card, in ns from the doorbell on CQ."""
    source, target = system.gpus[:2]
    before = {name: len(seen) for name, seen in pins.seen.items()}
    count = CompletionWord.unpack(int.from_bytes(source.memory.read(WORDS, 8), "little")).count
    posted = get_sim_time("ns")
    await system.post(source, 0, NativeWord.copy(src=(0, 0), dst=(1, 0), length=size, flags=3))
    await system.wait(target, WORDS, count + 1)
    rc_there = get_sim_time("ns")
    await system.wait(source, WORDS, count + 1)
    sc_here = get_sim_time("ns")
    await Timer(1, "us")
    doorbell = pins.seen["cq"][before["cq"]]
    requests = pins.seen["rq"][before["rq"]:]
    completions = pins.seen["rc"][before["rc"]:]
    writes = [when for when in requests if when > completions[0]]
    return {
        "bytes": size, "link_in": doorbell - posted, "read": requests[0] - doorbell,
        "memory": completions[0] - requests[0], "data": writes[0] - completions[0],
        "last_word": requests[-1] - completions[-1],
        "rc_there": rc_there - posted, "sc_here": sc_here - posted,
    }


@cocotb.test()
async def bench(dut: Any) -> None:
    """Run as ``$DMACE_RUN`` says, and write the result where it says."""
    options = json.loads(os.environ["DMACE_RUN"])
    mhz = options["engine_mhz"]
    engine, adapter = preset_sizes(options["config"], two_clocks=mhz is not None)
    latency = options["latency"]
    system = CardSystem(
        dut, engine, adapter, engine_mhz=mhz, seed=options["seed"], max_payload=options["max_payload"],
        max_read=options["max_read"], gpu=CompleterSettings(latency_ns=(latency, latency), split=options["split"]))
    await system.start()
    pins = _Pins(dut)
    generation, lanes = LINKS[adapter.data_width]
    link_bytes = PCIE_GEN_RATE[generation] * lanes / 8e9 * CLOCK_NS
    most = max(options["queues"])
    await _set_up(system, most)
    result: dict[str, Any] = {name: options[name] for name in (
        "config", "engine_mhz", "seed", "latency", "max_payload", "max_read", "split")}
    result |= {"path": "cocotb", "data_width": adapter.data_width, "link_bytes_per_cycle": link_bytes,
               "latencies": [], "throughput": []}
    steps = len(options["sizes"]) * (1 + len(options["queues"]))
    done = 0
    for size in options["sizes"]:
        report(done=done, total=steps, note=f"latency of {size:,} B")
        result["latencies"].append(await _latency(system, pins, size))
        done += 1
    round_trip = result["latencies"][0]["memory"] / CLOCK_NS
    await restart(system, most)
    for queues in options["queues"]:
        for size in options["sizes"]:
            report(done=done, total=steps, note=f"{queues} queues, {size:,} B")
            traffic = Traffic(system, size, queues=queues, depth=engine.queue_depth)
            traffic.start()
            await Timer(SETTLE_US, "us")
            first, started = await _segments(system)
            beats = len(pins.seen["rq"])
            await Timer(MEASURE_US, "us")
            last, ended = await _segments(system)
            segments, cycles = last - first, (ended - started) / CLOCK_NS
            requests = segments * min(size, engine.segment_bytes) / size
            busy = (len(pins.seen["rq"]) - beats) / cycles
            await traffic.stop()
            result["throughput"].append(throughput_row(
                adapter, queues=queues, size=size, requests=requests, cycles=cycles, rq_busy=busy,
                link_bytes=link_bytes, max_payload=options["max_payload"], max_read=options["max_read"],
                round_trip=round_trip))
            done += 1
    system.monitor.finish()
    Path(options["result"]).write_text(json.dumps(result), encoding="utf-8")
