# SPDX-License-Identifier: Apache-2.0
"""Tables and the sweep after reset."""

import re
from dataclasses import replace

import pytest
from amaranth.sim import Simulator

from hw.ace.config import TINY
from hw.common.sweep import SweepSignature
from hw.common.table import Table


def test_sweep_reaches_every_row():
    init = SweepSignature(TINY)
    rows = 1 << len(init.create().address)
    assert Table(8, depth=rows, reads=1, init=init).depth == rows
    with pytest.raises(ValueError, match=f"^{re.escape(f'A table of {2 * rows} rows is longer than the sweep')}"):
        Table(8, depth=2 * rows, reads=1, init=init)
    assert Table(8, depth=2 * rows, reads=1, init=None).depth == 2 * rows


def test_more_communicators_have_a_longer_sweep():
    many = replace(TINY, communicators=16)
    assert len(SweepSignature(many).create().address) > len(SweepSignature(TINY).create().address)


@pytest.mark.parametrize("reset, expected", [
    (0xA5, [0xA5] * 4),
    (lambda address: (address + 1)[:3] << 4, [0x10, 0x20, 0x30, 0x40]),
], ids=["constant", "function"])
def test_sweep_writes_the_reset_value(reset, expected):
    dut = Table(8, depth=4, reads=1, init=SweepSignature(TINY), reset=reset)

    async def bench(ctx):
        ctx.set(dut.write.en, 1)
        ctx.set(dut.write.addr, 3)
        ctx.set(dut.write.data, 0x11)
        await ctx.tick()
        ctx.set(dut.write.en, 0)
        ctx.set(dut.read[0].addr, 3)
        assert ctx.get(dut.read[0].data) == 0x11
        ctx.set(dut.init.active, 1)
        for row in range(4):
            ctx.set(dut.init.address, row)
            await ctx.tick()
        ctx.set(dut.init.active, 0)
        for row, value in enumerate(expected):
            ctx.set(dut.read[0].addr, row)
            assert ctx.get(dut.read[0].data) == value

    sim = Simulator(dut)
    sim.add_clock(1e-6)
    sim.add_testbench(bench)
    sim.run()
