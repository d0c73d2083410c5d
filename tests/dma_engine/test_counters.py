# SPDX-License-Identifier: Apache-2.0
"""Counters and latency histogram of each queue, and interrupt moderation."""

from collections import Counter, defaultdict, deque

import cocotb
import pytest
from cocotb.triggers import RisingEdge

from hw.dma_engine.config import HISTOGRAM_BINS
from hw.dma_engine.words import Command, RequestFlag, Status
from sim.dma.lifecycles import Lifecycles
from sim.dma.trace import Recorder
from tests.dma_engine.bench import SOURCE, Bench, disorder, parameter, session_seed
from tests.dma_engine.jobs import Job, pairs

pytestmark = pytest.mark.rtl


@pytest.mark.parametrize(("config", "stalls"), [
    ("tiny", "random"), pytest.param("base", "none", marks=pytest.mark.long)])
def test_counters(engine, config, stalls):
    engine(config, ["counters_and_events", "reset_zeroes", "stalls_are_counted"], stalls=stalls)


def test_moderation(engine):
    engine("tiny", "interrupts_are_moderated")


def expected(events, queue_bits):
    """Expected registers of each queue, from the events alone: counters by name, and the histogram."""
    lifecycles, made = Lifecycles(events, queue_bits), defaultdict(Counter)
    for segment in lifecycles.segments:
        if "done" in segment.at:
            made[segment.queue]["segments"] += 1
            made[segment.queue]["bytes"] += segment.bytes * (segment.status == Status.OK)
    histograms = defaultdict(lambda: [0] * HISTOGRAM_BINS)
    waiting, sample = defaultdict(deque), {}
    for event in events:
        queue = event.fields.get("queue")
        if event.kind == "dropped":
            made[queue]["stalls"] += 1
        elif event.kind == "failed":
            made[queue]["failed"] += 1
        elif event.kind == "ended":
            made[queue]["requests"] += 1
            request = waiting[queue].popleft()
            if sample.get(queue) == request:
                histograms[queue][min(HISTOGRAM_BINS - 1, (event.cycle - request[0]).bit_length() - 1)] += 1
                del sample[queue]
        elif event.kind == "posted":
            request = (event.cycle, event)
            waiting[queue].append(request)
            sample.setdefault(queue, request)
    return made, histograms


async def _compare(bench, recorder, queues=None):
    await bench.wait(20)
    made, histograms = expected(_ordered(recorder.events), bench.config.queue_bits)
    for queue in queues or range(bench.config.queues):
        counted = await bench.driver.queue_counters(queue)
        assert counted._asdict() == {name: made[queue][name] for name in counted._fields}, f"queue {queue}"
        assert await bench.driver.histogram(queue) == histograms[queue], f"queue {queue}"
    return made, histograms


def _ordered(events):
    """Order posts before ends of the same cycle: a sample is in progress for a word posted in the cycle of its end."""
    return sorted(events, key=lambda event: (event.cycle, event.kind != "posted", event.kind == "ended"))


@cocotb.test()
async def counters_and_events(dut):
    """Counters and histogram agree with the events, with bad requests and memory errors among the requests."""
    bench = Bench(dut, seed=session_seed("counters"), stalls=parameter("stalls", "none"), latency=20)
    disorder(bench.memory)
    recorder = Recorder(bench)
    words = await bench.lay_out(pairs(bench.config, bench.rng, 300), skip_errors=True)
    for index in bench.rng.sample(range(len(words)), 15):
        words[index] = words[index]._replace(src_region=SOURCE + 1)
    last = bench.model.regions[words[-1].dst_region].base + words[-1].dst_offset
    bench.fail_page(last, write="SLVERR")
    await bench.run(words)
    await bench.end()
    made, histograms = await _compare(bench, recorder)
    assert sum(sum(bins) for bins in histograms.values()) >= 2 * bench.config.queues
    total = await bench.driver.counters()
    assert sum(counts["segments"] for counts in made.values()) == total["segments"]
    assert sum(counts["failed"] for counts in made.values()) > 15
    assert 0 < sum(counts["bytes"] for counts in made.values()) < sum(word.length for word in words)


