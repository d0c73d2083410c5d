# SPDX-License-Identifier: Apache-2.0
"""Small tori of accelerators with cocotbext-axi around them: an independent memory, and AXI4 and AXI4-Lite managers.

Large shapes are simulated by the cluster in C++; here, an independent implementation defines the bus protocol.
"""

import os
import random
from dataclasses import replace
from itertools import product
from math import prod

import cocotb
import numpy as np
import pytest
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles
from cocotbext.axi import AxiBus, AxiLiteBus, AxiLiteMaster, AxiMaster, AxiRam

from dmace.drivers.ace import AceDriver, Share, root_code
from hw.ace.config import TINY
from hw.ace.model.collective import results
from hw.ace.numerics.formats import DType, Reduction, width
from hw.ace.words import Collective, CommandWord
from hw.common.words import CompletionWord
from sim.ace.torus import CheckedTorus

pytestmark = [pytest.mark.rtl, pytest.mark.long]

SMALL = replace(TINY, chunk_bytes=1024, message_bytes=256, packet_bytes=128, link_beats=32, slots=4)
SHAPES = {"2": (2,), "3": (3,), "2x2": (2, 2)}
SRC, DST, SC = 0x1_0000, 0x2_0000, 0x1000
ROUNDS = 8
LIMIT = 60_000


class _Rank:
    """One endpoint's memory, registers and doorbells."""

    def __init__(self, dut, number, stalls, rng):
        def bus(kind, name):
            return kind.from_prefix(dut, f"{name}__{number}", bus_separator="__")

        self.memory = AxiRam(bus(AxiBus, "m_axi"), dut.clk, dut.rst, size=1 << 18)
        self.registers = AxiLiteMaster(bus(AxiLiteBus, "s_axil"), dut.clk, dut.rst)
        self.doorbells = AxiMaster(bus(AxiBus, "s_axi_db"), dut.clk, dut.rst)
        self.driver = AceDriver(self, SMALL)
        if stalls:
            read, write = self.memory.read_if, self.memory.write_if
            for channel in (read.ar_channel, read.r_channel, write.aw_channel, write.w_channel, write.b_channel):
                channel.set_pause_generator(iter(lambda: rng.random() < 0.4, None))

    async def read(self, offset):
        return await self.registers.read_dword(offset)

    async def write(self, offset, value):
        await self.registers.write_dword(offset, value)

    async def store(self, address, data):
        await self.doorbells.write(address, data)

    def word(self):
        return CompletionWord.unpack(int.from_bytes(self.memory.read(SC, 8), "little"))

    async def set_up(self, shape, coordinates):
        driver = self.driver
        await driver.check_identity()
        await driver.define_region(1, base=SRC, length=0x1_0000)
        await driver.define_region(2, base=DST, length=0x1_0000)
        await driver.define_communicator(0, shape=shape, coordinates=coordinates,
                                         share=Share(0, SMALL.fsms, 0, SMALL.slots))
        await driver.configure_queue(0, sc=SC)


@cocotb.test()
async def collectives(dut):
    """Random collectives one after the other, and every rank's memory after each."""
    shape, stalls = SHAPES[os.environ["SHAPE"]], os.environ["STALLS"] == "1"
    seed = int(os.environ["SEED"])
    rng, random_bits = random.Random(seed), np.random.default_rng(seed)
    dut.rst.value = 1
    cocotb.start_soon(Clock(dut.clk, 4, "ns").start())
    ranks = [_Rank(dut, number, stalls, rng) for number in range(prod(shape))]
    await ClockCycles(dut.clk, 5)
    dut.rst.value = 0
    await ClockCycles(dut.clk, 2)
    places = list(product(*map(range, shape)))
    for task in [cocotb.start_soon(rank.set_up(shape, place)) for rank, place in zip(ranks, places, strict=True)]:
        await task
    for number in range(ROUNDS):
        collective, dtype = list(Collective)[number % len(Collective)], rng.choice(list(DType))
        op, count = rng.choice((Reduction.SUM, Reduction.MIN, Reduction.MAX)), rng.choice((0, 1, 33, 300))
        size, root = width(dtype) // 8, rng.choice(places)
        info = collective.info
        sends, gets = info.sent(count, len(ranks)), info.received(count, len(ranks))
        kind = np.dtype(f"u{size}")
        inputs = [random_bits.integers(0, 1 << 8 * size, sends, dtype=np.uint64).astype(kind) for _ in ranks]
        src, dst = rng.randrange(40), rng.randrange(40)
        old = random_bits.integers(0, 256, gets * size + 512, dtype=np.uint8)
        command = CommandWord(collective, 1, 0, dtype, op, 0, root_code(shape, root) if info.rooted else 0,
                              1, src, 2, dst, count)
        for rank, data in zip(ranks, inputs, strict=True):
            rank.memory.write(SRC + src * size, data.tobytes())
            rank.memory.write(DST, old.tobytes())
        for rank in rng.sample(ranks, len(ranks)):
            await rank.driver.post(0, command)
        for _ in range(LIMIT // 100):
            if all(rank.word().count > number for rank in ranks):
                break
            await ClockCycles(dut.clk, 100)
        what = f"{collective.name} of {count} {dtype.name}"
        assert [rank.word() for rank in ranks] == [(number + 1, 0, 0)] * len(ranks), what
        expected = results(collective, shape, inputs, dtype=dtype, count=count, op=op, root=root)
        for rank, made in zip(ranks, expected, strict=True):
            after = old.copy()
            if made is not None and count:
                after[dst * size:(dst + gets) * size] = np.frombuffer(made.tobytes(), np.uint8)
            assert rank.memory.read(DST, len(old)) == after.tobytes(), what


@pytest.mark.parametrize("shape, stalls", [
    ("2", "1"), pytest.param("3", "0", marks=pytest.mark.soak), pytest.param("2x2", "1", marks=pytest.mark.soak)])
def test_torus(simulate, shape, stalls, monkeypatch, seed):
    monkeypatch.setenv("SHAPE", shape)
    monkeypatch.setenv("STALLS", stalls)
    monkeypatch.setenv("SEED", str(seed))
    simulate(CheckedTorus(SMALL, SHAPES[shape]), testcase="collectives")
