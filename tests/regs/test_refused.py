# SPDX-License-Identifier: Apache-2.0
"""Writes of illegal values: refused completely and recorded, compared byte by byte with a model."""

import random
import re

import pytest
from amaranth import Module
from amaranth.lib.wiring import Out
from amaranth.sim import Simulator

from hw.axi.signature import Resp
from hw.regs import Access, Field, Register, RegisterBank, RegisterMap, number_field, refusal_registers
from tests.regs.bench import read, write

BLOCK = RegisterMap("block", [
    Register("CHOICE", [
        Field("low", 3, Access.RW, doc="Any."),
        Field("number", 7, Access.RW, lsb=5, reset=20, legal=range(17, 101), doc="Crosses a byte."),
        Field("high", 4, Access.RW, lsb=20, doc="Any."),
    ], doc="Written byte by byte."),
    Register("COMMIT", [
        Field("row", 5, Access.PULSE, legal=range(20), doc="Row."),
        Field("what", 2, Access.PULSE, lsb=16, legal=range(1, 4), doc="Command."),
        Field("kept", 4, Access.RW, lsb=24, doc="Any."),
    ], doc="Written as a whole."),
    Register("FREE", [Field("value", 8, Access.RW, doc="Any.")], doc="Nothing is refused."),
    Register("SELECT", [number_field("place", 6, Access.RW, doc="Alone in its register.")], doc="Whole bytes above."),
    *refusal_registers(6),
], doc="Fields with legal values.", addr_width=6)

CHOICE, COMMIT, FREE, SELECT, WRITE, WORD = (register.offset for register in BLOCK.registers)


def _run(testbench, watch=lambda bank: []):
    bank = RegisterBank(BLOCK)
    simulator, trace = Simulator(bank), []
    simulator.add_clock(1e-6)

    async def record(ctx):
        async for _clk, _rst, *values in ctx.tick().sample(*watch(bank)):
            trace.append(tuple(values))

    async def bound(ctx):
        await testbench(ctx, bank)

    simulator.add_testbench(bound)
    simulator.add_testbench(record, background=True)
    simulator.run()
    return trace


def test_members():
    members = RegisterBank(BLOCK).signature.members
    assert list(members) == ["bus", "choice", "commit", "free", "select", "refused", "reading"]
    assert members["refused"] == Out(1)


def test_needs_registers_for_the_report():
    block = RegisterMap("block", [Register("A", [number_field("n", 2, Access.RW, doc="N.")], doc="A.")], doc="B.",
                        addr_width=6)
    message = "Register map 'block' has registers that refuse writes, and must have REFUSED_WRITE and REFUSED_WORD"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        RegisterBank(block)


def test_the_first_is_recorded_until_it_is_cleared():
    async def testbench(ctx, bank):
        async def noted():
            return [(await read(ctx, bank.bus, offset))[0] for offset in (WRITE, WORD)]

        assert await noted() == [0, 0]
        assert await write(ctx, bank.bus, COMMIT + 3, 0x0001_0014) == (Resp.SLVERR, 2)
        assert await noted() == [1 << 31 | COMMIT, 0x0001_0014]
        assert (await write(ctx, bank.bus, CHOICE, 0))[0] == Resp.SLVERR
        assert await noted() == [1 << 31 | COMMIT, 0x0001_0014]
        assert (await write(ctx, bank.bus, WRITE, 1 << 31))[0] == Resp.OKAY
        assert await noted() == [COMMIT, 0x0001_0014]
        # Writes that are refused for other reasons are not recorded.
        assert (await write(ctx, bank.bus, COMMIT, 0x0001_0014, 0b0111))[0] == Resp.SLVERR
        assert (await write(ctx, bank.bus, 0x3c, 0x0001_0014))[0] == Resp.SLVERR
        assert await noted() == [COMMIT, 0x0001_0014]
        assert (await write(ctx, bank.bus, CHOICE, 5 << 5))[0] == Resp.SLVERR
        assert await noted() == [1 << 31 | CHOICE, 5 << 5]
    trace = _run(testbench, watch=lambda bank: [bank.refused, bank.commit.written_stb, bank.choice.written_stb])
    assert [sum(column) for column in zip(*trace, strict=True)] == [3, 0, 0]


