# SPDX-License-Identifier: Apache-2.0
"""Drain against bytes in memory: random moves and completion words, stalls everywhere, errors, and the rate."""

import random
from collections import deque
from dataclasses import replace

import cocotb
import numpy as np
import pytest

from hw.ace.drain import Drain, reads_in_flight
from hw.ace.model.numerics import combine
from hw.ace.numerics.divide import Divide
from hw.ace.numerics.formats import DType, Op, width
from hw.ace.numerics.narrow_beats import NarrowBeats
from hw.ace.operations import word_layout
from hw.ace.timing import AceTimingOptions
from sim.memory import PAGE_BYTES
from tests.ace.movers import (
    BASE_ADDRESS,
    CONFIGS,
    DIVIDED,
    DRAIN_ALONE,
    WIDENED,
    CheckedMover,
    Move,
    MoverBench,
    config_named,
    parameters,
)
from tests.ace.numerics.quotients import quotients
from tests.ace.streams import Source, bits, run

pytestmark = pytest.mark.rtl

WORDS = 0x9_8765_4000


@pytest.mark.parametrize("stalls", [pytest.param("none", marks=pytest.mark.long), "mixed"])
@pytest.mark.parametrize("config", [
    "tiny", *(pytest.param(name, marks=pytest.mark.long) for name in ("ecp5", "base", *DRAIN_ALONE))])
def test_drain(simulate, config, stalls):
    simulate(CheckedMover(Drain(config_named(config))), name=f"drain_{config}", env=parameters(stalls=stalls))


@pytest.mark.parametrize("credits", [False, True])
@pytest.mark.parametrize("output_register", [False, True])
@pytest.mark.parametrize("avg", [False, True])
def test_credits_cover_the_round_trip(avg, output_register, credits):
    """There is a credit for each beat in flight at full rate, and the queue still fits LUT RAM."""
    timing = AceTimingOptions(sram_output_register=output_register, sram_word_register=output_register,
                              registered_drain_credits=credits)
    config = replace(CONFIGS["tiny"], avg=avg, timing=timing)
    pipeline = 1 + 2 * output_register + (Divide.LATENCY if avg else 0) + NarrowBeats.LATENCY
    # In addition, the queue behind it, and one or two cycles until the credit returns.
    assert pipeline + 2 + credits <= reads_in_flight(config) == (32 if avg else 16)


class _Sram:
    """Responds to reads with random stalls; each must be the next expected one. Data is valid for one cycle."""

    def __init__(self, bench, beats, stalls):
        self.dut, self.beats, self.stalls = bench.dut, iter(beats), stalls
        self.rng, self.width = random.Random(f"sram {bench.seed}"), bench.config.data_width
        self.ready, self.waiting, self.first = False, None, None
        self.coming = deque([None] * bench.config.sram_latency)

    def drive(self):
        self.ready = not self.stalls or self.rng.random() < 0.7
        self.dut.read__ready.value = int(self.ready)
        data = self.coming[0]
        self.dut.read__data.value = self.rng.getrandbits(self.width) if data is None else data

    def sample(self, cycle):
        address = int(self.dut.read__address.value) if self.dut.read__valid.value else None
        assert self.waiting in (None, address)
        self.waiting = None if self.ready else address
        data = None
        if self.ready and address is not None:
            expected, data = next(self.beats)
            assert address == expected
            self.first = cycle if self.first is None else self.first
        self.coming.append(data)
        self.coming.popleft()


