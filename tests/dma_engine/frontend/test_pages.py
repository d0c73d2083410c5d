# SPDX-License-Identifier: Apache-2.0
"""The page table alone: a look-up shows an entry as it was written, in both kinds of memory."""

import random
from dataclasses import replace

import pytest
from amaranth import ResetInserter, Signal

from hw.common.sizes import FRAME_WIDTH
from hw.dma_engine.frontend.pages import PageTable
from tests.dma_engine.frontend.sizes import SMALL
from tests.harness.cell import run_cell

CONFIGS = pytest.mark.parametrize("config", [SMALL, replace(SMALL, pages=64)], ids=["LUT RAM", "block RAM"])


async def _sweep(ctx, dut):
    ctx.set(dut.write.valid, 0)
    ctx.set(dut.init.active, 1)
    for address in range(dut.config.sweep_rows):
        ctx.set(dut.init.address, address)
        await ctx.tick()
    ctx.set(dut.init.active, 0)


@CONFIGS
def test_entries(config, seed):
    """Writes and look-ups of a row in the same cycle: all fields are of the entry before the write, or after it."""
    rng, rst = random.Random(seed), Signal()
    dut = PageTable(config)
    seen = set()

    def shown(ctx, name):
        entry = ctx.get(getattr(dut.lookup, name))
        return entry.frame if entry.present else None

    def look(entries, page):
        """Frames of a page and of the one after it; None where there is none."""
        return {"src": _frame(entries, page), "next": None if page >= config.pages else _frame(entries, page + 1),
                "dst": _frame(entries, page)}

    async def testbench(ctx):
        for _ in range(3):
            ctx.set(rst, 1)
            await ctx.tick()
            ctx.set(rst, 0)
            await _sweep(ctx, dut)
            entries = [None] * config.pages
            for _ in range(500):
                before = list(entries)
                page = _near_an_end(rng, config.pages)
                pages = {side: _near_an_end(rng, config.pages + 2) for side in ("src", "dst")}
                written = rng.random() < 0.7
                if written:
                    entries[page] = rng.choice((None, rng.getrandbits(FRAME_WIDTH)))
                ctx.set(dut.write.valid, written)
                ctx.set(dut.write.page, page)
                ctx.set(dut.write.entry.present, entries[page] is not None)
                ctx.set(dut.write.entry.frame, entries[page] or rng.getrandbits(FRAME_WIDTH))
                for side, number in pages.items():
                    ctx.set(getattr(dut.lookup, f"{side}_page"), number)
                await ctx.tick()
                for name in ("src", "next", "dst"):
                    number = pages["dst" if name == "dst" else "src"]
                    old, new = look(before, number)[name], look(entries, number)[name]
                    assert shown(ctx, name) in (old, new)
                    seen.add((name, old is None, new is None, old != new))

    run_cell(ResetInserter(rst)(dut), testbench)
    assert seen == {(name, *change) for name in ("src", "next", "dst") for change in (
        (False, False, False), (False, False, True), (False, True, True), (True, False, True), (True, True, False))}


def _frame(entries, page):
    return entries[page] if page < len(entries) else None


def _near_an_end(rng, pages):
    return rng.choice((0, 1, 2, pages - 3, pages - 2, pages - 1))
