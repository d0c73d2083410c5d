# SPDX-License-Identifier: Apache-2.0
"""Copies of every length and alignment, over many queues at once, with every kind of stall."""

import cocotb
import pytest

from hw.common.sizes import PAGE_BYTES
from hw.dma_engine.config import PRESETS
from hw.dma_engine.words import NativeWord, RequestFlag
from sim.memory import STALLS
from tests.dma_engine.bench import DOMAIN, Bench, disorder, parameter, preset, session_seed
from tests.dma_engine.jobs import SUITES, Job, pairs, suite
from tests.dma_engine.pins import Pins

pytestmark = pytest.mark.rtl

SHORT = "edges tiny straddle_4k one_page segment_borders"
MIDDLE = "small misaligned whole_buffer all_tags"

SHARDS = [
    ("tiny", "random", f"{SHORT} {MIDDLE}"),
    ("tiny", "none", "large"),
    *(pytest.param(*shard, marks=pytest.mark.long) for shard in (
        ("tiny", "none", f"{SHORT} {MIDDLE}"), ("tiny", "patterned", "medium"),
        ("base", "patterned", f"{SHORT} {MIDDLE}"), ("base", "random", "medium large"), ("base", "none", "huge"))),
]
"""Cases that always run, in the first or the second stage."""

LONG_SHARDS = [
    ("tiny", "patterned", f"{SHORT} {MIDDLE}"),
    ("base", "none", f"{SHORT} {MIDDLE}"),
    ("base", "random", f"{SHORT} {MIDDLE}"),
    ("wide", "none", "edges all_tags whole_buffer"),
    ("wide", "patterned", "tiny straddle_4k one_page"),
    ("wide", "random", "small segment_borders large"),
    ("wide", "none", "misaligned huge"),
]
"""Cases that run only with ``--soak``, in addition to the whole product with one suite at a time."""


@pytest.mark.parametrize(("config", "stalls", "suites"), [
    *SHARDS, *(pytest.param(*shard, marks=pytest.mark.soak) for shard in LONG_SHARDS)])
def test_suites(engine, config, stalls, suites):
    engine(config, "run_suites", stalls=stalls, suites=suites)


@pytest.mark.soak
@pytest.mark.parametrize("name", SUITES)
@pytest.mark.parametrize("stalls", STALLS)
@pytest.mark.parametrize("config", PRESETS)
def test_every_suite_alone(engine, config, stalls, name):
    engine(config, "run_suites", stalls=stalls, suites=name)


@cocotb.test()
async def run_suites(dut):
    """The jobs of several suites in random order, without waiting in between."""
    names, config = parameter("suites", ""), preset(dut)
    bench = Bench(dut, seed=session_seed(names), stalls=parameter("stalls", "none"),
                  latency=parameter("latency", 12))
    jobs = [job for name in names.split() for job in suite(name, config, bench.rng)]
    bench.rng.shuffle(jobs)
    await bench.run(await bench.lay_out(jobs))
    await bench.end()


@pytest.mark.parametrize(("config", "stalls", "number", "shard"), [
    pytest.param("tiny", "none", 1000, 0, marks=pytest.mark.long), ("tiny", "random", 1000, 1),
    *(pytest.param("base", stalls, 1000, shard, marks=pytest.mark.long)
      for shard, stalls in enumerate(("none", "random"))),
    pytest.param("wide", "random", 150, 0, marks=pytest.mark.soak),
])
def test_pairs(engine, soak, config, stalls, number, shard):
    engine(config, "run_pairs", stalls=stalls, number=number * (20 if soak else 1), shard=shard)


@cocotb.test()
async def run_pairs(dut):
    """Two words in one burst, the next two as soon as the queue has free entries."""
    bench = Bench(dut, seed=session_seed(f"pairs {parameter('shard', 0)}"), stalls=parameter("stalls", "none"))
    jobs = pairs(bench.config, bench.rng, parameter("number", 100))
    await bench.run(await bench.lay_out(jobs), sizes=(2,))
    await bench.end()


@pytest.mark.parametrize(("config", "stalls"), [
    ("tiny", "random"), pytest.param("base", "random", marks=pytest.mark.long),
    pytest.param("tiny", "none", marks=pytest.mark.soak), pytest.param("wide", "none", marks=pytest.mark.soak),
])
def test_special(engine, config, stalls):
    engine(config, ["responses_out_of_order", "fills_tags_and_buffer", "dependent_copies", "end_of_memory"],
           stalls=stalls)


