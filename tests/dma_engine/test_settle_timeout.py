# SPDX-License-Identifier: Apache-2.0
"""The testbench distinguishes a queue without progress from one that waits for a higher class."""

import cocotb
import pytest

from hw.dma_engine.words import Command
from tests.dma_engine.bench import DOMAIN, Bench, session_seed
from tests.dma_engine.jobs import Job

pytestmark = pytest.mark.rtl

TIMEOUT = 1500
LOWER, HIGHER = 2, 0
"""Numbers of the queues. The queue of the higher class is extended; its window is longer than the pipeline up to AR."""


def test_settle_timeout(engine):
    engine("tiny", ["the_lower_class_waits", "the_higher_class_does_not", "no_queue_progresses"])


async def _busy(dut, busy, other):
    """A bench where one queue has work for more than twice ``TIMEOUT``, with a word for the other."""
    bench = Bench(dut, seed=session_seed("timeout"), latency=100)
    *words, word = await bench.lay_out([Job(1024, 0, 0)] * 8 + [Job(8, 0, 0)])
    for queue, priority in ((LOWER, 0), (HIGHER, 1)):
        sc, rc = bench.words_of(queue)
        await bench.configure_queue(queue, domain=DOMAIN, sc=sc, rc=rc, priority=priority)
    # One segment at a time, so that the pipeline is full and the queue always requests.
    await bench.driver.set_ablation(single_read=True)
    # The model does not receive this command.
    await bench.driver.command(other, Command.PAUSE)
    await bench.post(busy, *words)
    await bench.post(other, word)
    return bench


@cocotb.test()
async def the_lower_class_waits(dut):
    """A queue may wait for longer than the time limit while queues of a higher class make progress."""
    bench = await _busy(dut, HIGHER, LOWER)
    await bench.driver.command(LOWER, Command.START)
    higher, start = cocotb.start_soon(bench.settle(HIGHER, timeout=TIMEOUT)), bench.cycle
    assert await bench.settle(LOWER, timeout=TIMEOUT), bench.mismatches
    assert bench.cycle - start > 2 * TIMEOUT, "the queue did not wait for long"
    assert await higher
    await bench.end()


@cocotb.test()
async def the_higher_class_does_not(dut):
    """Progress of a lower class does not extend the time limit."""
    bench = await _busy(dut, LOWER, HIGHER)
    lower, start = cocotb.start_soon(bench.settle(LOWER, timeout=TIMEOUT)), bench.cycle
    assert not await bench.settle(HIGHER, timeout=TIMEOUT)
    assert TIMEOUT < bench.cycle - start < 2 * TIMEOUT
    [sentence] = bench.mismatches
    assert f"queue {HIGHER} makes no progress: count is 0 instead of 1" in sentence
    assert await lower


@cocotb.test()
async def no_queue_progresses(dut):
    """A queue of a higher class that makes no progress itself does not extend the time limit, either."""
    bench = await _busy(dut, HIGHER, LOWER)
    for queue in (LOWER, HIGHER):
        await bench.driver.command(queue, Command.PAUSE)
    higher = cocotb.start_soon(bench.settle(HIGHER, timeout=TIMEOUT))
    assert not await bench.settle(LOWER, timeout=TIMEOUT)
    assert not await higher
    assert len(bench.mismatches) == 2
