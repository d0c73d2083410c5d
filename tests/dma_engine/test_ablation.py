# SPDX-License-Identifier: Apache-2.0
"""ABLATION switches off the documented features, and all copies stay correct."""

from collections import defaultdict
from itertools import pairwise

import cocotb
import pytest

from hw.dma_engine.words import RequestFlag
from tests.dma_engine.bench import Bench, disorder, parameter, session_seed
from tests.dma_engine.jobs import Job
from tests.dma_engine.pins import Pins

pytestmark = pytest.mark.rtl

REQUESTS = 24
"""Per queue."""


@pytest.mark.parametrize("switched", [1, 0])
def test_ablation(engine, switched):
    engine("tiny", ["one_read_at_a_time", "every_word_is_written"], switched=switched)


def _most_reads(pins):
    """Maximum of outstanding read bursts at any time."""
    issued = [(transfer.cycle, transfer.fields[0]) for transfer in pins.seen["ar"]]
    over = [transfer.cycle for transfer in pins.seen["r"] if transfer.fields[1]]
    assert len(issued) == len(over)
    reads = most = 0
    events = sorted([(cycle, 1) for cycle, _ in issued] + [(cycle, -1) for cycle in over])
    for _, change in events:
        reads += change
        most = max(most, reads)
    return most


@cocotb.test()
async def one_read_at_a_time(dut):
    """With the bit, only the reads of one segment are outstanding, at most two bursts; without it, many."""
    switched = parameter("switched", 0)
    bench = Bench(dut, seed=session_seed("reads"), latency=40)
    words = await bench.lay_out([Job(bench.rng.choice((1, 200, 600)), bench.rng.choice((0, -30)), None)
                                 for _ in range(REQUESTS * bench.config.queues)])
    disorder(bench.memory)
    await bench.driver.set_ablation(single_read=switched)
    pins = Pins(bench)
    await bench.run(words)
    await bench.end()
    tags = [transfer.fields[0] for transfer in pins.seen["ar"]]
    assert any(one == other for one, other in pairwise(tags)), "no source crossed a page"
    most = _most_reads(pins)
    assert most == 2 if switched else most > 8, f"{most} reads at a time"


@cocotb.test()
async def every_word_is_written(dut):
    """Requests complete in quick succession: with the bit, SC and RC take every value; without, some are skipped."""
    switched = parameter("switched", 0)
    bench = Bench(dut, seed=session_seed("words"), latency=40)
    words = await bench.lay_out([Job(30, 0, None)] * (REQUESTS * bench.config.queues))
    await bench.driver.set_ablation(every_word=switched)
    values = defaultdict(list)
    bench.on_word = lambda queue, kind, word: values[queue, kind].append(word.count)
    flags = int(RequestFlag.SC | RequestFlag.RC)
    for task in [cocotb.start_soon(_post_all(bench, queue, [word._replace(flags=flags) for word in words[queue::4]]))
                 for queue in range(bench.config.queues)]:
        await task
    await bench.end()
    assert set(values) == {(queue, kind) for queue in range(bench.config.queues) for kind in ("sc", "rc")}
    for what, counts in values.items():
        if switched:
            assert counts == list(range(1, REQUESTS + 1)), what
        else:
            assert len(counts) < REQUESTS, what


async def _post_all(bench, queue, words):
    for start in range(0, len(words), bench.config.queue_depth):
        burst = words[start:start + bench.config.queue_depth]
        await bench.wait_for_free_entries(queue, len(burst))
        await bench.post(queue, *burst)
