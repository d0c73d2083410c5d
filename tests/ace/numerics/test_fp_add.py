# SPDX-License-Identifier: Apache-2.0
"""The adder alone; test_alu.py tests it in a lane, with many more numbers."""

import re
from fractions import Fraction

import numpy as np
import pytest

from hw.ace.model.numerics import combine
from hw.ace.numerics.formats import DType, Op
from hw.ace.numerics.fp_add import FpAdd
from tests.ace.bench import stream_through
from tests.ace.numerics.operands import random_pairs, specials


def unpacked(bits):
    """FP32 with an explicit leading bit."""
    exponent, fraction = bits >> 23 & 0xFF, bits & 0x7FFFFF
    return {"significand": fraction | bool(exponent) << 23, "exponent": exponent or 1, "sign": bits >> 31}


@pytest.mark.parametrize("op", [Op.SUM, Op.MIN, Op.MAX])
def test_single_precision(op, seed):
    rng = np.random.default_rng(seed)
    a, b = random_pairs(rng, DType.FP32, 300)
    corner = rng.choice(specials(DType.FP32), (2, 500))
    a, b = np.concatenate([a, corner[0]]), np.concatenate([b, corner[1]])
    inputs = [{"a": unpacked(x), "b": unpacked(y), "op": op} for x, y in zip(a.tolist(), b.tolist(), strict=True)]
    got = stream_through(FpAdd(), inputs, latency=FpAdd.LATENCY)
    assert got == combine(op, a, b, a_type=DType.FP32).tolist()


def test_operation_goes_with_its_operands():
    one, two = unpacked(0x3F800000), unpacked(0x40000000)
    inputs = [{"a": one, "b": two, "op": op} for op in (Op.MIN, Op.SUM, Op.MAX, Op.SUM)]
    assert stream_through(FpAdd(), inputs, latency=FpAdd.LATENCY) == [0x3F800000, 0x40400000, 0x40000000, 0x40400000]


def test_rounding_to_odd(seed):
    """An exact result is unchanged; an inexact one becomes the odd one of its two neighbours."""
    precision = 13
    rng = np.random.default_rng(seed)

    def number(exponent):
        return {"significand": 1 << precision - 1 | int(rng.integers(0, 1 << precision - 1)), "exponent": exponent,
                "sign": int(rng.integers(0, 2))}

    def value(number):
        return (-1) ** number["sign"] * Fraction(2) ** number["exponent"] * number["significand"]

    inputs = [{"a": number(int(exponent)), "b": number(int(exponent + distance)), "op": Op.SUM}
              for exponent, distance in zip(rng.integers(40, 200, 1600), rng.integers(-18, 19, 1600), strict=True)]
    exact = 0
    for given, made in zip(inputs, stream_through(FpAdd(precision=precision, rounding="odd"), inputs,
                                                  latency=FpAdd.LATENCY), strict=True):
        want = value(given["a"]) + value(given["b"])
        if not want:
            assert made == 0
            continue
        exponent, fraction = made >> 12 & 0xFF, made & 0xFFF
        unit = Fraction(2) ** exponent
        got = (-1) ** (made >> 20) * unit * (fraction | 0x1000)
        exact += got == want
        assert got == want or (abs(got - want) < unit and fraction & 1), (given, hex(made))
    assert 80 < exact < 1520


@pytest.mark.parametrize("options, message", [
    ({"precision": 25}, "FpAdd precision must be an integer from 6 to 24, not 25"),
    ({"precision": "24"}, "FpAdd precision must be an integer from 6 to 24, not '24'"),
    ({"exponent_width": 6}, "FpAdd exponent_width must be 5 or 8, not 6"),
    ({"rounding": "up"}, "FpAdd rounding must be \"even\" or \"odd\", not 'up'"),
])
def test_wrong_parameters(options, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        FpAdd(**options)
