# SPDX-License-Identifier: Apache-2.0
"""Words of notices: those inside, those without a response, whose count is limited, and those that are discarded."""

import random
from collections import Counter

from amaranth.sim import Simulator

from hw.dma_engine.completion.notices import COUNT_WIDTH, Notices
from hw.dma_engine.config import TINY
from hw.dma_engine.layouts import word_id_layout


def test_outstanding_words():
    """Retirement stalls while the count is at least half of its maximum; a response below that lets it continue."""
    dut, layout = Notices(TINY), word_id_layout(TINY)
    word = layout.const({"top": 1, "notice": 1, "queue": 1}).as_value().value
    stop = 1 << COUNT_WIDTH - 1

    async def testbench(ctx):
        ctx.set(dut.words.ready, 1)
        ctx.set(dut.writes[0].payload.id, word)
        ctx.set(dut.writes[0].valid, 1)
        for sent in range(stop):
            assert not ctx.get(dut.notice.crowded), sent
            while True:
                _, _, taken = await ctx.tick().sample(dut.writes[0].ready)
                if taken:
                    break
        ctx.set(dut.writes[0].valid, 0)
        # A word is counted in the cycle after its transfer, and the count is compared one cycle later.
        await ctx.tick().repeat(3)
        assert ctx.get(dut.notice.crowded)
        await ctx.tick().repeat(5)
        assert ctx.get(dut.notice.crowded)
        assert ctx.get(dut.pending) == 1 << 1
        ctx.set(dut.written.id, {"top": 1, "notice": 1, "queue": 1})
        ctx.set(dut.written.valid, 1)
        await ctx.tick()
        ctx.set(dut.written.valid, 0)
        await ctx.tick().repeat(2)
        assert not ctx.get(dut.notice.crowded)
        ctx.set(dut.written.valid, 1)
        await ctx.tick().repeat(stop - 2)
        ctx.set(dut.written.valid, 0)
        await ctx.tick().repeat(2)
        assert ctx.get(dut.pending) == 1 << 1
        ctx.set(dut.written.valid, 1)
        await ctx.tick()
        ctx.set(dut.written.valid, 0)
        await ctx.tick().repeat(2)
        assert ctx.get(dut.pending) == 0

    _run(dut, testbench)


def test_inside_and_discard():
    """A word at one of the inputs is inside; a discard ends the wait for the words of its queue alone."""
    dut, layout = Notices(TINY), word_id_layout(TINY)

    async def testbench(ctx):
        ctx.set(dut.words.ready, 1)
        for queue in range(TINY.extended):
            for write in dut.writes:
                ctx.set(write.payload.id, layout.const({"top": 1, "notice": 1, "queue": queue}).as_value().value)
                ctx.set(write.valid, 1)
                assert ctx.get(dut.inside) == ctx.get(dut.pending) == 1 << queue
                _, _, taken = await ctx.tick().sample(write.ready)
                while not taken:
                    _, _, taken = await ctx.tick().sample(write.ready)
                ctx.set(write.valid, 0)
                await ctx.tick().repeat(4)
                assert ctx.get(dut.inside) == 0
                for other in (*range(TINY.extended, TINY.queues), 1 - queue, queue):
                    assert ctx.get(dut.pending) == 1 << queue
                    ctx.set(dut.discard.queue, other)
                    ctx.set(dut.discard.valid, 1)
                    await ctx.tick()
                    ctx.set(dut.discard.valid, 0)
                assert ctx.get(dut.pending) == 0

    _run(dut, testbench)


def test_urgent(seed):
    """A word of a signal or a notice is announced as urgent from two cycles after it was accepted until it leaves. None
    is announced when there is none."""
    dut, layout, rng = Notices(TINY), word_id_layout(TINY), random.Random(f"{seed} urgent")
    seen = Counter()

    async def testbench(ctx):
        inputs = [dut.completions, dut.signals, *dut.writes]
        for number, port in enumerate(inputs):
            ctx.set(port.payload.id, layout.const({"top": 1, "notice": number > 1, "queue": 0}).as_value().value)
            ctx.set(port.payload.addr, number)
        inside, accepted, rate, quiet_for = [], [], 0.0, 0
        for cycle in range(3000):
            rate = rng.choice((0.02, 0.5)) if cycle % 50 == 0 else rate
            ready = rng.random() < (cycle // 200 % 3) / 2
            for number, port in enumerate(inputs):
                # A word that is offered stays.
                if not ctx.get(port.valid) or number in accepted:
                    ctx.set(port.valid, rng.random() < rate)
            ctx.set(dut.words.ready, ready)
            urgent = any(number for number, since in inside if cycle >= since + 2)
            seen["urgent", urgent] += 1
            assert ctx.get(dut.words.urgent) or not urgent, cycle
            offered = any(ctx.get(port.valid) for port in inputs[1:])
            quiet_for = 0 if offered or any(number for number, _ in inside) else quiet_for + 1
            seen["quiet"] += quiet_for > 3
            assert quiet_for <= 3 or not ctx.get(dut.words.urgent), cycle
            accepted = [number for number, port in enumerate(inputs) if ctx.get(port.valid) and ctx.get(port.ready)]
            if ready and ctx.get(dut.words.valid):
                number = ctx.get(dut.words.payload.addr)
                inside.remove(min(item for item in inside if item[0] == number))
            inside += [(number, cycle) for number in accepted]
            await ctx.tick()

    _run(dut, testbench)
    assert min(seen.values()) > 100, seen


def _run(dut, testbench):
    simulator = Simulator(dut)
    simulator.add_clock(1e-8)
    simulator.add_testbench(testbench)
    simulator.run()
