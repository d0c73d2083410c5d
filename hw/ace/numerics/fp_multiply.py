# SPDX-License-Identifier: Apache-2.0
"""Around a multiplier of significands: the other parts of a floating-point product.

Widen -> FpMultiply -> Multiplier -> FpMultiply -> FpAdd's last stage.  Latency: none to the significands, 3 cycles to
the product, which must arrive then.  Throughput: one product per cycle.
"""

from amaranth import *
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from .fp_add import (
    EXPONENT_WIDTH,
    count_leading,
    is_nan,
    normal_layout,
    shift_left,
    shift_right_sticky,
    unpacked_layout,
)

__all__ = ["FpMultiply"]


class FpMultiply(wiring.Component):
    """Normalise a subnormal operand, add the exponents, and align the product for rounding.

    Only one operand is normalised: a product of two subnormals is too small to keep any bit.

    Parameters
    ----------
    precision : int
        Bits of a significand, the leading one included.
    exponent_width : int
        Bits of an exponent, 5 or 8.

    Members
    -------
    a, b : ``In(unpacked_layout(precision, exponent_width))``
        Operands.
    x, y : ``Out(precision)``
        Significands to multiply; combinational.
    product : ``In(2 * precision)``
        Their product, :data:`PRODUCT` cycles later.
    o : ``Out(normal_layout(precision, exponent_width))``
        The number to round, with ``product``; combinational.
    """

    PRODUCT = 3

    def __init__(self, *, precision: int = 24, exponent_width: int = EXPONENT_WIDTH) -> None:
        self.precision = precision
        self.exponent_width = exponent_width
        super().__init__({
            "a": In(unpacked_layout(precision, exponent_width)), "b": In(unpacked_layout(precision, exponent_width)),
            "x": Out(precision), "y": Out(precision), "product": In(2 * precision),
            "o": Out(normal_layout(precision, exponent_width)),
        })

    def elaborate(self, platform):
        m = Module()
        a, b, precision, width = self.a, self.b, self.precision, self.exponent_width
        bias, top = (1 << width - 1) - 1, (1 << width) - 1

        # -- Cycle 1: significands.
        first, normal, moved = Signal(precision), Signal(precision), Signal(5)
        takes_b = a.significand[-1]
        m.d.comb += [
            first.eq(Mux(takes_b, b.significand, a.significand)),
            self.y.eq(Mux(takes_b, a.significand, b.significand)), self.x.eq(normal),
        ]
        m.d.comb += self._to_the_top(m, first, normal, moved)
        infinite = a.exponent.all() | b.exponent.all()
        nan = is_nan(a) | is_nan(b) | (infinite & (~a.significand.any() | ~b.significand.any()))
        flags = data.StructLayout({"sign": 1, "nan": 1, "infinite": 1})
        known = [Signal(flags, name=f"known_{cycle}", reset_less=True) for cycle in range(3)]
        added, down = Signal(width + 1, reset_less=True), Signal(5, reset_less=True)
        m.d.sync += [
            known[0].sign.eq((a.sign ^ b.sign) & ~nan), known[0].nan.eq(nan), known[0].infinite.eq(infinite | nan),
            added.eq(a.exponent + b.exponent), down.eq(moved),
        ]

        # -- Cycle 2: the biased exponent of a product of 2 or more.
        exponent = Signal(signed(width + 2), reset_less=True)
        m.d.sync += [exponent.eq(added - down - (bias - 1)), known[1].eq(known[0])]

        # -- Cycle 3: distance below the lowest exponent, or whether it is beyond the highest.
        s = Signal(data.StructLayout({"exponent": width, "lowest": 1, "distance": 5, "over": 2}), name="placed",
                   reset_less=True)
        below = Signal(signed(width + 3))
        m.d.comb += below.eq(1 - exponent)
        m.d.sync += [
            s.exponent.eq(exponent - 1), s.lowest.eq(~below[-1]),
            s.distance.eq(Mux(below[-1], 0, Mux(below[5:].any(), 31, below[:5]))),
            s.over.eq(Cat(exponent[:-1] >= top, exponent[:-1] > top) & (~exponent[-1]).replicate(2)),
            known[2].eq(known[1]),
        ]

        # -- Cycle 4: shifted. ``over``: with the leading bit at the top, and with the one below it.
        leading, lifted = self.product[-1], Signal(2 * precision)
        lift = ~leading & ~s.lowest
        m.d.comb += lifted.eq(Mux(lift, self.product << 1, self.product))
        shifted = shift_right_sticky(m, lifted[precision - 1:], s.distance)
        m.d.comb += [
            self.o.significand.eq(shifted[2:]), self.o.half.eq(shifted[1]),
            self.o.sticky.eq(shifted[0] | lifted[:precision - 1].any()),
            self.o.exponent.eq((s.exponent - lift)[:width] & (~s.lowest).replicate(width)), self.o.shift.eq(0),
            self.o.sign.eq(known[2].sign), self.o.nan.eq(known[2].nan),
            self.o.infinite.eq(known[2].infinite | Mux(leading, s.over[0], s.over[1])),
        ]
        return m

    def _to_the_top(self, m, bits, normal, moved):
        """Normalise by 0, 8 or 16, by 0 to 6 and by 0 or 1 bits; the shift of 0 is arbitrary."""
        coarse, fine = Signal(self.precision), Signal(self.precision)
        by_eight, by_two, by_one = Signal(2), Signal(2), Signal()
        zeros = [~bits[-8 * number:].any() if 8 * number < self.precision else C(0) for number in (1, 2)]
        return [
            by_eight.eq(count_leading([*zeros, C(0)])),
            coarse.eq(shift_left(bits, by_eight, 8, 3)),
            by_two.eq(count_leading([~coarse[-2 * number:].any() for number in range(1, 4)])),
            fine.eq(shift_left(coarse, by_two, 2, 4)),
            by_one.eq(~fine[-1]), normal.eq(Mux(by_one, fine << 1, fine)), moved.eq(Cat(by_one, by_two, by_eight)),
        ]
