# SPDX-License-Identifier: Apache-2.0
"""Random beats through all lanes, reduced and copied in any order, against the golden model."""

import os
from dataclasses import replace

import cocotb
import numpy as np
import pytest

from hw.ace.config import TINY
from hw.ace.layouts import arithmetic_layout
from hw.ace.model.numerics import combine_words
from hw.ace.numerics.alu_array import AluArray
from hw.ace.numerics.formats import DType, Op
from tests.ace.numerics.operands import random_pairs, words
from tests.ace.streams import bits, reset, run

pytestmark = pytest.mark.rtl

BEATS = 3000
CONFIGS = {"whole": TINY, "halves": replace(TINY, lanes=1), "quarters": replace(TINY, data_width=128, lanes=1)}


@pytest.mark.parametrize("config", [
    "whole", *(pytest.param(name, marks=pytest.mark.long) for name in CONFIGS if name != "whole")])
def test_alu_array(simulate, config):
    simulate(AluArray(CONFIGS[config], 16), env={"CONFIG": config})


def test_figures():
    arrays = [AluArray(config, 1) for config in CONFIGS.values()]
    assert [(array.slices, array.latency) for array in arrays] == [(1, 8), (2, 9), (4, 11)]


def _beats(rng, count):
    """``(reduce, dtype, op, a, b, result)`` of random beats, the last three as words."""
    kinds = [(dtype, op) for dtype in DType for op in Op]
    chosen, reduce = rng.integers(0, len(kinds), BEATS), rng.random(BEATS) < 0.5
    a, b = (rng.integers(0, 1 << 32, (BEATS, count), dtype=np.uint32) for _ in range(2))
    result = b.copy()
    for number, (dtype, op) in enumerate(kinds):
        at = np.flatnonzero((chosen == number) & reduce)
        pairs = [words(side)[:len(at) * count].reshape(-1, count) for side in random_pairs(rng, dtype, BEATS * count)]
        a[at], b[at] = pairs[0], pairs[1]
        result[at] = combine_words(op, a[at].ravel(), b[at].ravel(), a_type=dtype).reshape(-1, count)
    return [(bool(reduce[n]), *kinds[chosen[n]], a[n], b[n], result[n]) for n in range(BEATS)]


def _number(beat):
    return int.from_bytes(beat.astype("<u4").tobytes(), "little")


class _Beats:
    """Consecutive beats, with the required gaps and random ones; each result is compared in the cycle in which it is
    due."""

    def __init__(self, dut, array, beats, rng, stalls):
        self.dut, self.array, self.beats, self.rng, self.stalls = dut, array, beats, rng, stalls
        self.sent, self.cycle, self.busy, self.due = 0, 0, 0, {}

    def drive(self):
        self.cycle += 1
        dut, now = self.dut, self.beats[self.sent % BEATS]
        reduce, dtype, op, a, b, result = now
        go = self.sent < BEATS and self.rng.random() >= self.stalls and not (reduce and self.cycle < self.busy)
        dut.valid.value = int(go)
        # Inputs without a beat, and operands that are not used, are random.
        dut.reduce.value = int(reduce)
        dut.arithmetic.value = bits(arithmetic_layout(), {"dtype": dtype, "op": op})
        dut.a.value, dut.b.value, dut.tag.value = _number(a), _number(b), self.sent & 0xFFFF
        if go:
            self.due[self.cycle + self.array.latency] = self.sent, _number(result), now
            self.sent += 1
            if reduce:
                self.busy = self.cycle + self.array.slices

    def sample(self, cycle):
        assert bool(self.dut.o_valid.value) == (self.cycle in self.due)
        if self.cycle in self.due:
            number, result, now = self.due.pop(self.cycle)
            assert int(self.dut.o_tag.value) == number & 0xFFFF
            got = int(self.dut.o.value)
            assert got == result, f"beat {number}: {got:#x}, not {result:#x} of {now}"


@cocotb.test()
async def random_beats(dut):
    config = CONFIGS[os.environ["CONFIG"]]
    rng = np.random.default_rng(cocotb.RANDOM_SEED)
    for stalls in (0.0, 0.4):
        beats = _Beats(dut, AluArray(config, 16), _beats(rng, config.data_width // 32), rng, stalls)
        if not stalls:
            dut.valid.value = 0
            await reset(dut)
        await run(dut, [beats], until=lambda beats=beats: beats.sent == BEATS and not beats.due)
