# SPDX-License-Identifier: Apache-2.0
"""A register bank with one register of each kind, and a manager that chooses the cycle of each handshake."""

from amaranth.sim import Simulator

from hw.regs.bank import RegisterBank
from hw.regs.describe import Access, Field, Register, RegisterMap

__all__ = ["BLOCK", "COMMAND", "CONTROL", "EVENTS", "STATUS", "read", "run", "write"]

BLOCK = RegisterMap("block", [
    Register("CONTROL", [
        Field("ENABLE", 1, Access.RW, doc="Enable."),
        Field("LEVEL", 12, Access.RW, reset=0x5a5, lsb=4, doc="Crosses a byte."),
        Field("TOP", 8, Access.RW, lsb=24, doc="Top byte."),
    ], doc="Read and written by software."),
    Register("STATUS", [
        Field("BUSY", 1, Access.RO, doc="Busy."),
        Field("COUNT", 16, Access.RO, lsb=16, reset=0xbeef, doc="Count."),
    ], doc="Driven by hardware."),
    Register("EVENTS", [Field("DONE", 10, Access.W1C, lsb=3, doc="Done, crosses a byte.")], doc="Events."),
    Register("COMMAND", [
        Field("START", 4, Access.PULSE, doc="Start."),
        Field("KEEP", 8, Access.RW, lsb=8, doc="Kept."),
        Field("ERROR", 2, Access.W1C, reset=3, lsb=30, doc="Errors."),
    ], doc="Every kind in one register.", offset=0x20),
], doc="One register of each kind.", addr_width=6)

CONTROL, STATUS, EVENTS, COMMAND = (register.offset for register in BLOCK.registers)


LIMIT = 10_000
"""Cycles for a response."""


async def write(ctx, bus, address, data, strobes=0b1111, *, aw_at=0, w_at=0, b_at=0):
    """Write, with each handshake offered from the given cycle on; return the response and its cycle."""
    cycle, aw_done, w_done = 0, False, False
    while cycle < LIMIT:
        aw_valid, w_valid, ready = cycle >= aw_at and not aw_done, cycle >= w_at and not w_done, cycle >= b_at
        ctx.set(bus.awvalid, aw_valid)
        ctx.set(bus.awaddr, address if aw_valid else ~address)
        ctx.set(bus.wvalid, w_valid)
        ctx.set(bus.wdata, data if w_valid else ~data)
        ctx.set(bus.wstrb, strobes if w_valid else ~strobes)
        ctx.set(bus.bready, ready)
        *_, awready, wready, bvalid, bresp = await ctx.tick().sample(
            bus.awready, bus.wready, bus.bvalid, bus.bresp)
        assert not bvalid or (aw_done and w_done), "A response came before its write"
        aw_done |= aw_valid and awready
        w_done |= w_valid and wready
        if bvalid and ready:
            ctx.set(bus.bready, 0)
            return bresp, cycle
        cycle += 1
    raise AssertionError(f"No response to a write of {address:#x} in {LIMIT} cycles")


async def read(ctx, bus, address, *, ar_at=0, r_at=0):
    """Read, with each handshake offered from the given cycle on; return data, response and its cycle."""
    cycle, ar_done = 0, False
    while cycle < LIMIT:
        ar_valid, ready = cycle >= ar_at and not ar_done, cycle >= r_at
        ctx.set(bus.arvalid, ar_valid)
        ctx.set(bus.araddr, address if ar_valid else ~address)
        ctx.set(bus.rready, ready)
        *_, arready, rvalid, rdata, rresp = await ctx.tick().sample(
            bus.arready, bus.rvalid, bus.rdata, bus.rresp)
        assert not rvalid or ar_done, "A response came before its read"
        ar_done |= ar_valid and arready
        if rvalid and ready:
            ctx.set(bus.rready, 0)
            return rdata, rresp, cycle
        cycle += 1
    raise AssertionError(f"No response to a read of {address:#x} in {LIMIT} cycles")


def run(testbench, *others, watch=None):
    """Run testbenches of a bank; return what ``watch(bank)`` signals were in every cycle."""
    bank = RegisterBank(BLOCK)
    simulator, trace = Simulator(bank), []
    simulator.add_clock(1e-6)

    async def record(ctx):
        async for _clk, _rst, *values in ctx.tick().sample(*watch(bank)):
            trace.append(tuple(values))

    def bind(each):
        async def bound(ctx):
            await each(ctx, bank)
        return bound

    for each in (testbench, *others):
        simulator.add_testbench(bind(each))
    if watch:
        simulator.add_testbench(record, background=True)
    simulator.run()
    return trace
