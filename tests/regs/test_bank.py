# SPDX-License-Identifier: Apache-2.0
"""The register bank, driven by a manager that chooses in which cycle each handshake may happen."""

import random
import re
from types import SimpleNamespace

import pytest
from amaranth.lib.wiring import In, Out, Signature

from hw.axi.signature import AxiLiteSignature, Resp
from hw.regs.bank import RegisterBank, register_signature
from hw.regs.describe import Access, Field, Register, RegisterMap
from tests.harness.cell import run_cell
from tests.regs.bench import BLOCK, COMMAND, CONTROL, EVENTS, STATUS, read, run, write

OKAY, SLVERR = Resp.OKAY, Resp.SLVERR


def test_members():
    assert register_signature(BLOCK["COMMAND"]) == Signature({
        "start": Out(4), "keep": Out(8), "error": Out(2, init=3), "error_set": In(2),
        "written_stb": Out(1), "read_stb": Out(1)})
    assert register_signature(BLOCK["STATUS"]) == Signature({
        "busy": In(1), "count": In(16, init=0xbeef), "written_stb": Out(1), "read_stb": Out(1)})
    members = RegisterBank(BLOCK).signature.members
    assert list(members) == ["bus", "control", "status", "events", "command", "reading"]
    assert members["bus"] == In(AxiLiteSignature(addr_width=6, data_width=32))
    assert members["command"] == Out(register_signature(BLOCK["COMMAND"]))
    assert RegisterBank(BLOCK).register_map is BLOCK


def test_needs_a_map():
    with pytest.raises(TypeError, match=f"^{re.escape('Register bank needs a RegisterMap, not 3')}$"):
        RegisterBank(3)


def test_reset_values():
    async def testbench(ctx, bank):
        for register in BLOCK.registers:
            assert (await read(ctx, bank.bus, register.offset))[:2] == (register.reset, OKAY), register.name
    run(testbench)


def test_write_and_read_back():
    def control(ctx, bank):
        return tuple(ctx.get(getattr(bank.control, name)) for name in ("enable", "level", "top"))

    async def testbench(ctx, bank):
        assert await write(ctx, bank.bus, CONTROL, 0xffff_ffff) == (OKAY, 2)
        assert control(ctx, bank) == (1, 0xfff, 0xff)
        assert await read(ctx, bank.bus, CONTROL) == (0xff00_fff1, OKAY, 2)
        await write(ctx, bank.bus, CONTROL, 0x1200_3450)
        assert control(ctx, bank) == (0, 0x345, 0x12)
        assert (await read(ctx, bank.bus, CONTROL + 3))[0] == 0x1200_3450
    run(testbench)


@pytest.mark.parametrize("strobes", range(16))
def test_byte_strobes(strobes):
    async def testbench(ctx, bank):
        mask = sum(0xff << 8 * byte for byte in range(4) if strobes >> byte & 1)
        ctx.set(bank.events.done_set, 0x3ff)
        assert (await write(ctx, bank.bus, CONTROL, 0xffff_ffff, strobes))[0] == OKAY
        ctx.set(bank.events.done_set, 0)
        assert (await read(ctx, bank.bus, CONTROL))[0] == (0x5a50 & ~mask | mask) & 0xff00_fff1
        assert (await write(ctx, bank.bus, EVENTS, 0xffff_ffff, strobes))[0] == OKAY
        assert (await read(ctx, bank.bus, EVENTS))[0] == 0x1ff8 & ~mask
    trace = run(testbench, watch=lambda bank: [bank.control.written_stb, bank.events.written_stb])
    assert [sum(column) for column in zip(*trace, strict=True)] == [strobes != 0, strobes != 0]


def test_hardware_drives():
    async def testbench(ctx, bank):
        ctx.set(bank.status.busy, 1)
        ctx.set(bank.status.count, 0x1234)
        assert (await read(ctx, bank.bus, STATUS))[:2] == (0x1234_0001, OKAY)
        assert (await write(ctx, bank.bus, STATUS, 0))[0] == OKAY
        assert (await read(ctx, bank.bus, STATUS))[:2] == (0x1234_0001, OKAY)
    run(testbench)