class _Ends:
    """Chunks and words that have completed, whose bytes must all be in memory, and the cycles of W."""

    def __init__(self, bench, chunks, words, faulty):
        self.bench, self.chunks, self.words, self.faulty = bench, deque(chunks), deque(words), faulty
        self.beats = self.first = self.last = 0

    def drive(self):
        pass

    def sample(self, cycle):
        bench, dut = self.bench, self.bench.dut
        bench.counted += int(dut.counts__write_bytes.value)
        if dut.done__valid.value:
            ended, moves = self.chunks.popleft()
            assert int(dut.done__payload.value) == ended, moves
            for move in moves:
                if not bench.fails(move):
                    assert bench.memory.read(move.address, move.bytes) == bench.contents[bench.place(move)], move
        if dut.words__done.value:
            address, data = self.words.popleft()
            assert int(dut.words__queue.value) == data % bench.config.queues
            assert bool(dut.words__failed.value) == (address // PAGE_BYTES in self.faulty)
            if address // PAGE_BYTES not in self.faulty:
                assert bench.memory.read(address, 8) == data.to_bytes(8, "little")
        if dut.m_axi__wvalid.value and dut.m_axi__wready.value:
            self.first, self.last = self.first or cycle, cycle
            self.beats += 1


def converted(move, content):
    """Bytes that memory receives for the SRAM's bytes."""
    if move.divide:
        dtype = DType.FP32 if move.widen else move.dtype
        values = np.frombuffer(content, f"u{width(dtype) // 8}")
        content = quotients(dtype, values, np.full(len(values), move.divide)).tobytes()
    if move.widen:
        values = np.frombuffer(content, np.uint32)
        content = combine(Op.MAX, values, values, a_type=DType.FP32, o_type=move.dtype).tobytes()
    return content


async def drain(bench, moves, words=(), *, faulty=()):
    """Send moves and words, and check that they arrive and nothing else does; returns the cycles of W.

    ``faulty``: pages in which words cannot be written.
    """
    dut, rng, beat_bytes = bench.dut, bench.rng, bench.config.beat_bytes
    beats, chunk, chunks = [], [], []
    guard = bytes([0xAA]) * len(bench.contents)
    bench.memory.write(BASE_ADDRESS, guard)
    bench.contents = bytearray(guard)
    ended = iter(bench.ended(moves))
    for move in moves:
        content = rng.randbytes(move.bytes << move.growth)
        bench.contents[bench.place(move)] = converted(move, content)
        for beat, at in enumerate(range(0, len(content), beat_bytes)):
            beats.append((move.sram + beat, int.from_bytes(content[at:at + beat_bytes], "little")))
        chunk.append(move)
        if move.last:
            chunks.append((next(ended), chunk))
            chunk = []
    sources = [
        Source(dut, "i", items=bench.words(moves), stalls=bench.stalls, seed=bench.seed),
        Source(dut, "words", items=[
            bits(word_layout(bench.config), {"address": address, "data": word, "queue": word % bench.config.queues})
            for address, word in words], stalls=bench.stalls, seed=bench.seed),
    ]
    ends = _Ends(bench, chunks, words, faulty)
    for page in faulty:
        bench.memory.fail_page(page * PAGE_BYTES, write="SLVERR")
    sram = _Sram(bench, beats, bench.stalls != "none")
    actors = [*sources, sram, ends]
    await bench.start()
    await run(dut, actors, until=lambda: not ends.chunks and not ends.words)
    await run(dut, actors, until=lambda: True)
    assert bench.counted == sum(move.bytes for move in moves)
    for page in range(len(bench.contents) // PAGE_BYTES):
        if page not in bench.faulty:
            at = page * PAGE_BYTES
            assert bench.memory.read(BASE_ADDRESS + at, PAGE_BYTES) == bench.contents[at:at + PAGE_BYTES], page
    ends.behind = ends.first - sram.first
    return ends


def completion_words(bench, count):
    return [(WORDS + PAGE_BYTES * (number % 2) + 8 * number, bench.rng.getrandbits(64)) for number in range(count)]


@cocotb.test()
async def moves(dut):
    bench = MoverBench(dut)
    await drain(bench, bench.chunks(40), completion_words(bench, 60))


@cocotb.test()
async def narrowed(dut):
    bench = MoverBench(dut)
    await drain(bench, bench.chunks(40, kinds=WIDENED))


@cocotb.test()
async def divided(dut):
    bench = MoverBench(dut)
    await drain(bench, bench.chunks(40, kinds=DIVIDED))


@cocotb.test()
async def latency(dut):
    """Only what is divided passes the divider: 6 cycles from a read to its W, or 26."""
    for move, cycles in ((Move(BASE_ADDRESS, 16, 0, 0, 1), 6), (
            Move(BASE_ADDRESS, 16, 0, 0, 1, dtype=DType.FP32, divide=3), 6 + Divide.LATENCY)):
        if (bench := MoverBench(dut)).stalls == "none":
            found = await drain(bench, [move])
            slow = bench.config.sram_latency - 1
            assert found.behind == (cycles if bench.config.avg else 6) + slow


@cocotb.test()
async def errors(dut):
    bench = MoverBench(dut)
    bench.fail(0, 7, write="SLVERR")
    bench.fail(3, write="DECERR")
    await drain(bench, bench.chunks(20), completion_words(bench, 20), faulty=[WORDS // PAGE_BYTES])


@cocotb.test()
async def chunks_without_bytes(dut):
    bench = MoverBench(dut)
    await drain(bench, bench.chunks(20, lengths=[0, 0, 0, 1]), completion_words(bench, 5))


@cocotb.test()
async def full_rate(dut):
    """Responses after 450 cycles do not reduce the rate."""
    if (bench := MoverBench(dut, latency=450)).stalls == "none":
        moves = bench.chunks(8, lengths=[1024, 2048, 4096])
        beats = bench.beats(moves)
        ends = await drain(bench, moves)
        assert ends.beats == beats
        assert ends.last - ends.first + 1 <= 1.02 * beats


@cocotb.test()
async def full_rate_narrowed(dut):
    """The SRAM is read in every cycle."""
    if (bench := MoverBench(dut)).stalls == "none":
        moves = bench.chunks(8, lengths=[512, 1024], kinds=WIDENED[1:])
        ends = await drain(bench, moves)
        assert ends.last - ends.first <= 1.02 * sum(
            -(-(move.bytes << move.growth) // bench.config.beat_bytes) for move in moves)


async def _short(dut, lane, beats):
    """Consecutive moves of a beat each."""
    if (bench := MoverBench(dut, latency=450)).stalls == "none":
        size = bench.config.beat_bytes
        moves = [Move(BASE_ADDRESS + number * size + lane, size, number, 0, 1) for number in range(400)]
        ends = await drain(bench, moves)
        assert ends.last - ends.first + 1 <= beats * len(moves) + 5


@cocotb.test()
async def short_moves(dut):
    await _short(dut, 0, 1)


@cocotb.test()
async def short_moves_across_beats(dut):
    await _short(dut, 3, 2)
