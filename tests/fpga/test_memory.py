# SPDX-License-Identifier: Apache-2.0
"""The memory on the chip: cocotbext-axi on the engine's side, words of the host on the other, at the same time."""

import random

import cocotb
import pytest
from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, connect, flipped
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, RisingEdge
from cocotb.utils import get_sim_time
from cocotbext.axi import AxiBus, AxiMaster, AxiResp

from fpga.board.bus import WordSignature
from fpga.board.memory import AxiMemory
from hw.axi import AxiChecker, AxiSignature
from sim.memory import Stalls

SIGNATURE = AxiSignature(addr_width=32, data_width=64, id_width=3)
SIZE = 8192


class CheckedMemory(wiring.Component):
    def __init__(self):
        super().__init__({"bus": In(SIGNATURE), "host": In(WordSignature())})

    def elaborate(self, platform):
        m = Module()
        m.submodules.memory = memory = AxiMemory(SIGNATURE, size=SIZE)
        m.submodules.checker = checker = AxiChecker(SIGNATURE, name="bus")
        connect(m, flipped(self.bus), memory.bus)
        connect(m, flipped(self.host), memory.host)
        m.d.comb += checker.observe(memory.bus)
        return m


async def _start(dut):
    Clock(dut.clk, 10, "ns").start()
    for name in ("valid", "write", "last", "address", "write_data"):
        getattr(dut, f"host__{name}").value = 0
    dut.rst.value = 1
    master = AxiMaster(AxiBus.from_prefix(dut, "bus", bus_separator="__"), dut.clk)
    await ClockCycles(dut.clk, 4)
    dut.rst.value = 0
    await ClockCycles(dut.clk, 2)
    return master


async def _word(dut, address, data=None):
    """The host's read, or write of ``data``; None where it is refused."""
    dut.host__address.value, dut.host__write.value = address, int(data is not None)
    dut.host__write_data.value, dut.host__valid.value = data or 0, 1
    while True:
        await RisingEdge(dut.clk)
        if dut.host__done.value:
            break
    found = None if dut.host__error.value else int(dut.host__read_data.value)
    dut.host__valid.value = 0
    await RisingEdge(dut.clk)
    return found


@cocotb.test()
async def both_sides_at_once(dut):
    master, rng, half = await _start(dut), random.Random(cocotb.RANDOM_SEED), SIZE // 2
    stalls = random.Random(f"stalls {cocotb.RANDOM_SEED}")
    write, read = master.write_if, master.read_if
    Stalls(dut.clk, (write.aw_channel, write.w_channel, write.b_channel, read.ar_channel, read.r_channel), "random",
           stalls)
    memory = bytearray(SIZE)
    await master.write(0, bytes(SIZE))

    async def engine():
        for _ in range(60):
            length = rng.randrange(1, 300)
            address = rng.randrange(half - length)
            if rng.random() < 0.5:
                memory[address:address + length] = data = rng.randbytes(length)
                assert (await master.write(address, data)).resp == AxiResp.OKAY
            else:
                assert (await master.read(address, length)).data == memory[address:address + length]

    running = cocotb.start_soon(engine())
    for _ in range(150):
        address = half + 4 * rng.randrange(half // 4)
        if rng.random() < 0.5:
            data = rng.getrandbits(32)
            memory[address:address + 4] = data.to_bytes(4, "little")
            await _word(dut, address, data)
        else:
            assert await _word(dut, address) == int.from_bytes(memory[address:address + 4], "little")
    await running
    assert (await master.read(0, SIZE)).data == bytes(memory)


@cocotb.test()
async def beyond_its_end_is_an_error(dut):
    master = await _start(dut)
    await master.write(0, b"kept" * 16)
    assert (await master.write(SIZE, b"lost" * 16)).resp == AxiResp.DECERR
    assert (await master.read(SIZE + 64, 16)).resp == AxiResp.DECERR
    assert (await master.read(0, 64)).data == b"kept" * 16
    assert await _word(dut, SIZE) is None
    assert await _word(dut, 0) == int.from_bytes(b"kept", "little")


@cocotb.test()
async def a_beat_per_cycle(dut):
    master = await _start(dut)
    began = get_sim_time("ns")
    await master.read(0, 4096)
    cycles = (get_sim_time("ns") - began) / 10
    assert cycles < 4096 // 8 + 30, cycles


@pytest.mark.rtl
def test_memory(simulate):
    simulate(CheckedMemory())


@pytest.mark.parametrize("size", [2048, 5000, "4096"])
def test_size_is_checked(size):
    with pytest.raises(ValueError, match=r"^Bytes of a memory must be a power of two of at least 4096, not "):
        AxiMemory(SIGNATURE, size=size)
