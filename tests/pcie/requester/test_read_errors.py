# SPDX-License-Identifier: Apache-2.0
"""The read path with wrong, lost, late and unexpected completions."""

import random
from collections import Counter

import pytest

from hw.pcie.requester.reads import ReadPath
from tests.harness.cell import run_cell
from tests.pcie.requester.read_bench import SMALL, Rates, run_reads
from tests.pcie.requester.root_complex import COMPLETION_FAULTS, TIME_FAULTS, unexpected

pytestmark = pytest.mark.long

TIMEOUT = 250


def _traffic(rng, faults, *, parts, timeout=0):
    async def body(bench):
        bench.levels(max_read=rng.choice((0, 1, 2)), timeout=timeout)
        bench.delay = lambda: rng.randrange(40)
        deck = []

        def fault():
            # Each fault in turn, one per two requests.
            if not deck:
                deck.extend(rng.sample([*faults, *[None] * len(faults)], 2 * len(faults)))
            return deck.pop()

        bench.fault = fault
        for _ in range(parts):
            # The bench must respond before a time-out.
            bench.rates = Rates(1, 1, rng.choice((0.8, 1)), rng.choice((0.8, 1)), flushes=0.2)
            for _ in range(8):
                bench.add_random(range(rng.choice((1, 4))), longest=rng.choice((1, 8, 20)))
                bench.add_flush()
            for _ in range(60):
                await bench.step()

    return body


@pytest.mark.parametrize("cuts", [0, 1])
def test_each_fault(cuts, seed):
    """A fault concerns all beats of its completion, and those that follow."""
    rng, deck = random.Random(seed), list(COMPLETION_FAULTS) * 2

    async def body(bench):
        bench.fault, bench.cuts = lambda: deck.pop(), cuts
        for number in range(len(deck)):
            bench.add(number % 3, 64 + number % 2 * 5, 5)
        while bench.pending():
            await bench.step()

    bench = run_reads(rng, body)
    # Further completions of a request that has ended.
    assert bool(bench.events["unexpected"]) == bool(cuts)


def test_wrong_completions(seed):
    rng = random.Random(seed)
    bench = run_reads(rng, _traffic(rng, COMPLETION_FAULTS, parts=4))
    assert all(bench.seen[fault] for fault in COMPLETION_FAULTS), bench.seen
    assert all(bench.events[name] for name in ("unsupported", "aborted", "poisoned", "malformed"))


def test_timeouts(seed):
    """Lost and late completions, among wrong ones; tags return."""
    rng = random.Random(seed)
    bench = run_reads(rng, _traffic(rng, (*TIME_FAULTS, "poisoned", "unsupported"), parts=1, timeout=TIMEOUT))
    assert bench.seen["lost"] and bench.seen["late"] and bench.seen["denied"] and bench.seen["OKAY"]
    assert bench.events["timed_out"] >= bench.seen["lost"] + bench.seen["late"]


def test_tag_of_a_denied_completion_waits(seed):
    """The hard block says that a completion is not the request's: its tag is in flight until it expires."""
    rng = random.Random(seed)

    async def body(bench):
        bench.levels(timeout=TIMEOUT)
        bench.fault = lambda: None if bench.seen["denied"] else "denied"
        bench.add(0, 0, 1)
        while bench.pending():
            await bench.step()
        # More reads than there are tags: none has that one.
        for number in range(80):
            bench.add(number % 4, 0, 1)
        while bench.pending():
            await bench.step()

    bench = run_reads(rng, body)
    assert bench.seen["denied"] == 1 and bench.events["malformed"] == 1


def test_timeout_is_between_one_and_two_limits(seed):
    rng = random.Random(seed)
    times = []

    async def body(bench):
        bench.levels(timeout=TIMEOUT)
        bench.fault = lambda: "lost"
        for number in range(5):
            bench.add(number, 0, 1)
            for _ in range(rng.randrange(1, 120)):
                await bench.step()
        while bench.pending():
            await bench.step()
        while not bench.ctx.get(bench.dut.idle):
            await bench.step()
        # A tag expires in the fifth scan.
        assert 4 * TIMEOUT <= bench.cycle - bench.tlp_cycles[-1] <= 5 * TIMEOUT + 64 + 8
        # In order of the tags, which is that of the requests.
        times.extend(after - before for before, after in zip(bench.tlp_cycles, bench.beat_cycles, strict=True))

    run_reads(rng, body)
    assert all(TIMEOUT <= time <= 2 * TIMEOUT + 64 + 4 for time in times), times


