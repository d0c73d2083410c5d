# SPDX-License-Identifier: Apache-2.0
"""The comparison with the golden model finds injected faults."""

import numpy as np
import pytest
from amaranth import *

from hw.ace.model.numerics import combine_words
from hw.ace.numerics import convert, fp_add
from hw.ace.numerics.formats import DType, Op
from sim.ace.lanes import build_lanes, control
from tests.ace.numerics.operands import all_pairs, random_pairs, specials, words

pytestmark = [pytest.mark.rtl, pytest.mark.soak]


def _between(stage, **wrong):
    """Replace fields of the input of the adder's ``stage`` as ``wrong`` defines."""
    def patch(monkeypatch):
        right = getattr(fp_add.FpAdd, stage)

        def patched(self, m, before):
            seen = Signal.like(before, name=f"seen_by{stage}")
            m.d.comb += seen.eq(before)
            m.d.comb += [seen[field].eq(value(before)) for field, value in wrong.items()]
            return right(self, m, seen)

        monkeypatch.setattr(fp_add.FpAdd, stage, patched)
    return patch


def _sticky(module):
    """Ignore the bits that were shifted out."""
    def patch(monkeypatch):
        right = module.shift_right_sticky
        monkeypatch.setattr(module, "shift_right_sticky", lambda *given: Cat(C(0, 1), right(*given)[1:]))
    return patch


def _constant(name, value):
    return lambda monkeypatch: monkeypatch.setattr(convert, name, value)


FAULTS = {
    "no sticky bit": (_sticky(fp_add), DType.FP32),
    "no sticky bit in 16-bit sums": (_sticky(fp_add), DType.FP16),
    "no sticky bit of FP16 subnormals": (_sticky(convert), DType.FP16),
    "ties away from zero": (_between("_round", sticky=lambda s: 1), DType.FP32),
    "ties away from zero, BF16": (_between("_round", sticky=lambda s: 1), DType.BF16),
    "truncated": (_between("_round", half=lambda s: 0), DType.FP32),
    "subnormal results are zero": (_between("_round", significand=lambda s: Mux(s.significand[-1], s.significand, 0)),
                                   DType.FP32),
    "subnormal operands are zero": (_between("_align", second=lambda s: Mux(s.second[-1], s.second, 0)), DType.BF16),
    "no infinity by carry": (_between("_round", infinite=lambda s: s.nan), DType.FP32),
    "x - x is -0 for negative x": (_between("_normalise", subtract=lambda s: 0), DType.FP32),
    "infinity - infinity is infinity": (_between("_align", nan=lambda s: s.nan & ~s.subtract), DType.FP16),
    "NaN keeps its sign": (_between("_normalise", nan=lambda s: s.nan & ~s.sign), DType.FP32),
    "exponent one off": (_between("_normalise", exponent=lambda s: s.exponent - (s.exponent == 254)), DType.FP32),
    "FP16 begins to be subnormal too early": (_constant("_REBIAS", 113), DType.FP16),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_fault_is_found(fault, monkeypatch, seed):
    patch, dtype = FAULTS[fault]
    patch(monkeypatch)
    lanes = build_lanes()
    rng = np.random.default_rng(seed)
    # A part of the operands of test_alu.py.
    pairs = [all_pairs(specials(dtype)), random_pairs(rng, dtype, 200_000)]
    # Subnormals of FP16 are also produced by narrowing.
    kinds = [(dtype, dtype, dtype)] + ([(DType.FP32, DType.FP32, DType.FP16)] if dtype == DType.FP16 else [])
    found = 0
    for types in kinds:
        for a, b in pairs if types[0] == dtype else [random_pairs(rng, DType.FP32, 200_000)]:
            a, b = words(a), words(b)
            got = lanes.run(a, b, control(Op.SUM, *types))
            found += np.count_nonzero(got != combine_words(Op.SUM, a, b, a_type=types[0], b_type=types[1],
                                                           o_type=types[2]))
    print(f"{fault}: {found} words differ")
    assert found
