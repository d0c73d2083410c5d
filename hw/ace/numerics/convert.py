# SPDX-License-Identifier: Apache-2.0
"""Conversion between the packed floating-point types and the adder's operands and results.

Lane -> Widen -> FpAdd -> Narrow -> Lane.  Widen is combinational; Narrow has a latency of 1 cycle, and accepts one
number in each.
"""

from amaranth import *
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from .convert_byte import byte_of, e4m3_exponent, is_byte, is_e4m3, saturates
from .formats import FLOATS, TYPE_WIDTH, DType
from .fp_add import EXPONENT_WIDTH, TOP, count_leading, shift_left, shift_right_sticky, unpacked_layout

__all__ = ["Narrow", "Widen"]

_HALF = FLOATS[DType.FP16]
_REBIAS = FLOATS[DType.FP32].bias - _HALF.bias
"""Difference between FP32's exponent bias and that of FP16 and E5M2."""

_REBIAS_E4M3 = FLOATS[DType.FP32].bias - FLOATS[DType.E4M3].bias


class Widen(wiring.Component):
    """Unpack a number, exactly.

    Parameters
    ----------
    precision : int
        Bits of the result's significand, at least 11.
    mixed : bool
        Accept FP32, too, and give subnormals and zeros of FP16 and FP8 the exponent they would have in FP32, so that
        they can be added to other types. Otherwise they have their type's lowest exponent, and both operands must be of
        one type.

    Members
    -------
    i : ``In(32)``, or ``In(16)`` unless ``mixed``
        The number, in the low bits.
    dtype : ``In(TYPE_WIDTH)``
        A floating-point :class:`DType`.
    o : ``Out(unpacked_layout(precision))``
        Combinational. NaNs stay NaNs.
    """

    def __init__(self, *, precision: int = 24, mixed: bool = True) -> None:
        self.precision = precision
        self.mixed = mixed
        super().__init__({
            "i": In(32 if mixed else 16),
            "dtype": In(TYPE_WIDTH),
            "o": Out(unpacked_layout(precision)),
        })

    def elaborate(self, platform):
        m = Module()
        is_single, small = self.dtype == DType.FP32, (self.dtype == DType.FP16) | is_byte(self.dtype)
        # E5M2 is the upper half of FP16.
        byte, e4m3 = self.i[:8], is_byte(self.dtype) & is_e4m3(self.dtype)
        half, wide = self.i[:16], self.i if self.mixed else Cat(C(0, 16), self.i)
        half = Mux(is_byte(self.dtype), Cat(C(0, 8), byte), half)
        top = Mux(is_single, wide[16:], half) if self.mixed else half

        # FP32, and BF16 as its upper half. The low bits are a separate multiplexer with a constant: if a register
        # follows, synthesis implements it as a reset.
        low = _HALF.fraction_width
        exponent, some = Signal(EXPONENT_WIDTH), Signal()
        m.d.comb += [exponent.eq(top[7:15]), some.eq(exponent.any())]
        remainder = Mux(is_single, wide[:16], 0) if self.mixed else C(0, 16)
        lower, upper = remainder[:23 - low], Cat(remainder[23 - low:], top[:7], some)

        # FP16 and FP8. An exponent of 5 bits, 16 or more, is 128 or more in 8 bits: otherwise bits 6:4 are set.
        half_exponent, half_some, field = half[10:15], Signal(), Signal(_HALF.exponent_width)
        m.d.comb += [
            half_some.eq(Mux(e4m3, byte[3:7].any(), half_exponent.any())),
            field.eq(Mux(e4m3, e4m3_exponent(byte), Cat(half_exponent[0] | ~half_exponent.any(), half_exponent[1:]))),
        ]
        half_wide = Cat(field[:4], (~field[4]).replicate(3), field[4]) | field.all().replicate(EXPONENT_WIDTH)
        half_upper = Cat(Mux(e4m3, Cat(C(0, low - 3), byte[:3]), half[:low]), half_some)
        if self.mixed:
            # Normalise a subnormal: shift its leading one to the top by 0, 4 or 8 bits, then by 0 to 3.
            by_four, by_one = Signal(2), Signal(2)
            coarse, fine, lowered = Signal(low + 1), Signal(low + 1), Signal(EXPONENT_WIDTH)
            m.d.comb += [
                by_four.eq(count_leading([~half_upper[-4:].any(), ~half_upper[-8:].any(), 0])),
                coarse.eq(shift_left(half_upper, by_four, 4, 3)),
                by_one.eq(count_leading([~coarse[-number:].any() for number in range(1, 4)])),
                fine.eq(shift_left(coarse, by_one, 1, 4)),
                lowered.eq(Mux(fine[-1], Mux(e4m3, _REBIAS_E4M3 + 1, _REBIAS + 1) - Cat(by_one, by_four), 1)),
            ]
            half_wide, half_upper = Mux(half_some, half_wide, lowered), fine
        m.d.comb += [
            self.o.sign.eq(top[15]),
            self.o.exponent.eq(Mux(small, half_wide, Cat(exponent[0] | ~some, exponent[1:]))),
            self.o.significand.eq(Cat(lower, Mux(small, half_upper, upper))[24 - self.precision:]),
        ]
        return m


