# SPDX-License-Identifier: Apache-2.0
"""RemoteTable: entries and queue pairs that a look-up finds."""

from hw.rdma.config import TINY
from hw.rdma.requester.buffers.remote_table import LOOKUPS, RemoteTable
from tests.harness.cell import run_cell


class _Bench:
    def __init__(self, ctx, dut):
        self.ctx, self.dut = ctx, dut

    def define(self, number, **fields):
        self.ctx.set(self.dut.remotes.valid, 1)
        self.ctx.set(self.dut.remotes.remote, number)
        self.ctx.set(self.dut.remotes.entry, {"valid": 1, **fields})

    async def connect(self, qp, **fields):
        self.ctx.set(self.dut.connections.valid, 1)
        self.ctx.set(self.dut.connections.qp, qp)
        self.ctx.set(self.dut.connections.entry, fields)
        await self.ctx.tick()
        self.ctx.set(self.dut.connections.valid, 0)

    async def look_up(self, number, port=0):
        lookup = self.dut.lookups[port]
        self.ctx.set(lookup.en, 1)
        self.ctx.set(lookup.number, number)
        await self.ctx.tick()
        self.ctx.set(lookup.en, 0)
        self.ctx.set(lookup.number, number ^ 1)
        self.ctx.set(self.dut.remotes.valid, 0)
        await self.ctx.tick().repeat(2)
        return self.ctx.get(lookup.target)


def _run(body):
    dut = RemoteTable(TINY)

    async def live(ctx):
        ctx.set(dut.init.active, 1)
        for row in range(TINY.sweep_rows):
            ctx.set(dut.init.address, row)
            await ctx.tick()
        ctx.set(dut.init.active, 0)
        await body(_Bench(ctx, dut))

    run_cell(dut, live)


def test_entries():
    async def body(bench):
        entry = {"qp": 5, "rkey": 0x89ABCDEF, "va": 0xFEDC_BA98_7654_3210, "length": (1 << 48) - 1}
        for number in range(TINY.remotes):
            assert not (await bench.look_up(number)).known
        bench.define(9, **entry)
        await bench.ctx.tick()
        bench.ctx.set(bench.dut.remotes.valid, 0)
        await bench.connect(5, open=1, mtu=3, selective=1)
        for port in range(LOOKUPS):
            target = await bench.look_up(9, port)
            assert (target.known, target.open, target.mtu, target.selective) == (1, 1, 3, 1)
            assert {name: target[name] for name in entry} == entry
            for other in (8, 9 + TINY.remotes, 9 + 2048):
                assert not (await bench.look_up(other, port)).known
        await bench.connect(5, open=0)
        target = await bench.look_up(9)
        assert target.known and not target.open

    _run(body)


def test_look_up_while_the_entry_is_written():
    """It finds no valid entry, neither the old one nor a mixture of both."""
    async def body(bench):
        for va in (1, 2):
            bench.define(3, qp=1, va=va)
            assert not (await bench.look_up(3)).known
            target = await bench.look_up(3)
            assert target.known and target.va == va
        bench.define(4, qp=1, va=3)
        assert (await bench.look_up(3)).known

    _run(body)
