# SPDX-License-Identifier: Apache-2.0
"""Integer half of a lane: the sum, the minimum or the maximum of one INT32 or four INT8.

Latency: 1 cycle.  Throughput: 1 word per cycle.
"""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .formats import OP_WIDTH, TYPE_WIDTH, WORD_WIDTH, DType, Op

__all__ = ["IntegerAlu"]


class IntegerAlu(wiring.Component):
    """Add or compare two words of integers in one adder, with a bit between bytes that passes or sets the carry.

    Members
    -------
    a, b : ``In(32)``
        Operands.
    dtype : ``In(TYPE_WIDTH)``
        ``INT32`` or ``INT8``.
    op : ``In(OP_WIDTH)``
        An :class:`Op`. Sums wrap; minimum and maximum are of signed numbers.
    o : ``Out(32)``
        The result, registered.
    """

    LATENCY = 1

    def __init__(self) -> None:
        super().__init__({
            "a": In(WORD_WIDTH),
            "b": In(WORD_WIDTH),
            "dtype": In(TYPE_WIDTH),
            "op": In(OP_WIDTH),
            "o": Out(WORD_WIDTH),
        })

    def elaborate(self, platform):
        m = Module()
        compare, whole = Signal(), Signal()
        m.d.comb += [compare.eq(self.op != Op.SUM), whole.eq(self.dtype == DType.INT32)]

        # a + b, or a - b to compare. Between bytes: 1 + 0 passes a carry on, 1 + 1 makes one, 0 + 0 none.
        count = WORD_WIDTH // 8
        total = Signal(9 * count + 1)
        left = Cat(Cat(compare if not n else compare | whole, self.a.word_select(n, 8)) for n in range(count))
        right = Cat(Cat(compare & ~whole if n else compare, self.b.word_select(n, 8) ^ compare.replicate(8))
                    for n in range(count))
        m.d.comb += total.eq(left + right)

        sums = [total[9 * n + 1:9 * n + 9] for n in range(count)]
        less = Signal(count)
        for n in range(count):
            a_sign, b_sign = self.a[8 * n + 7], self.b[8 * n + 7]
            m.d.comb += less[n].eq(Mux(a_sign ^ b_sign, a_sign, sums[n][-1]))
        take_a = Signal(count)
        m.d.comb += take_a.eq(Mux(whole, less[-1].replicate(count), less) ^ (self.op == Op.MAX).replicate(count))
        m.d.sync += [
            self.o.word_select(n, 8).eq(Mux(compare, Mux(take_a[n], self.a.word_select(n, 8),
                                                         self.b.word_select(n, 8)), sums[n]))
            for n in range(count)
        ]
        return m
