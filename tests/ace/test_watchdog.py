# SPDX-License-Identifier: Apache-2.0
"""The watchdog reports communicators with work and no progress soon after its time, but not those that others block."""

import pytest

from hw.ace.config import TINY
from hw.ace.watchdog import Watchdog
from tests.harness.cell import run_cell

FILL, DRAIN = range(2)


class _Bench:
    def __init__(self, ctx, dut, cycles):
        self.ctx, self.dut = ctx, dut
        self.inputs = {"cycles": dut.timeout.cycles, "work": dut.work.communicators,
                       "progress": dut.received.communicators, "offering": dut.turns.offering, "sent": dut.turns.sent}
        self.set(cycles=cycles)

    def set(self, **inputs):
        for name, value in inputs.items():
            self.ctx.set(self.inputs[name], value)

    def mover(self, number, **inputs):
        for name, value in inputs.items():
            self.ctx.set(getattr(self.dut.movers[number], name), value)

    @property
    def timed_out(self):
        return self.ctx.get(self.dut.timed_out.communicators)

    async def until_timed_out(self, limit, *, every=None, event=None):
        """Cycles until a communicator is late, and which ones; ``event`` is called with 1 once in ``every`` cycles,
        otherwise with 0."""
        for cycle in range(limit):
            if timed_out := self.timed_out:
                return cycle, timed_out
            if every:
                event(int(cycle % every == 0))
            await self.ctx.tick()
        return limit, 0


def _run(body, cycles):
    dut = Watchdog(TINY)

    async def live(ctx):
        await body(_Bench(ctx, dut, cycles))

    run_cell(dut, live)


def _longest(cycles, more=0):
    """Maximum cycles to the time-out; ``more``: ticks that do not count."""
    return (9 + more) * (cycles // 8 + 1) + 2


@pytest.mark.parametrize("cycles", [1, 7, 100, 1000])
@pytest.mark.parametrize("begin", [0, 3, 11])
def test_time(cycles, begin):
    async def body(bench):
        await bench.ctx.tick().repeat(begin) if begin else None
        bench.set(work=0b0110)
        # The first makes progress in some cycles.
        waited, timed_out = await bench.until_timed_out(
            3 * cycles + 30, every=max(cycles // 2, 1), event=lambda now: bench.set(progress=0b0010 * now))
        assert timed_out == 0b0100
        assert cycles <= waited <= _longest(cycles)
        bench.set(progress=0b0110)
        await bench.ctx.tick()
        assert not bench.timed_out
        # A communicator without work is never late.
        bench.set(progress=0, work=0)
        assert await bench.until_timed_out(2 * _longest(cycles)) == (2 * _longest(cycles), 0)

    _run(body, cycles)


def test_a_shorter_time_counts_at_once():
    async def body(bench):
        bench.set(work=0b0001)
        await bench.ctx.tick().repeat(200)
        bench.set(cycles=100)
        waited, timed_out = await bench.until_timed_out(1000)
        assert timed_out == 0b0001 and 50 <= waited <= _longest(100)

    _run(body, 1 << 30)


def test_off():
    async def body(bench):
        bench.set(work=0b1111)
        bench.mover(FILL, holder=1)
        assert await bench.until_timed_out(300) == (300, 0)

    _run(body, 0)


@pytest.mark.parametrize("number", [FILL, DRAIN])
def test_the_holder_of_a_mover_has_half_the_time(number):
    """The holder is late with and without other progress; those that it blocks are not, until it is ended."""
    cycles = 400

    async def body(bench):
        bench.set(work=0b0111, progress=0b0100)
        bench.mover(number, holder=0b0001, blocked=0b0010)
        waited, timed_out = await bench.until_timed_out(2 * cycles)
        assert timed_out == 0b0001
        assert cycles // 2 <= waited <= cycles // 2 + cycles // 8 + 12
        for _ in range(5 * cycles):
            await bench.ctx.tick()
            assert bench.timed_out == 0b0001
        # It was ended, and still holds the mover: a communicator that waits for it counts as one without progress.
        bench.set(work=0b0110)
        bench.mover(number, blocked=0)
        await bench.ctx.tick().repeat(_longest(cycles, more=1))
        assert bench.timed_out == 0b0011
        bench.mover(number, moved=1)
        await bench.ctx.tick()
        bench.mover(number, moved=0, holder=0)
        await bench.ctx.tick()
        assert bench.timed_out == 0b0010

    _run(body, cycles)


def test_each_chunk_has_half_the_time():
    async def body(bench):
        bench.set(work=0b0001, progress=0b0001)
        bench.mover(FILL, holder=0b0001)
        assert await bench.until_timed_out(4000, every=190, event=lambda now: bench.mover(FILL, moved=now)) == (4000, 0)
        bench.mover(FILL, moved=0)
        assert (await bench.until_timed_out(400))[1] == 0b0001

    _run(body, 400)


@pytest.mark.parametrize("blocks", [
    pytest.param(lambda bench, on: bench.mover(FILL, blocked=0b0010 * on), id="fill"),
    pytest.param(lambda bench, on: bench.mover(DRAIN, blocked=0b0010 * on), id="drain"),
    pytest.param(lambda bench, on: bench.set(offering=0b0010, sent=0b0001 * on, progress=0b0001 * on), id="port"),
])
def test_a_waiting_communicator_does_not_time_out(blocks):
    """Time does not count while it is blocked, in each eighth of the limit; then the clock runs again."""
    cycles = 400

    async def body(bench):
        bench.set(work=0b0010)
        assert await bench.until_timed_out(10 * cycles, every=50, event=lambda now: blocks(bench, now)) == (10 * cycles,
                                                                                                            0)
        blocks(bench, 0)
        waited, timed_out = await bench.until_timed_out(2 * cycles)
        assert timed_out == 0b0010 and waited <= _longest(cycles, more=1)

    _run(body, cycles)


def test_packets_of_others_do_not_count_as_progress():
    """Its peers do not participate, however busy others of its class are."""
    async def body(bench):
        bench.set(work=0b0011, offering=0b0001, sent=0b0001, progress=0b0001)
        waited, timed_out = await bench.until_timed_out(2000)
        assert timed_out == 0b0010 and waited <= _longest(400)

    _run(body, 400)


@pytest.mark.parametrize("number", range(4))
@pytest.mark.parametrize("other", range(4))
def test_only_a_higher_class_starves(number, other):
    """Two have work, and only the first one makes progress."""
    cycles = 80

    async def body(bench):
        bench.set(work=0b0011)
        bench.ctx.set(bench.dut.communicator_status.priorities[0], number)
        bench.ctx.set(bench.dut.communicator_status.priorities[1], other)
        waited, timed_out = await bench.until_timed_out(
            10 * cycles, every=10, event=lambda now: bench.set(progress=0b0001 * now))
        if number > other:
            assert timed_out == 0
            bench.set(progress=0, work=0b0010)
            waited, timed_out = await bench.until_timed_out(2 * cycles)
        assert timed_out == 0b0010 and waited <= _longest(cycles, more=1)

    _run(body, cycles)
