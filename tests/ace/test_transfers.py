# SPDX-License-Identifier: Apache-2.0
"""Moves of a chunk's pieces, according to the documentation of programs and jobs."""

import random
from dataclasses import replace

import pytest
from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from hw.ace.config import TINY
from hw.ace.extents import ExtentLayout
from hw.ace.layouts import move_layout
from hw.ace.programs.store import Programs
from hw.ace.transfers import TransferJobs, Transfers
from hw.ace.words import PROGRAM_WIDTH, TransferWord
from tests.ace.timing import each_alone, ecp5
from tests.harness.cell import run_cell
from tests.stream.bench import exercise

WORDS = 64
_PLAIN = replace(TINY, varying=False)
CONFIGS = {"tiny": TINY, "ecp5": ecp5(_PLAIN),
           **each_alone(_PLAIN, "registered_move_address", "registered_move_limit")}


class _Bench(wiring.Component):
    """Transfers with its own memory of programs, and with extents."""

    def __init__(self, config, words, extents=()):
        self.config, self.words, self.extents = config, words, extents
        super().__init__({
            "i": In(TransferJobs(config)), "o": Out(stream.Signature(move_layout(config)))})

    def elaborate(self, platform):
        m = Module()
        m.submodules.programs = programs = Programs(self.config, clients=1)
        m.submodules.transfers = transfers = Transfers(self.config)
        connect(m, transfers.program, programs.reads[0])
        connect(m, flipped(self.i), transfers.i)
        connect(m, transfers.o, flipped(self.o))
        if self.config.varying:
            rows = Array(ExtentLayout.const({"count": count, "displacement": displacement})
                         for count, displacement in self.extents or [(0, 0)])
            hold = Signal()     # another reader has priority, in random cycles
            m.d.sync += [hold.eq(transfers.extents.valid & ~hold),
                         transfers.extents.extent.eq(rows[transfers.extents.row])]
            m.d.comb += transfers.extents.ready.eq(~hold)
        # Written before the first job arrives.
        count = Signal(range(len(self.words) + 1))
        table = Array(Const(word, PROGRAM_WIDTH) for word in self.words)
        with m.If(count != len(self.words)):
            m.d.comb += [programs.write.valid.eq(1), programs.write.address.eq(count),
                         programs.write.word.eq(table[count]), transfers.i.valid.eq(0), self.i.ready.eq(0)]
            m.d.sync += count.eq(count + 1)
        return m


def _moves(job, words, extents):
    """``(address, bytes, sram)`` of each piece, and whether it is the last."""
    runs = [TransferWord.unpack(word) for word in words[job["list"]:job["list"] + job["runs"]]]
    pieces = [(run.position + index, run.shard + index) for run in runs for index in range(run.count)]
    if not pieces:
        return [(None, 0, None, 1)]
    moves = []
    for number, (position, shard) in enumerate(pieces):
        if job["varying"]:
            count, displacement = (one << job["size"] for one in extents[job["row"] + shard])
            offset, left = displacement + job["column"], count - job["column"]
        else:
            offset = shard * job["shard_bytes"] + job["column"]
            left = job["limit"] - offset
        count = min(max(left, 0), job["piece_bytes"])
        moves.append((job["base"] + offset, count, job["slot"] * TINY.chunk_beats + position * job["piece_beats"],
                      int(number == len(pieces) - 1)))
    return moves