class Narrow(wiring.Component):
    """Round a number to FP16, BF16 or FP8: to nearest, ties to even (IEEE 754-2019, 4.3.1).

    Subnormals are kept, overflow gives infinity or the type's replacement, any NaN the canonical NaN. After
    :class:`FpAdd`, a sum of two numbers of that type is rounded correctly in spite of two roundings: the first is to 24
    bits, at least twice as many and two more, or to odd.

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
        The result, FP8 in the upper half, one cycle later and combinational from registers: the user adds an output
        register.
    """

    LATENCY = 1

    def __init__(self, *, precision: int = 24) -> None:
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
        is_half, byte = self.dtype == DType.FP16, is_byte(self.dtype)
        e4m3 = byte & is_e4m3(self.dtype)

        # FP16 and FP8: ten bits of the fraction, or the first of them; below the lowest exponent, shifted right with
        # the leading one in front.
        low = _HALF.fraction_width
        under = Signal()
        lowest, distance = Signal(EXPONENT_WIDTH), Signal(EXPONENT_WIDTH)
        m.d.comb += [
            lowest.eq(Mux(e4m3, _REBIAS_E4M3 + 1, _REBIAS + 1)),
            under.eq(exponent < lowest), distance.eq(lowest - exponent),
        ]
        moved = shift_right_sticky(m, Cat(fraction[-low - 1:], C(1, 1)), distance)
        below = fraction[:-low - 1].any()
        small = Signal(low + 2)
        m.d.comb += small.eq(Mux(under, Cat(moved[0] | below, moved[1:-1]), Cat(below, fraction[-low - 1:])))
        field = Cat(exponent[:4], exponent[-1]) & (~under).replicate(5)

        # Sticky bit, guard bit and 15 bits. FP8 is in the upper ones, and the lower ones are set, so that they pass a
        # carry.
        half = Cat(small, field)
        ones = C(0xFF, 8)
        e5m2_number = Cat(small[:low - 1].any(), small[low - 1], ones, small[low:], field)
        e4m3_number = Cat(small[:low - 2].any(), small[low - 2], ones, small[low - 1:], field[:3], field[4])
        brain = Cat(fraction[:-8].any(), fraction[-8:], exponent)

        s = Signal(data.StructLayout({
            "sticky": 1, "half": 1, "base": 15, "odd": 1, "sign": 1, "infinite": 1, "nan": 1, "is_half": 1, "byte": 1,
            "e4m3": 1, "saturates": 1,
        }), name="kept", reset_less=True)
        nan = exponent.all() & fraction.any()
        over = exponent >= _REBIAS + (1 << _HALF.exponent_width) - 1
        made = Mux(byte, Mux(is_e4m3(self.dtype), e4m3_number, e5m2_number), Mux(is_half, half, brain))
        m.d.sync += [
            Cat(s.sticky, s.half, s.base).eq(made),
            s.odd.eq(Mux(byte, Mux(is_e4m3(self.dtype), small[low - 1], small[low]), made[2])),
            s.sign.eq(self.i[-1] & ~nan), s.nan.eq(nan), s.is_half.eq(is_half), s.byte.eq(byte), s.e4m3.eq(e4m3),
            s.saturates.eq(byte & saturates(self.dtype)),
            s.infinite.eq(Mux(e4m3, exponent >= _REBIAS_E4M3 + 16, Mux(is_half | byte, over, exponent == TOP))),
        ]

        up, rounded = Signal(), Signal(15)
        m.d.comb += [up.eq(s.half & (s.sticky | s.odd)), rounded.eq(s.base + up)]
        special = Mux(s.is_half, Cat(C(0, 9), s.nan, C(0x1F, 5)), Cat(C(0, 6), s.nan, C(0xFF, 8)))
        whole = Cat(Mux(s.infinite, special, rounded), s.sign)
        m.d.comb += self.o.eq(Cat(whole[:8], Mux(s.byte, byte_of(s, s.base[8:], rounded[8:], up), whole[8:])))
        return m
