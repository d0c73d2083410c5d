# SPDX-License-Identifier: Apache-2.0
"""Signals: an 8-byte value, stored when all earlier requests of its queue have completed."""

import cocotb
import pytest

from hw.common.sizes import PAGE_BYTES
from hw.dma_engine.words import Command, NativeWord, Opcode, RequestFlag, Status
from tests.dma_engine.victim import DST, DST_BASE, LENGTH, SMALL, SRC, SRC_BASE, VICTIM, VictimBench

pytestmark = pytest.mark.rtl

FLAG = 6 * PAGE_BYTES + 0x18
VALUE = 0xABC_DEF0_1234


FIRST = ["waits_for_data", "every_value", "reset_in_between"]
SECOND = ["checks", "memory_errors"]


@pytest.mark.parametrize(("config", "tests"), [
    ("tiny", FIRST), pytest.param("tiny", SECOND, marks=pytest.mark.long),
    pytest.param("base", FIRST + SECOND, marks=pytest.mark.soak)])
def test_signal(engine, config, tests):
    engine(config, tests)


async def _prepared(dut, name):
    bench = VictimBench(dut, seed=name)
    await bench.start()
    await bench.prepare()
    await bench.clean()
    return bench


def _flag(bench, offset=FLAG):
    return int.from_bytes(bench.memory.read(DST_BASE + offset, 8), "little")


@cocotb.test()
async def waits_for_data(dut):
    """The value is not stored before the write responses of all earlier data have arrived."""
    bench = await _prepared(dut, "signal waits")
    before = _flag(bench)
    bench.withhold(DST_BASE)
    await bench.post(VICTIM, SMALL, NativeWord.signal(dst=(DST, FLAG), value=VALUE, flags=RequestFlag.SC),
                     SMALL._replace(dst_offset=PAGE_BYTES))
    await bench.wait(500)
    assert _flag(bench) == before
    bench.release(DST_BASE)
    state = await bench.settle_and_check("waits")
    assert _flag(bench) == VALUE and (state.count, state.failed) == (3, 0), state
    await bench.end()


@cocotb.test()
async def every_value(dut):
    """All 44 bits, at each position in a beat, without changes to neighbouring bytes; many in a row."""
    bench = await _prepared(dut, "signal values")
    offsets = range(5 * PAGE_BYTES, 5 * PAGE_BYTES + 2 * bench.config.beat_bytes, 8)
    for value in (0, (1 << 44) - 1, *(1 << bit for bit in range(44))):
        offset = bench.rng.choice(offsets)
        await bench.post(VICTIM, NativeWord.signal(dst=(DST, offset), value=value))
        await bench.settle_and_check(f"{value:#x}")
        assert _flag(bench, offset) == value
    await bench.end()


@cocotb.test()
async def checks(dut):
    """Checks of length, alignment and destination; the source is not checked."""
    bench = await _prepared(dut, "signal checks")
    word = NativeWord.signal(dst=(DST, FLAG), value=VALUE)
    for status, bad in (
        *((Status.MALFORMED, word._replace(length=length)) for length in (0, 1, 4, 7, 9, 16, (1 << 28) - 1)),
        *((Status.MALFORMED, word._replace(dst_offset=FLAG + shift)) for shift in (1, 2, 4, 7)),
        (Status.DST_REGION, word._replace(dst_region=255)), (Status.DST_RIGHTS, word._replace(dst_region=SRC)),
        (Status.DST_BOUNDS, word._replace(dst_offset=LENGTH // 8 * 8)),
    ):
        await bench.bad(f"{bad}", status, bad, "clear")
    for region in (0, 255):
        await bench.post(VICTIM, word._replace(src_region=region, src_offset=(1 << 36) - 1))
        state = await bench.settle_and_check(f"value with {region} on top")
        assert state.failed == state.held == 0 or state.status == Status.OK, state
        assert _flag(bench) == region << 36 | (1 << 36) - 1
    assert word.opcode == Opcode.SIGNAL
    await bench.end()


@cocotb.test()
async def memory_errors(dut):
    """A write error is reported for the signal; read errors of earlier users of its tag are not."""
    bench = await _prepared(dut, "signal errors")
    bench.fail_page(SRC_BASE, read="SLVERR")
    for _ in range(bench.config.tags + 3):
        await bench.post(VICTIM, SMALL)
        await bench.settle_and_check("read error")
        await bench.command(VICTIM, Command.CLEAR)
        before = await bench.settle_and_check("cleared")
        await bench.post(VICTIM, NativeWord.signal(dst=(DST, FLAG), value=VALUE))
        state = await bench.settle_and_check("signal")
        assert (state.held, state.count) == (0, before.count + 1), state
    bench.repair_page(SRC_BASE)
    bench.fail_page(DST_BASE + FLAG, write="DECERR")
    await bench.post(VICTIM, NativeWord.signal(dst=(DST, FLAG), value=VALUE))
    state = await bench.settle_and_check("write error")
    assert (state.held, state.status) == (1, Status.WRITE_DECERR), state
    bench.repair_page(DST_BASE + FLAG)
    await bench.command(VICTIM, Command.CLEAR)
    await bench.settle_and_check("cleared")
    await bench.end()


@cocotb.test()
async def reset_in_between(dut):
    """A signal that waits during a RESET is never stored."""
    bench = await _prepared(dut, "signal reset")
    before = _flag(bench)
    bench.withhold(DST_BASE)
    await bench.post(VICTIM, SMALL, NativeWord.signal(dst=(DST, FLAG), value=VALUE))
    await bench.wait(200)
    await bench.command(VICTIM, Command.RESET)
    bench.release(DST_BASE)
    await bench.settle_and_check("reset")
    assert _flag(bench) == before
    await bench.command(VICTIM, Command.START)
    await bench.post(VICTIM, NativeWord.signal(dst=(DST, FLAG), value=1))
    await bench.settle_and_check("after the reset")
    assert _flag(bench) == 1
    await bench.end()
