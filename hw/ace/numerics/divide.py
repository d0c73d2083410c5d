# SPDX-License-Identifier: Apache-2.0
"""Division of a beat's elements by a small integer, for averages.

Sram -> Divide -> Drain.  Latency: 20 cycles, for all types.  Throughput: one beat per cycle. Nothing stalls.

::

    cycle  1        2       3 ... 18               19       20
           unpack   move    two digits of each     round    pack
"""

from itertools import count, pairwise

from amaranth import *
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from hw.common.delay import delayed

from .convert_byte import is_byte, is_e4m3, saturates
from .formats import FLOATS, TYPE_WIDTH, WORD_WIDTH, DType

__all__ = ["Divide"]

DIVISOR_WIDTH = 8
DIGITS = 2
"""Quotient digits computed per cycle."""
STAGES = WORD_WIDTH // DIGITS
GUARD_BITS = 8
"""Bits below a float's significand in the dividend: enough to round, because divisors have 7 bits."""

_HALF, _BRAIN, _SINGLE = (FLOATS[dtype].fraction_width for dtype in (DType.FP16, DType.BF16, DType.FP32))
_E4M3, _E5M2 = (FLOATS[dtype].fraction_width for dtype in (DType.E4M3, DType.E5M2))

_CONTROL = data.StructLayout({
    "divisor": DIVISOR_WIDTH, "log": 3, "real": 1, "whole": 1, "half": 1, "byte": 1, "e4m3": 1, "saturates": 1,
})
"""``divisor``: unchanged, or for floats with its leading bit moved to bit 6. ``log``: original position of that bit.
``real``: of floats. ``whole``: an element fills the word. ``half``: FP16. ``byte``: FP8."""

_APART = {"signs": 4, "exponents": data.ArrayLayout(8, 2), "small": data.ArrayLayout(5, 2), "infinite": 4, "nan": 4}
"""Delayed beside the digits: for each byte, the sign of its element; for floats, the exponent of each half of the word,
or of its upper byte; ``small``: those of the lower bytes; whether each element is infinite, or if so a NaN, at the
number of its highest byte."""