@pytest.mark.parametrize("seed", range(4))
def test_random_writes_against_a_model(seed):
    rng = random.Random(seed)
    limited, whole = BLOCK["CHOICE"], BLOCK["COMMIT"]

    def bits_of(register):
        return sum(field.mask for field in register.fields if field.access is Access.RW)

    def some_word(register):
        """Mostly legal."""
        word = sum(rng.choice(field.legal or range(1 << field.width)) << field.lsb for field in register.fields)
        return word ^ (1 << rng.randrange(32) if rng.random() < 0.7 else 0)

    async def testbench(ctx, bank):
        shown, refusals = {register.offset: register.reset for register in BLOCK.registers}, 0
        for _ in range(200):
            register = rng.choice((limited, limited, whole, BLOCK["FREE"], BLOCK["SELECT"]))
            word, strobes = some_word(register), rng.choice((15, 15, 1, 2, 3, 4, 12, 0))
            lanes = sum(0xFF << 8 * byte for byte in range(4) if strobes >> byte & 1)
            partial = register is whole and strobes != 15
            bad = not partial and register.illegal(word & lanes | shown[register.offset] & ~lanes) is not None
            refusals += bad
            response, _ = await write(ctx, bank.bus, register.offset, word, strobes)
            assert response == (Resp.SLVERR if bad or partial else Resp.OKAY), f"{register.name} {word:#x} {strobes:#x}"
            if response == Resp.OKAY:
                lanes &= bits_of(register)
                shown[register.offset] = shown[register.offset] & ~lanes | word & lanes
            for offset in (CHOICE, COMMIT, FREE, SELECT):
                assert (await read(ctx, bank.bus, offset))[0] == shown[offset]
            found, kept = [(await read(ctx, bank.bus, offset))[0] for offset in (WRITE, WORD)]
            assert found >> 31 == bad
            if bad:
                assert (found, kept) == (1 << 31 | register.offset, word)
                await write(ctx, bank.bus, WRITE, 1 << 31)
        assert refusals > 10

    _run(testbench)


def test_hardware_refuses():
    """A guarded register: refused writes change nothing, are recorded, and are decided by the word that is written."""
    block = RegisterMap("block", [
        Register("COMMIT", [number_field("row", 20, Access.PULSE, doc="Row."),
                            Field("kept", 4, Access.RW, lsb=8, doc="Any.")], doc="Written as a whole.",
                 guard="odd rows are in use"),
        Register("FREE", [Field("value", 8, Access.RW, doc="Any.")], doc="Nothing is refused."),
        *refusal_registers(6),
    ], doc="A register that hardware guards.", addr_width=6)
    commit, free, report, word = (register.offset for register in block.registers)
    bank = RegisterBank(block)
    assert list(bank.signature.members) == ["bus", "commit", "free", "refused", "reading", "writing"]
    m = Module()
    m.submodules.bank = bank
    m.d.comb += bank.commit.refuse.eq(bank.writing[0])
    committed = []

    async def testbench(ctx):
        for written, strobes, expected in ((4 | 0x300, 15, Resp.OKAY), (5 | 0x700, 15, Resp.SLVERR),
                                           (22 | 0x700, 15, Resp.SLVERR), (5 | 0x700, 7, Resp.SLVERR),
                                           (6 | 0xA00, 15, Resp.OKAY)):
            assert (await write(ctx, bank.bus, commit, written, strobes))[0] == expected, hex(written)
            found = (await read(ctx, bank.bus, report))[0]
            assert found == ((1 << 31) | commit if expected == Resp.SLVERR and strobes == 15 else commit)
            if found >> 31:
                assert (await read(ctx, bank.bus, word))[0] == written
                await write(ctx, bank.bus, report, 1 << 31)
            # Another register is not affected.
            assert (await write(ctx, bank.bus, free, written & 0xFF))[0] == Resp.OKAY
            assert (await read(ctx, bank.bus, free))[0] == written & 0xFF
        assert (await read(ctx, bank.bus, commit))[0] == 0xA00

    async def record(ctx):
        async for _clk, _rst, strobe, row in ctx.tick().sample(bank.commit.written_stb, bank.commit.row):
            if strobe:
                committed.append(row)

    simulator = Simulator(m)
    simulator.add_clock(1e-6)
    simulator.add_testbench(testbench)
    simulator.add_testbench(record, background=True)
    simulator.run()
    assert committed == [4, 6]
