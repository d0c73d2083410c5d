# SPDX-License-Identifier: Apache-2.0
"""The memory port between cocotbext-axi's managers and memory: responses reach their manager, shares follow weights."""

import os
import random
import warnings

import cocotb
import pytest
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, Combine, RisingEdge
from cocotbext.axi import AxiBus, AxiMaster, AxiRam

from hw.endpoint.config import TINY, remote_address
from hw.endpoint.memory_port import MemoryPort
from tests.endpoint.checked import CheckedMemory
from tests.harness.cell import run_cell

pytestmark = pytest.mark.rtl
# cocotbext-axi uses deprecated parts of cocotb, whose version is pinned.
warnings.filterwarnings("ignore", category=DeprecationWarning, module=r"cocotbext\.")

BEAT, PART = TINY.beat_bytes, 1 << 16


@pytest.mark.parametrize("tests", [
    ["each_gets_its_own", "writes_are_shared_by_weight", "one_alone_has_all", "a_burst_without_data_delays_no_other"],
    pytest.param(["reads_are_shared_by_weight", "puts_have_their_share"], marks=pytest.mark.long)])
def test_memory_port(simulate, tests):
    simulate(CheckedMemory(TINY), testcase=tests)


def _rng():
    return random.Random(os.environ["COCOTB_RANDOM_SEED"])


async def _start(dut, *, weights=(1, 1, 1), masters=True, ram=True):
    for name, member in (("read_weight", 2), ("write_weight", 3)):
        for number in range(member):
            getattr(dut, f"settings__{name}__{number}").value = weights[number]
    dut.settings__window.value = 0
    # Transactions of the previous test end in the first cycle of reset.
    dut.rst.value = 1
    dut.down.value = dut.cut.value = dut.exports__valid.value = 0
    for bus in ("m0", "m1"):
        for pin in ("awvalid", "wvalid", "arvalid"):
            getattr(dut, f"{bus}__{pin}").value = 0
        for pin in ("bready", "rready"):
            getattr(dut, f"{bus}__{pin}").value = 1
    dut.m_axi__rvalid.value = dut.m_axi__bvalid.value = 0
    cocotb.start_soon(Clock(dut.clk, 4, unit="ns").start())
    made = []
    if masters:
        made = [AxiMaster(AxiBus.from_prefix(dut, f"m{number}", bus_separator="__"), dut.clk, dut.rst)
                for number in range(2)]
    if ram:
        made.append(AxiRam(AxiBus.from_prefix(dut, "m_axi", bus_separator="__"), dut.clk, dut.rst, size=4 * PART))
    await ClockCycles(dut.clk, 4)
    dut.rst.value = 0
    await ClockCycles(dut.clk, 2)
    return made


def _issued_reads(unexpected):
    """Reads issued without any response, with a window of 4 beats."""
    dut, issued = MemoryPort(TINY), 0

    async def testbench(ctx):
        nonlocal issued
        ctx.set(dut.settings.window, 4)
        ctx.set(dut.bus.arready, 1)
        for _ in range(unexpected):
            ctx.set(dut.bus.rvalid, 1)
            await ctx.tick()
        ctx.set(dut.bus.rvalid, 0)
        ctx.set(dut.reads[0].valid, 1)
        for _ in range(40):
            issued += ctx.get(dut.bus.arvalid)
            await ctx.tick()

    run_cell(dut, testbench)
    return issued


def test_beats_requested_before_a_reset():
    """Such beats do not count as in flight, and do not widen the window."""
    assert _issued_reads(0) == _issued_reads(1) == _issued_reads(7) >= 4


@cocotb.test(timeout_time=400, timeout_unit="us")
async def each_gets_its_own(dut):
    """Two managers read and write at random, with stalls on all buses; all reads return the written data."""
    rng = _rng()
    *masters, ram = await _start(dut, weights=(3, 0, 2))

    def stalls(share):
        own = random.Random(rng.random())
        while True:
            yield own.random() < share

    for master in masters:
        for channel in (master.write_if.aw_channel, master.write_if.w_channel, master.write_if.b_channel,
                        master.read_if.ar_channel):
            channel.set_pause_generator(stalls(0.3))
    for channel in (ram.write_if.aw_channel, ram.write_if.w_channel, ram.write_if.b_channel, ram.read_if.ar_channel,
                    ram.read_if.r_channel):
        channel.set_pause_generator(stalls(0.3))
    model = bytearray(rng.randbytes(4 * PART))
    ram.write(0, bytes(model))

    async def work(number, master):
        own = random.Random(rng.random())
        for _ in range(25):
            length = own.choice((1, BEAT, own.randint(1, 400)))
            address = number * PART + own.randrange(PART - length)
            if own.random() < 0.5:
                found = await master.read(address, length)
                assert found.data == bytes(model[address:address + length]), f"manager {number} at {address:#x}"
            else:
                data = own.randbytes(length)
                model[address:address + length] = data
                await master.write(address, data)

    # Each manager uses its own part of memory.
    await Combine(*(cocotb.start_soon(work(number, master)) for number, master in enumerate(masters)))
    assert ram.read(0, 4 * PART) == bytes(model)