def test_set_by_hardware_cleared_by_one():
    async def testbench(ctx, bank):
        ctx.set(bank.events.done_set, 0b10_1100_0111)
        await ctx.tick()
        ctx.set(bank.events.done_set, 0)
        assert ctx.get(bank.events.done) == 0b10_1100_0111
        await write(ctx, bank.bus, EVENTS, 0b01_0100_0101 << 3)
        assert ctx.get(bank.events.done) == 0b10_1000_0010
        await write(ctx, bank.bus, EVENTS, 0)
        assert (await read(ctx, bank.bus, EVENTS))[0] == 0b10_1000_0010 << 3
    run(testbench)


@pytest.mark.parametrize("cycle", range(4))
def test_set_wins_over_clear(cycle):
    # Address and data are taken at the end of cycle 0, the register changes at the end of cycle 1.
    async def hardware(ctx, bank):
        ctx.set(bank.events.done_set, 0b11)
        await ctx.tick()
        ctx.set(bank.events.done_set, 0)
        await ctx.tick().repeat(4 + cycle)
        ctx.set(bank.events.done_set, 0b01)
        await ctx.tick()
        ctx.set(bank.events.done_set, 0)

    async def software(ctx, bank):
        await ctx.tick().repeat(5)
        await write(ctx, bank.bus, EVENTS, 0b11 << 3)
        await ctx.tick().repeat(3)
        assert ctx.get(bank.events.done) == (0b00 if cycle == 0 else 0b01)

    run(software, hardware)


def test_pulse():
    async def testbench(ctx, bank):
        assert await write(ctx, bank.bus, COMMAND, 0x4000_770a) == (OKAY, 2)
        assert (await read(ctx, bank.bus, COMMAND))[:2] == (0x8000_7700, OKAY)
        await write(ctx, bank.bus, CONTROL, 0xf)
    trace = run(testbench, watch=lambda bank: [
        bank.bus.bvalid, bank.command.written_stb, bank.command.start, bank.command.keep, bank.command.error])
    assert trace[:4] == [(0, 0, 0, 0, 3), (0, 0, 0, 0, 3), (1, 1, 0xa, 0x77, 2), (0, 0, 0, 0x77, 2)]
    assert not any(stb or start for _, stb, start, *_ in trace[3:])


@pytest.mark.parametrize("strobes", range(15))
def test_partial_write_of_pulse_register_is_refused(strobes):
    async def testbench(ctx, bank):
        assert (await write(ctx, bank.bus, COMMAND, 0xffff_ffff, strobes))[0] == SLVERR
        assert (await read(ctx, bank.bus, COMMAND))[:2] == (0xc000_0000, OKAY)
    trace = run(testbench, watch=lambda bank: [bank.command.written_stb, bank.command.start])
    assert not any(stb or start for stb, start in trace)


@pytest.mark.parametrize("address", [0x0c, 0x1c, 0x24, 0x3f])
def test_unmapped(address):
    async def testbench(ctx, bank):
        assert await write(ctx, bank.bus, address, 0xffff_ffff) == (SLVERR, 2)
        assert await read(ctx, bank.bus, address) == (0, SLVERR, 2)
        for register in BLOCK.registers:
            assert (await read(ctx, bank.bus, register.offset))[:2] == (register.reset, OKAY), register.name

    def watch(bank):
        return [getattr(bank, register.member).written_stb for register in BLOCK.registers]

    assert not any(any(strobes) for strobes in run(testbench, watch=watch))


@pytest.mark.parametrize("b_at", [0, 5, 9])
@pytest.mark.parametrize("aw_at, w_at", [(0, 0), (0, 1), (0, 4), (1, 0), (4, 0), (3, 3)])
def test_order_of_address_and_data(aw_at, w_at, b_at):
    async def testbench(ctx, bank):
        for data in (0x1200_0340, 0x5600_0781):
            response = await write(ctx, bank.bus, CONTROL, data, aw_at=aw_at, w_at=w_at, b_at=b_at)
            assert response == (OKAY, max(aw_at + 2, w_at + 2, b_at))
            assert (await read(ctx, bank.bus, CONTROL))[0] == data
    trace = run(testbench, watch=lambda bank: [bank.control.written_stb])
    assert sum(stb for stb, in trace) == 2