@cocotb.test()
async def responses_out_of_order(dut):
    """Responses to reads and writes out of order, interleaved read bursts, no stalls."""
    bench = Bench(dut, seed=session_seed("disorder"), latency=40)
    disorder(bench.memory)
    pins = Pins(bench)
    config, rng = bench.config, bench.rng
    jobs = [Job(rng.randint(1, 3 * config.segment_bytes), rng.randint(0, 99), None) for _ in range(150)]
    await bench.run(await bench.lay_out(jobs))
    await bench.end()
    for issued, responded, last in (("ar", "r", 1), ("aw", "b", None)):
        order = [transfer.fields[0] for transfer in pins.seen[issued]]
        ends = [transfer.fields[0] for transfer in pins.seen[responded] if last is None or transfer.fields[last]]
        assert sorted(order) == sorted(ends)
        assert order != ends, f"{responded.upper()} came in the order of {issued.upper()}"


@cocotb.test()
async def fills_tags_and_buffer(dut):
    """A memory 2,000 cycles away: tags run out, then the buffer does, and both are used to the last."""
    bench = Bench(dut, seed=session_seed("far"), latency=2000)
    pins = Pins(bench)
    config, rng = bench.config, bench.rng
    jobs = suite("all_tags", config, rng)
    words = await bench.lay_out(jobs + suite("whole_buffer", config, rng))
    await bench.run(words[:len(jobs)])
    tags = min(config.tags, config.queues * config.window)
    assert pins.in_flight["segments"] == tags, f"{pins.in_flight} of {config.tags} tags"
    await bench.run(words[len(jobs):])
    assert config.buffer_beats - config.segment_beats - 1 <= pins.in_flight["beats"] <= config.buffer_beats, \
        f"{pins.in_flight} of {config.buffer_beats} beats"
    await bench.end()


@cocotb.test()
async def dependent_copies(dut):
    """Each queue copies a buffer from address to address, with fences, and back over its earlier source."""
    bench = Bench(dut, seed=session_seed("fences"), stalls=parameter("stalls", "none"), latency=(60, 5))
    config, rng = bench.config, bench.rng
    await bench.lay_out([Job(1, 0, 0)])
    base, length_limit = 0x1234_5678_9000_0000, 4 * PAGE_BYTES
    queues = range(min(8, config.queues, config.regions - 6))
    chains = {}
    for queue in queues:
        start = base + queue * (length_limit + PAGE_BYTES)
        bench.fill(start - PAGE_BYTES, rng.randbytes(length_limit + 2 * PAGE_BYTES))
        await bench.define_region(6 + queue, base=start, length=length_limit, domain=DOMAIN)
        offset, chains[queue] = 0, []
        for step in range(24):
            length = rng.choice((1, 13, 64, 500, config.segment_bytes + 3))
            there = 2 * PAGE_BYTES * (1 - step % 2) + rng.randrange(PAGE_BYTES)
            chains[queue].append(NativeWord.copy(
                src=(6 + queue, offset), dst=(6 + queue, there), length=length,
                flags=RequestFlag.FENCE | RequestFlag.SC))
            offset = there

    async def chain(queue):
        for word in chains[queue]:
            await bench.wait_for_free_entries(queue, 1)
            await bench.post(queue, word, verifiable=False)

    for task in [cocotb.start_soon(chain(queue)) for queue in queues]:
        await task
    await bench.end()


@cocotb.test()
async def end_of_memory(dut):
    """Copies from and to the last and the first bytes of a 64-bit address space."""
    bench = Bench(dut, seed=session_seed("end"))
    await bench.lay_out([Job(1, 0, 0)])
    top = (1 << 64) - 2 * PAGE_BYTES
    for region, base in ((6, top), (7, 0)):
        bench.fill(base, bench.rng.randbytes(2 * PAGE_BYTES))
        await bench.define_region(region, base=base, length=2 * PAGE_BYTES, domain=DOMAIN)
    size = 2 * PAGE_BYTES
    for queue, length in enumerate((1, 65, 700)):
        await bench.post(queue, NativeWord.copy(src=(6, size - length), dst=(7, 1000 * queue), length=length))
        await bench.post(queue, NativeWord.copy(src=(7, 4000 + 1000 * queue), length=length,
                                                dst=(6, size - length if queue == 2 else 1000 * queue)))
    await bench.end()
