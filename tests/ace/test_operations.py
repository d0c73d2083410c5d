# SPDX-License-Identifier: Apache-2.0
"""Collectives of a queue from two communicators: as many start as it has entries, and they complete in order."""

from itertools import permutations

import pytest

from hw.ace.config import TINY
from hw.ace.operations import ACTIVE, ROWS, Operations
from hw.ace.words import CommandFlag, Status
from hw.common.words import CompletionWord
from tests.harness.cell import run_cell

QUEUE, ADDRESS = 1, 0x1238


class _Bench:
    def __init__(self, ctx, dut):
        self.ctx, self.dut, self.words = ctx, dut, []

    async def tick(self, count=1):
        for _ in range(count):
            if self.ctx.get(self.dut.words.valid):
                word = self.ctx.get(self.dut.words.payload)
                assert (word.address, word.queue) == (ADDRESS, QUEUE)
                self.words.append(CompletionWord.unpack(word.data))
            await self.ctx.tick()

    async def event(self, port, **payload):
        self.ctx.set(port.payload, payload)
        self.ctx.set(port.valid, 1)
        await self.tick()
        self.ctx.set(port.valid, 0)

    async def configure(self, **entry):
        write = self.dut.configure
        for name, value in {**entry, "valid": 1}.items():
            self.ctx.set(getattr(write, name), value)
        await self.tick()
        self.ctx.set(write.valid, 0)

    @property
    def free_rows(self):
        return self.ctx.get(self.dut.admission.queues) >> QUEUE & 1

    async def begin(self, communicator):
        """Start a collective of one chunk, which is cut at once. Returns its row."""
        ctx, dut = self.ctx, self.dut
        assert self.free_rows and ctx.get(dut.admission.communicators) >> communicator & 1
        ctx.set(dut.i.payload, {"queue": QUEUE, "flags": CommandFlag.SC, "communicator": communicator,
                                "status": Status.OK, "chunks": 1})
        ctx.set(dut.i.valid, 1)
        await self.tick()
        ctx.set(dut.i.valid, 0)
        row = communicator * ROWS + (ctx.get(dut.to_cut.row) >> communicator & 1)
        assert ctx.get(dut.to_cut.begun) >> communicator & 1
        await self.event(dut.issued, row=row, last=1)
        return row


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (3, 2, 1, 0), (2, 3, 0, 1), (1, 3, 0, 2)], ids=str)
def test_all_rows(order):
    """An entry belongs to a collective until its completion word is written, in any order of the ends of chunks."""
    assert sorted(order) == list(range(ACTIVE)) and order in permutations(range(ACTIVE))
    dut = Operations(TINY)

    async def live(ctx):
        bench = _Bench(ctx, dut)
        ctx.set(dut.words.ready, 1)
        ctx.set(dut.lookup.queue, QUEUE)
        await bench.configure(queue=QUEUE, sc_address=ADDRESS, sc_enable=1)
        # Three passes, so that numbers of entries wrap.
        for number in range(3):
            rows = []
            for begun in range(ACTIVE):
                assert ctx.get(dut.lookup.active) == begun
                rows.append(await bench.begin(begun % 2))
            assert len(set(rows)) == ACTIVE == ctx.get(dut.lookup.active)
            assert not bench.free_rows
            await bench.tick(20)
            for row_index in order:
                before = len(bench.words)
                status = Status.WRITE_ERROR if (number, row_index) == (2, ACTIVE - 1) else Status.OK
                await bench.event(dut.ended, row=rows[row_index], status=status)
                await bench.tick(40)
                ended = set(order[:order.index(row_index) + 1])
                through = next((one for one in range(ACTIVE) if one not in ended), ACTIVE)
                assert len(bench.words) - number * ACTIVE == through and before <= len(bench.words)
            assert bench.free_rows == (number < 2)
        assert bench.words == [
            *((count, 0, Status.OK) for count in range(1, 3 * ACTIVE)), (3 * ACTIVE - 1, 1, Status.WRITE_ERROR)]

    run_cell(dut, live)


def test_each_row_of_each_communicator():
    """A row is free after the end of its own collective, and of no other one; so it is without chunks."""
    dut, everyone = Operations(TINY), (1 << TINY.communicators) - 1

    async def live(ctx):
        bench = _Bench(ctx, dut)
        ctx.set(dut.words.ready, 1)
        await bench.configure(queue=QUEUE, sc_address=ADDRESS, sc_enable=1)

        async def ends(work, free):
            before = len(bench.words)
            await bench.tick(60)
            assert len(bench.words) == before + 1
            assert (ctx.get(dut.work.communicators), ctx.get(dut.admission.communicators)) == (work, free)

        for one in 2 * list(range(TINY.communicators)):
            other = (one + 1) % TINY.communicators
            first, beside, second = [await bench.begin(number) for number in (one, other, one)]
            assert len({first, beside, second}) == 3
            assert ctx.get(dut.work.communicators) == 1 << one | 1 << other
            assert ctx.get(dut.admission.communicators) == everyone ^ 1 << one
            await bench.event(dut.ended, row=first, status=Status.OK)
            await ends(1 << one | 1 << other, everyone)
            await bench.event(dut.ended, row=beside, status=Status.OK)
            await ends(1 << one, everyone)
            await bench.event(dut.ended, row=second, status=Status.OK)
            await ends(0, everyone)
            for _ in range(3):
                await bench.event(dut.i, queue=QUEUE, flags=CommandFlag.SC, communicator=one, status=Status.OK,
                                  chunks=0)
                await ends(0, everyone)

    run_cell(dut, live)


@pytest.mark.parametrize("ended", [True, False])
def test_a_collective_that_is_complete_succeeds(ended):
    """Also if its communicator ends before the completion word is written; one with chunks in progress fails."""
    dut = Operations(TINY)

    async def live(ctx):
        bench = _Bench(ctx, dut)
        ctx.set(dut.words.ready, 1)
        await bench.configure(queue=QUEUE, sc_address=ADDRESS, sc_enable=1)
        row = await bench.begin(1)
        await bench.tick(20)
        ctx.set(dut.communicator_status.statuses[1], Status.REVOKED)
        if ended:
            await bench.event(dut.ended, row=row, status=Status.OK)
        ctx.set(dut.communicator_status.stopped, 0b10)
        await bench.tick(2)
        if not ended:
            await bench.event(dut.ended, row=row, status=Status.OK)
        await bench.tick(40)
        assert bench.words == [(1, 0, Status.OK) if ended else (0, 1, Status.REVOKED)]

    run_cell(dut, live)
