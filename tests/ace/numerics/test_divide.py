# SPDX-License-Identifier: Apache-2.0
"""The Verilated divider, a word wide, against NumPy: every 16-bit and 8-bit value by many divisors, FP32 and INT32 at
random and near subnormal quotients and ties. ``--soak``: every divisor, and a hundred times as many."""

import numpy as np
import pytest
from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from fpga.area import measure
from hw import emit
from hw.ace.numerics.divide import Divide
from hw.ace.numerics.formats import FLOATS, DType, width
from sim.ace.lanes import build_lanes
from tests.ace.numerics.operands import random_pairs, specials, words
from tests.ace.numerics.quotients import quotients

DIVISORS = range(129)
SOME = (0, 1, 2, 3, 7, 12, 64, 100, 127, 128)

LUTS, FLIP_FLOPS = 1_080, 550
"""For one word, as measured, plus a tenth. LUTs used as shift registers are counted."""


class Divider(wiring.Component):
    """A word of a beat is divided, with the ports of a lane: ``a`` by ``b``."""

    LATENCY = 1 + Divide.LATENCY

    def __init__(self):
        super().__init__({"a": In(32), "b": In(32), "a_type": In(4), "b_type": In(4), "o_type": In(4), "op": In(3),
                          "o": Out(32)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.divide = divide = Divide(32)
        m.d.comb += [divide.divisor.eq(self.b), divide.dtype.eq(self.a_type), self.o.eq(divide.o)]
        m.d.sync += divide.i.eq(self.a)
        return m


@pytest.fixture(scope="module")
def divider():
    return build_lanes(Divider())


def check(divider, dtype, elements, divisors):
    """All elements, each word by one of the divisors; report the first differences."""
    a = words(elements)
    b = np.resize(np.asarray(divisors, np.uint32), len(a))
    each = 4 // elements.itemsize
    got = divider.run(a, b, int(dtype)).view(elements.dtype)
    used, by = a.view(elements.dtype), np.repeat(b, each)
    want = quotients(dtype, used, by)
    wrong = np.flatnonzero(got != want)
    assert not len(wrong), f"{len(wrong)} of {len(got)}: " + "; ".join(
        f"{used[at]:x} by {by[at]} gives {got[at]:x}, not {want[at]:x}" for at in wrong[:3])


@pytest.mark.rtl
@pytest.mark.parametrize("dtype", DType)
def test_every_divisor_of_corners(divider, dtype):
    corners = specials(dtype)
    check(divider, dtype, np.tile(words(corners).view(corners.dtype), len(DIVISORS)),
          np.repeat(DIVISORS, len(words(corners))))


@pytest.mark.rtl
@pytest.mark.parametrize("dtype", [dtype for dtype in DType if width(dtype) == 8])
def test_every_byte(divider, dtype):
    values = np.arange(256, dtype=np.uint8)
    # The neighbouring elements have other values, which must not matter.
    elements = np.stack([values, values[::-1], np.roll(values, 77), np.roll(values, 130)], axis=1).reshape(-1)
    check(divider, dtype, np.tile(elements, len(DIVISORS)), np.repeat(DIVISORS, 256))


@pytest.mark.rtl
@pytest.mark.parametrize("dtype", [DType.FP16, DType.BF16])
def test_every_half(divider, dtype, soak):
    values = np.arange(1 << 16, dtype=np.uint16)
    elements = np.stack([values, values[::-1] ^ 0x55], axis=1).reshape(-1)
    for divisor in DIVISORS if soak else SOME:
        check(divider, dtype, elements, [divisor])


@pytest.mark.rtl
@pytest.mark.parametrize("dtype", [DType.FP32, DType.INT32])
def test_random(divider, dtype, seed, soak):
    rng = np.random.default_rng([seed, dtype])
    for _ in range(100 if soak else 1):
        elements = random_pairs(rng, dtype, 100_000)[1]
        check(divider, dtype, elements, rng.integers(0, 129, len(elements)))


@pytest.mark.rtl
def test_subnormal_quotients_and_ties(divider, seed):
    """Multiples of a divisor, and midpoints between them, with exponents where the quotient is just normal or
    subnormal."""
    rng = np.random.default_rng(seed)
    divisors = rng.integers(1, 129, 100_000)
    fractions = rng.integers(0, 1 << 24, len(divisors)) // divisors * divisors + rng.integers(-1, 2, len(divisors))
    halves = fractions + rng.integers(0, 2, len(divisors)) * (divisors // 2)
    elements = np.clip(rng.integers(0, 12, len(divisors)) << 23 | halves & 0x7FFFFF, 0, None)
    check(divider, DType.FP32, elements.astype(np.uint32), divisors)


@pytest.mark.rtl
def test_types_and_divisors_change_with_every_word(divider, seed):
    rng = np.random.default_rng(seed)
    a, b = random_pairs(rng, DType.FP32, 60_000)[0], rng.integers(0, 129, 60_000).astype(np.uint32)
    types = rng.choice(list(DType), len(a))
    got = divider.run(a, b, types.astype(np.uint32))
    for dtype in DType:
        at = np.flatnonzero(types == dtype)
        unsigned = f"u{width(dtype) // 8}"
        want = quotients(dtype, a[at].view(unsigned), np.repeat(b[at], 32 // width(dtype)))
        assert np.array_equal(got[at].view(unsigned), want), dtype


@pytest.mark.rtl
def test_canonical_nan(divider):
    for dtype, layout in FLOATS.items():
        first = layout.infinity + (not layout.finite)
        nans = np.array([first, layout.sign - 1] * 2, f"u{layout.width // 8}") | np.repeat([0, layout.sign], 2).astype(
            f"u{layout.width // 8}")
        got = divider.run(words(nans), np.full(len(words(nans)), 5), int(dtype)).view(nans.dtype)
        assert (got == layout.nan).all()


@pytest.mark.synth
def test_area(capsys):
    area, depth = measure(emit.verilog(Divide(32), name="divide", assertions=False), top="divide")
    shift = sum(number for cell, number in area.cells.items() if cell.startswith("SRL"))
    with capsys.disabled():
        print(f"\ndivide  {area.family} {area.lut} LUT {shift} LUT as shift registers {area.flip_flop} FF  "
              f"{depth.levels} levels of LUT6")
    assert (area.latch, area.block_ram, area.lut_ram) == (0, 0, 0)
    assert area.lut + shift <= LUTS
    assert area.flip_flop <= FLIP_FLOPS
