# SPDX-License-Identifier: Apache-2.0
"""After a RESET that abandoned responses, no data of the queue's earlier epoch is stored, whatever memory does."""

import cocotb
import pytest
from cocotb.triggers import RisingEdge

from hw.common.sizes import PAGE_BYTES
from hw.dma_engine.words import Command, NativeWord, RequestFlag
from tests.dma_engine.victim import DST, GOOD, SRC, SRC_BASE, VICTIM, VictimBench

pytestmark = pytest.mark.rtl

WATCHDOG = 300
BEATS = 8


@pytest.mark.parametrize("config", ["tiny", pytest.param("base", marks=pytest.mark.soak)])
def test_reclaim(engine, config):
    engine(config, ["delayed_beats", "stalled_words", "stalled_data"])


class ReclaimBench(VictimBench):
    """The victim without other traffic, and the bytes that memory stores after the RESET."""

    async def prepare(self):
        await super().prepare()
        self._stop = True
        for task in self._tasks:
            await task
        self.rounds = len(self._tasks)
        self.stored = 0
        cocotb.start_soon(self._watch())

    async def _watch(self):
        while True:
            await RisingEdge(self.dut.clk)
            if int(self.dut.m_axi__wvalid.value) and int(self.dut.m_axi__wready.value):
                self.stored += int(self.dut.m_axi__wstrb.value).bit_count()

    def stall(self, stalled):
        self.memory.writes.aw_channel.pause = self.memory.writes.w_channel.pause = stalled

    async def reset_begins(self):
        self._ended_unknown = True      # the number of completed requests is unknown
        await self.driver.set_watchdog(WATCHDOG)
        await self.command(VICTIM, Command.RESET)

    async def reset_ends(self):
        start = self.cycle
        while (await self.driver.state(VICTIM)).resetting:
            assert self.cycle - start < 4 * WATCHDOG + 1000, "RESET does not end"
        await self.driver.set_watchdog(0)
        self.stored = 0

    async def restart_queue(self, when):
        """Nothing was stored since the RESET; a new epoch works, and ends."""
        assert self.stored == 0, f"{self.stored} bytes were stored after the RESET, {when}"
        await self.clean()
        await self.command(VICTIM, Command.START)
        await self.post(VICTIM, GOOD)
        assert (await self.settle_and_check("a new epoch")).count == 1
        await self.command(VICTIM, Command.RESET)
        await self.settle_and_check("reset")
        await self.command(VICTIM, Command.START)


async def _prepared(dut, name):
    bench = ReclaimBench(dut, seed=name)
    await bench.start()
    await bench.prepare()
    return bench


def _copy(bench, flags=0):
    length = BEATS * bench.config.beat_bytes
    return NativeWord.copy(src=(SRC, 0), dst=(DST, 0), length=length, flags=flags)


@cocotb.test()
async def delayed_beats(dut):
    """Any number of a burst's beats arrives before the RESET, the others after it."""
    bench = await _prepared(dut, "late beats")
    for begun in range(BEATS):
        bench.withhold(SRC_BASE, begun=begun)
        await bench.post(VICTIM, _copy(bench))
        await bench.wait(100)
        await bench.reset_begins()
        await bench.reset_ends()
        bench.release(SRC_BASE)
        await bench.wait(300)
        await bench.restart_queue(f"{begun} beats came before it")
    await bench.end()


@cocotb.test()
async def stalled_words(dut):
    """Completion words wait for AW and W when their queue is reset: the RESET does not end before they have left."""
    bench = await _prepared(dut, "stalled words")
    flags = RequestFlag.SC | RequestFlag.RC
    for wait in range(0, 60, 3):
        await bench.post(VICTIM, _copy(bench, flags))
        await bench.wait(wait)
        bench.stall(True)
        await bench.wait(60)
        await bench.reset_begins()
        await bench.wait(4 * WATCHDOG)
        bench.stall(False)
        await bench.reset_ends()
        bench.fill(bench.words_of(VICTIM)[0] & -PAGE_BYTES, bytes(PAGE_BYTES))
        await bench.command(VICTIM, Command.START)
        await bench.wait(300)
        await bench.restart_queue(f"AW and W stalled after {wait} cycles")
    await bench.end()


@cocotb.test()
async def stalled_data(dut):
    """W stalls in the middle of a burst, whose remaining beats leave with strobes off if possible."""
    bench = await _prepared(dut, "stalled data")
    for taken in range(BEATS):
        before = bench.stored
        await bench.post(VICTIM, _copy(bench))
        while bench.stored - before < taken * bench.config.beat_bytes:
            await RisingEdge(dut.clk)
        bench.memory.writes.w_channel.pause = True
        await bench.wait(60)
        await bench.reset_begins()
        await bench.wait(4 * WATCHDOG)
        bench.memory.writes.w_channel.pause = False
        await bench.reset_ends()
        await bench.wait(300)
        await bench.restart_queue(f"W stalled after {taken} beats")
    await bench.end()