class Divide(wiring.Component):
    """Divide each element by ``divisor``, and round once.

    Quotients of floats are those of IEEE 754-2019 (5.4.1), to nearest, ties to even, subnormals kept; any NaN gives the
    canonical one, and if the type saturates, infinity gives the greatest number. Those of integers are truncated toward
    zero. If the divisor is 0, beats pass unchanged.

    A word is divided digit by digit, from its highest bit on: whole, or in independent halves or bytes. The division is
    non-restoring: the remainder is corrected only at the end. A float's divisor has its leading bit at bit 6, so the
    quotient's leading bit has one of two positions; for a subnormal result, the significand is shifted right
    beforehand, into the guard bits. For FP8, the guard bits fill a byte, and the significand is the initial remainder.

    Parameters
    ----------
    width : int
        Bits of a beat, a multiple of 32.

    Members
    -------
    divisor : ``In(8)``, dtype : ``In(TYPE_WIDTH)``
        The divisor, from 0 to 128, and the type of the elements; in the cycle before the beat.
    i : ``In(width)``
        A beat.
    o : ``Out(width)``
        Its quotient, :data:`LATENCY` cycles later, registered.
    """

    LATENCY = 2 + STAGES + 2

    def __init__(self, width: int) -> None:
        self.width = width
        super().__init__({
            "divisor": In(DIVISOR_WIDTH), "dtype": In(TYPE_WIDTH), "i": In(width), "o": Out(width),
        })

    def elaborate(self, platform):
        m = Module()
        control = [Signal(_CONTROL, name=f"control_{cycle}", reset_less=True) for cycle in range(self.LATENCY)]
        m.d.sync += [later.eq(earlier) for earlier, later in pairwise(control)]
        self._decode(m, control[0])
        for index in range(self.width // WORD_WIDTH):
            word = _Word(m, index, control)
            m.d.comb += self.o.word_select(index, WORD_WIDTH).eq(word.divide(self.i.word_select(index, WORD_WIDTH)))
        return m

    def _decode(self, m, control):
        """Without a divisor, the whole word is divided by 1."""
        active = self.divisor.any()
        real = active & ~self.dtype[-1]
        shift = Signal(3)
        for bit in range(DIVISOR_WIDTH):
            with m.If(self.divisor[bit]):
                m.d.comb += shift.eq(bit)
        moved = Signal(DIVISOR_WIDTH)
        m.d.comb += moved.eq(self.divisor << ~shift)
        m.d.sync += [
            control.real.eq(real), control.log.eq(shift), control.half.eq(self.dtype == DType.FP16),
            control.byte.eq(real & is_byte(self.dtype)), control.e4m3.eq(is_byte(self.dtype) & is_e4m3(self.dtype)),
            control.saturates.eq(saturates(self.dtype)),
            control.whole.eq(~active | (self.dtype == DType.FP32) | (self.dtype == DType.INT32)),
            control.divisor.eq(Mux(real, moved[1:DIVISOR_WIDTH], Cat(self.divisor[0] | ~active, self.divisor[1:]))),
        ]


class _Word:
    """The stages of one word, whose registers are added to ``m``."""

    def __init__(self, m: Module, index: int, control: list[data.View]) -> None:
        self.m, self.index, self.control = m, index, control
        self._names = count()

    def _named(self, value):
        """``value`` as a signal, so that a value with several uses is generated once."""
        signal = Signal(len(value), name=f"word_{self.index}_{next(self._names)}")
        self.m.d.comb += signal.eq(value)
        return signal

    def divide(self, word):
        """The word's quotient."""
        return self._pack(self._round(*self._digits(*self._move(self._unpack(word)))))

    def _stage(self, name, **fields):
        return Signal(data.StructLayout(fields), name=f"{name}_{self.index}", reset_less=True)

    def _later(self, name, value, cycles):
        return delayed(self.m, value, cycles, name=f"{name}_{self.index}")

    def _unpack(self, word):
        """Cycle 1: magnitudes, each element aligned to its bit 0, and the other properties of the elements."""
        m, c = self.m, self.control[0]
        s = self._stage("unpacked", magnitude=WORD_WIDTH, down=data.ArrayLayout(3, 2), bytes=data.ArrayLayout(4, 2),
                        bytes_down=data.ArrayLayout(3, 2), **_APART)
        signs = self._named(Cat(Mux(c.whole & ~c.real, word[-1], word[8 * n + 7]) for n in range(4)))
        negative = self._named(signs & (~c.real).replicate(4))
        positive = self._with_carries(word ^ _by_byte(negative), negative, c.whole.replicate(4) & 0b1110)

        leading, down = [], []
        for n, half in enumerate((word[:16], word[16:])):
            raw = self._named(Mux(c.byte & c.e4m3, half[8 + _E4M3:15],
                                  Mux(c.half | c.byte, half[_HALF:15], half[_BRAIN:15])))
            leading.append(self._named(raw.any()))
            exponent = self._named(Cat(raw[0] | ~leading[n], raw[1:]))
            down.append(self._named(_below(exponent, c.log)))
            m.d.sync += [
                s.exponents[n].eq(exponent),
                s.infinite[2 * n + 1].eq(c.real & Mux(
                    c.byte, half[_HALF:15].all() & (~c.e4m3 | half[8:_HALF].all()),
                    Mux(c.half, half[_HALF:15].all(), half[_BRAIN:15].all() & (n | ~c.whole)))),
                s.nan[2 * n + 1].eq(Mux(c.byte, half[8:_HALF].any(), Mux(
                    c.half, half[:_HALF].any(), half[:_BRAIN].any() | (c.whole & word[:16].any())))),
            ]

            # The lower byte.
            raw = self._named(Mux(c.e4m3, half[_E4M3:7], half[_E5M2:7]))
            some = self._named(raw.any())
            exponent = self._named(Cat(raw[0] | ~some, raw[1:]))
            m.d.sync += [
                s.small[n].eq(exponent), s.bytes_down[n].eq(_below(exponent, c.log)),
                s.bytes[n].eq(Mux(c.e4m3, Cat(half[:_E4M3], some), Cat(half[:_E5M2], some))),
                s.infinite[2 * n].eq(c.byte & half[_E5M2:7].all() & (~c.e4m3 | half[:_E5M2].all())),
                s.nan[2 * n].eq(half[:_E5M2].any()),
            ]
        single = Cat(positive[:_SINGLE], leading[1], C(0, 31 - _SINGLE))
        halves = [Mux(c.byte, Mux(c.e4m3, Cat(half[8:8 + _E4M3], one), Cat(half[8:8 + _E5M2], one)),
                      Mux(c.half, Cat(half[:_HALF], one, C(0, 15 - _HALF)), Cat(half[:_BRAIN], one, C(0, 15 - _BRAIN))))
                  for half, one in zip((positive[:16], positive[16:]), leading, strict=True)]
        m.d.sync += [
            s.signs.eq(signs), s.down[0].eq(Mux(c.whole, down[1], down[0])), s.down[1].eq(down[1]),
            s.magnitude.eq(Mux(c.real, Mux(c.whole, single, Cat(halves)), positive)),
        ]
        return s

    def _move(self, before):
        """Cycle 2: the dividend. FP16 has three bits more than fit, FP8 four: they are initial remainders."""
        m, c, magnitude = self.m, self.control[1], before.magnitude
        s = self._stage("dividend", bits=WORD_WIDTH, first=data.ArrayLayout(4, 4))
        apart = self._stage("apart", **_APART)
        lower = self._named(Cat(C(0, GUARD_BITS), magnitude[:16]) >> before.down[0])
        upper = self._named(
            Cat(magnitude[16 - GUARD_BITS:16] & c.whole.replicate(GUARD_BITS), magnitude[16:]) >> before.down[1])
        small = [self._named(Cat(C(0, GUARD_BITS), before.bytes[n]) >> before.bytes_down[n]) for n in range(2)]
        m.d.sync += s.bits.eq(Mux(c.byte, Cat(small[0][:8], lower[:8], small[1][:8], upper[:8]),
                                  Mux(c.real, Cat(lower[:16], upper[:16]), magnitude)))
        for n, moved in enumerate((lower, upper)):
            m.d.sync += [
                s.first[2 * n].eq(small[n][8:12] & c.byte.replicate(4)),
                s.first[2 * n + 1].eq(Mux(c.byte, moved[8:12], moved[16:19] & c.real.replicate(3))),
                apart.small[n].eq(Mux(before.small[n] > c.log, before.small[n] - c.log, 1)),
            ]
        m.d.sync += [apart[name].eq(before[name]) for name in ("signs", "infinite", "nan")]
        # Exponents of quotients whose leading bit has the upper position.
        m.d.sync += [apart.exponents[n].eq(Mux(exponent > c.log, exponent - c.log, 1))
                     for n, exponent in enumerate(before.exponents)]
        return s, apart

    def _digits(self, dividend, apart):
        """Cycles 3 to 18: each digit, inverted, replaces the bit of the dividend that it consumes."""
        bits, remainder = dividend.bits, dividend.first[3]
        first = {8 * n + 7: self._later(f"first_{n}", dividend.first[n], STAGES // 4 * (3 - n)) for n in range(3)}
        stickies = {}
        for stage in range(STAGES):
            c = self.control[2 + stage]
            top = WORD_WIDTH - 1 - DIGITS * stage
            if top in first:
                stickies[top // 8 + 1] = self._later(
                    f"sticky_{top}", _is_some(remainder, c.divisor), STAGES - stage)
                continues = c.whole if top == 15 else c.whole | (c.real & ~c.byte)
                remainder = Mux(continues, remainder, first[top])
            digits = {}
            for bit in range(top, top - DIGITS, -1):
                remainder = self._step(remainder, bits[bit], c.divisor)
                digits[bit] = remainder[-1]
            s = self._stage(f"digits_{stage}", bits=WORD_WIDTH, remainder=8)
            self.m.d.sync += [
                s.bits.eq(Cat(digits.get(bit, bits[bit]) for bit in range(WORD_WIDTH))), s.remainder.eq(remainder)]
            bits, remainder = s.bits, s.remainder
        c = self.control[2 + STAGES]
        stickies[0] = _is_some(remainder, c.divisor)
        sticky = Cat(stickies[0], Mux(c.byte, stickies[1], stickies[0]), stickies[2],
                     Mux(c.byte, stickies[3], stickies[2]))
        later = data.View(apart.shape(), self._later("apart", apart, STAGES))
        return self._named(~bits), self._named(sticky), later

    def _round(self, digits, sticky, apart):
        """Cycle 19: position of the leading bit, and direction of rounding."""
        m, c = self.m, self.control[2 + STAGES]
        s = self._stage("rounded", digits=WORD_WIDTH, lower=4, up=4, **_APART)
        m.d.sync += [s[name].eq(apart[name]) for name in ("signs", "infinite", "nan")]
        m.d.sync += s.digits.eq(digits)
        # Not at the upper position: at the lower one, or lower still in a subnormal.
        lower = Signal(4, name=f"lower_{self.index}")
        for n in range(4):
            byte, half, element = digits.word_select(n, 8), digits[16 * (n // 2):][:16], n % 2
            exponents = apart.exponents if element else apart.small
            small = Mux(c.e4m3, byte[_E4M3 + 2], byte[_E5M2 + 2])
            below = self._named(~(Mux(c.byte, small, Mux(c.half, half[_HALF + 2], half[_BRAIN + 2]))
                                  if element else small))
            m.d.comb += lower[n].eq(below & (exponents[n // 2] != 1))
            m.d.sync += (s.exponents if element else s.small)[n // 2].eq(exponents[n // 2] - below)
        for n in range(4):
            byte, half = digits.word_select(n, 8), digits[16 * (n // 2):][:16]
            low = self._named(Mux(c.byte, byte[:3], half[:3]) if n % 2 else byte[:3])
            moved = self._named(Mux(c.whole, lower[3], lower[n]) if n % 2 else lower[n])
            m.d.sync += [
                s.lower[n].eq(moved),
                # No tie at the lower position: an odd quotient by a divisor of 7 bits lacks some of the guard bits.
                s.up[n].eq(Mux(moved, low[0], low[1] & (sticky[n] | low[0] | low[2]))),
            ]
        return s

    def _pack(self, before):
        """Cycle 20: rounded, with its sign."""
        m, c, digits = self.m, self.control[3 + STAGES], before.digits
        wide = Cat(digits, C(0, 2))
        fraction = [Mux(before.lower[2 * n + 1], wide[16 * n + 1:][:16], wide[16 * n + 2:][:16]) for n in range(2)]
        halves = [Mux(c.half, Cat(fraction[n][:_HALF], before.exponents[n][:15 - _HALF], before.signs[2 * n + 1]),
                      Cat(fraction[n][:_BRAIN], before.exponents[n], before.signs[2 * n + 1])) for n in range(2)]
        bytes_ = []
        for n in range(4):
            exponent = (before.exponents if n % 2 else before.small)[n // 2]
            found = Mux(before.lower[n], wide[8 * n + 1:][:_E4M3], wide[8 * n + 2:][:_E4M3])
            bytes_.append(Cat(Mux(c.e4m3, Cat(found, exponent[:4]), Cat(found[:_E5M2], exponent[:5])), before.signs[n]))
        negative = self._named(before.signs & (~c.real).replicate(4))
        carries = Mux(c.byte, before.up, Mux(c.real, Cat(before.up[1], C(0, 1), before.up[3], C(0, 1)), negative))
        passed = Cat(C(0, 1), c.whole | (c.real & ~c.byte), c.whole, c.whole | (c.real & ~c.byte))
        whole = self._with_carries(
            Mux(c.byte, Cat(bytes_), Mux(c.real, Cat(Mux(c.whole, fraction[0], halves[0]), halves[1]),
                                         digits ^ _by_byte(negative))),
            carries, passed)

        s = [Signal(8, name=f"quotient_{self.index}_{n}", reset_less=True) for n in range(4)]
        for n, byte in enumerate(s):
            m.d.sync += byte.eq(whole.word_select(n, 8))
            upper = n | 1
            with m.If(Mux(c.byte, before.infinite[n], before.infinite[upper])):
                m.d.sync += byte.eq(Mux(c.byte, self._special(c, before, n), Cat(
                    ~c.half, before.nan[n] | ~c.half, C(0x1F, 5), before.signs[n] & ~before.nan[n]) if n % 2 else
                    Cat(C(0, 6), before.nan[upper] & ~c.half, ~c.half)))
        with m.If(c.whole & before.infinite[3]):
            m.d.sync += [s[0].eq(0), s[1].eq(0)]
        return Cat(s)

    def _special(self, c, before, n):
        """NaN or infinity of FP8, or the type's replacement: 1111 and three bits."""
        code = Mux(before.nan[n], Mux(c.e4m3, 0b111, 0b110), Mux(c.saturates, 0b011, 0b100))
        return Cat(code[:3], C(0xF, 4), before.signs[n] & ~before.nan[n])

    def _step(self, remainder, bit, divisor):
        """One step of non-restoring division: subtract the divisor, or add it to a negative remainder. Negative: digit
        0.

        One bit of the sum is computed separately, so that the carry fits into a chain of eight. As a difference, it
        takes one LUT per bit; as a sum, synthesis would compute the second operand, too.
        """
        remainder = self._named(Cat(remainder, C(0, 8))[:8])
        again = remainder[-1]
        carry = self._named(Mux(again, bit & divisor[0], bit | ~divisor[0]))
        total = Cat(carry, remainder[:7]) - Cat(C(1, 1), divisor[1:] ^ again.replicate(7))
        return self._named(Cat(bit ^ divisor[0], total[1:8]))

    def _with_carries(self, word, carries, passed):
        """``word`` plus a carry into each byte: its own, or the one out of the byte below."""
        carries, passed, word = self._named(carries), self._named(passed), self._named(word)
        total = self._named(Cat(Cat(carries[n] | passed[n], word.word_select(n, 8)) for n in range(4))
                            + Cat(Cat(carries[n] & ~passed[n], C(0, 8)) for n in range(4)))
        return Cat(total[9 * n + 1:9 * n + 9] for n in range(4))


def _below(exponent, log):
    """Distance of the quotient's exponent below the lowest exponent."""
    return Mux(exponent <= log, (1 + log - exponent)[:3], 0)


def _is_some(remainder, divisor):
    """Whether the corrected remainder is more than 0."""
    return (remainder ^ ((-divisor)[:8] & remainder[-1].replicate(8))).any()


def _by_byte(flags):
    return Cat(flag.replicate(8) for flag in flags)