class _Saturating:
    """A manager that always requests bursts of a given length."""

    def __init__(self, dut, name, beats, channels, address=0):
        self.dut, self.name, self.beats, self.left = dut, name, beats, beats
        for channel in ("aw", "ar"):
            for pin, value in (("addr", address), ("len", beats - 1), ("size", (BEAT - 1).bit_length()), ("burst", 1),
                               ("id", 0), ("cache", 0), ("prot", 0), ("qos", 0)):
                self._pin(f"{channel}{pin}").value = value
        self._pin("wstrb").value = (1 << BEAT) - 1
        self._pin("wlast").value = beats == 1
        for channel in channels:
            self._pin(f"{channel}valid").value = 1

    def _pin(self, name):
        return getattr(self.dut, f"{self.name}__{name}")

    def step(self):
        if self._pin("wvalid").value and self._pin("wready").value:
            self.left = self.left - 1 or self.beats
            self._pin("wlast").value = self.left == 1


async def export(dut, number, *, base, length, ports, valid=1):
    """Write an entry of the table of exported spans."""
    dut.exports__span.value, dut.exports__open.value = number, valid
    dut.exports__entry.value = base >> 12 | length << 52 | ports << 85
    dut.exports__valid.value = 1
    await RisingEdge(dut.clk)
    dut.exports__valid.value = 0


async def _shares(dut, weights, lengths, channels, latency=30, address=0, span=None):
    """Beats of each manager in 3,000 cycles, with a memory that moves a beat per cycle."""
    await _start(dut, weights=weights, masters=False, ram=False)
    if span:
        await export(dut, **span)
    managers = [_Saturating(dut, f"m{number}", beats, channels, 0 if number else address)
                for number, beats in enumerate(lengths)]
    axi = {pin: getattr(dut, f"m_axi__{pin}") for pin in (
        "arvalid", "arid", "arlen", "rvalid", "rid", "rlast", "wvalid", "wlast", "awvalid", "awid", "bvalid", "bid")}
    for pin in ("arready", "awready", "wready"):
        getattr(dut, f"m_axi__{pin}").value = 1
    axi["rvalid"].value = axi["bvalid"].value = 0
    got, cycle, reads, addresses, responses = [0] * 3, 0, [], [], []
    data_beats = busy = 0
    while cycle < 3000:
        await RisingEdge(dut.clk)
        cycle += 1
        for manager in managers:
            manager.step()
        if axi["arvalid"].value:
            reads.append([cycle + latency, int(axi["arid"].value), int(axi["arlen"].value) + 1])
        if axi["awvalid"].value:
            addresses.append(int(axi["awid"].value))
        if axi["wvalid"].value:
            data_beats += 1
            busy += 1
            if axi["wlast"].value:
                owner = addresses.pop(0)
                got[owner >> TINY.source_id_width] += data_beats
                responses.append(owner)
                data_beats = 0
        # The memory: whole bursts in the order of their addresses.
        if reads and reads[0][0] <= cycle:
            beat = reads[0]
            beat[2] -= 1
            axi["rvalid"].value, axi["rid"].value, axi["rlast"].value = 1, beat[1], beat[2] == 0
            got[beat[1] >> TINY.source_id_width] += 1
            busy += 1
            if not beat[2]:
                reads.pop(0)
        else:
            axi["rvalid"].value = 0
        axi["bvalid"].value = bool(responses)
        if responses:
            axi["bid"].value = responses.pop(0)
    return got, busy / cycle


@cocotb.test(timeout_time=400, timeout_unit="us")
@cocotb.parametrize(weights=[(1, 1, 0), (3, 1, 0), (1, 15, 0)], lengths=[(32, 32), (8, 32), (1, 1)])
async def reads_are_shared_by_weight(dut, weights, lengths):
    got, busy = await _shares(dut, weights, lengths, ("ar",))
    share = weights[0] / (weights[0] + weights[1])
    assert abs(got[0] / sum(got) - share) < 0.04, got
    assert busy > 0.96, busy


@cocotb.test(timeout_time=400, timeout_unit="us")
@cocotb.parametrize(weights=[(1, 1, 1), (3, 1, 2)], lengths=[(32, 32), (8, 32), (1, 1)])
async def writes_are_shared_by_weight(dut, weights, lengths):
    got, busy = await _shares(dut, weights, lengths, ("aw", "w"))
    assert abs(got[0] / sum(got) - weights[0] / (weights[0] + weights[1])) < 0.04, got
    assert busy > 0.98, busy


@cocotb.test(timeout_time=400, timeout_unit="us")
@cocotb.parametrize(weights=[(1, 1, 1), (1, 3, 1)])
async def puts_have_their_share(dut, weights):
    """Manager 0 writes to its neighbour, over a link back to the same memory."""
    span = {"number": 1, "base": 0, "length": 4096, "ports": 2}
    got, busy = await _shares(dut, weights, (32, 32), ("aw", "w"), address=remote_address(0, 1), span=span)
    assert got[0] == 0 and abs(got[2] / sum(got) - weights[2] / (weights[1] + weights[2])) < 0.05, got
    assert busy > 0.98, busy


@cocotb.test(timeout_time=400, timeout_unit="us")
async def one_alone_has_all(dut):
    got, busy = await _shares(dut, (1, 15, 1), (1,), ("aw", "w"))
    assert got[1:] == [0, 0] and busy > 0.99, (got, busy)


@cocotb.test(timeout_time=400, timeout_unit="us")
async def a_burst_without_data_delays_no_other(dut):
    """An address without data is not granted."""
    masters = await _start(dut)
    masters[0].write_if.w_channel.pause = True
    waiting = cocotb.start_soon(masters[0].write(0, bytes(64)))
    for _ in range(5):
        await masters[1].write(PART, bytes(64))
    assert not waiting.done()
    masters[0].write_if.w_channel.pause = False
    await waiting
