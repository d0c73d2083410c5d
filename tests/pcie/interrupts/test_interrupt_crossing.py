# SPDX-License-Identifier: Apache-2.0
"""Strobes with a queue's number between two clock domains: none is lost or invented; those of one queue
coalesce."""

import random
from collections import Counter

import pytest

from hw.pcie.interrupts.interrupt_crossing import QueueCrossing
from tests.stream.two_domains import CLOCKS, TwoDomains, late_crossings, repeat, simulate_two

QUEUE_BITS = 3


@pytest.mark.parametrize("density", [1.0, 0.5, 0.1])
@pytest.mark.parametrize("clocks", [CLOCKS[1], CLOCKS[3], CLOCKS[4], CLOCKS[7]], ids=str)
def test_strobes(clocks, density, seed):
    """After the last strobe of each queue there is one on the other side, and never more than there were."""
    dut, rng = QueueCrossing(QUEUE_BITS, i_domain="write", o_domain="read"), random.Random(f"{seed} {density}")
    sent, arrived = Counter(), Counter()
    last = {}       # queue -> strobes that had arrived at its last one

    async def send(ctx):
        for _ in range(400):
            valid, queue = rng.random() < density, rng.randrange(1 << QUEUE_BITS)
            ctx.set(dut.valid, valid)
            ctx.set(dut.queue, queue)
            if valid:
                sent[queue] += 1
                last[queue] = arrived[queue]
            await ctx.tick("write")
        ctx.set(dut.valid, 0)
        await repeat(ctx, "write", 200)

    async def receive(ctx):
        while True:
            *_, valid, queue = await ctx.tick("read").sample(dut.o_valid, dut.o_queue)
            if valid:
                arrived[queue] += 1
                assert arrived[queue] <= sent[queue], (queue, arrived, sent)

    with late_crossings(seed):
        simulate_two(TwoDomains(dut), clocks, send, background=[receive])
    assert set(sent) == set(range(1 << QUEUE_BITS))
    assert all(arrived[queue] > before for queue, before in last.items()), (sent, arrived, last)


@pytest.mark.parametrize("clocks", [CLOCKS[1], CLOCKS[3], CLOCKS[4], CLOCKS[7]], ids=str)
def test_strobes_with_pauses(clocks, seed):
    """Each arrives once, in order."""
    dut = QueueCrossing(QUEUE_BITS, i_domain="write", o_domain="read")
    sent, arrived = [random.Random(seed).randrange(1 << QUEUE_BITS) for _ in range(20)], []

    async def send(ctx):
        for queue in sent:
            ctx.set(dut.queue, queue)
            ctx.set(dut.valid, 1)
            await ctx.tick("write")
            ctx.set(dut.valid, 0)
            await repeat(ctx, "write", 40)

    async def receive(ctx):
        while True:
            *_, valid, queue = await ctx.tick("read").sample(dut.o_valid, dut.o_queue)
            if valid:
                arrived.append(queue)

    with late_crossings(seed):
        simulate_two(TwoDomains(dut), clocks, send, background=[receive])
    assert arrived == sent


def test_one_queue_waits_for_no_other():
    """A queue that always strobes does not starve another."""
    dut = QueueCrossing(QUEUE_BITS, i_domain="write", o_domain="read")
    arrived = Counter()

    async def send(ctx):
        ctx.set(dut.valid, 1)
        for cycle in range(200):
            ctx.set(dut.queue, 5 if cycle == 20 else 2)
            await ctx.tick("write")
        assert arrived[5] == 1 and arrived[2] > 20

    async def receive(ctx):
        while True:
            *_, valid, queue = await ctx.tick("read").sample(dut.o_valid, dut.o_queue)
            arrived[queue] += valid

    simulate_two(TwoDomains(dut), CLOCKS[1], send, background=[receive])
