"""Conversion between the packed floating-point types and what the adder takes and gives.

Lane -> Widen -> FpAdd -> Narrow -> Lane.  Widen is combinational; Narrow takes a cycle, and one number in each.
"""

from amaranth import *
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from .formats import FLOATS, TYPE_WIDTH, DType
from .fp_add import EXPONENT_WIDTH, TOP, count_leading, shift_left, shift_right_sticky, unpacked_layout

__all__ = ["Narrow", "Widen"]

_HALF = FLOATS[DType.FP16]
_REBIAS = FLOATS[DType.FP32].bias - _HALF.bias
"""What an FP16 exponent lacks."""


class Widen(wiring.Component):
    """Unpack a number, exactly.

    Parameters
    ----------
    precision : int
        Bits of the result's significand, at least 11.
    mixed : bool
        Take FP32 too, and give FP16 subnormals and zeros the exponent they would have in FP32, so that they can be
        added to other types. Otherwise they have FP16's lowest exponent, and both operands must be of one type.

    Members
    -------
    i : ``In(32)``, or ``In(16)`` unless ``mixed``
        The number, in the low bits.
    dtype : ``In(TYPE_WIDTH)``
        A floating-point :class:`DType`.
    o : ``Out(unpacked_layout(precision))``
        Combinational. NaNs stay NaNs.
    """

    def __init__(self, *, precision=24, mixed=True):
        self.precision = precision
        self.mixed = mixed
        super().__init__({
            "i": In(32 if mixed else 16),
            "dtype": In(TYPE_WIDTH),
            "o": Out(unpacked_layout(precision)),
        })

    def elaborate(self, platform):
        m = Module()
        is_single, is_half = self.dtype == DType.FP32, self.dtype == DType.FP16
        half, wide = self.i[:16], self.i if self.mixed else Cat(C(0, 16), self.i)
        top = Mux(is_single, wide[16:], half) if self.mixed else half

        # FP32, and BF16 as its upper half. The low bits are a multiplexer of their own, with a constant: where a
        # register follows, synthesis makes a reset of it.
        low = _HALF.fraction_width
        exponent, some = Signal(EXPONENT_WIDTH), Signal()
        m.d.comb += [exponent.eq(top[7:15]), some.eq(exponent.any())]
        rest = Mux(is_single, wide[:16], 0) if self.mixed else C(0, 16)
        lower, upper = rest[:23 - low], Cat(rest[23 - low:], top[:7], some)

        # FP16. Its exponent of 5 bits, 16 or more, is 128 or more in 8 bits: else bits 6:4 are set.
        half_exponent, half_some = half[10:15], Signal()
        m.d.comb += half_some.eq(half_exponent.any())
        half_wide = Cat(half_exponent[0] | ~half_some, half_exponent[1:4], (~half_exponent[4]).replicate(3),
                        half_exponent[4]) | half_exponent.all().replicate(EXPONENT_WIDTH)
        half_upper = Cat(half[:low], half_some)
        if self.mixed:
            # A subnormal's leading one is brought to the top: by 0, 4 or 8 places, then by 0 to 3.
            by_four, by_one = Signal(2), Signal(2)
            coarse, fine, lowered = Signal(low + 1), Signal(low + 1), Signal(EXPONENT_WIDTH)
            m.d.comb += [
                by_four.eq(count_leading([~half_upper[-4:].any(), ~half_upper[-8:].any(), 0])),
                coarse.eq(shift_left(half_upper, by_four, 4, 3)),
                by_one.eq(count_leading([~coarse[-number:].any() for number in range(1, 4)])),
                fine.eq(shift_left(coarse, by_one, 1, 4)),
                lowered.eq(Mux(fine[-1], _REBIAS + 1 - Cat(by_one, by_four), 1)),
            ]
            half_wide, half_upper = Mux(half_some, half_wide, lowered), fine
        m.d.comb += [
            self.o.sign.eq(top[15]),
            self.o.exponent.eq(Mux(is_half, half_wide, Cat(exponent[0] | ~some, exponent[1:]))),
            self.o.significand.eq(Cat(lower, Mux(is_half, half_upper, upper))[24 - self.precision:]),
        ]
        return m


class Narrow(wiring.Component):
    """Round a number to FP16 or BF16: to nearest, ties to even (IEEE 754-2019, 4.3.1).

    Subnormals are kept, overflow gives infinity, any NaN the canonical NaN. After :class:`FpAdd`, a sum of two numbers
    of that type is rounded exactly, though twice: to 24 bits, at least twice as many and two more, or to odd.

    Parameters
    ----------
    precision : int
        Bits of the significand to be rounded, the leading one included, at least 13.

    Members
    -------
    i : ``In(precision + 8)``
        Fraction, exponent as in FP32, and sign.
    dtype : ``In(TYPE_WIDTH)``
        Type of the result, with ``i``.
    o : ``Out(16)``
        The result, one cycle later and combinational from registers: a user's output register follows.
    """

    LATENCY = 1

    def __init__(self, *, precision=24):
        self.precision = precision
        super().__init__({
            "i": In(precision + EXPONENT_WIDTH),
            "dtype": In(TYPE_WIDTH),
            "o": Out(16),
        })

    def elaborate(self, platform):
        m = Module()
        fraction_width = self.precision - 1
        fraction, exponent = self.i[:fraction_width], self.i[fraction_width:-1]
        is_half = self.dtype == DType.FP16

        # FP16: ten bits of the fraction; below the lowest exponent, moved down with the leading one before them.
        low = _HALF.fraction_width
        under = Signal()
        distance = Signal(EXPONENT_WIDTH)
        m.d.comb += [
            under.eq(exponent < _REBIAS + 1),
            distance.eq(_REBIAS + 1 - exponent),
        ]
        moved = shift_right_sticky(m, Cat(fraction[-low - 1:], C(1, 1)), distance)
        below = fraction[:-low - 1].any()
        half = Mux(under, Cat(moved[0] | below, moved[1:], C(0, 4)),
                   Cat(below, fraction[-low - 1:], exponent[:4], exponent[-1]))

        # BF16: the upper half.
        brain = Cat(fraction[:-8].any(), fraction[-8:], exponent)

        s = Signal(data.StructLayout({
            "rest": 1, "half": 1, "base": 15, "sign": 1, "infinite": 1, "nan": 1, "is_half": 1,
        }), name="kept", reset_less=True)
        nan = exponent.all() & fraction.any()
        over = exponent >= _REBIAS + (1 << _HALF.exponent_width) - 1
        m.d.sync += [
            Cat(s.rest, s.half, s.base).eq(Mux(is_half, half, brain)),
            s.sign.eq(self.i[-1] & ~nan), s.nan.eq(nan), s.is_half.eq(is_half),
            s.infinite.eq(Mux(is_half, over, exponent == TOP)),
        ]

        rounded = Signal(15)
        m.d.comb += rounded.eq(s.base + (s.half & (s.rest | s.base[0])))
        special = Mux(s.is_half, Cat(C(0, 9), s.nan, C(0x1F, 5)), Cat(C(0, 6), s.nan, C(0xFF, 8)))
        m.d.comb += self.o.eq(Cat(Mux(s.infinite, special, rounded), s.sign))
        return m
