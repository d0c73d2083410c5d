# SPDX-License-Identifier: Apache-2.0
"""Floating-point adder: the sum, the minimum or the maximum of two numbers, each cycle.

Widen -> FpAdd -> Narrow.  Latency: 5 cycles.  Throughput: 1 result per cycle.  Nothing stalls, and there is no valid
bit: a user sends only operands for whose results it has free entries, and delays its own valid bits by ``LATENCY``.
"""

from amaranth import *
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from hw.common.delay import delayed

from .formats import FLOATS, OP_WIDTH, DType, Op

__all__ = ["FpAdd", "count_leading", "is_nan", "normal_layout", "shift_left", "shift_right_sticky", "unpacked_layout"]

EXPONENT_WIDTH = FLOATS[DType.FP32].exponent_width
TOP = (1 << EXPONENT_WIDTH) - 1
"""Exponent of infinities and NaNs in FP32."""


def unpacked_layout(precision, exponent_width=EXPONENT_WIDTH):
    """A number with an explicit leading bit: ``significand * 2 ** (exponent - bias - (precision - 1))``.

    ``bias`` is that of IEEE 754 for the width: 127 for 8 bits. ``exponent`` is 1 or more. With all bits set, it is
    infinity or, with any bit of the significand below the leading one, NaN. The leading bit may be 0 only in a number
    of the lowest exponent that the two operands of an operation can have.
    """
    return data.StructLayout({"significand": precision, "exponent": exponent_width, "sign": 1})


def normal_layout(precision, exponent_width=EXPONENT_WIDTH):
    """A number to round: normalised, unless subnormal; ``half`` and ``sticky`` are its guard and sticky bits. If the
    leading bit is set, the exponent is 1 more than ``exponent - shift``; otherwise it is 0."""
    return data.StructLayout({"significand": precision, "half": 1, "sticky": 1, "exponent": exponent_width, "shift": 5,
                              "sign": 1, "nan": 1, "infinite": 1})


