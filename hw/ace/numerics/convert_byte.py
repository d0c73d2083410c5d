# SPDX-License-Identifier: Apache-2.0
"""Conversion between FP8 and a small adder's operands and results; and rounding of any number to FP8.

Lane -> WidenByte -> FpAdd -> NarrowByte -> Lane.  WidenByte is combinational; NarrowByte has a latency of 1 cycle, and
accepts one number in each.
"""

from amaranth import *
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from .formats import FLOATS, TYPE_WIDTH, DType
from .fp_add import shift_right_sticky, unpacked_layout

__all__ = [
    "BYTE_EXPONENT_WIDTH", "NarrowByte", "WidenByte", "byte_layout", "byte_of", "e4m3_exponent", "is_byte", "is_e4m3",
    "known", "saturates",
]

BYTE_EXPONENT_WIDTH = FLOATS[DType.E5M2].exponent_width
"""Exponent width of the wider format, E5M2, and of FP16."""

_LOWEST = FLOATS[DType.E5M2].bias - FLOATS[DType.E4M3].bias + 1
"""E4M3's lowest exponent, in five bits."""

_FRACTION = FLOATS[DType.E4M3].fraction_width


def known(config, dtype):
    """A type code as this :class:`AceConfig` decodes it: without FP8, bit 2 is constant 0, so that its logic is
    removed."""
    return dtype if config.fp8 else Cat(dtype[:2], 0, dtype[3])


def is_byte(dtype):
    """Whether a floating-point type is FP8."""
    return dtype[2]


def is_e4m3(dtype):
    """Whether an FP8 type is E4M3."""
    return ~dtype[0]


def saturates(dtype):
    """Whether an FP8 type saturates: results beyond the greatest number become that number."""
    return dtype[1]


def e4m3_exponent(byte):
    """Exponent of an E4M3 number in five bits: 8 more; 9 for subnormals, 31 for NaN."""
    some = byte[_FRACTION:7].any()
    return (Cat(byte[_FRACTION] | ~some, byte[_FRACTION + 1:6], ~byte[6], byte[6])
            | byte[:7].all().replicate(BYTE_EXPONENT_WIDTH))


class WidenByte(wiring.Component):
    """Unpack an FP8 number, exactly. Both operands of an operation must be of one type: subnormals have its lowest
    exponent.

    Parameters
    ----------
    precision : int
        Bits of the result's significand, at least 4.

    Members
    -------
    i : ``In(8)``, dtype : ``In(TYPE_WIDTH)``
        The number, and its FP8 type.
    o : ``Out(unpacked_layout(precision, 5))``
        Combinational. NaNs stay NaNs.
    """

    def __init__(self, *, precision: int) -> None:
        self.precision = precision
        super().__init__({
            "i": In(8), "dtype": In(TYPE_WIDTH), "o": Out(unpacked_layout(precision, BYTE_EXPONENT_WIDTH)),
        })

    def elaborate(self, platform):
        m = Module()
        byte, e4m3 = self.i, is_e4m3(self.dtype)
        some = byte[2:7].any()
        m.d.comb += [
            self.o.sign.eq(byte[7]),
            self.o.exponent.eq(Mux(e4m3, e4m3_exponent(byte), Cat(byte[2] | ~some, byte[3:7]))),
            self.o.significand.eq(Cat(C(0, self.precision - 4), Mux(
                e4m3, Cat(byte[:3], byte[3:7].any()), Cat(C(0, 1), byte[:2], some)))),
        ]
        return m


class NarrowByte(wiring.Component):
    """Round a number to FP8: to nearest, ties to even. Subnormals are kept, any NaN gives the canonical one.

    Parameters
    ----------
    precision : int
        Bits of the significand to be rounded, the leading one included, at least 6.

    Members
    -------
    i : ``In(precision + 5)``
        Fraction, exponent of five bits, and sign.
    dtype : ``In(TYPE_WIDTH)``
        The FP8 type of the result, with ``i``.
    o : ``Out(8)``
        The result, one cycle later and combinational from registers: the user adds an output register.
    """

    LATENCY = 1

    def __init__(self, *, precision: int) -> None:
        self.precision = precision
        super().__init__({
            "i": In(precision + BYTE_EXPONENT_WIDTH), "dtype": In(TYPE_WIDTH), "o": Out(8),
        })

    def elaborate(self, platform):
        m = Module()
        width = self.precision - 1
        fraction, exponent, e4m3 = self.i[:width], self.i[width:-1], is_e4m3(self.dtype)

        # Below E4M3's lowest exponent, shifted right with the leading one in front.
        distance = Signal(BYTE_EXPONENT_WIDTH)
        under = Signal()
        m.d.comb += [under.eq(exponent < _LOWEST), distance.eq(_LOWEST - exponent)]
        moved = shift_right_sticky(m, Cat(fraction, C(1, 1)), distance)
        whole = Mux(under, moved[:-1], Cat(C(0, 1), fraction))
        field = Cat(exponent[:3], exponent[4]) & (~under).replicate(4)

        s = Signal(byte_layout(), name="kept", reset_less=True)
        nan = exponent.all() & fraction.any()
        base = Mux(e4m3, Cat(whole[-3:], field), Cat(fraction[-2:], exponent))
        m.d.sync += [
            s.base.eq(base), s.half.eq(Mux(e4m3, whole[-4], fraction[-3])),
            s.sticky.eq(Mux(e4m3, whole[:-4].any(), fraction[:-3].any())),
            s.infinite.eq(Mux(e4m3, exponent >= _LOWEST - 1 + 16, exponent.all())),
            s.nan.eq(nan), s.sign.eq(self.i[-1] & ~nan), s.e4m3.eq(e4m3), s.saturates.eq(saturates(self.dtype)),
        ]
        up = Signal()
        m.d.comb += [up.eq(s.half & (s.sticky | s.base[0])), self.o.eq(byte_of(s, s.base, (s.base + up)[:7], up))]
        return m


def byte_layout():
    """An FP8 result before it is rounded. ``base``: exponent and fraction, truncated; ``half`` and ``sticky``: its
    guard and sticky bits; ``infinite``: beyond all finite numbers, or NaN."""
    return data.StructLayout({
        "sticky": 1, "half": 1, "base": 7, "sign": 1, "infinite": 1, "nan": 1, "e4m3": 1, "saturates": 1})


def byte_of(kept, base, rounded, up):
    """The FP8 number.

    Parameters
    ----------
    kept : View
        ``infinite``, ``nan``, ``sign``, ``e4m3``, ``saturates`` of :func:`byte_layout`.
    Exponent and fraction, truncated and rounded.
        Exponent and fraction, cut off and rounded.
    up : Value
        Whether they were rounded up.
    """
    greatest = Mux(kept.e4m3, FLOATS[DType.E4M3].greatest, FLOATS[DType.E5M2].greatest)
    over = kept.infinite | base.all() | (up & (base == greatest))
    # 1111 and three bits: NaN; otherwise, beyond the greatest number, that number or its successor.
    nan = Mux(kept.e4m3, 0b111, 0b110)
    beyond = Mux(kept.saturates, greatest[:3], Mux(kept.e4m3, 0b111, 0b100))
    sign = kept.sign & ~(over & kept.e4m3 & ~kept.saturates)
    return Cat(Mux(over, Cat(Mux(kept.nan, nan, beyond), C(0b1111, 4)), rounded), sign)