@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize("stalls", [(0.0, 0.0), (0.4, 0.6)])
def test_moves(config, stalls):
    rng, config = random.Random(f"transfers {stalls}"), CONFIGS[config]
    words = [TransferWord(rng.randrange(4), rng.choice((0, 0, rng.randrange(TINY.extent_rows - 8))),
                          rng.randint(1, 8)).pack() for _ in range(WORDS)]
    near = 3000     # many parts have about this number of elements
    extents = [(rng.choice((0, near - 1, near, near + 1, rng.randrange(1 << 14))), rng.getrandbits(28))
               for _ in range(TINY.extent_rows)]
    jobs = []
    for _ in range(40):
        shard = rng.randint(1, 40_000)
        column, piece = rng.randrange(shard), rng.randint(1, 256)
        # Some end within a byte of a whole piece.
        ends = rng.randrange(8) * shard + column + piece + rng.choice((-1, 0, 1))
        jobs.append({
            "list": rng.randrange(WORDS - 4), "runs": rng.randrange(4), "base": rng.getrandbits(48),
            "shard_bytes": shard, "column": column, "limit": rng.choice((1 << 36, rng.randint(1, 70 * shard), ends)),
            "piece_bytes": piece, "piece_beats": 32, "slot": rng.randrange(TINY.slots),
            "dtype": rng.choice((0, 1, 2, 8, 9)), "widen": rng.randrange(2), "divide": rng.randrange(128),
            "varying": rng.randrange(2) & config.varying, "row": 0, "size": rng.randrange(3),
        })
        if jobs[-1]["varying"]:
            jobs[-1]["column"] = (near << jobs[-1]["size"]) - piece + rng.choice((-4, -1, 0, 1, 4))
    expected = [(job, move) for job in jobs for move in _moves(job, words, extents)]
    dut = _Bench(config, words, extents)
    _, got = exercise(dut, [(dut.i, jobs)], [dut.o], expect=len(expected), stalls=stalls)
    for (_, move), (job, (address, count, sram, last)) in zip(got, expected, strict=True):
        assert (move["bytes"], move["last"], move["slot"]) == (count, last, job["slot"])
        if address is not None:
            assert (move["address"], move["sram"]) == (address, sram)
            assert [move[name] for name in ("dtype", "widen", "divide")] == [
                job[name] for name in ("dtype", "widen", "divide")]


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_rate(config):
    """Within a run, a move each cycle."""
    words = [TransferWord(0, 0, 64).pack()]
    job = {"list": 0, "runs": 1, "base": 4096, "shard_bytes": 64, "column": 0, "limit": 1 << 20, "piece_bytes": 64,
           "piece_beats": 8, "slot": 1, "dtype": 0, "widen": 0, "divide": 0, "varying": 0, "row": 0, "size": 0}
    dut = _Bench(config, words)
    _, got = exercise(dut, [(dut.i, [job])], [dut.o], expect=64)
    cycles = [cycle for cycle, _ in got]
    assert cycles[-1] - cycles[0] == 63


@pytest.mark.parametrize(("runs", "varying"), [
    (0, 0), (3, 1), *(pytest.param(*job, marks=pytest.mark.long) for job in ((0, 1), (3, 0)))])
def test_stop(varying, runs):
    """A stop at any moment of a job leaves at most one move of it, the last one, which has no bytes. The next job is
    executed in full."""
    words = [TransferWord(position, shard, 3).pack() for position, shard in ((0, 2), (4, 0), (8, 5))]
    extents = [(1000, 5000 * row) for row in range(TINY.extent_rows)]
    job = {"list": 0, "runs": runs, "base": 4096, "shard_bytes": 600, "column": 64, "limit": 1 << 20,
           "piece_bytes": 64, "piece_beats": 8, "slot": 1, "dtype": 0, "widen": 0, "divide": 0, "varying": varying,
           "row": 0, "size": 0}
    whole = [(move[1], move[3]) for move in _moves(job, words, extents)]
    seen = set()
    for moment in range(70):
        rng = random.Random(moment)
        dut, got = _Bench(TINY, words, extents), []

        async def live(ctx, dut=dut, got=got, moment=moment, rng=rng):
            jobs, cycle = 0, 0
            ctx.set(dut.i.payload, job)
            for _ in range(300):
                # While the address generator has the first job.
                ctx.set(dut.i.stop, cycle > moment and jobs == 1)
                ctx.set(dut.i.valid, jobs < 2)
                ctx.set(dut.o.ready, rng.random() < 0.7)
                if ctx.get(dut.o.valid) and ctx.get(dut.o.ready):
                    move = ctx.get(dut.o.payload)
                    got.append((move.bytes, move.last, move.slot))
                taken = ctx.get(dut.i.ready) and jobs < 2
                await ctx.tick()
                cycle, jobs = cycle + (jobs > 0), jobs + taken

        run_cell(dut, live)
        moves = [(size, last) for size, last, _ in got]
        cut = moves.index(next(move for move in moves if move[1])) + 1
        first, second = moves[:cut], moves[cut:]
        assert second == whole and {slot for _, _, slot in got} == {1}
        assert first == whole or first == [*whole[:cut - 1], (0, 1)]
        seen.add(cut)
    assert seen >= (set(range(1, 9)) if runs else {1})