class FpAdd(wiring.Component):
    """Add two numbers, or choose one of them.

    Sums follow IEEE 754-2019: subnormals are kept (3.4), overflow gives infinity (7.4), ``x + -x`` is +0 and
    ``-0 + -0`` is -0 (6.3). Any NaN, and the sum of opposite infinities (7.2), give the canonical NaN. Minimum and
    maximum are those of 9.6: the chosen operand plus zero.

    Parameters
    ----------
    precision : int
        Bits of a significand, the leading one included, 6 to 24. 24 for binary32.
    rounding : ``"even"`` or ``"odd"``
        To nearest, ties to even (4.3.1); or to odd: bits that do not fit set the lowest bit that does. A value rounded
        to odd can be rounded to nearest again, to at least two bits less, as if it were exact. A sum of 16-bit floats
        needs 13 bits then, and 24 otherwise; of FP8, 6.
    exponent_width : int
        Bits of an exponent, 5 or 8: 8 for binary32.
    products : bool
        Also round products, which are computed elsewhere.

    Members
    -------
    a, b : ``In(unpacked_layout(precision, exponent_width))``
        Operands.
    op : ``In(OP_WIDTH)``
        An :class:`Op`, with the operands.
    product : ``In(normal_layout(precision, exponent_width))``
        With ``products``, where ``op`` is :attr:`Op.PROD`: the product, :data:`PRODUCT` cycles later.
    o : ``Out(precision + exponent_width)``
        Result as fraction, exponent and sign, :data:`LATENCY` cycles later, registered.

    Raises
    ------
    ValueError
        If ``precision``, ``rounding`` or ``exponent_width`` has another value.
    """

    LATENCY = 5
    PRODUCT = 3

    def __init__(self, *, precision: int = 24, rounding: str = "even", exponent_width: int = EXPONENT_WIDTH,
                 products: bool = False) -> None:
        if not isinstance(precision, int) or not 6 <= precision <= 24:
            raise ValueError(f"FpAdd precision must be an integer from 6 to 24, not {precision!r}")
        if exponent_width not in (5, EXPONENT_WIDTH):
            raise ValueError(f"FpAdd exponent_width must be 5 or {EXPONENT_WIDTH}, not {exponent_width!r}")
        if rounding not in ("even", "odd"):
            raise ValueError(f'FpAdd rounding must be "even" or "odd", not {rounding!r}')
        self.precision = precision
        self.rounding = rounding
        self.exponent_width = exponent_width
        self.products = products
        self._unpacked = unpacked_layout(precision, exponent_width)
        self._normal = normal_layout(precision, exponent_width)
        super().__init__({
            "a": In(self._unpacked),
            "b": In(self._unpacked),
            "op": In(OP_WIDTH),
            **({"product": In(self._normal)} if products else {}),
            "o": Out(precision + exponent_width),
        })

    def elaborate(self, platform):
        m = Module()
        swapped = self._swap(m)
        aligned = self._align(m, swapped)
        summed = self._add(m, aligned)
        normal = self._normalise(m, summed)
        self._round(m, normal)
        return m

    def _stage(self, name, **fields):
        return Signal(data.StructLayout(fields), name=name, reset_less=True)

    def _swap(self, m):
        """Stage 1: the larger operand of a sum, or the chosen one, first."""
        a, b, precision = self.a, self.b, self.precision
        distance_bits = (precision + 2).bit_length()
        s = self._stage("swapped", first=self._unpacked, second=precision, distance=self.exponent_width,
                        opposite=distance_bits, subtract=1, nan=1)
        distance = Signal(self.exponent_width)
        less, below, take_b, is_sum, differ = (Signal(name=name) for name in (
            "less", "below", "take_b", "is_sum", "differ"))
        m.d.comb += [
            is_sum.eq(self.op == Op.SUM),
            differ.eq(a.sign ^ b.sign),
            # By magnitude, and by value; the order of equal numbers is arbitrary.
            less.eq(Cat(a.significand, a.exponent) < Cat(b.significand, b.exponent)),
            below.eq(Mux(differ, a.sign, less ^ a.sign)),
            take_b.eq(Mux(is_sum, less, below ^ (self.op == Op.MIN))),
            distance.eq(Mux(less, (b.exponent - a.exponent)[:self.exponent_width],
                            (a.exponent - b.exponent)[:self.exponent_width])),
        ]
        m.d.sync += [
            s.first.eq(Mux(take_b, b, a)),
            s.second.eq(Mux(take_b, a.significand, b.significand) & is_sum.replicate(precision)),
            s.distance.eq(distance),
            s.opposite.eq(~distance),
            s.subtract.eq(is_sum & differ),
            s.nan.eq(is_nan(a) | is_nan(b) | (is_sum & differ & a.exponent.all() & b.exponent.all())),
        ]
        return s

    def _align(self, m, before):
        """Stage 2: the second operand aligned to the first one's exponent, and inverted for a subtraction.

        The guard and round bits are kept, and below them the sticky bit.
        """
        precision = self.precision
        s = self._stage("aligned", first=self._unpacked, second=precision + 3, subtract=1, nan=1,
                        infinite=1)
        moved = shift_right_sticky(m, Cat(C(0, 2), before.second), before.distance, before.opposite)
        m.d.sync += [
            s.first.eq(before.first), s.subtract.eq(before.subtract), s.nan.eq(before.nan),
            s.second.eq(moved ^ before.subtract.replicate(precision + 3)),
            s.infinite.eq(before.first.exponent.all() | before.nan),
        ]
        return s

    def _add(self, m, before):
        """Stage 3: the sum, which is never negative, and its left shift in multiples of 8 bits.

        The shift is as far as leading zeros and the exponent allow.
        """
        width = self.precision + 4
        steps, limit = 2 + (width > 16) + (width > 24), before.first.exponent
        s = self._stage("summed", total=width, exponent=self.exponent_width, sign=1, subtract=1, nan=1, infinite=1,
                        by_eight=2, top_empty=1)
        sum_, total = Signal(width + 1), Signal(width)
        zeros = [Signal(name=f"zeros_{8 * number}") for number in range(1, 4)]
        m.d.comb += [
            sum_.eq(Cat(before.subtract, C(0, 3), before.first.significand) + Cat(before.subtract, before.second)),
            total.eq(Cat(sum_[1:width], sum_[width] & ~before.subtract)),
            *(zero.eq(~total[-8 * number:].any() if number < steps else 0) for number, zero in enumerate(zeros, 1)),
        ]
        m.d.sync += [
            s.total.eq(total),
            s.exponent.eq(limit), s.sign.eq(before.first.sign), s.subtract.eq(before.subtract),
            s.nan.eq(before.nan), s.infinite.eq(before.infinite),
            s.by_eight.eq(count_leading([zero & _reaches(limit, number) for number, zero in enumerate(zeros, 1)])),
            s.top_empty.eq(zeros[steps - 2]),
        ]
        return s

    def _normalise(self, m, before):
        """Stage 4: normalise, but not below the lowest exponent.

        The left shift is 0 to 3 times 8, 0 to 3 times 2, and 0 or 1 bits, at each step as far as leading zeros and the
        exponent allow; an exponent that allows more than the shift so far does not limit the next steps.
        """
        width, limit, by_eight = self.precision + 4, before.exponent, before.by_eight
        s = Signal(self._normal, name="normal", reset_less=True)
        steps = 2 + (width > 16) + (width > 24)
        by_two, by_one = Signal(2), Signal()
        free, free_of_two, none = Signal(), Signal(), Signal()
        m.d.comb += [
            free.eq(_one_of_four(by_eight, [_reaches(limit, number) for number in range(1, 5)])),
            none.eq(before.top_empty & ~before.total[:width - 8 * (steps - 1)].any()),
        ]
        coarse = Signal(width)
        m.d.comb += coarse.eq(shift_left(before.total, by_eight, 8, steps))
        m.d.comb += [
            by_two.eq(count_leading([~coarse[-2 * number:].any() & (free | (limit[:3] >= 2 * number))
                              for number in range(1, 4)])),
            free_of_two.eq(free | (limit[1:3] > by_two)),
        ]
        fine, normal = Signal(width), Signal(width)
        m.d.comb += [
            fine.eq(shift_left(coarse, by_two, 2, 4)),
            by_one.eq(~fine[-1] & (free_of_two | limit[0])),
            normal.eq(Mux(by_one, fine << 1, fine)),
        ]
        m.d.sync += [
            s.significand.eq(normal[4:]), s.half.eq(normal[3]), s.sticky.eq(normal[:3].any()),
            s.exponent.eq(limit), s.shift.eq(Cat(by_one, by_two, by_eight)),
            s.sign.eq(before.sign & ~before.nan & ~(before.subtract & none)),
            s.nan.eq(before.nan),
            s.infinite.eq(before.infinite | (before.total[-1] & (limit == (1 << self.exponent_width) - 2))),
        ]
        if self.products:
            with m.If(delayed(m, self.op == Op.PROD, self.PRODUCT, name="is_product")):
                m.d.sync += s.eq(self.product)
        return s

    def _round(self, m, before):
        """Stage 5: rounded and packed. A carry out of the fraction goes to the exponent, up to infinity."""
        fraction_width = self.precision - 1
        fraction, leading = before.significand[:-1], before.significand[-1]
        exponent, up = Signal(self.exponent_width), Signal()
        packed = Signal(fraction_width + self.exponent_width)
        # Without a leading bit it is subnormal or zero, and its exponent is encoded as 0.
        m.d.comb += exponent.eq(
            (before.exponent - before.shift)[:self.exponent_width] & leading.replicate(self.exponent_width))
        if self.rounding == "even":
            m.d.comb += [
                up.eq(before.half & (before.sticky | before.significand[0])),
                packed.eq(Cat(fraction, exponent) + Cat(up, C(0, fraction_width - 1), leading)),
            ]
        else:
            m.d.comb += packed.eq(Cat(fraction[0] | before.half | before.sticky, fraction[1:], exponent + leading))
        # Infinity and NaN are a set or a reset of the flip-flops: no LUT.
        result = Signal(data.StructLayout({
            "fraction": fraction_width - 1, "quiet": 1, "exponent": self.exponent_width, "sign": 1,
        }), reset_less=True)
        m.d.sync += result.eq(Cat(packed, before.sign))
        with m.If(before.infinite):
            m.d.sync += [result.fraction.eq(0), result.quiet.eq(before.nan), result.exponent.eq(-1)]
        m.d.comb += self.o.eq(result)


