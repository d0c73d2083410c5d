# SPDX-License-Identifier: Apache-2.0
"""Queue pairs that software opens and closes as fast as the bus accepts it: the requester loses no write."""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.axi import AxiLiteSignature
from hw.common.wiring import unused
from hw.rdma.config import TINY
from hw.rdma.control import RdmaControl
from hw.rdma.registers import register_map
from hw.rdma.requester.transport.states import QueuePairStates
from tests.harness.cell import run_cell

COMMIT = register_map(TINY)["QP_COMMIT"]


class _Registers(wiring.Component):
    """Registers, and the states of the requester."""

    def __init__(self):
        super().__init__({"bus": In(AxiLiteSignature(addr_width=12, data_width=32)), "qp": In(TINY.qp_bits),
                          "running": Out(1)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.control = control = RdmaControl(TINY)
        m.submodules.states = states = QueuePairStates(TINY)
        wiring.connect(m, wiring.flipped(self.bus), control.bus)
        wiring.connect(m, control.connections, states.connections)
        m.d.comb += [control.writable.eq(states.writable), states.running[0].qp.eq(self.qp),
                     self.running.eq(states.running[0].row)]
        unused(m, control)
        unused(m, states)
        return m


async def _write(ctx, bus, offset, value):
    for name, one in (("awvalid", 1), ("wvalid", 1), ("awaddr", offset), ("wdata", value), ("wstrb", 15),
                      ("bready", 1)):
        ctx.set(getattr(bus, name), one)
    waiting = {"awvalid": "awready", "wvalid": "wready"}
    while waiting:
        ready = {valid: ctx.get(getattr(bus, name)) for valid, name in waiting.items()}
        await ctx.tick()
        for valid in [valid for valid, taken in ready.items() if taken]:
            ctx.set(getattr(bus, valid), 0)
            del waiting[valid]


def test_no_write_is_lost():
    dut = _Registers()

    async def bench(ctx):
        async def running():
            found = []
            for qp in range(TINY.queue_pairs):
                ctx.set(dut.qp, qp)
                await ctx.delay(1e-9)
                found.append(ctx.get(dut.running))
            return found

        for opened in (1, 0, 1, 0):
            for qp in range(TINY.queue_pairs):
                await _write(ctx, dut.bus, COMMIT.offset, COMMIT.pack(qp=qp, open=opened))
            await ctx.tick().repeat(500)
            assert await running() == [opened] * TINY.queue_pairs
        # Opened and closed at once, several times.
        for _ in range(3):
            for qp in range(TINY.queue_pairs):
                await _write(ctx, dut.bus, COMMIT.offset, COMMIT.pack(qp=qp, open=1))
                await _write(ctx, dut.bus, COMMIT.offset, COMMIT.pack(qp=qp, open=0))
        await ctx.tick().repeat(500)
        assert await running() == [0] * TINY.queue_pairs

    run_cell(dut, bench)
