# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from hw.ace.model.numerics import combine_words
from hw.ace.numerics.formats import DType, Op
from hw.ace.numerics.integer import IntegerAlu
from tests.ace.bench import stream_through


@pytest.mark.parametrize("op", [Op.SUM, Op.MIN, Op.MAX])
@pytest.mark.parametrize("dtype", [DType.INT32, DType.INT8])
def test_words(dtype, op, seed):
    rng = np.random.default_rng(seed)
    corner = np.array([0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0x7F80FF01, 0x80807F7F, 0x01FF00FE], np.uint32)
    a = np.concatenate([np.repeat(corner, len(corner)), rng.integers(0, 1 << 32, 200, dtype=np.uint32)])
    b = np.concatenate([np.tile(corner, len(corner)), rng.integers(0, 1 << 32, 200, dtype=np.uint32)])
    inputs = [{"a": int(x), "b": int(y), "dtype": dtype, "op": op} for x, y in zip(a, b, strict=True)]
    got = stream_through(IntegerAlu(), inputs, latency=IntegerAlu.LATENCY)
    assert got == combine_words(op, a, b, a_type=dtype).tolist()