@pytest.mark.parametrize("ar_at, r_at", [(0, 0), (0, 7), (3, 0), (3, 9)])
def test_stalled_read(ar_at, r_at):
    async def hardware(ctx, bank):
        for count in range(40):
            ctx.set(bank.status.count, count)
            await ctx.tick()

    async def software(ctx, bank):
        data, response, cycle = await read(ctx, bank.bus, STATUS, ar_at=ar_at, r_at=r_at)
        assert (data >> 16, response, cycle) == (ar_at + 1, OKAY, max(ar_at + 2, r_at))

    trace = run(software, hardware, watch=lambda bank: [bank.status.read_stb, bank.status.count])
    assert [count for stb, count in trace if stb] == [ar_at + 1]


@pytest.mark.parametrize("stall", [1, 4])
def test_back_to_back(stall):
    # With the response taken at once, each direction moves a word every other cycle.
    words = [n << 4 | n << 24 for n in range(20)]
    cycles = 2 * len(words) + 2 if stall == 1 else stall * len(words) + 4

    def testbench(ctx, bank):
        return drive(ctx, bank.bus)

    async def drive(ctx, bus):
        sent = SimpleNamespace(aw=0, w=0, ar=0, b=0, r=[])
        for cycle in range(cycles):
            ctx.set(bus.awvalid, sent.aw < len(words))
            ctx.set(bus.wvalid, sent.w < len(words))
            ctx.set(bus.wdata, words[min(sent.w, len(words) - 1)])
            ctx.set(bus.wstrb, 0xf)
            ctx.set(bus.arvalid, sent.ar < len(words))
            ready = cycle % stall == 0
            ctx.set(bus.bready, ready)
            ctx.set(bus.rready, ready)
            *_, awready, wready, arready, bvalid, rvalid, rdata = await ctx.tick().sample(
                bus.awready, bus.wready, bus.arready, bus.bvalid, bus.rvalid, bus.rdata)
            sent.aw += awready
            sent.w += wready
            sent.ar += arready
            sent.b += bvalid and ready
            sent.r += [rdata] if rvalid and ready else []
        assert sent.b == len(words)
        # Reading and writing step together: a read gives the value before the write of its cycle.
        assert sent.r == [0x5a50, *words[:-1]]

    trace = run(testbench, watch=lambda bank: [bank.control.written_stb, bank.control.top])
    assert [top for stb, top in trace if stb] == list(range(20))


def test_pulse_reads_as_0_in_its_own_cycle():
    async def software(ctx, bank):
        await write(ctx, bank.bus, COMMAND, 0xf)

    async def reader(ctx, bank):
        await ctx.tick()
        assert (await read(ctx, bank.bus, COMMAND))[0] == 0xc000_0000

    trace = run(software, reader, watch=lambda bank: [bank.command.start, bank.command.read_stb])
    assert (0xf, 1) in trace


def test_responses_are_held_while_the_next_wait():
    # Three of each: one whose response is not taken, one accepted behind it, one not accepted yet.
    async def offer(ctx, bank, address, data):
        bus = bank.bus
        for valid, where in ((bus.awvalid, bus.awaddr), (bus.arvalid, bus.araddr)):
            ctx.set(valid, 1)
            ctx.set(where, address)
        ctx.set(bus.wvalid, 1)
        ctx.set(bus.wdata, data)
        ctx.set(bus.wstrb, 0xf)
        await ctx.tick().until(bus.awready & bus.wready & bus.arready)

    async def first_two(ctx, bank):
        bus = bank.bus
        await offer(ctx, bank, 0x3c, 0)
        await offer(ctx, bank, CONTROL, 0x7700_0000)
        ctx.set(bus.awaddr, COMMAND)
        ctx.set(bus.araddr, STATUS)
        ctx.set(bus.wdata, 0x2200)
        await ctx.tick().repeat(10)
        assert (ctx.get(bus.bvalid), ctx.get(bus.bresp)) == (1, SLVERR)
        assert (ctx.get(bus.rvalid), ctx.get(bus.rresp)) == (1, SLVERR)
        assert (ctx.get(bus.awready), ctx.get(bus.wready), ctx.get(bus.arready)) == (0, 0, 0)
        assert ctx.get(bank.control.top) == 0
        ctx.set(bus.bready, 1)
        ctx.set(bus.rready, 1)
        await ctx.tick()
        assert (ctx.get(bus.bvalid), ctx.get(bus.bresp), ctx.get(bank.control.top)) == (1, OKAY, 0x77)
        assert (ctx.get(bus.rvalid), ctx.get(bus.rresp), ctx.get(bus.rdata)) == (1, OKAY, 0x5a50)
        await ctx.tick()
        assert (ctx.get(bus.bvalid), ctx.get(bus.rvalid)) == (0, 0)
        for valid in (bus.awvalid, bus.wvalid, bus.arvalid):
            ctx.set(valid, 0)
        await ctx.tick()
        assert (ctx.get(bus.bvalid), ctx.get(bus.bresp), ctx.get(bank.command.keep)) == (1, OKAY, 0x22)
        assert (ctx.get(bus.rvalid), ctx.get(bus.rresp), ctx.get(bus.rdata)) == (1, OKAY, 0xbeef_0000)

    trace = run(first_two, watch=lambda bank: [bank.control.read_stb, bank.control.written_stb])
    assert [sum(column) for column in zip(*trace, strict=True)] == [1, 1]


