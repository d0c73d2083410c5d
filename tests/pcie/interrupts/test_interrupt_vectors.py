# SPDX-License-Identifier: Apache-2.0
"""Vectors of the level and of groups of queues, for all relations of their numbers."""

import random

import pytest

from hw.pcie.config import PcieConfig
from hw.pcie.interrupts.interrupt_vectors import InterruptVectors, vector_of
from tests.harness.cell import run_cell

pytestmark = pytest.mark.long


@pytest.mark.parametrize(("vectors", "queues"), [(2, 4), (8, 4), (8, 16), (64, 64), (16, 64)])
def test_requests(seed, vectors, queues):
    config = PcieConfig(axi_id_width=4, doorbell_addr_width=18, vectors=vectors, queues=queues)
    dut, rng = InterruptVectors(config), random.Random(f"vectors {seed}")

    async def testbench(ctx):
        level, before, queued = 0, 0, 0
        for cycle in range(300):
            level ^= rng.random() < 0.3
            requests = int(level and not before)
            ctx.set(dut.irq, level)
            strobed = 0
            for strobe in (dut.queues.written, dut.queues.completed):
                valid, queue = rng.random() < 0.5, rng.randrange(queues)
                ctx.set(strobe.valid, valid)
                ctx.set(strobe.queue, queue)
                strobed |= valid << 1 + queue % (vectors - 1)
            await ctx.tick()
            assert ctx.get(dut.requests) == requests | queued, f"cycle {cycle}"
            before, queued = level, strobed

    run_cell(dut, testbench)


def test_each_queue_has_a_vector_of_its_own_if_there_are_enough():
    assert [vector_of(queue, 8) for queue in range(7)] == [1, 2, 3, 4, 5, 6, 7]
    assert [vector_of(queue, 8) for queue in range(7, 16)] == [1, 2, 3, 4, 5, 6, 7, 1, 2]
    assert {vector_of(queue, 2) for queue in range(64)} == {1}
