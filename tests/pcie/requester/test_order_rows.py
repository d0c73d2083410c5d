# SPDX-License-Identifier: Apache-2.0
"""Order rows alone: a request becomes the head of its row when its predecessor is delivered, and only then."""

from hw.pcie.requester.order_rows import OrderRows
from sim.pcie.dma_card import small_dma
from tests.harness.cell import run_cell

TAG, FIRST, SECOND = 1, 2, 3
OTHERS = range(16, 32)


def test_a_late_start_ends_with_its_delivery():
    """The start of a delivery waits while others end each cycle. The tag is in use again before there is an idle cycle,
    and its new follower must not become a head."""
    dut = OrderRows(small_dma(128)[1])
    heads = []

    async def drive(ctx):
        async def cycle(*, issued=None, started=None, delivered=None):
            """``issued``: a request, and the one before it in its row."""
            ctx.set(dut.issued.valid, issued is not None)
            ctx.set(dut.issued.ordered, issued is not None)
            ctx.set(dut.issued.linked, issued is not None and issued[1] is not None)
            if issued is not None:
                ctx.set(dut.issued.tag, issued[0])
                ctx.set(dut.issued.previous, issued[1] or 0)
            for port, tag in ((dut.started, started), (dut.delivered, delivered)):
                ctx.set(port.valid, tag is not None)
                ctx.set(port.tag, tag or 0)
            await ctx.tick()
            if ctx.get(dut.heads.valid):
                heads.append(ctx.get(dut.heads.tag))

        ctx.set(dut.init.active, 1)
        for row in range(64):
            ctx.set(dut.init.address, row)
            await cycle()
        ctx.set(dut.init.active, 0)
        others = iter(OTHERS)
        await cycle(issued=(TAG, None))
        await cycle(issued=(FIRST, TAG))
        await cycle(started=TAG, delivered=next(others))
        await cycle(delivered=next(others))
        await cycle(delivered=TAG)
        await cycle(delivered=next(others))
        assert heads == [FIRST]
        # The tag is used again.
        await cycle(issued=(TAG, None), delivered=next(others))
        await cycle(issued=(SECOND, TAG), delivered=next(others))
        for _ in range(4):
            await cycle()
        assert heads == [FIRST]
        await cycle(delivered=TAG)
        for _ in range(4):
            await cycle()
        assert heads == [FIRST, SECOND]

    run_cell(dut, drive)