def test_no_bus_output_follows_a_bus_input_within_a_cycle():
    async def testbench(ctx, bank):
        bus, generator = bank.bus, random.Random(1)
        inputs = [bus.awaddr, bus.awprot, bus.awvalid, bus.wdata, bus.wstrb, bus.wvalid, bus.bready,
                  bus.araddr, bus.arprot, bus.arvalid, bus.rready]
        outputs = [bus.awready, bus.wready, bus.bvalid, bus.bresp,
                   bus.arready, bus.rvalid, bus.rdata, bus.rresp]
        for _ in range(100):
            before = [ctx.get(signal) for signal in outputs]
            for signal in inputs:
                ctx.set(signal, generator.getrandbits(len(signal)))
                assert [ctx.get(signal) for signal in outputs] == before
            await ctx.tick()
    run(testbench)


@pytest.mark.parametrize("seed", range(4))
def test_random_accesses_against_a_model(seed):
    # Addresses, strobes and timing of every handshake at random; hardware sets events between accesses.
    generator = random.Random(seed)

    def at():
        return generator.choice([0, 0, 0, 1, 2, 5])

    def bits_of(access):
        return {r.offset: sum(f.mask for f in r.fields if f.access is access) for r in BLOCK.registers}

    async def testbench(ctx, bank):
        words = {register.offset: register.reset for register in BLOCK.registers}
        writable, clearable = bits_of(Access.RW), bits_of(Access.W1C)
        for _ in range(60):
            address = generator.choice([*words, *words, generator.randrange(64)])
            offset, data = address & ~3, generator.getrandbits(32)
            strobes = generator.choice([15, 15, 15, 3, 8, 0])
            if generator.random() < 0.3:
                events = generator.getrandbits(10)
                ctx.set(bank.events.done_set, events)
                await ctx.tick()
                ctx.set(bank.events.done_set, 0)
                words[EVENTS] |= events << 3
            if generator.random() < 0.5:
                response, _ = await write(
                    ctx, bank.bus, address, data, strobes, aw_at=at(), w_at=at(), b_at=at())
                fails = offset not in words or (offset == COMMAND and strobes != 15)
                assert response == (SLVERR if fails else OKAY)
                if not fails:
                    lanes = sum(0xff << 8 * byte for byte in range(4) if strobes >> byte & 1)
                    keep = ~(lanes & writable[offset])
                    cleared = data & lanes & clearable[offset]
                    words[offset] = (words[offset] & keep | data & ~keep) & ~cleared
            else:
                response = await read(ctx, bank.bus, address, ar_at=at(), r_at=at())
                assert response[:2] == ((words[offset], OKAY) if offset in words else (0, SLVERR))
    run(testbench)


def test_smallest_map():
    block = RegisterMap("small", [Register("only", [Field("x", 32, Access.RW, doc="X.")], doc="One.")],
                        doc="One register, no address bits.", addr_width=2)
    bank = RegisterBank(block)

    async def testbench(ctx):
        assert await write(ctx, bank.bus, 1, 0x1234_5678) == (OKAY, 2)
        assert await read(ctx, bank.bus, 2) == (0x1234_5678, OKAY, 2)

    run_cell(bank, testbench)