def _reaches(exponent, number):
    """Whether ``exponent`` is at least ``number`` times 8, for 1 to 4, without an adder."""
    high = exponent[3:]
    return {1: high.any(), 2: high[1:].any(), 3: high[2:].any() | high[:2].all(), 4: high[2:].any()}[number]


def is_nan(number):
    return number.exponent.all() & number.significand[:-1].any()


def count_leading(flags):
    """Number of set flags among three, each of which implies the previous one."""
    return Cat(flags[0] & ~flags[1] | flags[2], flags[1])


def shift_left(bits, number, unit, choices):
    """``bits`` shifted left by ``number`` times ``unit``; a LUT for each bit."""
    moved = [Cat(C(0, unit * n), bits)[:len(bits)] if n < choices else bits for n in range(4)]
    return _one_of_four(number, moved)


def shift_right_sticky(m, bits, distance, opposite=None):
    """``bits`` shifted right by ``distance``, and below them a sticky bit for the lost bits.

    Each step uses two bits of ``distance``: a choice of four is a LUT for each bit of data. Bits that could share half
    of their choice with each other are selected by ``distance`` or by ``opposite``, if that is a separate register with
    the same bits inverted: otherwise synthesis makes a LUT of the shared half. The result is a bit wider than ``bits``.
    """
    width = len(bits)
    lost = []
    used = width.bit_length()
    for low in range(0, used, 2):
        digit, unit = distance[low:min(low + 2, used)], 1 << low
        inverse = ~digit if opposite is None else opposite[low:low + len(digit)]
        zeros = Cat(bits, C(0, 3 * unit))
        found = Signal(width, name=f"moved_{unit}")
        for index in range(width):
            choice = [zeros[index + unit * n] for n in range(1 << len(digit))]
            if len(digit) == 1:
                chosen = Mux(digit, choice[1], choice[0])
            elif index // unit & 2:
                chosen = _one_of_four(inverse, choice[::-1])
            else:
                chosen = _one_of_four(digit, choice)
            m.d.comb += found[index].eq(chosen)
        lost += [(digit >= n) & bits[(n - 1) * unit:n * unit].any() for n in range(1, 1 << len(digit))
                 if (n - 1) * unit < width]
        bits = found
    far = distance[used:].any()
    return Cat(Cat(*lost).any() | (far & bits.any()), bits & ~far.replicate(width))


def _one_of_four(number, values):
    return Mux(number[1], Mux(number[0], values[3], values[2]), Mux(number[0], values[1], values[0]))
