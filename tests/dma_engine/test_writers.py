# SPDX-License-Identifier: Apache-2.0
"""Many threads that store to one doorbell page concurrently."""

import cocotb
import pytest

from hw.dma_engine.words import NativeWord, Status
from tests.dma_engine.bench import DESTINATION, SOURCE, Bench, parameter, session_seed
from tests.dma_engine.jobs import Job

pytestmark = pytest.mark.rtl

WRITERS = 12
QUEUES = 3
"""Number of queues; the first ones are extended."""


@pytest.mark.parametrize("stalls", ["none", "random"])
def test_writers(engine, stalls):
    engine("tiny", ["whole_words", "halves"], stalls=stalls)


async def _bench(dut, name):
    bench = Bench(dut, seed=session_seed(name), stalls=parameter("stalls", "none"))
    jobs = [Job(bench.rng.randint(1, 200), bench.rng.randrange(64), None) for _ in range(WRITERS * 8)]
    words = await bench.lay_out(jobs, queues=QUEUES, skip_errors=True)
    return bench, [word._replace(flags=3) for word in words]


async def _skew(bench):
    """Let addresses lead data, and data lead addresses."""
    write = bench.doorbells.master.write_if
    while True:
        for channel in (write.aw_channel, write.w_channel):
            channel.pause = True
            await bench.wait(bench.rng.randint(1, 30))
            channel.pause = False
            await bench.wait(bench.rng.randint(1, 10))


async def _write(bench, words):
    """One thread: words to any queue, one store each, several in flight."""
    for word in words:
        queue = bench.rng.randrange(QUEUES)
        await bench.wait_for_free_entries(queue, 1)
        await bench.post(queue, word, offset=16 * bench.rng.randrange(256))


@cocotb.test()
async def whole_words(dut):
    """Stores of different threads interleave on the bus, with different IDs; each is one request."""
    bench, words = await _bench(dut, "whole_words")
    skew = cocotb.start_soon(_skew(bench))
    for task in [cocotb.start_soon(_write(bench, words[number::WRITERS])) for number in range(WRITERS)]:
        await task
    skew.cancel()
    bench.doorbells.master.write_if.aw_channel.pause = bench.doorbells.master.write_if.w_channel.pause = False
    await bench.finish()
    assert sum(q.count for q in bench.model.queues) == len(words)
    bench.assert_equal()


async def _write_halves(bench, queue, word):
    """Two threads that each store one half of a word."""
    data = word.to_bytes()
    for half in bench.rng.sample((0, 8), 2):
        await bench.wait_for_free_entries(queue, 1)
        await bench.store(queue, data[half:half + 8], offset=half, size=bench.rng.choice((3, 4)))


@cocotb.test()
async def halves(dut):
    """Halves are refused individually and never combined, whatever is stored between or right after them."""
    bench, words = await _bench(dut, "halves")
    skew = cocotb.start_soon(_skew(bench))
    unwanted = NativeWord.copy(src=(SOURCE, 0), dst=(DESTINATION, 0), length=64)
    posted = 0
    for start in range(0, 64, 8):
        tasks = [cocotb.start_soon(_write_halves(bench, queue, unwanted)) for queue in range(QUEUES)]
        tasks += [cocotb.start_soon(_write(bench, [word])) for word in words[start:start + 8]]
        bench.rng.shuffle(tasks)
        for task in tasks:
            await task
        posted += 2 * QUEUES
        for queue in range(QUEUES):
            await bench.settle(queue)
        await bench.wait_log()
    skew.cancel()
    bench.doorbells.master.write_if.aw_channel.pause = bench.doorbells.master.write_if.w_channel.pause = False
    await bench.finish()
    assert set(bench.errors) == {Status.MALFORMED.name}
    assert bench.popped + await bench.driver.lost() == posted == sum(q.failed for q in bench.model.queues)
    bench.assert_equal()
