# SPDX-License-Identifier: Apache-2.0
"""FpMultiply around a plain multiplication; test_alu.py sends many more products through a lane."""

import numpy as np
from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.ace.model.numerics import combine
from hw.ace.numerics.formats import OP_WIDTH, DType, Op
from hw.ace.numerics.fp_add import FpAdd, unpacked_layout
from hw.ace.numerics.fp_multiply import FpMultiply
from tests.ace.bench import stream_through
from tests.ace.numerics.operands import factors, specials
from tests.ace.numerics.test_fp_add import unpacked


class Products(wiring.Component):
    """Multiply, or use the adder."""

    def __init__(self):
        super().__init__({"a": In(unpacked_layout(24)), "b": In(unpacked_layout(24)), "op": In(OP_WIDTH), "o": Out(32)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.around = around = FpMultiply()
        m.submodules.add = add = FpAdd(products=True)
        product = around.x * around.y
        for cycle in range(FpMultiply.PRODUCT):
            later = Signal(48, name=f"product_{cycle}")
            m.d.sync += later.eq(product)
            product = later
        m.d.comb += [
            around.a.eq(self.a), around.b.eq(self.b), around.product.eq(product),
            add.a.eq(self.a), add.b.eq(self.b), add.op.eq(self.op), add.product.eq(around.o), self.o.eq(add.o),
        ]
        return m


def test_single_precision(seed):
    rng = np.random.default_rng(seed)
    a, b = (np.concatenate(both) for both in zip(
        factors(rng, DType.FP32, 600), rng.choice(specials(DType.FP32), (2, 600)), strict=True))
    ops = [Op(op) for op in rng.choice([Op.PROD, Op.PROD, Op.PROD, Op.SUM], len(a))]
    got = stream_through(Products(), [{"a": unpacked(int(x)), "b": unpacked(int(y)), "op": op}
                                      for x, y, op in zip(a, b, ops, strict=True)], latency=FpAdd.LATENCY)
    want = [int(combine(op, [x], [y], a_type=DType.FP32)[0]) for x, y, op in zip(a, b, ops, strict=True)]
    assert got == want


def test_written_out():
    """Results that one rounding more, or none, would change."""
    cases = [
        (0x3F800001, 0x3F800001, 0x3F800002),       # (1 + 2**-23)**2: the lost part is less than half
        (0x3FC00000, 0x3F800001, 0x3FC00002),       # 1.5 * (1 + 2**-23): a tie, to even
        (0x00000001, 0x3F000000, 0x00000000),       # half of the least: a tie, to even
        (0x00000003, 0x3F000000, 0x00000002),
        (0x00000001, 0x4B000000, 0x00800000),       # the least, scaled to a normal number
        (0x00800000, 0x3F7FFFFF, 0x00800000),       # rounded up to a normal number
        (0x7F7FFFFF, 0x3F800001, 0x7F800000),       # rounded up to infinity
        (0x7F800000, 0x80000000, 0x7FC00000),
        (0xFF800000, 0x80000001, 0x7F800000),
    ]
    got = stream_through(Products(), [{"a": unpacked(x), "b": unpacked(y), "op": Op.PROD} for x, y, _ in cases],
                         latency=FpAdd.LATENCY)
    assert [hex(one) for one in got] == [hex(want) for *_, want in cases]