@cocotb.test()
async def reset_zeroes(dut):
    """RESET clears the counters of its queue only, also twice and also with requests in progress."""
    bench = Bench(dut, seed=session_seed("zeroes"), stalls=parameter("stalls", "none"))
    words = await bench.lay_out(pairs(bench.config, bench.rng, 12))
    await bench.run(words[:12])
    others = {queue: (await bench.driver.queue_counters(queue), await bench.driver.histogram(queue))
              for queue in range(bench.config.queues) if queue != 1}
    assert (await bench.driver.queue_counters(1)).bytes and sum(await bench.driver.histogram(1))
    for _ in range(2):
        await bench.command(1, Command.RESET)
        await bench.settle(1)
        assert not any(await bench.driver.queue_counters(1)) and not any(await bench.driver.histogram(1))
    await bench.command(1, Command.START)
    bench.model.freeze(1)
    for word in words[12:16]:
        await bench.post(1, word)
    await bench.command(1, Command.RESET)
    await bench.settle(1)
    assert not any(await bench.driver.queue_counters(1)) and not any(await bench.driver.histogram(1))
    recorder = Recorder(bench)
    await bench.command(1, Command.START)
    for word in words[16:]:
        await bench.post(1, word)
        await bench.settle(1)
    await bench.end()
    _, histograms = await _compare(bench, recorder, [1])
    # Requests posted one at a time are all sampled.
    assert sum(histograms[1]) == len(words[16:])
    for queue, before in others.items():
        assert (await bench.driver.queue_counters(queue), await bench.driver.histogram(queue)) == before


@cocotb.test()
async def stalls_are_counted(dut):
    """A fence and a limit stall a queue."""
    bench = Bench(dut, seed=session_seed("stalls"), stalls=parameter("stalls", "none"), latency=60)
    recorder = Recorder(bench)
    words = await bench.lay_out([Job(20, 0, None)] * 7)
    for word in words[:4]:
        await bench.post(0, word)
    await bench.settle(0)
    assert (await bench.driver.queue_counters(0)).stalls == 0
    await bench.post(0, words[4])
    await bench.post(0, words[5]._replace(flags=int(RequestFlag.FENCE | RequestFlag.SC)))
    await bench.settle(0)
    assert (await bench.driver.queue_counters(0)).stalls > 0
    await bench.end()
    await _compare(bench, recorder)


@cocotb.test()
async def interrupts_are_moderated(dut):
    """Interrupts rise at the count or the time, whichever is first, accurate to the cycle."""
    bench = Bench(dut, seed=session_seed("moderation"))
    driver, recorder = bench.driver, Recorder(bench)
    words = await bench.lay_out([Job(16, 0, None)] * 40)
    words = [word._replace(flags=int(RequestFlag.IRQ | RequestFlag.SC)) for word in words]
    await driver.enable_interrupts(completion=True)
    rises = []

    async def watch():
        while True:
            await RisingEdge(dut.irq)
            rises.append(bench.cycle)

    cocotb.start_soon(watch())

    async def go(number, *, wait=0, **moderation):
        """Post; returns cycles from the first end to the interrupt, of the ends, or None where there was none."""
        await bench.acknowledge_completion()
        await driver.moderate_interrupts(**moderation)
        bench.model.moderate_interrupts(**moderation)
        await bench.check_interrupt()
        rises.clear()
        recorder.events.clear()
        for _ in range(number):
            await bench.post(2, words.pop())
        await bench.settle(2)
        await bench.wait(wait)
        ends = [event.cycle for event in recorder.events if event.kind == "ended"]
        assert len(ends) == number and len(rises) <= 1
        await bench.check_interrupt()
        return (rises[0] - ends[0] if rises else None), [cycle - ends[0] for cycle in ends]

    # The event ports have a register, irq_status one and irq another: irq rises one cycle behind the event.
    at_once, _ = await go(1)
    after, ends = await go(3, count=3)
    assert after == ends[2] + at_once
    assert (await go(2, count=3))[0] is None
    assert (await go(1, count=3))[0] == at_once
    after, _ = await go(2, count=3, cycles=200, wait=220)
    assert after == 200 + at_once
    after, ends = await go(3, count=3, cycles=5000)
    assert after == ends[2] + at_once
    after, _ = await go(1, cycles=1, wait=5)
    assert after == 1 + at_once
    # Waiting completions are not lost when moderation is switched off.
    assert (await go(1, count=9))[0] is None
    await driver.moderate_interrupts()
    bench.model.moderate_interrupts()
    await bench.check_interrupt()
    assert bench.model.irq_completion
    await bench.end()
