# SPDX-License-Identifier: Apache-2.0
"""Fill against bytes in memory: random moves with stalls everywhere, errors, and the rate of short and long ones."""

import random

import cocotb
import numpy as np
import pytest

from hw.ace.fill import Fill
from hw.ace.model.numerics import numpy_type
from hw.ace.numerics.formats import FLOATS
from tests.ace.movers import (
    BASE_ADDRESS,
    FILL_ALONE,
    WIDENED,
    CheckedMover,
    Move,
    MoverBench,
    config_named,
    parameters,
)
from tests.ace.streams import Source, run

pytestmark = pytest.mark.rtl


@pytest.mark.parametrize("stalls", [pytest.param("none", marks=pytest.mark.long), "mixed"])
@pytest.mark.parametrize("config", [
    "tiny", *(pytest.param(name, marks=pytest.mark.long) for name in ("ecp5", "base", *FILL_ALONE))])
def test_fill(simulate, config, stalls):
    # With stalls, so few reads that sometimes no entry is free.
    fill = Fill(config_named(config), **({} if stalls == "none" else {"reads": 40}))
    simulate(CheckedMover(fill), name=f"fill_{config}", env=parameters(stalls=stalls))


class _Sram:
    """Accepts writes with random stalls; each must be the next expected one."""

    def __init__(self, bench, expected, stalls):
        self.dut, self.expected, self.stalls = bench.dut, expected, stalls
        self.rng = random.Random(f"sram {bench.seed}")
        self.index, self.rate = 0, 1.0
        self.ready, self.waiting = False, None
        self.first = self.last = None

    def drive(self):
        if self.stalls and self.rng.random() < 0.02:
            self.rate = self.rng.choice((0.1, 0.6, 1.0))
        self.ready = self.rng.random() < self.rate
        self.dut.write__ready.value = int(self.ready)

    def sample(self, cycle):
        if not self.dut.write__valid.value:
            assert self.waiting is None
            return
        seen = int(self.dut.write__address.value), int(self.dut.write__data.value)
        assert self.waiting in (None, seen)
        self.waiting = None if self.ready else seen
        if self.ready:
            address, data, mask, chunk = self.expected[self.index]
            assert seen[0] == address and seen[1] & mask == data, (chunk, self.index, hex(seen[1]), hex(data))
            self.index += 1
            self.first, self.last = self.first or cycle, cycle


class _Done:
    """Completed chunks, and the number of writes before each."""

    def __init__(self, bench, sram, expected, writes):
        self.bench, self.sram, self.expected, self.writes = bench, sram, expected, writes
        self.seen = 0

    def drive(self):
        pass

    def sample(self, cycle):
        dut = self.bench.dut
        assert dut.m_axi__rready.value
        self.bench.counted += int(dut.counts__read_bytes.value)
        if dut.done__valid.value:
            assert int(dut.done__payload.value) == self.expected[self.seen], self.seen
            # A write of the next chunk may be in the same cycle.
            assert self.sram.index >= self.writes[self.seen]
            self.seen += 1


def as_fp32(values, layout):
    """FP32 of smaller floats; NaNs keep sign and fraction, which ml_dtypes does not preserve."""
    bits = values.view(f"u{layout.width // 8}").astype(np.uint32)
    sign, fraction = bits >> (layout.width - 1), bits & (1 << layout.fraction_width) - 1
    nan = sign << 31 | 0x7F80_0000 | fraction << (23 - layout.fraction_width)
    return np.where(np.isnan(values), nan, values.astype(np.float32).view(np.uint32)).astype(np.uint32)


async def fill(bench, moves):
    """Send moves and check that they are written; returns the cycles from the first write to the last."""
    dut, beat_bytes, expected, writes = bench.dut, bench.config.beat_bytes, [], []
    for move in moves:
        data = bench.contents[bench.place(move)]
        if move.widen:
            data = as_fp32(np.frombuffer(data, numpy_type(move.dtype)), FLOATS[move.dtype]).tobytes()
        for beat, at in enumerate(range(0, len(data), beat_bytes)):
            lanes = data[at:at + beat_bytes]
            mask = 0 if bench.fails(move) else (1 << 8 * len(lanes)) - 1
            expected.append((move.sram + beat, int.from_bytes(lanes, "little") & mask, mask, move))
        if move.last:
            writes.append(len(expected))
    source = Source(dut, "i", items=bench.words(moves), stalls=bench.stalls, seed=bench.seed)
    sram = _Sram(bench, expected, bench.stalls != "none")
    done = _Done(bench, sram, bench.ended(moves), writes)
    await bench.start()
    await run(dut, [source, sram, done], until=lambda: done.seen == len(writes))
    await run(dut, [source, sram, done], until=lambda: True)
    assert sram.index == len(expected)
    assert bench.counted == sum(move.bytes for move in moves)
    return sram.last - sram.first + 1


@cocotb.test()
async def moves(dut):
    bench = MoverBench(dut)
    await fill(bench, bench.chunks(40))


@cocotb.test()
async def widened(dut):
    bench = MoverBench(dut)
    await fill(bench, bench.chunks(40, kinds=WIDENED))


@cocotb.test()
async def errors(dut):
    bench = MoverBench(dut)
    bench.fail(0, 7, read="SLVERR")
    bench.fail(3, read="DECERR")
    await fill(bench, bench.chunks(20))


@cocotb.test()
async def chunks_without_bytes(dut):
    bench = MoverBench(dut)
    await fill(bench, bench.chunks(20, lengths=[0, 0, 0, 1]))


@cocotb.test()
async def full_rate(dut):
    """A memory with a latency of 450 cycles delivers a beat in each cycle."""
    if (bench := MoverBench(dut, latency=450)).stalls == "none":
        moves = bench.chunks(8, lengths=[1024, 2048, 4096])
        beats = bench.beats(moves)
        assert await fill(bench, moves) <= 1.02 * beats


@cocotb.test()
async def full_rate_widened(dut):
    """The SRAM is written in every cycle."""
    if (bench := MoverBench(dut)).stalls == "none":
        moves = bench.chunks(8, lengths=[512, 1024], kinds=WIDENED[1:])
        assert await fill(bench, moves) <= 1.02 * sum(
            -(-(move.bytes << move.growth) // bench.config.beat_bytes) for move in moves)


async def _short(dut, lane, cycles):
    """Consecutive moves of a beat each."""
    if (bench := MoverBench(dut)).stalls == "none":
        size = bench.config.beat_bytes
        moves = [Move(BASE_ADDRESS + number * size + lane, size, number, 0, 1) for number in range(200)]
        cycles, more = (max(cycles, 2), 12) if bench.config.timing.registered_read_credits else (cycles, 5)
        assert await fill(bench, moves) <= cycles * len(moves) + more


@cocotb.test()
async def short_moves(dut):
    await _short(dut, 0, 1)


@cocotb.test()
async def short_moves_across_beats(dut):
    await _short(dut, 3, 2)