def test_without_timeout_a_tag_waits(seed):
    rng = random.Random(seed)

    async def body(bench):
        bench.add(3, 0, 1)
        bench.delay = lambda: 1500
        for _ in range(1500):
            await bench.step()
        assert not bench.ctx.get(bench.dut.idle) and not bench.beat_cycles

    run_reads(rng, body)


def test_unexpected_completions(seed):
    """Completions whose tags never were in use are dropped and counted."""
    rng = random.Random(seed)

    async def body(bench):
        bench.levels(extended_tags=0)
        bench.unused_from = 32
        bench.rates = Rates(1, 1, 0.7, 1, unexpected=0.3)
        bench.delay = lambda: rng.randrange(20)
        for _ in range(20):
            bench.add_random(range(3), longest=8)
        for _ in range(150):
            await bench.step()
        # Those of the last cycles would not be counted before the end.
        bench.rates.unexpected = 0

    bench = run_reads(rng, body)
    assert bench.events["unexpected"] > 10


def test_request_during_an_unexpected_completion(seed):
    """The rest of a completion is dropped if its start was, even if its tag is now in use."""
    rng = random.Random(seed)

    async def body(bench):
        bench.levels(extended_tags=0)
        for _ in range(70):
            await bench.step()
        for tag in range(4):
            bench.sending = [unexpected(tag, rng, bench.config.beat_bytes, beats=3), 0, None]
            bench.expected["unexpected"] += 1
            await bench.step()
            bench.rates.completions = 0
            bench.add(tag, 0, 4)
            while bench.seen["tlp"] <= tag:
                await bench.step()
            assert tag in bench.requests
            bench.rates.completions = 1
            while bench.pending() or not bench.ctx.get(bench.dut.idle):
                await bench.step()

    run_reads(rng, body)


def test_tag_that_expires_inside_a_completion():
    """The rest of a completion is dropped if its tag has expired since its start, even if the tag is now in use."""
    dut, tags, beats = ReadPath(SMALL), [], Counter()

    async def testbench(ctx):
        async def step(count=1):
            for _ in range(count):
                if ctx.get(dut.tlps.valid):
                    tags.append(ctx.get(dut.tlps.payload.tag))
                beats[ctx.get(dut.beats.payload.id)] += ctx.get(dut.beats.valid)
                await ctx.tick()

        async def read(number):
            for name, value in (("id", number), ("addr", number << 12), ("len", 3)):
                ctx.set(dut.bursts.payload[name], value)
            ctx.set(dut.bursts.valid, 1)
            while not ctx.get(dut.bursts.ready):
                await step()
            await step()
            ctx.set(dut.bursts.valid, 0)

        async def complete(**fields):
            for name, value in fields.items():
                ctx.set(dut.completions.payload[name], value)
            ctx.set(dut.completions.valid, 1)
            await step()
            ctx.set(dut.completions.valid, 0)

        for name, value in (("bus_master", 1), ("max_read", 2), ("timeout", TIMEOUT)):
            ctx.set(getattr(dut.settings, name), value)
        ctx.set(dut.tlps.ready, 1)
        ctx.set(dut.beats.ready, 1)
        await step(SMALL.sweep_rows + 2)
        for number in range(32):
            await read(number)
        await step(4)
        # It has all bytes, and is not marked as the last one.
        await complete(tag=tags[0], first=1, last=0, dwords=64, byte_count=256)
        await step(6 * TIMEOUT)
        assert ctx.get(dut.idle)
        for number in range(32):
            await read(32 + number)
        await step(4)
        assert tags[0] in tags[32:]
        await complete(first=0, last=1)
        await step(6 * TIMEOUT)
        assert ctx.get(dut.idle)

    run_cell(dut, testbench)
    assert len(tags) == 64 and beats == Counter({number: 4 for number in range(64)})


@pytest.mark.parametrize("ends_with", ["poisoned", None])
def test_duplicates(ends_with, seed):
    """The completion of each request arrives twice."""
    rng = random.Random(seed)

    async def body(bench):
        bench.fault, bench.expected_copies = lambda: ends_with, []
        for number in range(20):
            bench.add(number % 3, 64 * number, 1)
            while bench.pending():
                count = len(bench.sent)
                await bench.step()
                if len(bench.sent) > count and number == len(bench.expected_copies):
                    bench.expected_copies.append(number)
                    bench.expected["unexpected"] += 1
                    bench.sending = [bench.sent[-1], 0, None]

    bench = run_reads(rng, body)
    assert bench.events["unexpected"] == 20
