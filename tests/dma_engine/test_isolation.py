# SPDX-License-Identifier: Apache-2.0
"""A source that does not respond stalls its own queue and no other."""

import cocotb
import pytest

from hw.common.sizes import PAGE_BYTES
from hw.dma_engine.config import BLOCK_ENTRIES
from hw.dma_engine.frontend.window_pool import RESERVE_BITS
from hw.dma_engine.words import Command, NativeWord
from sim.dma.testbench import DmaTestbench
from tests.dma_engine.bench import preset

pytestmark = pytest.mark.rtl

SOURCE, DESTINATION, WORDS = 0x3_0000_0000, 0x5_0000_0000, 0x7_0000_0000
REGION_BYTES = 0x4_0000


@pytest.mark.parametrize("config, testcase", [
    *(pytest.param(config, testcase, marks=[pytest.mark.soak] if config == "base" else [])
      for config in ("tiny", "base") for testcase in ("half_a_segment", "half_a_burst", "more_than_the_buffer")),
    ("tiny", "all_spare_entries"),
    # Segments scheduled before the limit takes effect fill the buffer of tiny.
    pytest.param("base", "more_than_the_target_may", marks=pytest.mark.long),
])
def test_isolation(engine, config, testcase):
    engine(config, testcase)


async def _bench(dut, *, queues=2, **settings):
    """Queues with separate sources and destinations; ``settings`` for the first."""
    bench = DmaTestbench(dut, preset(dut), seed=1)
    await bench.start()
    for queue in range(queues):
        source, destination = SOURCE + queue * (1 << 24), DESTINATION + queue * (1 << 24)
        bench.fill(source, bench.rng.randbytes(REGION_BYTES))
        bench.fill(destination, bytes(REGION_BYTES))
        bench.fill(WORDS + 64 * queue, bytes(64))
        await bench.define_region(2 * queue, base=source, length=REGION_BYTES, domain=queue)
        await bench.define_region(2 * queue + 1, base=destination, length=REGION_BYTES, domain=queue)
        await bench.configure_queue(queue, domain=queue, sc=WORDS + 64 * queue, rc=WORDS + 64 * queue + 8,
                                    **({} if queue else settings))
        await bench.command(queue, Command.START)
    return bench


async def _other_continues(bench):
    """Queue 1 completes 20 copies while queue 0 waits."""
    for number in range(20):
        await bench.post(1, NativeWord.copy(src=(2, 300 * number), dst=(3, 301 * number), length=297))
        await bench.settle(1, timeout=3000)
        assert not bench.mismatches, f"copy {number} of the other queue: {bench.mismatches[0]}"


@cocotb.test()
async def half_a_segment(dut):
    """A segment reads from two pages, of which the first responds and the second does not."""
    bench = await _bench(dut)
    bench.withhold(SOURCE + PAGE_BYTES)
    await bench.post(0, NativeWord.copy(src=(0, PAGE_BYTES - 64), dst=(1, 0), length=128))
    await bench.wait(100)
    await _other_continues(bench)
    bench.release(SOURCE + PAGE_BYTES)
    await bench.finish()
    bench.assert_equal()


@cocotb.test()
async def half_a_burst(dut):
    """Only the first beat of a burst arrives, from a target that is marked as slow."""
    bench = await _bench(dut, target=2)
    await bench.driver.limit_target(2, slow=True)
    bench.withhold(SOURCE, begun=1)
    await bench.post(0, NativeWord.copy(src=(0, 0), dst=(1, 0), length=128))
    await bench.wait(100)
    await _other_continues(bench)
    bench.release(SOURCE)
    await bench.finish()
    bench.assert_equal()


@cocotb.test()
async def more_than_the_buffer(dut):
    """The source of a long request does not respond; a limit allows its queue two segments in flight."""
    bench = await _bench(dut, limit=2)
    await _no_response(bench)


@cocotb.test()
async def more_than_the_target_may(dut):
    """The same with a limit of the queue's target of one segment, plus those scheduled before it takes effect."""
    bench = await _bench(dut, target=3)
    await bench.driver.limit_target(3, beats=1)
    await _no_response(bench)


@cocotb.test()
async def all_spare_entries(dut):
    """Two queues hold all spare window entries behind requests without a response; another one has its own part."""
    bench = await _bench(dut, queues=3)
    config = bench.config
    blocks = []
    # The second one gets what is left; its other words wait.
    for queue, words in ((0, config.default_limit), (2, config.queue_depth + config.window - 1)):
        source = SOURCE + queue * (1 << 24)
        bench.withhold(source + PAGE_BYTES)
        for number in range(words):
            offset = 0 if number else PAGE_BYTES
            word = NativeWord.copy(src=(2 * queue, offset), dst=(2 * queue + 1, 64 * number), length=64)
            await bench.post(queue, word)
            await bench.wait(60)
        blocks.append(-(-(await bench.driver.state(queue)).in_flight // BLOCK_ENTRIES))
    guaranteed = config.window // BLOCK_ENTRIES
    assert blocks[0] == -(-config.default_limit // BLOCK_ENTRIES) > guaranteed, blocks
    # Each queue also holds the block of its next segment, which may be a further one; a few blocks are not offered.
    assert 0 <= config.blocks - (config.queues - 2) * guaranteed - sum(blocks) < 2 + (1 << RESERVE_BITS), blocks
    await _other_continues(bench)

    bench.withhold(SOURCE + (1 << 24))
    for number in range(config.window + 2):
        await bench.post(1, NativeWord.copy(src=(2, 0), dst=(3, 64 * number), length=64))
    await bench.wait(200)
    in_flight = (await bench.driver.state(1)).in_flight
    assert in_flight >= config.window - 2, in_flight
    for address in (SOURCE + (1 << 24), *(SOURCE + queue * (1 << 24) + PAGE_BYTES for queue in (0, 2))):
        bench.release(address)
    await bench.finish()
    bench.assert_equal()


async def _no_response(bench):
    for page in range(0, REGION_BYTES, PAGE_BYTES):
        bench.withhold(SOURCE + page)
    await bench.post(0, NativeWord.copy(src=(0, 5), dst=(1, 9), length=0x2_0000))
    await bench.wait(300)
    await _other_continues(bench)
    for page in range(0, REGION_BYTES, PAGE_BYTES):
        bench.release(SOURCE + page)
    await bench.finish()
    bench.assert_equal()
